//! Followers come to have what their leader has, whatever has happened: leaders that are elected without having
//! all, metadata that come late, answers that come late or never, logs that are cut or lose their end.
//!
//! ```text
//!   three brokers, each with the same partitions on a disk of its own
//!   elect, learn, append, delete, fetch, answer, lose, restart …   at random
//!   then all learn, and fetch until nothing changes                ──> the logs are equal
//! ```

use crate::support::fetcher_script::SETTINGS;
use crate::support::{LOGS, batch, small_config};
use model::{
    BrokerId, ErrorCode, LeaderEpoch, Message, MonotonicTime, Offset, TopicPartition, Uuid,
};
use proptest::prelude::*;
use replication::{
    Acks, FetcherRequest, FetcherVersions, FollowedPartition, Isolation, LogHost, Partition,
    ReadRequest, ReplicaFetcher, Role, StepAction, StepOutcome,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::sim::SimDisk;
use storage::{Disk, Log, LogOpening, OpenFiles};
use wire::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse};

const BROKERS: usize = 3;
const TOPIC: Uuid = Uuid::from_u128(9);
const PARTITIONS: i32 = 2;
const VERSIONS: FetcherVersions = FetcherVersions {
    fetch: 17,
    list_offsets: 9,
};

#[derive(Debug, Clone)]
enum Step {
    /// A broker leads a partition in the next epoch, whatever it has.
    Elect(i32, usize),
    /// A broker learns who leads.
    Learn(usize),
    /// A broker appends so many records, where it thinks that it leads.
    Append(usize, i32, usize),
    /// A leader's log starts so far on.
    Delete(usize, i32, i64),
    /// The fetcher of a broker for a leader asks, if it may.
    Ask(usize, usize),
    /// Its leader answers.
    Serve(usize, usize),
    /// The answer arrives.
    Answer(usize, usize),
    /// It does not.
    Lose(usize, usize),
    /// A leader forgets its sessions, or keeps none from here on.
    Forget(usize, bool),
    /// A broker starts again, and its logs know this share of their high watermarks.
    Restart(usize, u8),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let broker = 0..BROKERS;
    let partition = 0..PARTITIONS;
    let pair = (0..BROKERS, 0..BROKERS);
    prop_oneof![
        2 => (partition.clone(), broker.clone()).prop_map(|(one, by)| Step::Elect(one, by)),
        4 => broker.clone().prop_map(Step::Learn),
        4 => (broker.clone(), partition.clone(), 1usize..5).prop_map(|(by, one, count)| Step::Append(by, one, count)),
        1 => (broker.clone(), partition, 1i64..8).prop_map(|(by, one, count)| Step::Delete(by, one, count)),
        6 => pair.clone().prop_map(|(by, of)| Step::Ask(by, of)),
        6 => pair.clone().prop_map(|(by, of)| Step::Serve(by, of)),
        6 => pair.clone().prop_map(|(by, of)| Step::Answer(by, of)),
        1 => pair.prop_map(|(by, of)| Step::Lose(by, of)),
        1 => (broker.clone(), any::<bool>()).prop_map(|(by, keeps)| Step::Forget(by, keeps)),
        1 => (broker, 0u8..3).prop_map(|(by, share)| Step::Restart(by, share)),
        2 => (1i64..1500).prop_map(Step::Wait),
    ]
}

/// What a leader keeps of a follower's session.
#[derive(Debug, Default)]
struct LeaderSession {
    id: i32,
    epoch: i32,
    /// What is asked, and the high watermark and the start that were told.
    partitions: BTreeMap<i32, (ReadRequest, Option<(i64, i64)>)>,
}

struct Broker {
    disk: SimDisk,
    host: Arc<LogHost<SimDisk>>,
    partitions: Vec<Arc<Partition<SimDisk>>>,
    /// By the leaders.
    fetchers: Vec<Fetcher>,
    /// By the followers.
    sessions: Vec<Option<LeaderSession>>,
    keeps_sessions: bool,
}

struct Fetcher {
    machine: ReplicaFetcher<Arc<Partition<SimDisk>>>,
    request: Option<(FetcherRequest, Vec<u8>)>,
    answer: Option<Vec<u8>>,
}

impl Fetcher {
    fn new() -> Self {
        Self {
            machine: ReplicaFetcher::new(SETTINGS),
            request: None,
            answer: None,
        }
    }
}

