//! An observer of a modelled quorum: whatever leaders come and go, crash and lose, what it applies is
//! what the quorum has committed.

use super::*;
use model::{ErrorCode, LeaderEpoch, Offset};
use proptest::collection::vec;
use proptest::prelude::*;
use storage::leader_epochs::LeaderEpochEnd;

/// The quorum as one log: that of its leader. Each record is a batch of its own.
struct Quorum {
    leader_id: BrokerId,
    epoch: LeaderEpoch,
    records: Vec<(LeaderEpoch, String)>,
    committed: usize,
    /// The end of its newest snapshot, where its log starts.
    snapshot: usize,
    drawn: u64,
}

#[derive(Debug, Clone)]
enum Step {
    /// The leader appends so many records.
    Append(u8),
    /// Up to so many more are committed.
    Commit(u8),
    /// Another node leads, with what is committed and up to so many more.
    Elect(u8),
    /// The leader takes a snapshot of what is committed, and lets go what it holds.
    Snapshot,
    /// The observer asks and is answered: with so many bytes at most, late, or not at all.
    Exchange { bytes: u16, fate: Fate },
    /// The observer takes a snapshot.
    OwnSnapshot,
    /// The observer's machine crashes.
    Crash(Crash),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    ArrivesLate,
    IsLost,
}

/// An answer on its way.
enum Reply {
    Error(ErrorCode),
    Records(Vec<u8>, i64),
    Diverging(LeaderEpochEnd),
    SnapshotId(SnapshotId),
    Piece(SnapshotId, u64, u64, Vec<u8>),
}

impl Quorum {
    fn new() -> Self {
        let mut quorum = Self {
            leader_id: BrokerId(2),
            epoch: LeaderEpoch(0),
            records: Vec::new(),
            committed: 0,
            snapshot: 0,
            drawn: 0,
        };
        quorum.elect(0);
        quorum
    }

    fn append(&mut self, count: u8) {
        for _ in 0..count {
            self.drawn += 1;
            let value = format!("v{}", self.drawn);
            self.records.push((self.epoch, value));
        }
    }

    fn elect(&mut self, kept: u8) {
        let kept = self.committed + usize::from(kept);
        self.records.truncate(kept);
        self.epoch = self.epoch.next();
        self.leader_id = BrokerId(5 - self.leader_id.0);
        self.append(1);
    }

    fn epoch_at(&self, end_offset: usize) -> LeaderEpoch {
        end_offset
            .checked_sub(1)
            .map_or(LeaderEpoch(0), |at| self.records[at].0)
    }

    fn snapshot_id(&self) -> SnapshotId {
        SnapshotId {
            end_offset: Offset(self.snapshot as i64),
            epoch: self.epoch_at(self.snapshot),
        }
    }

    /// What the leader knows as committed: nothing before it has committed in its own epoch.
    fn known_high_watermark(&self) -> Offset {
        match self.epoch_at(self.committed) == self.epoch {
            true => Offset(self.committed as i64),
            false => Offset::NONE,
        }
    }

    /// The answer of the leader, as Apache Kafka's checks offset and epoch of a fetch.
    fn answer(&self, request: &Request, bytes_max: usize) -> Reply {
        if request.leader_epoch < self.epoch {
            return Reply::Error(ErrorCode::FencedLeaderEpoch);
        }
        match request.wanted {
            Wanted::Log {
                fetch_offset,
                last_fetched_epoch,
                ..
            } => self.fetched(fetch_offset.0 as usize, last_fetched_epoch, bytes_max),
            Wanted::Snapshot { id, .. } if id != self.snapshot_id() => {
                Reply::Error(ErrorCode::SnapshotNotFound)
            }
            Wanted::Snapshot { id, position } => {
                let records = self.records[..self.snapshot].iter();
                let values: Vec<&str> = records.map(|(_, value)| value.as_str()).collect();
                let whole = snapshot_bytes(id, &values);
                let rest = &whole[position as usize..];
                let piece = &rest[..rest.len().min(bytes_max.max(1))];
                Reply::Piece(id, whole.len() as u64, position, piece.to_vec())
            }
        }
    }

