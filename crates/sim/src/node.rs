//! A node: the product's cores over one simulated disk, and the wiring that the broker's threads and
//! tasks are in a process. It decides nothing.
//!
//! ```text
//!   start  disk ──> quorum ──> registration ──> hosting (logs) ──> coordinators
//!   serve  request ──> serve: validate, append, decide ──> Waiting until durable ──> answers
//!   metadata  ActiveController ──> Quorum ──> delta ──> hosting, groups, transactions
//! ```
//!
//! Whatever asks for a flush is listed in `flushes`; the world runs each when its disk has the time for
//! it, and what waits goes on. An error of the disk halts the node, as one of the directory of the
//! metadata halts the broker.

mod checkpoints;
mod cleaning;
mod compaction;
mod directories;
mod frames;
mod frames_of_groups;
mod hosting;
mod log_directory;
mod quorum;
mod serve;
mod serve_transactions;
mod shown;
mod waiters;

use crate::coordinators::{
    CoordinatorMistakes, Finishing, Groups, OFFSETS_TOPIC, TRANSACTION_TOPIC, Transactions,
};
use crate::halted::Halted;
use crate::partition::{Observed, SimPartition};
use crate::planted::Planted;
use crate::protocol::{Answer, Ask};
use crate::random::Random;
use config::{ConfigMap, ServerConfig, TopicDefaults};
use controller::directories::DirectoryAssignment;
use controller::internal_topics::topic_for_first_use;
use controller::{
    AllocateProducerIds, AssignReplicasToDirectories, ChangeDirectories, Controller,
    ControllerContext, ControllerRequest, CreateTopics, MetadataChange, PlaceFoundReplicas,
    RegisterBroker, Request, UnfenceBroker,
};
use coordinator::group::DeletedTopic;
use metadata::MetadataImage;
use model::{BrokerEpoch, ErrorCode, MonotonicTime, Now, Offset, ProducerId, RetentionClock, Uuid};
use record::Batches;
use replication::{PartitionKey, VerificationGuard};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::boot_id::forget_boot_id;
use storage::clean_shutdown::write_clean_shutdown;
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::sim::SimDisk;

use self::frames::{Frames, is_of_frame};
use self::hosting::{Hosting, TopicContext};
use self::quorum::OpenedMetadata;

pub(crate) use self::frames::Reply;
pub(crate) use self::shown::{refused_out_of_order, shown_request, shown_response};

/// The log directories; the first one has the metadata log.
pub(crate) const DIRECTORIES: [&str; 3] = ["/logs", "/data1", "/data2"];
/// What a disk that fails says.
const EIO: i32 = 5;
/// How often logs are looked at.
const UPKEEP_MS: i64 = 500;
/// How long a partition that took no marker is left alone.
const MARKER_PAUSE_MS: i64 = 100;

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller {
    pub(crate) client: usize,
    /// The client's connection: what comes for an earlier one is lost.
    pub(crate) connection: u64,
    pub(crate) correlation_id: i32,
}

/// What goes on when partitions have come so far.
#[derive(Debug)]
struct Waiting {
    until: Vec<(Arc<SimPartition>, Offset)>,
    then: Then,
}

#[derive(Debug)]
pub(crate) enum Then {
    Answer(Caller, Answer),
    /// The transaction's coordinator knows of the batch.
    Append(Caller, Ask, Option<VerificationGuard>),
    /// The end is durable: its markers are written.
    Mark(Finishing, Option<(Caller, Answer)>),
    /// The markers are durable.
    Complete(Finishing, Option<(Caller, Answer)>),
}

/// A node that runs.
#[derive(Debug)]
pub(crate) struct Node {
    frames: Frames,
    disk: SimDisk,
    config: Arc<ServerConfig>,
    defaults: TopicDefaults,
    planted: Planted,
    random: Random,
    controller: Controller<(), SimDisk>,
    /// The mistake of a node whose metadata log has once taken nothing.
    is_metadata_stuck: bool,
    /// The mistake of a node that does without a log directory after a lack that passes.
    is_offline: bool,
    image: Arc<MetadataImage>,
    hosting: Hosting,
    groups: Groups<Caller>,
    transactions: Transactions<Caller>,
    producer_ids: Range<i64>,
    broker_epoch: BrokerEpoch,
    waiting: Vec<Waiting>,
    /// Ends whose markers are to be tried again, with the time.
    unfinished: Vec<(MonotonicTime, Finishing)>,
    retention_clock: RetentionClock,
    upkeep_due: MonotonicTime,
    answers: Vec<(Caller, Answer)>,
    flushes: BTreeSet<PartitionKey>,
}

