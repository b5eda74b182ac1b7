//! A broker of a cluster: the product's cores over one simulated disk, wired as the tasks of a broker wire them.
//! It decides nothing.
//!
//! ```text
//!   metadata log, followed by fetch ──> image ──> roles ──> partitions, fetchers        (hosting)
//!   BrokerLife ──> registration, heartbeats
//!   leader: appends, reads, deletes                                              (client_requests)
//!           fetch sessions, proposals of in-sync replicas                                (serving)
//!   follower: ReplicaFetcher ──> Fetch ──> steps on its logs                             (fetching)
//!   groups, transactions: hosted partitions of their topics                            (coordinating)
//!   ends of transactions ──> markers here, and at other leaders              (endings, outgoing)
//! ```

mod client_requests;
mod coordinating;
mod endings;
mod fetching;
mod hosting;
mod outgoing;
mod serving;
mod waiting;

use super::controller::CLUSTER_ID;
use super::judge::{Log, ReplicaRecord, ReplicaView, records_of};
use super::message::{Answer, Ask, Caller, Channel, Outbox, QuorumContent};
use super::planted::PlantedInCluster;
use crate::coordinators::{Groups, Transactions};
use crate::protocol::{self, ProducerKey};
use crate::random::Random;
use config::ServerConfig;
use controller::brokers::NewRegistration;
use controller::metadata_log::{
    DirectoryOptions, ObservedLogOptions, ObservedMetadataLog, find_log_directories,
    known_directories,
};
use controller::{
    AllocateProducerIds, BrokerLife, BrokerLifeRequest, BrokerLifeSettings, BrokerState,
    ControllerRequest, ControllerResponse, MetadataChange,
};
use coordinating::{Loading, Verifying};
use coordinator::transaction::{MarkersToWrite, PartitionsToAdd};
use endings::Ending;
use fetching::Fetcher;
use hosting::Found;
use metadata::{Endpoint, MetadataImage};
use model::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Now, Offset, Uuid};
use outgoing::Outgoing;
use raft::{Content, SnapshotPiece, Timeouts};
use replication::{FetchSessionCache, LogHost, PartitionKey, Role};
use serving::HeldFetch;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::OpenFiles;
use storage::boot_id::{forget_boot_id, has_machine_stopped};
use storage::clean_shutdown::{take_clean_shutdown, write_clean_shutdown};
use storage::disk::Disk;
use storage::sim::SimDisk;
use waiting::{Gathering, WaitingAnswer, WaitingMarkers};

use crate::partition::SimPartition;

/// The log directory of every broker.
const LOGS: &str = "/logs";
/// How long a request waits for its answer.
const REQUEST_TIMEOUT_MS: i64 = 2_000;
const UPKEEP_MS: i64 = 500;
const LAG_MAX_MS: i64 = 4_000;
/// How long a coordinator takes at most until it has replayed its log.
const LOAD_DELAY_MS: i64 = 200;

const LIFE: BrokerLifeSettings = BrokerLifeSettings {
    heartbeat_interval_ms: 700,
    session_timeout_ms: 3_000,
    registration_timeout_ms: 600_000,
    log_dir_failure_timeout_ms: 600_000,
};

/// The metadata log of a broker.
fn open_metadata(
    disk: &SimDisk,
    config: &ServerConfig,
    now: Now,
) -> Result<ObservedMetadataLog<SimDisk>, String> {
    let options = ObservedLogOptions {
        directory: PathBuf::from(LOGS),
        node_id: config.node_id,
        fixed_voters: Some(vec![super::controller::CONTROLLER_ID]),
        timeouts: Timeouts::default(),
        config: config.controller.metadata_log,
        now,
    };
    let opened = ObservedMetadataLog::open(disk.clone(), options);
    opened
        .map(|(log, _)| log)
        .map_err(|error| error.to_string())
}

