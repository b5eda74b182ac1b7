use super::*;
use model::Offset;
use storage::leader_epochs::LeaderEpochEnd;

/// A replica with what drives it, as scripts do.
struct World {
    disk: SimDisk,
    replica: Replica<SimDisk>,
    state: State,
    now_ms: i64,
    /// The last request.
    asked: u64,
}

/// Runs a script and compares what it has told, line by line.
pub(super) fn check(standing: QuorumMembership, script: &str, expect: &expect_test::Expect) {
    let mut world = World::open(new_disk(), standing.clone());
    let mut told = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words[..] {
            ["restart"] => {
                world = World::open(world.disk, standing.clone());
                world.describe()
            }
            ["crash"] => {
                world.disk.crash(Crash::LosesUnsynced);
                world = World::open(world.disk, standing.clone());
                world.describe()
            }
            _ => world.run(&words),
        };
        told.push_str(&format!("{line} => {outcome}\n"));
    }
    expect.assert_eq(&told);
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let parsed = word.parse();
    parsed.unwrap_or_else(|_| panic!("`{word}` is a number"))
}

fn told(outcome: Result<String, impl ToString>) -> String {
    outcome.unwrap_or_else(|error| format!("! {}", error.to_string()))
}

impl World {
    fn open(disk: SimDisk, standing: QuorumMembership) -> Self {
        let opened = Replica::open(disk.clone(), options(standing));
        Self {
            disk,
            replica: opened.expect("whole").replica,
            state: State::default(),
            now_ms: 1_000,
            asked: 0,
        }
    }

    fn describe(&self) -> String {
        let replica = &self.replica;
        format!(
            "{:?} epoch {} log {}..{} high watermark {}",
            replica.role(),
            replica.epoch(),
            replica.start_offset(),
            replica.end_offset(),
            replica.high_watermark()
        )
    }

    fn run(&mut self, words: &[&str]) -> String {
        let (replica, now_ms) = (&mut self.replica, self.now_ms);
        match words {
            ["state"] => self.describe(),
            ["caught-up"] => replica.has_caught_up().to_string(),
            ["apply"] => self.state.apply(replica).join(", "),
            ["wait", ms] => {
                self.now_ms += number::<i64>(ms);
                String::new()
            }
            ["full", is_full] => {
                self.disk.set_full(*is_full == "yes");
                String::new()
            }
            ["lead"] => told(replica.lead(now_ms).map(|()| self.describe())),
            ["append", values @ ..] => told(stage(replica, values).map(|end| format!("to {end}"))),
            ["flush"] => told(replica.flush(now_ms).map(|end| format!("committed {end}"))),
            ["poll"] => {
                let request = replica.poll_request(Now::at_ms(now_ms));
                let Some(request) = request else {
                    let deadline = replica.next_deadline().map(MonotonicTime::as_ms);
                    return format!("nothing until {deadline:?}");
                };
                self.asked = request.number;
                format!(
                    "{:?} in {} {:?}",
                    request.to, request.leader_epoch, request.wanted
                )
            }
            ["lost"] => {
                let now = Now::at_ms(now_ms);
                told(
                    replica
                        .handle_answer(self.asked, Answer::Nothing, now)
                        .map(|()| String::new()),
                )
            }
            ["learn", leader, epoch] => {
                let leader = leader_and_epoch(leader, epoch);
                told(
                    replica
                        .handle_leader(leader, Now::at_ms(now_ms))
                        .map(|()| self.describe()),
                )
            }
            // To the request before the last one.
            ["late", leader, epoch, answer @ ..] => {
                let leader = leader_and_epoch(leader, epoch);
                let outcome = self.answer(self.asked - 1, leader, answer);
                told(outcome.map(|()| self.describe()))
            }
            [leader, epoch, answer @ ..] => {
                let leader = leader_and_epoch(leader, epoch);
                let outcome = self.answer(self.asked, leader, answer);
                told(outcome.map(|()| self.describe()))
            }
            _ => panic!("{words:?} is a command"),
        }
    }

    /// An answer of the node that leads, or of one that knows who does.
    fn answer(
        &mut self,
        number_asked: u64,
        leader: LeaderAndEpoch,
        answer: &[&str],
    ) -> Result<(), ObserverError> {
        let mut bytes = Vec::new();
        let mut error = model::ErrorCode::None;
        let mut high_watermark = -1;
        let content = match answer {
            ["not-leader"] => {
                error = model::ErrorCode::NotLeaderOrFollower;
                None
            }
            ["no-snapshot"] => {
                error = model::ErrorCode::SnapshotNotFound;
                None
            }
            ["diverging", epoch, end_offset] => Some(Content::Diverging(LeaderEpochEnd {
                leader_epoch: number(epoch),
                end_offset: number(end_offset),
            })),
            ["snapshot", end_offset, epoch] => Some(Content::SnapshotId(SnapshotId {
                end_offset: number(end_offset),
                epoch: number(epoch),
            })),
            ["piece", end_offset, epoch, from, to, values @ ..] => {
                let id = SnapshotId {
                    end_offset: number(end_offset),
                    epoch: number(epoch),
                };
                bytes = snapshot_bytes(id, values);
                let size_bytes = bytes.len() as u64;
                let (from, to): (usize, usize) = (number(from), number(to));
                Some(Content::Piece(SnapshotPiece {
                    id,
                    size_bytes,
                    position: from as u64,
                    bytes: &bytes[from..to.min(bytes.len())],
                }))
            }
            // Batches as `offset:epoch:values` with commas.
            ["records", high, batches @ ..] => {
                high_watermark = number(high);
                for text in batches {
                    let parts: Vec<&str> = text.split(':').collect();
                    let place = BatchPlace {
                        base_offset: number(parts[0]),
                        leader_epoch: number(parts[1]),
                        timestamp_ms: 2_000,
                    };
                    let values: Vec<&str> = parts[2].split(',').collect();
                    bytes.extend(batch(place, &values));
                }
                None
            }
            _ => panic!("{answer:?} is an answer"),
        };
        let content = content.unwrap_or(Content::Records {
            bytes: &bytes,
            high_watermark: Offset(high_watermark),
        });
        let answer = Answer::Answer {
            error,
            leader,
            content,
        };
        let now = Now::at_ms(self.now_ms);
        self.replica.handle_answer(number_asked, answer, now)
    }
}

fn leader_and_epoch(leader: &str, epoch: &str) -> LeaderAndEpoch {
    LeaderAndEpoch {
        leader_id: Some(number(leader)).filter(|id: &BrokerId| !id.is_none()),
        epoch: number(epoch),
    }
}