    fn fetched(&self, offset: usize, last_epoch: LeaderEpoch, bytes_max: usize) -> Reply {
        let is_before = offset < self.snapshot
            || offset == self.snapshot && last_epoch != self.epoch_at(self.snapshot)
            || last_epoch < self.epoch_at(self.snapshot);
        if self.snapshot > 0 && is_before {
            return Reply::SnapshotId(self.snapshot_id());
        }
        // The end of the largest epoch that is not above the one asked for.
        let end = self
            .records
            .partition_point(|(epoch, _)| *epoch <= last_epoch);
        if offset > 0 && (self.epoch_at(end) != last_epoch || end < offset) {
            return Reply::Diverging(LeaderEpochEnd {
                leader_epoch: self.epoch_at(end),
                end_offset: Offset(end as i64),
            });
        }
        let mut bytes = Vec::new();
        for (at, (epoch, value)) in self.records.iter().enumerate().skip(offset) {
            let place = BatchPlace {
                base_offset: Offset(at as i64),
                leader_epoch: *epoch,
                timestamp_ms: 2_000,
            };
            bytes.extend(batch(place, &[value]));
        }
        // The last batch may be there in part, but one is there.
        let first = batch_length(&bytes);
        bytes.truncate(bytes_max.max(first));
        Reply::Records(bytes, self.known_high_watermark().0)
    }
}

fn batch_length(bytes: &[u8]) -> usize {
    let first = Batches::new(bytes).next();
    first.map_or(0, |batch| batch.expect("whole").size_in_bytes())
}

struct World {
    quorum: Quorum,
    disk: SimDisk,
    replica: Replica<SimDisk>,
    state: State,
    now_ms: i64,
    /// An answer that has not come yet, with what its sender knew.
    late: Option<(u64, Reply, LeaderAndEpoch)>,
    /// The high watermark and the epoch are never below those of the same run before.
    seen: (Offset, LeaderEpoch),
}

fn observer_options() -> ReplicaOptions {
    let mut options = options(observer());
    options.config.retention_bytes = 0;
    options.config.segment_bytes = 300;
    options
}

impl World {
    fn new() -> Self {
        let disk = new_disk();
        let opened = Replica::open(disk.clone(), observer_options()).expect("new");
        Self {
            quorum: Quorum::new(),
            disk,
            replica: opened.replica,
            state: State::default(),
            now_ms: 1_000,
            late: None,
            seen: (Offset(0), LeaderEpoch(0)),
        }
    }

    fn run(&mut self, step: &Step) {
        let quorum = &mut self.quorum;
        match step {
            Step::Append(count) => quorum.append(*count),
            Step::Commit(count) => {
                let committed = quorum.committed + usize::from(*count);
                quorum.committed = committed.min(quorum.records.len());
            }
            Step::Elect(kept) => quorum.elect(*kept),
            Step::Snapshot => quorum.snapshot = quorum.committed,
            Step::Exchange { bytes, fate } => self.exchange(usize::from(*bytes), *fate),
            Step::OwnSnapshot => {
                let id = self.state.id();
                if id.end_offset > Offset(0)
                    && let Some(draft) = self.replica.begin_snapshot(id, self.now_ms)
                {
                    let written = self.state.write(&draft);
                    let completed = self.replica.complete_snapshot(written, self.now_ms);
                    completed.expect("the disk works");
                }
            }
            Step::Crash(crash) => {
                let epoch = self.replica.epoch();
                self.disk.crash(*crash);
                let opened = Replica::open(self.disk.clone(), observer_options());
                self.replica = opened.expect("a crash harms nothing").replica;
                self.state = State::default();
                self.seen = (Offset(0), epoch);
            }
        }
        self.check();
    }