/// What this run of a broker says of itself.
fn registration(
    broker_id: BrokerId,
    incarnation_id: Uuid,
    directory_id: Uuid,
    previous_broker_epoch: BrokerEpoch,
) -> NewRegistration {
    NewRegistration {
        broker_id,
        incarnation_id,
        endpoints: vec![Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: "localhost".to_owned(),
            port: 9092,
            security_protocol: 0,
        }],
        features: controller::broker_features(),
        rack: None,
        directories: vec![directory_id],
        previous_broker_epoch,
        is_migrating_zk_broker: false,
    }
}

/// A broker that runs.
#[derive(Debug)]
pub(super) struct BrokerNode {
    id: BrokerId,
    disk: SimDisk,
    config: Arc<ServerConfig>,
    planted: PlantedInCluster,
    random: Random,
    metadata: ObservedMetadataLog<SimDisk>,
    image: Arc<MetadataImage>,
    /// Which request of the metadata log is under way.
    quorum_request: u64,
    life: BrokerLife,
    is_clean: bool,
    /// Whether what was not synced may be lost.
    has_machine_stopped: bool,
    /// The logs are open, and follow the metadata.
    is_hosting: bool,
    found: Found,
    host: Arc<LogHost<SimDisk>>,
    partitions: BTreeMap<PartitionKey, Arc<SimPartition>>,
    roles: BTreeMap<PartitionKey, Role>,
    fetchers: BTreeMap<BrokerId, Fetcher>,
    sessions: FetchSessionCache,
    held: Vec<HeldFetch>,
    answers: Vec<WaitingAnswer>,
    groups: Groups<Caller>,
    transactions: Transactions<Caller>,
    /// Coordinators that have yet to replay their logs.
    loading: Loading,
    /// Ends of transactions that are on their way, and which of them has asked what.
    endings: BTreeMap<u64, Ending>,
    asked_of: BTreeMap<u64, u64>,
    markers_out: Outgoing<MarkersToWrite>,
    adding_out: Outgoing<PartitionsToAdd>,
    /// Batches whose transactions other brokers are asked about.
    verifying: BTreeMap<u64, Verifying>,
    gatherings: BTreeMap<u64, Gathering>,
    markers: WaitingMarkers,
    number_count: u64,
    producer_ids: Range<i64>,
    /// Who waits for an id of a producer.
    id_askers: Vec<(Caller, protocol::Ask)>,
    is_asking_ids: bool,
    /// The partitions of the request for in-sync replicas that is under way.
    asked_isr: Vec<PartitionKey>,
    upkeep_at: MonotonicTime,
    check_at: MonotonicTime,
}

fn outcomes_of(answer: Option<Answer>) -> Option<Vec<Vec<ErrorCode>>> {
    match answer {
        Some(Answer::Outcomes(outcomes)) => Some(outcomes),
        _ => None,
    }
}

fn known_epoch(image: &MetadataImage, id: BrokerId) -> Option<BrokerEpoch> {
    image.cluster.broker(id).map(|broker| broker.epoch)
}

fn log_host(disk: &SimDisk) -> Arc<LogHost<SimDisk>> {
    let host = LogHost::new(disk.clone(), Arc::new(OpenFiles::new(40)));
    host.leaders().set_lag_max_ms(LAG_MAX_MS);
    Arc::new(host)
}

/// What a start has found in the log directory.
struct Opened {
    metadata: ObservedMetadataLog<SimDisk>,
    directory_id: Uuid,
    is_clean: bool,
    has_machine_stopped: bool,
    previous_broker_epoch: BrokerEpoch,
}

