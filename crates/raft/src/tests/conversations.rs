//! A leader and an observer that talk to each other: whatever is lost, late or crashes on either side,
//! what the observer applies is what the leader has committed.

use super::*;
use model::{ErrorCode, Offset};
use proptest::collection::vec;
use proptest::prelude::*;

const LEADER_ID: BrokerId = BrokerId(2);
const DIRECTORY_ID: Uuid = Uuid::from_u128(0xd0_0001);

#[derive(Debug, Clone)]
enum Step {
    /// The leader commits so many values, in as many batches.
    Append(u8),
    /// The leader takes a snapshot, and lets go what it holds.
    Snapshot,
    /// The leader's process starts anew, after a crash of its machine or not.
    Restart(Option<Crash>),
    /// The observer asks and is answered: with so many bytes at most, late, with damage, or not at all.
    Exchange { bytes: u16, fate: Fate },
    /// The observer takes a snapshot.
    OwnSnapshot,
    /// The observer's machine crashes.
    Crash(Crash),
    /// The leader's machine goes back to what it was, as a voter that had followed another leader
    /// would: so many values have come to the observer that were never committed.
    Forget(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    ArrivesLate,
    IsDamaged,
    IsLost,
}

/// An answer on its way, its bytes read.
struct Reply {
    error: ErrorCode,
    leader: LeaderAndEpoch,
    content: ReplyContent,
}

enum ReplyContent {
    Records(Vec<u8>, i64),
    Diverging(storage::leader_epochs::LeaderEpochEnd),
    SnapshotId(SnapshotId),
    Piece(SnapshotId, u64, u64, Vec<u8>),
}

struct World {
    leader_disk: SimDisk,
    leader: Replica<SimDisk>,
    leader_state: State,
    disk: SimDisk,
    observer: Replica<SimDisk>,
    state: State,
    now_ms: i64,
    drawn: u64,
    late: Option<(u64, Reply)>,
    /// Whether a piece of the snapshot that is being fetched was damaged: that is seen when it is whole.
    is_piece_damaged: bool,
}

fn leader_options() -> ReplicaOptions {
    let QuorumMembership::Voter(local) = voter() else {
        unreachable!("it votes");
    };
    let mut options = options(QuorumMembership::Voter(LocalVoter {
        id: LEADER_ID,
        ..local
    }));
    options.fixed_voters = Some(vec![LEADER_ID]);
    options.config.retention_bytes = 0;
    options.config.segment_bytes = 300;
    options
}

fn observer_options() -> ReplicaOptions {
    let mut options = options(observer());
    options.fixed_voters = Some(vec![LEADER_ID]);
    options.config.segment_bytes = 300;
    options
}

impl World {
    fn new() -> Self {
        let (leader_disk, disk) = (new_disk(), new_disk());
        let (leader, leader_state) = lead_with(&leader_disk, leader_options()).expect("new");
        let opened = Replica::open(disk.clone(), observer_options()).expect("new");
        Self {
            leader_disk,
            leader,
            leader_state,
            disk,
            observer: opened.replica,
            state: State::default(),
            now_ms: 1_000,
            drawn: 0,
            late: None,
            is_piece_damaged: false,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append(count) => self.append(*count),
            Step::Snapshot => snapshot(&mut self.leader, &mut self.leader_state),
            Step::Restart(crash) => {
                if let Some(crash) = crash {
                    self.leader_disk.crash(*crash);
                }
                let led = lead_with(&self.leader_disk, leader_options());
                (self.leader, self.leader_state) = led.expect("a crash harms nothing");
            }
            Step::Exchange { bytes, fate } => self.exchange(usize::from(*bytes), *fate),
            Step::OwnSnapshot => snapshot(&mut self.observer, &mut self.state),
            Step::Crash(crash) => {
                self.disk.crash(*crash);
                let opened = Replica::open(self.disk.clone(), observer_options());
                self.observer = opened.expect("a crash harms nothing").replica;
                self.state = State::default();
            }
            Step::Forget(count) => self.forget(*count),
        }
        self.check();
    }

    fn append(&mut self, count: u8) {
        for _ in 0..count {
            self.drawn += 1;
            let value = format!("v{}", self.drawn);
            append(&mut self.leader, &[value.as_str()]).expect("fits");
        }
        self.leader_state.apply(&mut self.leader);
    }