/// The configuration of the node; with `is_durable` nothing is acknowledged that is not synced. VoterSet
/// are fixed by it, or in the metadata log itself.
pub(crate) fn server_config(is_durable: bool, has_fixed_voters: bool) -> Arc<ServerConfig> {
    let pairs = [
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
        ("advertised.listeners", "PLAINTEXT://localhost:9092"),
        ("controller.listener.names", "CONTROLLER"),
        match has_fixed_voters {
            true => ("controller.quorum.voters", "1@localhost:9093"),
            false => ("controller.quorum.bootstrap.servers", "localhost:9093"),
        },
        ("offsets.topic.num.partitions", "2"),
        ("offsets.topic.replication.factor", "1"),
        ("transaction.state.log.num.partitions", "2"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
    ];
    let mut given: ConfigMap = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    if is_durable {
        let name = "log.flush.interval.messages".to_owned();
        given.insert(name, "1".to_owned());
    }
    let mut config = ServerConfig::read(&given).expect("the configuration is sound");
    let metadata_log = &mut config.controller.metadata_log;
    // Small, so that a world has several snapshots and segments of them.
    metadata_log.max_record_bytes_between_snapshots = 2_000;
    metadata_log.segment_bytes = 2_500;
    metadata_log.retention_bytes = 6_000;
    metadata_log.delete_delay_ms = 500;
    Arc::new(config)
}

/// Registers a run of the broker, once its replicas are placed, and unfences it; gives its epoch.
fn register(
    controller: &mut Controller<(), SimDisk>,
    placed: PlaceFoundReplicas,
    registration: RegisterBroker,
    (context, now): (&ControllerContext<'_>, Now),
    draw: &mut controller::Random<'_>,
) -> Result<BrokerEpoch, Halted> {
    let broker_id = placed.broker_id;
    controller.decide_at_start(placed, (), context, now, draw)?;
    let broker_epoch = controller.decide_at_start(registration, (), context, now, draw)??;
    let unfence = UnfenceBroker {
        broker_id,
        broker_epoch,
    };
    controller.decide_at_start(unfence, (), context, now, draw)??;
    Ok(broker_epoch)
}

impl Node {
    /// Starts on what the disk holds.
    pub(crate) fn start(
        disk: &SimDisk,
        config: &Arc<ServerConfig>,
        planted: Planted,
        mut random: Random,
        now: Now,
    ) -> Result<Self, Halted> {
        let mut paths = Vec::new();
        for path in DIRECTORIES.map(PathBuf::from) {
            match make_directory(disk, &path) {
                Ok(()) => paths.push(path),
                // The others do without it (KIP-858).
                Err(error) if !paths.is_empty() && is_of_disk(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (context, now_ms) = (ControllerContext::new(config), now.wall_ms);
        let opened = OpenedMetadata::open(disk, &paths, config, planted, &mut random, now_ms)?;
        let is_clean = |path: &PathBuf| opened.is_clean(path);
        let directories = log_directory::prepared(&opened.directories, disk, is_clean)?;
        let mut hosting = Hosting::new(disk, directories, planted);
        let found = hosting.scan(opened.log.image(), &mut random)?;
        let image = opened.log.image().clone();
        let broker_id = config.node_id;
        let places = hosting.place_all(&image, broker_id, found, DIRECTORIES.len());
        let registration = opened.registration(broker_id, Uuid::from_bytes(random.bytes()));
        let mut controller = Controller::new(opened.log, &context, now);
        let found = places.notes.clone();
        let placed = PlaceFoundReplicas { broker_id, found };
        let draw = &mut || random.bytes();
        let at = (&context, now);
        let broker_epoch = register(&mut controller, placed, registration, at, draw)?;
        let image = controller.log.image().clone();
        let defaults = &context.topic_defaults(&image);
        let surroundings = TopicContext { defaults, now_ms };
        hosting.open(&image, &places, &surroundings)?;
        let mut node = Self {
            frames: Frames::default(),
            disk: disk.clone(),
            config: config.clone(),
            planted,
            random,
            controller,
            is_metadata_stuck: false,
            is_offline: false,
            image,
            hosting,
            groups: Groups::default(),
            transactions: Transactions::default(),
            producer_ids: 0..0,
            broker_epoch,
            waiting: Vec::new(),
            unfinished: Vec::new(),
            retention_clock: RetentionClock::new(now),
            upkeep_due: now.monotonic.plus_ms(UPKEEP_MS),
            answers: Vec::new(),
            flushes: BTreeSet::new(),
            defaults: defaults.clone(),
        };
        node.groups.follow(&node.image);
        node.transactions.follow(&node.image);
        let partitions: Vec<_> = node.hosting.all().cloned().collect();
        node.load_coordinators(&partitions, now)?;
        for topic in [OFFSETS_TOPIC, TRANSACTION_TOPIC] {
            if node.image.topics.by_name(topic).is_none() {
                let topics = vec![topic_for_first_use(topic, config)];
                let create = CreateTopics {
                    topics,
                    validate_only: false,
                };
                node.control(create, now)?
                    .map_err(|code| format!("{topic}: {code:?}"))?;
            }
        }
        node.tell_controller(now)?;
        node.note_flushes();
        Ok(node)
    }

    fn load_coordinators(
        &mut self,
        partitions: &[Arc<SimPartition>],
        now: Now,
    ) -> Result<(), Halted> {
        for partition in partitions {
            if ![OFFSETS_TOPIC, TRANSACTION_TOPIC].contains(&partition.topic()) {
                continue;
            }
            let epoch = partition.offsets().leader_epoch;
            let mistakes = CoordinatorMistakes {
                loads_until: match self.planted {
                    Planted::LoadsTooLittle => Some(last_batch(partition)?),
                    _ => None,
                },
                ..CoordinatorMistakes::default()
            };
            match partition.topic() {
                OFFSETS_TOPIC => {
                    let (image, index) = (self.image.clone(), partition.index());
                    self.groups.take(partition, epoch, mistakes);
                    self.groups.load(index, &image, mistakes, now)?;
                }
                TRANSACTION_TOPIC => {
                    self.transactions.take(partition, epoch, mistakes);
                    self.transactions.load(partition.index(), mistakes, now)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets the controller decide, serves what is committed, and gives the answer.
    fn control<R: Request>(
        &mut self,
        request: R,
        now: Now,
    ) -> Result<Result<R::Response, ErrorCode>, Halted> {
        let request: ControllerRequest = request.into();
        if self.is_metadata_stuck {
            return Ok(Err(ErrorCode::KafkaStorageError));
        }
        let context = ControllerContext::new(&self.config);
        let (random, now_ms) = (&mut self.random, now.wall_ms);
        let draw = &mut || random.bytes();
        let decided = self.controller.decide(&request, (), &context, now, draw);
        if let Some(change) = decided.change {
            self.publish(&change, now)?;
        }
        if let Some(refused) = decided.refused.into_iter().next() {
            self.is_metadata_stuck = self.planted == Planted::NeverMendsMetadata;
            return match self.controller.log.has_failed() {
                true => Err(refused.error.into()),
                false => Ok(Err(ErrorCode::KafkaStorageError)),
            };
        }
        self.take_snapshot_if_due(now_ms);
        let response = decided.answers.into_iter().next_back();
        let response = response.and_then(|((), response)| R::response_of(response));
        let response = response.ok_or("the controller has not answered")?;
        Ok(Ok(response))
    }

    /// Tells the controller where new partitions are, and which directories have failed; what it does not
    /// take is told again later.
    fn tell_controller(&mut self, now: Now) -> Result<(), Halted> {
        let (broker_id, broker_epoch) = (self.config.node_id, self.broker_epoch);
        let offline = self.hosting.untold_failures.clone();
        if !offline.is_empty() {
            let change = ChangeDirectories {
                broker_id,
                broker_epoch,
                offline,
                cordoned: None,
            };
            if let Ok(Ok(())) = self.control(change, now)? {
                self.hosting.untold_failures.clear();
            }
        }
        let hosting = &self.hosting;
        let assignment = |key: &PartitionKey| {
            let partition = hosting.by_id(key.0, key.1)?;
            Some(DirectoryAssignment {
                directory: hosting.directories[hosting.place_of(partition)].id,
                topic_id: key.0,
                partition_id: key.1,
            })
        };
        let assignments: Vec<_> = hosting
            .untold_places
            .iter()
            .filter_map(assignment)
            .collect();
        if !assignments.is_empty() {
            let tell = AssignReplicasToDirectories {
                broker_id,
                broker_epoch,
                assignments,
            };
            if let Ok(Ok(_)) = self.control(tell, now)? {
                self.hosting.untold_places.clear();
            }
        }
        Ok(())
    }

    /// Serves a request of a group's member, or about its offsets.
    fn serve_group(&mut self, caller: Caller, ask: &Ask, now: Now) -> Result<(), Halted> {
        let uuid = format!("{:032x}", u128::from_be_bytes(self.random.bytes()));
        let image = self.image.clone();
        let served = self.groups.serve(caller, ask, (&image, &uuid), now)?;
        served.or_else(|error| self.refuse(caller, ask, error))
    }

    /// The offset of a transaction, once its coordinator knows of the partition.
    fn commit_in_transaction(
        &mut self,
        caller: Caller,
        ask: &Ask,
        guard: Option<VerificationGuard>,
        now: Now,
    ) -> Result<(), Halted> {
        let image = self.image.clone();
        let groups = &mut self.groups;
        let served = groups.commit_in_transaction(caller, ask, (&image, guard), now)?;
        served.or_else(|error| self.refuse(caller, ask, error))
    }

    /// Goes on without the log directory that an error is about, if it can.
    pub(crate) fn do_without(&mut self, halted: Halted, now: Now) -> Result<(), Halted> {
        self.hosting.do_without(halted)?;
        self.tell_controller(now)?;
        self.go_on(now)
    }

    /// Writes a snapshot of the metadata when one is due; one that fails is due again later.
    fn take_snapshot_if_due(&mut self, now_ms: i64) {
        let log = &mut self.controller.log;
        if let Some(job) = log.snapshot_due(now_ms) {
            let written = job.run(now_ms);
            let _ = log.complete_snapshot(written, now_ms);
        }
    }

    /// Serves what is committed.
    fn publish(&mut self, change: &MetadataChange, now: Now) -> Result<(), Halted> {
        let delta = &change.delta;
        self.image = delta.after.clone();
        let deleted: Vec<_> = delta.deleted_topics().cloned().collect();
        let deleted: Vec<DeletedTopic<'_>> = deleted
            .iter()
            .map(|topic| DeletedTopic {
                name: &topic.name,
                topic_id: topic.id,
            })
            .collect();
        let image = self.image.clone();
        self.groups.set_metadata(&image, &deleted, now)?;
        let surroundings = TopicContext {
            defaults: &self.defaults,
            now_ms: now.wall_ms,
        };
        let (hosting, random) = (&mut self.hosting, &mut self.random);
        let made = hosting.apply(delta, &surroundings, now.monotonic, random)?;
        self.groups.follow(&self.image);
        self.transactions.follow(&self.image);
        self.load_coordinators(&made, now)
    }

    /// An id that no producer has had.
    fn next_producer_id(&mut self, now: Now) -> Result<Result<ProducerId, ErrorCode>, Halted> {
        if let Some(id) = self.producer_ids.next() {
            return Ok(Ok(ProducerId(id)));
        }
        let request = AllocateProducerIds {
            broker_id: self.config.node_id,
            broker_epoch: self.broker_epoch,
        };
        let block = match self.control(request, now)? {
            Ok(block) => block.map_err(|error| error.to_string())?,
            Err(error) => return Ok(Err(error)),
        };
        let first = match self.planted {
            Planted::HandsOutIdsAgain => 0,
            _ => block.first,
        };
        self.producer_ids = first..first + block.count;
        let first = self.producer_ids.next();
        Ok(Ok(ProducerId(first.ok_or("an empty block of ids")?)))
    }

    /// Answers that are ready to be sent.
    pub(crate) fn take_answers(&mut self) -> Vec<(Caller, Answer)> {
        let answers = std::mem::take(&mut self.answers).into_iter();
        let (parts, answers) = answers.partition(|(caller, _)| is_of_frame(caller));
        let parts: Vec<(Caller, Answer)> = parts;
        for (caller, answer) in parts {
            self.frames.answered(caller, answer);
        }
        answers
    }

    /// Partitions that wait for their disk.
    pub(crate) fn take_flushes(&mut self) -> BTreeSet<PartitionKey> {
        std::mem::take(&mut self.flushes)
    }

    /// The disk has the time to sync a partition.
    pub(crate) fn flush(&mut self, key: PartitionKey, now: Now) -> Result<(), Halted> {
        let Some(partition) = self.hosting.by_id(key.0, key.1) else {
            return self.go_on(now);
        };
        let end = partition.offsets().log_end_offset;
        match partition.flush_up_to(end, now.wall_ms) {
            Err(error) if error.is_out_of_files() => {
                self.flushes.insert(key);
                self.is_offline = self.planted == Planted::TakesLackForFailure;
            }
            outcome => outcome?,
        }
        self.go_on(now)
    }

    /// Does what is due by the time.
    pub(crate) fn tick(&mut self, now: Now) -> Result<(), Halted> {
        if self.planted != Planted::ExpelsNobody {
            self.groups.expire(now)?;
        }
        for id in self.transactions.timed_out(now) {
            self.abort_timed_out(&id, now)?;
        }
        let is_due = |(at, _): &(MonotonicTime, Finishing)| *at <= now.monotonic;
        let (due, later) = std::mem::take(&mut self.unfinished)
            .into_iter()
            .partition(is_due);
        self.unfinished = later;
        let due: Vec<(MonotonicTime, Finishing)> = due;
        for (_, finishing) in due {
            self.wait(Vec::new(), Then::Mark(finishing, None));
        }
        if self.upkeep_due <= now.monotonic {
            self.upkeep_due = now.monotonic.plus_ms(UPKEEP_MS);
            self.keep_up(now)?;
        }
        self.go_on(now)
    }

    /// Work on the logs that no request asks for.
    fn keep_up(&mut self, now: Now) -> Result<(), Halted> {
        let surroundings = TopicContext {
            defaults: &self.defaults,
            now_ms: now.wall_ms,
        };
        let (hosting, random) = (&mut self.hosting, &mut self.random);
        let made = hosting.make_missing(&self.image, &surroundings, random)?;
        self.load_coordinators(&made, now)?;
        self.tell_controller(now)?;
        self.hosting.remove_due(now.monotonic)?;
        let retention_ms = self.retention_clock.wall_ms(now);
        for partition in self.hosting.all() {
            // Whoever wrote has said so; if not, this does.
            if partition.is_failed() {
                let directory = partition.log_directory();
                return Err(format!("{directory}/{partition} could not be written").into());
            }
            let high_watermark = partition.high_watermark();
            let deleted = partition.with_log(|log| {
                log.remove_deleted_files(now.wall_ms)?;
                log.delete_old_segments(high_watermark, retention_ms)
            });
            match deleted {
                Err(error) if error.is_out_of_files() => {}
                Err(error) => return Err(error.into()),
                Ok(Err(storage::AppendError::Storage(error))) if error.is_out_of_files() => {}
                Ok(deleted) => drop(deleted?),
            }
        }
        self.transactions.expire_ids(now)?;
        self.hosting.clean(now.wall_ms, retention_ms)?;
        self.hosting.rest(now.wall_ms)?;
        match self.hosting.write_checkpoints() {
            Err(halted) if !halted.is_passing => Err(halted),
            _ => Ok(()),
        }
    }

    fn wait(&mut self, until: Vec<(Arc<SimPartition>, Offset)>, then: Then) {
        self.waiting.push(Waiting { until, then });
    }

    /// Lets everything go on that waits for what has happened.
    fn go_on(&mut self, now: Now) -> Result<(), Halted> {
        loop {
            let is_there =
                |(partition, end): &(Arc<SimPartition>, Offset)| partition.high_watermark() >= *end;
            let is_ready = |one: &Waiting| one.until.iter().all(is_there);
            let answer = self.groups.poll_answer();
            if let Some(then) = answer.or_else(|| self.transactions.poll_answer()) {
                self.act(then, now)?;
                continue;
            }
            let Some(at) = self.waiting.iter().position(is_ready) else {
                let is_gone = |log: &SimPartition| log.is_closed() || log.is_failed();
                let is_lost = |one: &mut Waiting| one.until.iter().any(|(log, _)| is_gone(log));
                let lost: Vec<Waiting> = self.waiting.extract_if(.., is_lost).collect();
                if lost.is_empty() {
                    break;
                }
                lost.into_iter().for_each(|one| self.lose(one.then));
                continue;
            };
            let then = self.waiting.remove(at).then;
            self.act(then, now)?;
        }
        self.note_flushes();
        Ok(())
    }

    fn act(&mut self, then: Then, now: Now) -> Result<(), Halted> {
        match then {
            Then::Answer(caller, answer) => self.answers.push((caller, answer)),
            Then::Append(caller, ask, guard) => self.append(caller, ask, guard, now)?,
            Then::Mark(finishing, reply) => self.mark(finishing, reply, now)?,
            Then::Complete(finishing, reply) => self.complete(finishing, reply, now)?,
        }
        Ok(())
    }

    /// What it waits for is deleted.
    fn lose(&mut self, then: Then) {
        match then {
            Then::Answer(caller, _) | Then::Append(caller, _, _) => {
                // The topic is gone: nobody answers, and the client asks again.
                let error = ErrorCode::KafkaStorageError;
                let _ = (caller, error);
            }
            Then::Mark(finishing, reply) => self.wait(Vec::new(), Then::Mark(finishing, reply)),
            // One of its markers is not durable: all are written again, as after a start.
            Then::Complete(mut finishing, reply) => {
                finishing.left = finishing.prepared.partitions.clone();
                self.wait(Vec::new(), Then::Mark(finishing, reply));
            }
        }
    }

    fn note_flushes(&mut self) {
        let awaited = self.hosting.all().filter(|partition| {
            let offsets = partition.offsets();
            offsets.high_watermark < offsets.log_end_offset
        });
        let awaited: Vec<PartitionKey> = awaited.map(|one| one.key()).collect();
        self.flushes.extend(awaited);
    }

    /// When it has to be asked next.
    pub(crate) fn next_deadline(&self) -> MonotonicTime {
        let unfinished = self.unfinished.iter().map(|(at, _)| *at);
        let of_groups = self.groups.next_deadline();
        let of_groups = of_groups.filter(|_| self.planted != Planted::ExpelsNobody);
        let deadlines = unfinished.chain(of_groups);
        deadlines
            .chain([self.upkeep_due])
            .min()
            .unwrap_or(self.upkeep_due)
    }

    /// Stops in order: every log is closed, and the directory says so.
    pub(crate) fn stop(mut self, now: Now) -> Result<(), Halted> {
        self.hosting.close(now.wall_ms)?;
        self.controller.log.close(now.wall_ms)?;
        if self.planted == Planted::TearsSnapshots {
            for directory in &self.hosting.directories {
                tear_snapshots(&self.disk, &directory.path)?;
            }
        }
        for directory in self
            .hosting
            .directories
            .iter()
            .filter(|one| !one.is_offline)
        {
            write_clean_shutdown(&self.disk, &directory.path, self.broker_epoch)?;
            forget_boot_id(&self.disk, &directory.path)?;
        }
        Ok(())
    }

    /// The image that is served.
    pub(crate) const fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// The epoch that this node leads the quorum in.
    pub(crate) const fn quorum_epoch(&self) -> i32 {
        self.controller.log.leader_epoch().0
    }

    /// Every partition as it is now.
    pub(crate) fn observe(&self) -> Vec<Observed> {
        let all = self.hosting.all();
        all.map(|partition| Observed {
            key: partition.key(),
            offsets: partition.offsets(),
        })
        .collect()
    }

    /// What it has found that it cannot explain.
    pub(crate) fn complaint(&self) -> Option<&str> {
        self.hosting.cleaning.complaint.as_deref()
    }

    /// Whether a log takes no more, or a log directory is not there: a start is to mend that.
    pub(crate) fn has_failed(&self) -> bool {
        self.hosting.all().any(|one| one.is_failed())
            || self.hosting.lacks_directories(DIRECTORIES.len())
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.waiting.is_empty()
            && self.frames.is_empty()
            && self.unfinished.is_empty()
            && self.flushes.is_empty()
            && !self.groups.is_holding()
            && !self.transactions.is_holding()
    }
}

/// Where the last batch begins.
fn last_batch(partition: &SimPartition) -> Result<i64, Halted> {
    let offsets = partition.offsets();
    let (mut offset, mut last) = (offsets.log_start_offset, offsets.log_start_offset);
    while offset < offsets.log_end_offset {
        let bytes = partition.read_bytes(offset, 1 << 20)?;
        for batch in Batches::new(&bytes) {
            let batch = batch?;
            last = batch.base_offset();
            offset = batch.next_offset();
        }
    }
    Ok(last.0)
}

/// Cuts the last byte off every snapshot of producers in a log directory.
fn tear_snapshots(disk: &SimDisk, path: &Path) -> std::io::Result<()> {
    for entry in disk.list(path)? {
        let path = path.join(&entry.name);
        if entry.is_directory {
            tear_snapshots(disk, &path)?;
        } else if entry.name.ends_with(".snapshot") {
            let file = disk.open(&path, OpenMode::Write)?;
            file.truncate(file.length()?.saturating_sub(1))?;
        }
    }
    Ok(())
}

/// Makes a log directory, unless it is there.
fn make_directory(disk: &SimDisk, path: &Path) -> std::io::Result<()> {
    match disk.create_directory(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made?,
    }
    disk.sync_directory(Path::new("/"))?;
    disk.list(path).map(drop)
}

fn is_of_disk(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(EIO)
}