impl Opened {
    fn of(
        disk: &SimDisk,
        config: &ServerConfig,
        planted: PlantedInCluster,
        random: &mut Random,
        now: Now,
    ) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let directory = PathBuf::from(LOGS);
        let _ = disk.create_directory(&directory);
        disk.sync_directory(Path::new("/"))
            .map_err(|error| text(&error))?;
        let paths = [directory.clone()];
        let mut options = DirectoryOptions {
            directories: &paths,
            metadata_directory: &directory,
            node_id: config.node_id,
            new_cluster_id: CLUSTER_ID,
            new_directory_id: &mut || Uuid::from_bytes(random.bytes()),
            new_quorum: None,
            bootstrap_records: &[],
            now_ms: now.wall_ms,
            is_observer: true,
        };
        let found = find_log_directories(disk, &mut options).map_err(|error| text(&error))?;
        let mark = take_clean_shutdown(disk, &directory).map_err(|error| text(&error))?;
        let has_machine_stopped = has_machine_stopped(disk, &directory, Some(&disk.boot_id()))
            .map_err(|error| text(&error))?;
        let metadata = open_metadata(disk, config, now)?;
        let known = known_directories(metadata.image(), config.node_id);
        let directories = found
            .prepare(disk, &mut options, known.as_ref())
            .map_err(|error| text(&error))?;
        let directory_id = directories.id_of(&directory).unwrap_or_default();
        let mut previous_broker_epoch = mark.and_then(|mark| mark.broker_epoch);
        if planted == PlantedInCluster::ClaimsCleanShutdown {
            previous_broker_epoch = known_epoch(metadata.image(), config.node_id);
        }
        Ok(Self {
            metadata,
            directory_id,
            is_clean: mark.is_some(),
            has_machine_stopped,
            previous_broker_epoch: previous_broker_epoch.unwrap_or(BrokerEpoch::NONE),
        })
    }
}