    /// What a leader has sent that was never committed: its disk is one of others from here on.
    fn forget(&mut self, count: u8) {
        let before = self.leader_disk.fork();
        let committed = self.leader.high_watermark();
        self.append(count);
        if let Some((number, reply)) = self.ask(usize::from(u16::MAX)) {
            let content = match reply.content {
                ReplyContent::Records(bytes, high_watermark) => {
                    ReplyContent::Records(bytes, high_watermark.min(committed.0))
                }
                content => content,
            };
            self.deliver(number, &Reply { content, ..reply });
        }
        self.late = None;
        self.leader_disk = before;
        // The epoch in which that was written is over, whoever has led it.
        drop(lead_with(&self.leader_disk, leader_options()));
        self.run(&Step::Restart(None));
    }

    fn exchange(&mut self, bytes_max: usize, fate: Fate) {
        if let Some((number, reply)) = self.late.take() {
            self.deliver(number, &reply);
        }
        self.now_ms += if fate == Fate::IsLost { 2_100 } else { 30 };
        let Some((number, reply)) = self.ask(bytes_max) else {
            return;
        };
        match fate {
            Fate::Arrives => self.deliver(number, &reply),
            Fate::ArrivesLate => self.late = Some((number, reply)),
            Fate::IsDamaged => self.deliver_damaged(number, reply),
            Fate::IsLost => {}
        }
    }

    fn ask(&mut self, max_bytes: usize) -> Option<(u64, Reply)> {
        let now = Now::at_ms(self.now_ms);
        let request = self.observer.poll_request(now)?;
        let reply = match request.wanted {
            Wanted::Log {
                fetch_offset,
                last_fetched_epoch,
                high_watermark,
            } => {
                let fetch = FetchRequest {
                    replica: Some(ReplicaKey {
                        id: NODE_ID,
                        directory_id: DIRECTORY_ID,
                    }),
                    leader_epoch: request.leader_epoch,
                    fetch_offset,
                    last_fetched_epoch,
                    high_watermark,
                    max_wait_ms: 500,
                    max_bytes,
                };
                let answer = self.leader.handle_fetch(&fetch, now);
                self.check_wait(&fetch, &answer);
                Reply {
                    error: answer.error,
                    leader: answer.leader,
                    content: content_of(&answer),
                }
            }
            Wanted::Snapshot { id, position } => {
                let answer = self.leader.handle_fetch_snapshot(&FetchSnapshotRequest {
                    leader_epoch: request.leader_epoch,
                    id,
                    position: position as i64,
                    max_bytes,
                });
                let bytes = answer.piece.map(|piece| piece.to_vec().expect("there"));
                let bytes = bytes.unwrap_or_default();
                Reply {
                    error: answer.error,
                    leader: answer.leader,
                    content: ReplyContent::Piece(id, answer.size_bytes, position, bytes),
                }
            }
        };
        Some((request.number, reply))
    }

    /// Who waits has all that is committed, and knows it.
    fn check_wait(&self, request: &FetchRequest, answer: &FetchAnswer<storage::sim::SimFile>) {
        if !answer.is_news(request) {
            let high_watermark = self.leader.high_watermark();
            assert_eq!(
                (request.fetch_offset, request.high_watermark),
                (high_watermark, high_watermark)
            );
        }
    }

    fn deliver(&mut self, number: u64, reply: &Reply) {
        if matches!(reply.content, ReplyContent::SnapshotId(_)) {
            self.is_piece_damaged = false;
        }
        let handled = self.handle(number, reply);
        let is_damaged_snapshot = matches!(handled, Err(ObserverError::Snapshot { .. }));
        if is_damaged_snapshot && std::mem::take(&mut self.is_piece_damaged) {
            return;
        }
        handled.expect("the leader says nothing that cannot be");
    }

    /// What a leader cannot have said is asked for again.
    fn deliver_damaged(&mut self, number: u64, mut reply: Reply) {
        self.is_piece_damaged |= matches!(reply.content, ReplyContent::Piece(..));
        if let ReplyContent::Records(bytes, _) | ReplyContent::Piece(.., bytes) = &mut reply.content
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 1;
        }
        let handled = self.handle(number, &reply);
        let refused = handled.as_ref().err();
        let may_pass = refused.is_none_or(|error| {
            matches!(
                error,
                ObserverError::Records(_) | ObserverError::Snapshot { .. }
            )
        });
        assert!(may_pass && !self.observer.has_failed(), "{refused:?}");
    }