fn host_of(disk: &SimDisk) -> Arc<LogHost<SimDisk>> {
    let open_files = Arc::new(OpenFiles::new(usize::MAX));
    Arc::new(LogHost::new(disk.clone(), open_files))
}

fn opening(disk: &SimDisk, index: i32) -> LogOpening<SimDisk> {
    let name = TopicPartition::new("topic", index);
    let directory: PathBuf = Path::new(LOGS).join(name.to_string());
    LogOpening {
        topic_id: Some(TOPIC),
        config: Arc::new(small_config()),
        ..LogOpening::new(disk.clone(), directory, name)
    }
}

impl Broker {
    fn new() -> Self {
        let disk = SimDisk::default();
        disk.create_directory(Path::new(LOGS)).unwrap();
        let host = host_of(&disk);
        let partition = |index| {
            let log = Log::create(opening(&disk, index)).unwrap();
            let role = (Role::None, Offset(0));
            Arc::new(Partition::host(&host, log, TOPIC, LOGS.into(), role).unwrap())
        };
        Self {
            partitions: (0..PARTITIONS).map(partition).collect(),
            fetchers: (0..BROKERS).map(|_| Fetcher::new()).collect(),
            sessions: (0..BROKERS).map(|_| None).collect(),
            keeps_sessions: true,
            host,
            disk,
        }
    }

    /// Starts again, with what its disk has and a high watermark that may be an old one.
    fn restart(&mut self, share: u8) {
        let before: Vec<_> = self.partitions.drain(..).collect();
        self.fetchers = (0..BROKERS).map(|_| Fetcher::new()).collect();
        self.sessions = (0..BROKERS).map(|_| None).collect();
        self.host = host_of(&self.disk);
        for partition in before {
            let offsets = partition.offsets();
            partition.close(0, true).unwrap();
            let known = Offset(offsets.high_watermark.0 * i64::from(share) / 2);
            let opened = Log::open(LogOpening {
                is_clean: true,
                log_start_offset: offsets.log_start_offset,
                ..opening(&self.disk, partition.index())
            });
            let role = (Role::None, known);
            let log = opened.unwrap().log;
            let hosted = Partition::host(&self.host, log, TOPIC, LOGS.into(), role).unwrap();
            self.partitions.push(Arc::new(hosted));
        }
    }

    fn learn(&mut self, this: usize, leaders: &[(usize, i32)]) {
        for (index, (leader, epoch)) in leaders.iter().enumerate() {
            let partition = self.partitions[index].clone();
            let leader_epoch = LeaderEpoch(*epoch);
            let role = match *leader == this {
                true => Role::alone(leader_epoch),
                false => Role::Follower {
                    leader: BrokerId(*leader as i32),
                    leader_epoch,
                },
            };
            if partition.role() == role {
                continue;
            }
            partition.take_role(role).unwrap();
            for fetcher in &mut self.fetchers {
                fetcher.machine.remove(partition.key());
            }
            if *leader == this {
                continue;
            }
            let position = partition.begin_following(leader_epoch, 0).unwrap();
            self.fetchers[*leader].machine.add(FollowedPartition {
                topic_id: TOPIC,
                topic: "topic".into(),
                index: index as i32,
                leader_epoch,
                position,
                is_throttled: false,
                replica: partition,
            });
        }
    }