impl BrokerNode {
    /// Starts on what the disk holds.
    pub(super) fn start(
        disk: &SimDisk,
        config: &Arc<ServerConfig>,
        planted: PlantedInCluster,
        mut random: Random,
        now: Now,
    ) -> Result<Self, String> {
        let opened = Opened::of(disk, config, planted, &mut random, now)?;
        let registration = registration(
            config.node_id,
            Uuid::from_bytes(random.bytes()),
            opened.directory_id,
            opened.previous_broker_epoch,
        );
        let mut node = Self {
            id: config.node_id,
            disk: disk.clone(),
            config: config.clone(),
            planted,
            random,
            image: opened.metadata.image().clone(),
            metadata: opened.metadata,
            quorum_request: 0,
            life: BrokerLife::new(LIFE, registration, now.monotonic),
            is_clean: opened.is_clean,
            has_machine_stopped: opened.has_machine_stopped,
            is_hosting: false,
            found: Found::default(),
            host: log_host(disk),
            partitions: BTreeMap::new(),
            roles: BTreeMap::new(),
            fetchers: BTreeMap::new(),
            sessions: FetchSessionCache::new(100),
            held: Vec::new(),
            answers: Vec::new(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            loading: Loading::new(),
            endings: BTreeMap::new(),
            asked_of: BTreeMap::new(),
            markers_out: Outgoing::default(),
            adding_out: Outgoing::default(),
            verifying: BTreeMap::new(),
            gatherings: BTreeMap::new(),
            markers: WaitingMarkers::default(),
            number_count: 0,
            producer_ids: 0..0,
            id_askers: Vec::new(),
            is_asking_ids: false,
            asked_isr: Vec::new(),
            upkeep_at: now.monotonic.plus_ms(UPKEEP_MS),
            check_at: now.monotonic.plus_ms(LAG_MAX_MS / 2),
        };
        match planted {
            PlantedInCluster::DeletesStraysEarly => {
                node.delete_strays(&MetadataImage::default())?;
            }
            PlantedInCluster::LeadsByOldMetadata => {
                node.begin_hosting(now, &mut Outbox::default())?;
            }
            _ => {}
        }
        Ok(node)
    }

    /// Takes a request.
    pub(super) fn serve(
        &mut self,
        caller: Caller,
        ask: Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        self.host.leaders().note_time(now.monotonic);
        match ask {
            Ask::Leaders => out.answer(caller, Answer::Leaders(self.leaders())),
            Ask::Client(ask, leader_epoch) => {
                self.serve_client(caller, ask, leader_epoch, now, out)?;
            }
            Ask::EndOffset {
                log,
                leader_epoch,
                is_committed,
            } => {
                let end_offset = self.end_offset(log, leader_epoch, is_committed);
                out.answer(caller, Answer::EndOffset(end_offset));
            }
            Ask::EpochEnd {
                log,
                leader_epoch,
                epoch,
            } => {
                let end = self.epoch_end(log, leader_epoch, epoch);
                out.answer(caller, Answer::EpochEnd(end));
            }
            Ask::WriteMarkers(all) => self.take_markers(caller, all, now, out)?,
            Ask::AddPartitions(all) => self.take_partitions(caller, &all, now, out)?,
            Ask::ReplicaFetch(bytes) => self.replica_fetch(caller, &bytes, now, out),
            Ask::ReplicaListOffsets(bytes) => self.replica_list_offsets(caller, &bytes, out),
            Ask::Quorum(..) | Ask::Control(_) => {}
        }
        self.poll(now, out)
    }

    /// Takes an answer, or that there is none.
    pub(super) fn answered(
        &mut self,
        channel: Channel,
        answer: Option<Answer>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        self.host.leaders().note_time(now.monotonic);
        match channel {
            Channel::Quorum => self.quorum_answered(answer, now, out)?,
            Channel::Heartbeats => self.life_answered(answer, now)?,
            Channel::InSyncReplicas => self.isr_answered(answer, now),
            Channel::Controller => self.ids_answered(answer, now, out)?,
            Channel::Markers(leader) => {
                for (asked, outcomes) in self.markers_out.answered(leader, outcomes_of(answer)) {
                    self.markers_answered(asked, &outcomes, now, out)?;
                }
            }
            Channel::Verification(coordinator) => {
                let told = self.adding_out.answered(coordinator, outcomes_of(answer));
                for (number, outcomes) in told {
                    self.verified(number, &outcomes, now, out)?;
                }
            }
            Channel::Fetcher(leader) => self.fetcher_answered(leader, answer, now)?,
            Channel::Client(_) => {}
        }
        self.poll(now, out)
    }

    fn quorum_answered(
        &mut self,
        answer: Option<Answer>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let number = self.quorum_request;
        let Some(Answer::Quorum {
            error,
            leader,
            content,
        }) = answer
        else {
            let taken = self
                .metadata
                .handle_answer(number, raft::Answer::Nothing, now);
            return taken.map(drop).map_err(|error| error.to_string());
        };
        let content = match &content {
            QuorumContent::Records {
                bytes,
                high_watermark,
            } => Content::Records {
                bytes,
                high_watermark: Offset(*high_watermark),
            },
            QuorumContent::Diverging(end) => Content::Diverging(*end),
            QuorumContent::SnapshotId(id) => Content::SnapshotId(*id),
            QuorumContent::Piece {
                id,
                size_bytes,
                position,
                bytes,
            } => Content::Piece(SnapshotPiece {
                id: *id,
                size_bytes: *size_bytes,
                position: *position,
                bytes,
            }),
        };
        let answer = raft::Answer::Answer {
            error,
            leader,
            content,
        };
        match self.metadata.handle_answer(number, answer, now) {
            Ok(Some(change)) => self.publish(&change, now, out)?,
            Ok(None) => {}
            Err(error) if error.is_final() => return Err(error.to_string()),
            Err(_) => {}
        }
        if let Some(job) = self.metadata.snapshot_due(now.wall_ms) {
            let written = job.run(now.wall_ms);
            let _ = self.metadata.complete_snapshot(written, now.wall_ms);
        }
        if !self.is_hosting && self.is_registration_followed() {
            self.begin_hosting(now, out)?;
        }
        Ok(())
    }

    /// Whether the metadata have caught up, and have the registration of this run.
    fn is_registration_followed(&self) -> bool {
        let known = self.metadata.image().cluster.broker(self.id);
        self.metadata.has_caught_up()
            && known.is_some_and(|broker| Some(broker.epoch) == self.life.broker_epoch())
    }

    fn publish(
        &mut self,
        change: &MetadataChange,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        self.life
            .note_metadata(change.delta.after.provenance.last_offset);
        if self.is_hosting {
            self.apply(&change.delta, now)?;
        }
        self.image = change.delta.after.clone();
        if self.is_hosting {
            self.coordinators_follow(&change.delta, now, out)?;
        }
        Ok(())
    }

    fn life_answered(&mut self, answer: Option<Answer>, now: Now) -> Result<(), String> {
        let now = now.monotonic;
        let Some(Answer::Control(answer)) = answer else {
            self.life.handle_failure(now);
            return Ok(());
        };
        match answer.map(|response| *response) {
            Ok(ControllerResponse::RegisterBroker(registered)) => {
                let registered = registered.map_err(|error| error.code);
                let registered = self.life.handle_registered(registered, now);
                registered.map_err(|error| error.to_string())?;
            }
            Ok(ControllerResponse::BrokerHeartbeat(standing)) => {
                self.life
                    .handle_heartbeat(standing.map_err(|error| error.code), now);
            }
            Ok(_) | Err(_) => self.life.handle_failure(now),
        }
        Ok(())
    }

    fn ids_answered(
        &mut self,
        answer: Option<Answer>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        self.is_asking_ids = false;
        if let Some(Answer::Control(Ok(response))) = answer
            && let ControllerResponse::AllocateProducerIds(Ok(block)) = *response
        {
            self.producer_ids = block.first..block.first + block.count;
            for (caller, ask) in std::mem::take(&mut self.id_askers) {
                self.serve_producer_id(caller, ask, now, out)?;
            }
        }
        Ok(())
    }

    /// Gives a producer an id: a new one, or that of its transactional id.
    fn serve_producer_id(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let has_name = !matches!(
            ask,
            protocol::Ask::InitProducerId {
                transactional_id: None,
                ..
            }
        );
        if has_name {
            return self.serve_transaction(caller, ask, now, out);
        }
        match self.producer_ids.next() {
            Some(id) => {
                let producer = ProducerKey { id, epoch: 0 };
                let error = ErrorCode::None;
                out.tell(caller, protocol::Answer::Producer { error, producer });
            }
            None => self.id_askers.push((caller, ask)),
        }
        Ok(())
    }

    /// Does all that is due, and asks for what is next.
    pub(super) fn poll(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        self.host.leaders().note_time(now.monotonic);
        if let Some(request) = self.metadata.poll_request(now) {
            self.quorum_request = request.number;
            let ask = Ask::Quorum(self.id, request);
            out.ask(0, Channel::Quorum, ask, REQUEST_TIMEOUT_MS);
        }
        let request = self.life.poll_request(now.monotonic);
        if let Some(request) = request.map_err(|error| error.to_string())? {
            let request: ControllerRequest = match request {
                BrokerLifeRequest::Register(register) => register.into(),
                BrokerLifeRequest::Heartbeat(beat) => beat.into(),
            };
            let ask = Ask::Control(Box::new(request));
            out.ask(0, Channel::Heartbeats, ask, REQUEST_TIMEOUT_MS);
        }
        self.ask_producer_ids(out);
        self.propose_isr(now, out);
        self.poll_fetchers(now, out);
        if self.upkeep_at <= now.monotonic {
            self.upkeep_at = now.monotonic.plus_ms(UPKEEP_MS);
            self.keep_up(now)?;
            self.abort_timed_out(now)?;
        }
        if self.check_at <= now.monotonic {
            self.check_at = now.monotonic.plus_ms(LAG_MAX_MS / 2);
            self.check_followers(now);
        }
        self.keep_coordinating(now, out)?;
        self.go_on(now, out);
        self.poll_waiting(now, out)?;
        self.poll_coordinators(now, out)?;
        self.markers_out.poll(out);
        self.adding_out.poll(out);
        Ok(())
    }

    fn ask_producer_ids(&mut self, out: &mut Outbox) {
        let Some(broker_epoch) = self.life.broker_epoch() else {
            for (caller, ask) in self.id_askers.drain(..) {
                out.tell(caller, ask.refused(ErrorCode::CoordinatorNotAvailable));
            }
            return;
        };
        if !self.id_askers.is_empty() && !self.is_asking_ids {
            self.is_asking_ids = true;
            let request = AllocateProducerIds {
                broker_id: self.id,
                broker_epoch,
            };
            let ask = Ask::Control(Box::new(request.into()));
            out.ask(0, Channel::Controller, ask, REQUEST_TIMEOUT_MS);
        }
    }

    /// When it has to be asked next.
    pub(super) fn next_deadline(&self) -> MonotonicTime {
        let deadlines = [
            self.metadata.next_deadline(),
            self.life.next_deadline(),
            self.fetchers_deadline(),
            self.host
                .leaders()
                .with_proposals(|proposals| proposals.retry_at()),
            self.held.iter().map(HeldFetch::deadline).min(),
            self.answers.iter().map(|one| one.deadline).min(),
            self.markers.deadline(),
            self.coordinators_deadline(),
            Some(self.check_at),
        ];
        let deadlines = deadlines.into_iter().flatten();
        deadlines.fold(self.upkeep_at, MonotonicTime::min)
    }

    /// Begins a controlled shutdown, which takes no longer than until `deadline`.
    pub(super) fn begin_shutdown(&mut self, deadline: MonotonicTime, now: Now) {
        self.life.begin_shutdown(deadline, now.monotonic);
    }

    /// Whether it may stop.
    pub(super) fn may_stop(&self) -> bool {
        self.life.state() == BrokerState::ShuttingDown
    }

    /// Whether it takes connections.
    pub(super) const fn is_listening(&self) -> bool {
        self.is_hosting
    }

    /// Whether it serves, unfenced.
    pub(super) fn is_running(&self) -> bool {
        self.life.state() == BrokerState::Running && !self.life.is_fenced()
    }

    /// Stops: every log is closed, and the directory says so.
    pub(super) fn stop(mut self, now: Now) -> Result<(), String> {
        for partition in self.partitions.values() {
            partition
                .close(now.wall_ms, true)
                .map_err(|error| error.to_string())?;
        }
        if self.is_hosting {
            self.write_checkpoints()?;
        }
        self.metadata
            .close(now.wall_ms)
            .map_err(|error| error.to_string())?;
        let epoch = self.life.broker_epoch();
        if let Some(epoch) = epoch.filter(|_| self.is_hosting) {
            let directory = Path::new(LOGS);
            write_clean_shutdown(&self.disk, directory, epoch)
                .and_then(|()| forget_boot_id(&self.disk, directory))
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Every replica as it is now.
    pub(super) fn views(&self) -> Vec<ReplicaView> {
        let partitions = self.partitions.values();
        let views = partitions.map(|partition| {
            let offsets = partition.offsets();
            ReplicaView {
                broker: self.id,
                log: partition.key(),
                is_leader: partition.role().is_leader(),
                leader_epoch: offsets.leader_epoch,
                log_start_offset: offsets.log_start_offset.0,
                last_stable_offset: offsets.last_stable_offset.0,
                high_watermark: offsets.high_watermark.0,
                log_end_offset: offsets.log_end_offset.0,
            }
        });
        views.collect()
    }

    /// Whether a replica is of this topic.
    pub(super) fn is_of(&self, log: Log, topic: &str) -> bool {
        self.partitions
            .get(&log)
            .is_some_and(|one| one.topic() == topic)
    }

    /// All records of a replica.
    pub(super) fn records(&self, log: Log) -> Result<Vec<ReplicaRecord>, String> {
        let Some(partition) = self.partitions.get(&log) else {
            return Ok(Vec::new());
        };
        let offsets = partition.offsets();
        let mut records = Vec::new();
        let mut at = offsets.log_start_offset;
        while at < offsets.log_end_offset {
            let bytes = partition
                .read_bytes(at, 1 << 16)
                .map_err(|error| format!("{error:?}"))?;
            let (found, end) = records_of(&bytes)?;
            records.extend(found.into_iter().filter(|one| one.0 >= at.0));
            match end {
                Some(end) if end > at.0 => at = Offset(end),
                _ => break,
            }
        }
        Ok(records)
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_at_rest(&self) -> bool {
        self.answers.is_empty() && self.id_askers.is_empty() && self.is_coordination_at_rest()
    }
}