    fn handle(&mut self, number: u64, reply: &Reply) -> Result<(), ObserverError> {
        let content = match &reply.content {
            ReplyContent::Records(bytes, high_watermark) => Content::Records {
                bytes,
                high_watermark: Offset(*high_watermark),
            },
            ReplyContent::Diverging(end) => Content::Diverging(*end),
            ReplyContent::SnapshotId(id) => Content::SnapshotId(*id),
            ReplyContent::Piece(id, size_bytes, position, bytes) => Content::Piece(SnapshotPiece {
                id: *id,
                size_bytes: *size_bytes,
                position: *position,
                bytes,
            }),
        };
        let answer = Answer::Answer {
            error: reply.error,
            leader: reply.leader,
            content,
        };
        let now = Now::at_ms(self.now_ms);
        self.observer.handle_answer(number, answer, now)
    }

    /// What was applied is what is committed, in order.
    fn check(&mut self) {
        self.leader_state.apply(&mut self.leader);
        self.state.apply(&mut self.observer);
        let applied = &self.state.values[..];
        assert!(self.leader_state.values.starts_with(applied), "{applied:?}");
        assert!(self.observer.high_watermark() <= self.leader.high_watermark());
    }
}

fn content_of(answer: &FetchAnswer<storage::sim::SimFile>) -> ReplyContent {
    match &answer.content {
        FetchContent::Nothing => ReplyContent::Records(Vec::new(), answer.high_watermark.0),
        FetchContent::Records(slice) => {
            ReplyContent::Records(slice.to_vec().expect("there"), answer.high_watermark.0)
        }
        FetchContent::Diverging(end) => ReplyContent::Diverging(*end),
        FetchContent::SnapshotId(id) => ReplyContent::SnapshotId(*id),
    }
}

fn snapshot(replica: &mut Replica<SimDisk>, state: &mut State) {
    state.apply(replica);
    let id = state.id();
    if id.end_offset > Offset(0)
        && let Some(draft) = replica.begin_snapshot(id, 2_000)
    {
        let written = state.write(&draft);
        let completed = replica.complete_snapshot(written, 2_000);
        completed.expect("the disk works");
    }
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::ArrivesLate),
        1 => Just(Fate::IsDamaged),
        1 => Just(Fate::IsLost),
    ]
}

fn crashes() -> impl Strategy<Value = Crash> {
    prop_oneof![
        Just(Crash::LosesUnsynced),
        Just(Crash::KeepsAll),
        any::<u64>().prop_map(Crash::Random),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..6u8).prop_map(Step::Append),
        1 => Just(Step::Snapshot),
        1 => proptest::option::of(crashes()).prop_map(Step::Restart),
        12 => (1..600u16, fates()).prop_map(|(bytes, fate)| Step::Exchange { bytes, fate }),
        1 => Just(Step::OwnSnapshot),
        1 => crashes().prop_map(Step::Crash),
        1 => (0..4u8).prop_map(Step::Forget),
    ]
}

#[test]
fn what_was_never_committed_is_cut() {
    let mut world = World::new();
    let arrives = Step::Exchange {
        bytes: 600,
        fate: Fate::Arrives,
    };
    let prelude = [Step::Append(2), arrives.clone(), arrives.clone()];
    prelude.iter().for_each(|step| world.run(step));
    world.run(&Step::Forget(3));
    let (committed, epoch) = (world.leader.high_watermark(), world.leader.epoch());
    assert!(world.observer.end_offset() > committed);
    assert_eq!((world.state.values.len(), epoch), (2, LeaderEpoch(3)));
    // It learns of the epoch, is told where the logs part, and has what the leader has.
    (0..4).for_each(|_| world.run(&arrives));
    assert_eq!(world.observer.end_offset(), committed);
    assert_eq!(world.observer.high_watermark(), committed);
}

proptest! {
    #![proptest_config(trials::property(96))]

    #[test]
    fn what_an_observer_applies_is_what_its_leader_has_committed(steps in vec(steps(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        // When all is well again, all of it is, and the leader knows.
        for _ in 0..400 {
            world.run(&Step::Exchange { bytes: 600, fate: Fate::Arrives });
        }
        prop_assert_eq!(&world.state.values, &world.leader_state.values);
        let described = world.leader.describe(Now::at_ms(world.now_ms)).expect("it leads");
        let ends: Vec<_> = described.observers.iter().map(|one| (one.id, one.log_end_offset)).collect();
        prop_assert_eq!(ends, [(NODE_ID, world.leader.high_watermark())]);
    }
}