    fn read(&self, index: i32, request: &ReadRequest) -> PartitionData<'static> {
        let partition = &self.partitions[index as usize];
        let read = match partition.read(request) {
            Ok(read) => read,
            Err(error) => {
                return PartitionData {
                    partition_index: index,
                    error_code: error.code().code(),
                    high_watermark: -1,
                    log_start_offset: -1,
                    ..PartitionData::default()
                };
            }
        };
        let bytes = read.records.map(|records| records.to_vec().unwrap());
        let diverging = read.diverging_epoch;
        PartitionData {
            partition_index: index,
            high_watermark: read.offsets.high_watermark.0,
            log_start_offset: read.offsets.log_start_offset.0,
            diverging_epoch: diverging.map_or_else(
                EpochEndOffset::default,
                |(epoch, end_offset)| EpochEndOffset {
                    epoch: epoch.0,
                    end_offset: end_offset.0,
                },
            ),
            records: bytes.map(|bytes| &*Vec::leak(bytes)),
            ..PartitionData::default()
        }
    }

    fn serve(&mut self, follower: usize, asked: &(FetcherRequest, Vec<u8>)) -> Vec<u8> {
        match asked.0 {
            FetcherRequest::Fetch => self.serve_fetch(follower, &asked.1),
            FetcherRequest::ListOffsets => self.serve_list_offsets(&asked.1),
        }
    }

    fn serve_fetch(&mut self, follower: usize, body: &[u8]) -> Vec<u8> {
        let request = FetchRequest::from_bytes(body, VERSIONS.fetch).unwrap();
        let refused = |error: ErrorCode| {
            let response = FetchResponse {
                error_code: error.code(),
                ..FetchResponse::default()
            };
            response.to_bytes(VERSIONS.fetch)
        };
        let known = self.sessions[follower].take();
        let mut session = match (request.session_epoch, known) {
            (0, known) => LeaderSession {
                id: known.map_or(1, |known| known.id + 1),
                ..LeaderSession::default()
            },
            (_, None) => return refused(ErrorCode::FetchSessionIdNotFound),
            (epoch, Some(known)) => {
                assert_eq!((known.id, known.epoch), (request.session_id, epoch));
                known
            }
        };
        session.epoch += 1;
        for topic in request.topics.iter() {
            for asked in topic.partitions.iter() {
                let read = ReadRequest {
                    current_leader_epoch: LeaderEpoch(asked.current_leader_epoch),
                    fetch_offset: Offset(asked.fetch_offset),
                    last_fetched_epoch: LeaderEpoch(asked.last_fetched_epoch),
                    max_bytes: 300,
                    at_least_one_batch: true,
                    isolation: Isolation::LogEnd,
                    is_leader_asked: true,
                };
                let known = session.partitions.get(&asked.partition);
                let known = (read, known.and_then(|(_, told)| *told));
                session.partitions.insert(asked.partition, known);
            }
        }
        for topic in request.forgotten_topics_data.iter() {
            for index in topic.partitions.iter() {
                assert!(session.partitions.remove(&index).is_some());
            }
        }
        let is_full = request.session_epoch == 0;
        let mut answered = Vec::new();
        for (index, (read, told)) in &mut session.partitions {
            let data = self.read(*index, read);
            let now = Some((data.high_watermark, data.log_start_offset));
            let has_records = data.records.is_some_and(|records| !records.is_empty());
            let has_news = has_records || data.error_code != 0 || data.diverging_epoch.epoch >= 0;
            if is_full || has_news || *told != now {
                answered.push(data);
            }
            *told = now;
        }
        let session_id = match self.keeps_sessions && !session.partitions.is_empty() {
            true => session.id,
            false => 0,
        };
        self.sessions[follower] = (session_id != 0).then_some(session);
        let topic = FetchableTopicResponse {
            topic_id: TOPIC,
            partitions: answered.into(),
            ..FetchableTopicResponse::default()
        };
        FetchResponse {
            session_id,
            responses: vec![topic].into(),
            ..FetchResponse::default()
        }
        .to_bytes(VERSIONS.fetch)
    }

    fn serve_list_offsets(&self, body: &[u8]) -> Vec<u8> {
        let request = ListOffsetsRequest::from_bytes(body, VERSIONS.list_offsets).unwrap();
        let mut answered = Vec::new();
        for topic in request.topics.iter() {
            for asked in topic.partitions.iter() {
                let partition = &self.partitions[asked.partition_index as usize];
                let checked = partition.check_leader(LeaderEpoch(asked.current_leader_epoch));
                let offsets = partition.offsets();
                answered.push(ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: checked.map_or_else(ErrorCode::code, |()| 0),
                    offset: match asked.timestamp {
                        -1 => offsets.log_end_offset.0,
                        _ => offsets.log_start_offset.0,
                    },
                    ..ListOffsetsPartitionResponse::default()
                });
            }
        }
        let topic = ListOffsetsTopicResponse {
            name: "topic",
            partitions: answered.into(),
        };
        let response = ListOffsetsResponse {
            topics: vec![topic].into(),
            ..ListOffsetsResponse::default()
        };
        response.to_bytes(VERSIONS.list_offsets)
    }
}