    fn exchange(&mut self, bytes_max: usize, fate: Fate) {
        if let Some((number, reply, leader)) = self.late.take() {
            self.deliver(number, &reply, leader);
        }
        self.now_ms += if fate == Fate::IsLost { 2_100 } else { 30 };
        let Some(request) = self.replica.poll_request(Now::at_ms(self.now_ms)) else {
            return;
        };
        let leader = LeaderAndEpoch {
            leader_id: Some(self.quorum.leader_id),
            epoch: self.quorum.epoch,
        };
        let reply = match request.to {
            Recipient::Leader(id) if id == self.quorum.leader_id => {
                self.quorum.answer(&request, bytes_max)
            }
            // Another one, which knows who leads.
            _ => Reply::Error(ErrorCode::NotLeaderOrFollower),
        };
        match fate {
            Fate::Arrives => self.deliver(request.number, &reply, leader),
            Fate::ArrivesLate => self.late = Some((request.number, reply, leader)),
            Fate::IsLost => {}
        }
    }

    fn deliver(&mut self, number: u64, reply: &Reply, leader: LeaderAndEpoch) {
        let mut error = ErrorCode::None;
        let content = match reply {
            Reply::Error(code) => {
                error = *code;
                Content::Records {
                    bytes: &[],
                    high_watermark: Offset::NONE,
                }
            }
            Reply::Records(bytes, high_watermark) => Content::Records {
                bytes,
                high_watermark: Offset(*high_watermark),
            },
            Reply::Diverging(end) => Content::Diverging(*end),
            Reply::SnapshotId(id) => Content::SnapshotId(*id),
            Reply::Piece(id, size_bytes, position, bytes) => Content::Piece(SnapshotPiece {
                id: *id,
                size_bytes: *size_bytes,
                position: *position,
                bytes,
            }),
        };
        let answer = Answer::Answer {
            error,
            leader,
            content,
        };
        let handled = self
            .replica
            .handle_answer(number, answer, Now::at_ms(self.now_ms));
        handled.expect("the quorum says nothing that cannot be");
    }

    /// What was applied is what is committed, in order; nothing goes back.
    fn check(&mut self) {
        self.state.apply(&mut self.replica);
        let committed = &self.quorum.records[..self.quorum.committed];
        let applied = self.state.values.len();
        assert_eq!(Offset(applied as i64), self.state.end_offset);
        assert!(applied <= committed.len(), "only what is committed");
        let expected = committed[..applied].iter().map(|(_, value)| value);
        assert!(self.state.values.iter().eq(expected));
        let replica = &self.replica;
        let now = (replica.high_watermark(), replica.epoch());
        assert!(now.0 >= self.seen.0 && now.1 >= self.seen.1, "{now:?}");
        self.seen = now;
        let newest = replica
            .newest_snapshot()
            .map_or(Offset(0), |newest| newest.end_offset);
        assert!(replica.start_offset() <= newest && newest <= now.0);
        assert!(now.0 <= replica.log.log.flushed_end_offset());
        assert!(replica.log.log.flushed_end_offset() <= replica.end_offset());
    }
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::ArrivesLate),
        1 => Just(Fate::IsLost),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let crashes = prop_oneof![
        Just(Crash::LosesUnsynced),
        Just(Crash::KeepsAll),
        any::<u64>().prop_map(Crash::Random),
    ];
    prop_oneof![
        4 => (1..6u8).prop_map(Step::Append),
        3 => (1..6u8).prop_map(Step::Commit),
        2 => (0..4u8).prop_map(Step::Elect),
        1 => Just(Step::Snapshot),
        1 => Just(Step::OwnSnapshot),
        12 => (1..600u16, fates()).prop_map(|(bytes, fate)| Step::Exchange { bytes, fate }),
        1 => crashes.prop_map(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(trials::property(96))]

    #[test]
    fn what_is_applied_is_what_the_quorum_has_committed(steps in vec(steps(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        // When all is well again, all of it is.
        world.quorum.elect(9);
        world.quorum.committed = world.quorum.records.len();
        for _ in 0..400 {
            world.run(&Step::Exchange { bytes: 600, fate: Fate::Arrives });
        }
        prop_assert_eq!(world.state.values.len(), world.quorum.committed);
    }
}