struct World {
    brokers: Vec<Broker>,
    /// Of each partition.
    leaders: Vec<(usize, i32)>,
    now: MonotonicTime,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            brokers: (0..BROKERS).map(|_| Broker::new()).collect(),
            leaders: vec![(0, 0); PARTITIONS as usize],
            now: MonotonicTime::from_ms(0),
        };
        (0..BROKERS).for_each(|broker| world.learn(broker));
        world
    }

    fn learn(&mut self, broker: usize) {
        let leaders = self.leaders.clone();
        self.brokers[broker].learn(broker, &leaders);
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Elect(index, broker) => {
                let leader = &mut self.leaders[index as usize];
                *leader = (broker, leader.1 + 1);
            }
            Step::Learn(broker) => self.learn(broker),
            Step::Append(broker, index, count) => {
                let partition = &self.brokers[broker].partitions[index as usize];
                let _ = partition.append_as_leader(&mut batch(0, count), None, Acks::Leader, 0);
            }
            Step::Delete(broker, index, count) => {
                let partition = &self.brokers[broker].partitions[index as usize];
                let start = partition.offsets().log_start_offset;
                let _ = partition.delete_records_before(start + count);
            }
            Step::Ask(broker, leader) => self.ask(broker, leader),
            Step::Serve(broker, leader) => self.serve(broker, leader),
            Step::Answer(broker, leader) => self.answer(broker, leader),
            Step::Lose(broker, leader) => {
                let fetcher = &mut self.brokers[broker].fetchers[leader];
                if fetcher.machine.is_waiting() {
                    fetcher.machine.handle_failure(self.now);
                    (fetcher.request, fetcher.answer) = (None, None);
                }
            }
            Step::Forget(broker, keeps) => {
                self.brokers[broker].keeps_sessions = keeps;
                self.brokers[broker].sessions.fill_with(|| None);
            }
            Step::Restart(broker, share) => self.brokers[broker].restart(share),
            Step::Wait(ms) => self.now = self.now.plus_ms(ms),
        }
    }

    fn ask(&mut self, broker: usize, leader: usize) {
        let fetcher = &mut self.brokers[broker].fetchers[leader];
        let mut out = Vec::new();
        if let Some(request) = fetcher.machine.poll_request(self.now, VERSIONS, &mut out) {
            fetcher.request = Some((request, out));
        }
    }

    fn serve(&mut self, broker: usize, leader: usize) {
        let fetcher = &self.brokers[broker].fetchers[leader];
        if let (Some(request), None) = (fetcher.request.clone(), &fetcher.answer) {
            let answer = self.brokers[leader].serve(broker, &request);
            self.brokers[broker].fetchers[leader].answer = Some(answer);
        }
    }

    fn answer(&mut self, broker: usize, leader: usize) {
        let fetcher = &mut self.brokers[broker].fetchers[leader];
        let Some(body) = fetcher.answer.take() else {
            return;
        };
        let asked = fetcher.request.take().unwrap().0;
        let version = match asked {
            FetcherRequest::Fetch => VERSIONS.fetch,
            FetcherRequest::ListOffsets => VERSIONS.list_offsets,
        };
        let taken = fetcher.machine.handle_response(&body, version, self.now);
        let is_refused = matches!(taken, Err(replication::AnswerError::Refused(_)));
        assert!(taken.is_ok() || is_refused, "{taken:?}");
        let mut later = Vec::new();
        fetcher
            .machine
            .take_steps(&body, usize::MAX, self.now, |step| {
                let result = step.replica.follow(&step.action, 0);
                if let StepAction::Append(_) = step.action {
                    let is_stale = matches!(result, Err(replication::FollowError::NotFollower));
                    assert!(result.is_ok() || is_stale, "{result:?} of {step:?}");
                }
                let outcome = StepOutcome::of(&result);
                assert_ne!(outcome, StepOutcome::Failed);
                // Some are told as of a slow disk.
                match step.replica.offsets().log_end_offset.0 % 4 {
                    0 => {
                        later.push((step.token, outcome));
                        StepOutcome::Later
                    }
                    _ => outcome,
                }
            });
        for (token, outcome) in later {
            fetcher.machine.complete(token, outcome, self.now);
        }
        fetcher.machine.take_errors(|_, _| {});
    }

    /// Batches of a log with their epochs, from `start` on.
    fn log(&self, broker: usize, index: i32, start: i64) -> Vec<(i64, i64, LeaderEpoch)> {
        let partition = &self.brokers[broker].partitions[index as usize];
        let mut all = Vec::new();
        let mut offset = partition.offsets().log_start_offset;
        while offset < partition.offsets().log_end_offset {
            let bytes = partition.read_bytes(offset, 1 << 20).unwrap();
            let batches = crate::support::batches_in(&bytes);
            let Some(last) = batches.last() else { break };
            offset = Offset(last.1 + 1);
            all.extend(batches);
        }
        all.retain(|one| one.1 >= start);
        all
    }

    /// Nobody has lost anything for good: everybody learns, asks and is answered until nothing changes.
    fn settle(&mut self) {
        for broker in 0..BROKERS {
            self.learn(broker);
        }
        for _ in 0..40 {
            self.now = self.now.plus_ms(1100);
            for broker in 0..BROKERS {
                for leader in 0..BROKERS {
                    self.ask(broker, leader);
                    self.serve(broker, leader);
                    self.answer(broker, leader);
                }
            }
        }
    }

    fn check_equal(&self) {
        for index in 0..PARTITIONS {
            let leader = self.leaders[index as usize].0;
            let led = &self.brokers[leader].partitions[index as usize];
            let offsets = led.offsets();
            for broker in (0..BROKERS).filter(|broker| *broker != leader) {
                let partition = &self.brokers[broker].partitions[index as usize];
                // What was deleted here, of another history, is not brought back.
                let start = partition.offsets().log_start_offset;
                assert!(start >= offsets.log_start_offset, "broker {broker}");
                let expected = self.log(leader, index, start.0);
                assert_eq!(
                    self.log(broker, index, start.0),
                    expected,
                    "broker {broker}"
                );
                assert_eq!(
                    partition.offsets().log_end_offset,
                    offsets.log_end_offset,
                    "broker {broker}"
                );
                assert_eq!(partition.high_watermark(), offsets.high_watermark);
                let key = partition.key();
                assert_eq!(
                    self.brokers[broker].fetchers[leader].machine.lag(key),
                    Some(0)
                );
                // Both know the same of the epochs of their records.
                let epochs = |of: &Partition<SimDisk>| {
                    let read = |log: &mut Log<SimDisk>| {
                        let entries = log.leader_epochs().entries().iter();
                        let of_records = |one: &&storage::leader_epochs::LeaderEpochStart| {
                            one.start_offset < offsets.log_end_offset
                        };
                        let known = entries.filter(of_records);
                        let known =
                            known.map(|one| (one.leader_epoch, one.start_offset.max(start)));
                        known.collect::<Vec<_>>()
                    };
                    of.with_log(read).unwrap()
                };
                let (ours, theirs) = (epochs(partition), epochs(led));
                let of = |known: &[(LeaderEpoch, Offset)], offset: Offset| {
                    let before = known.iter().rfind(|(_, start)| *start <= offset);
                    before.map(|(epoch, _)| *epoch)
                };
                for (first, _, _) in &expected {
                    let offset = Offset(*first).max(start);
                    assert_eq!(
                        of(&ours, offset),
                        of(&theirs, offset),
                        "{ours:?} {theirs:?}"
                    );
                }
            }
        }
    }

    /// Records of one offset and epoch are the same ones on every broker: so are those before them.
    fn check_matching(&self) {
        for index in 0..PARTITIONS {
            let logs: Vec<_> = (0..BROKERS).map(|one| self.log(one, index, 0)).collect();
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                let (one, other) = (&logs[one], &logs[other]);
                let Some(last) = one.iter().rfind(|batch| other.contains(batch)) else {
                    continue;
                };
                let start = one[0].0.max(other[0].0);
                let up_to = |log: &[(i64, i64, LeaderEpoch)]| {
                    let within =
                        |batch: &&(i64, i64, LeaderEpoch)| batch.0 >= start && batch.1 <= last.1;
                    log.iter().filter(within).copied().collect::<Vec<_>>()
                };
                assert_eq!(up_to(one), up_to(other));
            }
        }
    }
}

proptest! {
    #![proptest_config(trials::property(300))]
    #[test]
    fn followers_come_to_have_what_their_leader_has(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
        }
        world.check_matching();
        world.settle();
        world.check_matching();
        world.check_equal();
    }
}
