//! Starting and stopping: read from top to bottom, this is how a server is put together.

mod directories;
mod observing;
mod publishers;
mod registration;

use self::directories::{LockedDirectories, Marks, owned, take_marks};
use self::registration::{registration, voter_endpoints};
use crate::api::ListenerService;
use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::api::fetch_sessions::FetchSessions;
use crate::controller::controller_thread::{self, ControllerParts, Unstarted};
use crate::controller::link::ControllerLink;
use crate::controller::metadata_loader::{MetadataPublisher, Waiting};
use crate::coordinators::Coordinators;
use crate::coordinators::group_settings::{
    group_config, offsets_commit_limit, offsets_compression,
};
use crate::coordinators::groups::Groups;
use crate::coordinators::runtime::CoordinatorContext;
use crate::coordinators::threads::CoordinatorThreads;
use crate::coordinators::transactions::{self, Transactions};
use crate::logs::directory_failures;
use crate::logs::failed_logs::{self, FailedLog, FailedLogs};
use crate::logs::log_directories::{self, LogDirectory};

use crate::logs::{
    Logs, cleaner, closing_log_dirs, found_logs, future_replicas, maintenance, new_partitions,
};
use crate::net::{
    AnswerMemory, BoundListener, BoundSocket, ByteBudget, ConnectionLimits, Listeners,
    RequestMemory, SocketSettings, Sockets, connection_limits,
};
use crate::peers::connections::PeerConnections;
use crate::peers::forwarding::Forwarding;
use crate::peers::isr_changes;
use crate::peers::lifecycle::BrokerLifecycle;
use crate::peers::replica_fetchers::{Followers, ReplicaFetchers};
use crate::peers::transactions::OtherBrokers;
use crate::scheduling::clock::{self, now, now_ms, random_bytes, random_uuid};
use crate::scheduling::heavy_work::{ASIDE, HeavyWork};
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::scheduling::reserve::{Reserve, ReserveEnd};
use crate::settings::file_shares::FileShares;
use crate::settings::loggers::Loggers;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::metadata_log::{
    DirectoryOptions, LoadedMetadataLog, LocalVoter, LogDirectories, MetadataLog,
    MetadataLogOptions, find_log_directories, known_directories,
};
use controller::{
    Controller, ControllerContext, PlaceFoundReplicas, RegisterBroker, Request, UnfenceBroker,
};
use metadata::{MetadataImage, MetadataRecord, MetadataVersion, VoterEndpoint};
use model::BrokerEpoch;
use replication::LogHost;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::directory_lock::DirectoryLock;
use storage::{OpenFiles, RealDisk};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

/// A server that runs until it is stopped.
#[derive(Debug)]
pub struct Server {
    broker: Arc<Broker>,
    tasks: Tasks,
    /// Of a broker that follows another node's controller.
    lifecycle: Option<BrokerLifecycle>,
    _metadata_lock: Option<DirectoryLock>,
    _reserve: ReserveEnd,
}

/// What a server needs to know of its process.
#[derive(Debug, Default)]
pub struct ServerOptions {
    /// What the process logs.
    pub loggers: Loggers,
    /// So many workers of the runtime are kept in reserve, for those that are lost to a disk that is
    /// stuck: the runtime has been made with so many more; see [`reserve_workers`]. Without them a
    /// disk that is stuck when every worker uses it holds up everybody.
    pub reserve_workers: usize,
}

/// More than half as many disks are not stuck at a time.
const RESERVE_WORKERS_MAX: usize = 16;

/// How many workers the runtime of a server should have in reserve: of each log directory one for those
/// who read, and one for those who write.
pub fn reserve_workers(config: &ServerConfig) -> usize {
    (2 * config.log.log_dirs.len()).clamp(2, RESERVE_WORKERS_MAX)
}

impl Server {
    /// Starts a broker and controller. Clients can connect when this returns.
    ///
    /// Half of the files that the process may open are for connections, and the rest for logs,
    /// however many there are. The limit is the process's own: who embeds a server raises it
    /// before, as the command `server` does.
    ///
    /// # Errors
    /// A [`StartError`], which says what to do about it.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        Self::start_with(config, ServerOptions::default()).await
    }

    /// The same for a process of which more is known.
    ///
    /// # Errors
    /// A [`StartError`], which says what to do about it.
    pub async fn start_with(
        config: ServerConfig,
        options: ServerOptions,
    ) -> Result<Self, StartError> {
        starting(config, options).await
    }

    /// The id of the cluster, which its first start has chosen.
    pub fn cluster_id(&self) -> &str {
        &self.broker.node.cluster_id
    }

    /// The addresses that the server listens on, with the names of the listeners.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let listeners = self.broker.sockets.listeners.iter();
        listeners
            .map(|one| (one.name.clone(), one.address))
            .collect()
    }

    /// Waits until the server cannot go on: its metadata log or every log directory has failed.
    /// Gives the reason. It has been logged, and the process is to end at once, without
    /// [`Server::stop`].
    pub async fn halted(&self) -> String {
        let mut halted = self.broker.node.halted.subscribe();
        let reason = halted.wait_for(|reason| !reason.is_empty()).await;
        reason.expect("the broker is there").clone()
    }

    /// How many logs are open, and how many idle ones were opened to become so and are not noted as
    /// durable yet: upkeep and the next start cost in proportion to both.
    pub fn log_counts(&self) -> (usize, usize) {
        let logs = &self.broker.logs.host;
        (logs.open_logs().len(), logs.unsettled_logs().len())
    }

    /// Stops: no more requests, every log closed, each log directory marked as shut down cleanly. One
    /// whose disk is stuck is not waited for without end, and has no mark.
    pub async fn stop(self) {
        stopping(self).await;
    }
}

/// Work whose type its caller does not know: so that it is compiled here, once, and not again in each
/// program that starts a server.
type Erased<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn starting(config: ServerConfig, options: ServerOptions) -> Erased<Result<Server, StartError>> {
    Box::pin(start(config, options))
}

fn stopping(server: Server) -> Erased<()> {
    Box::pin(stop(server))
}

async fn start(config: ServerConfig, options: ServerOptions) -> Result<Server, StartError> {
    let ServerOptions {
        loggers,
        reserve_workers,
    } = options;
    check_supported(&config)?;
    let (listeners, sockets) = bind(&config).await?;
    let reserve = Reserve::fill(reserve_workers, &Handle::current()).await;
    let reserve = ReserveEnd(reserve);
    if !config.roles.controller {
        let bound = observing::Bound {
            listeners,
            sockets,
            reserve,
        };
        return observing::start(config, bound, loggers).await;
    }
    let start = move || open(config, listeners, loggers);
    let opened = tokio::task::spawn_blocking(start)
        .await
        .expect("opening does not panic")?;
    let broker = opened.broker;
    let parts = ControllerParts {
        config: broker.node.config.clone(),
        publishers: opened.publishers,
        halt: publishers::halt(&broker),
    };
    let controller = opened.controller_thread.start(opened.controller, parts);
    controller.map_err(no_thread)?;
    let mut tasks = begin(&broker, opened.failures, &reserve)?;
    // Only now: whoever can connect is served.
    tasks.extend(accept(&broker, sockets)?);
    Ok(Server {
        broker,
        tasks,
        lifecycle: None,
        _metadata_lock: opened.metadata_lock,
        _reserve: reserve,
    })
}

type Tasks = Vec<tokio::task::JoinHandle<()>>;

/// Begins all that a broker does by itself.
fn begin(
    broker: &Arc<Broker>,
    failures: UnboundedReceiver<FailedLog>,
    reserve: &ReserveEnd,
) -> Result<Tasks, StartError> {
    let watching = broker
        .logs
        .disks
        .start(broker.node.runtime.clone(), reserve.0.clone());
    watching.map_err(no_thread)?;
    maintenance::start(&broker.logs);
    cleaner::start(&broker.logs);
    future_replicas::start(&broker.logs);
    Ok(vec![
        tokio::spawn(clock::keep_pulse()),
        tokio::spawn(failed_logs::act(broker.logs.clone(), failures)),
        tokio::spawn(directory_failures::report_all(broker.logs.clone())),
        tokio::spawn(isr_changes::ask_for_all(broker.logs.clone())),
        tokio::spawn(isr_changes::check_all(broker.logs.clone())),
        tokio::spawn(broker.coordinators.groups.clone().keep_time()),
        tokio::spawn(transactions::keep_time(broker.coordinators.clone())),
    ])
}

/// Lets clients connect.
fn accept(broker: &Arc<Broker>, sockets: Vec<BoundSocket>) -> Result<Tasks, StartError> {
    let mut tasks = Vec::new();
    for (listener, socket) in broker.sockets.listeners.iter().zip(sockets) {
        let socket = socket.listen().map_err(|source| {
            broker.node.stop.send_replace(true);
            StartError::Bind {
                listener: listener.name.clone(),
                address: listener.address.to_string(),
                source,
            }
        })?;
        let service = match listener.is_controller {
            true => ListenerService::Controller(broker.controller_node.clone()),
            false => ListenerService::Broker(broker.clone()),
        };
        let (sockets, service) = (broker.sockets.clone(), Arc::new(service));
        let accepting = listener.clone().accept(socket, sockets, service);
        tasks.push(tokio::spawn(accepting));
    }
    Ok(tasks)
}

fn no_thread(error: impl std::fmt::Display) -> StartError {
    StartError::Unsupported(format!("no thread can be started: {error}"))
}

async fn stop(server: Server) {
    if let Some(lifecycle) = &server.lifecycle {
        observing::hand_over(&server.broker, lifecycle).await;
    }
    server.broker.node.stop.send_replace(true);
    for task in server.tasks {
        task.abort();
        let _ = task.await;
    }
    let broker = server.broker.clone();
    let settling = async {
        // From here on no log is made, and none goes: those that are closed are all of them.
        let _ = broker.controller.settle().await;
        new_partitions::note_places(&broker.logs).await;
    };
    if tokio::time::timeout(closing_log_dirs::STUCK, settling)
        .await
        .is_err()
    {
        tracing::error!("a disk that does not answer keeps the metadata from being followed");
    }
    let closing = broker.controller.close();
    let is_metadata_closed = match tokio::time::timeout(closing_log_dirs::STUCK, closing).await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            tracing::error!(%error, "the metadata log was not shut down cleanly");
            false
        }
        Ok(Err(_)) => false,
        Err(_) => {
            let directory = &broker.node.config.log.metadata_log_dir;
            tracing::error!(
                directory,
                "the metadata log was not shut down cleanly: its disk does not answer"
            );
            false
        }
    };
    let logs = broker.logs.clone();
    let leave = move || closing_log_dirs::leave(&logs, is_metadata_closed);
    let _ = tokio::task::spawn_blocking(leave).await;
    broker.coordinators.end();
}

/// What a configuration may ask for and this build does not do.
fn check_supported(config: &ServerConfig) -> Result<(), StartError> {
    let refuse = |what: &str| Err(StartError::Unsupported(what.to_owned()));
    if !config.roles.broker {
        return refuse(
            "this version runs no controller by itself: set `process.roles=broker,controller`",
        );
    }
    if config.roles.controller
        && config
            .controller
            .quorum
            .voters
            .iter()
            .any(|voter| voter.id != config.node_id)
    {
        return refuse(
            "`controller.quorum.voters` may name this node only: there is one controller",
        );
    }
    if config.security.authorizer_class_name.is_some() {
        return refuse(
            "`authorizer.class.name` is not supported yet; without it every client may do everything",
        );
    }
    if config.remote_storage_enable {
        return refuse(
            "tiered storage is not supported: remove `remote.log.storage.system.enable`",
        );
    }
    let served = config.listeners.check_served();
    served.map_err(|error| StartError::Unsupported(error.to_string()))
}

/// Both buffers are the kernel's to fit to each connection unless a size was given: Kafka's default
/// of 100 KiB lets the sender of a fetch sleep and wake once for every 60 KiB.
fn socket_settings(config: &ServerConfig) -> SocketSettings {
    let network = &config.network;
    let given = |key: &str, bytes: Option<i32>| {
        let bytes = bytes.filter(|_| config.values.contains_key(key));
        bytes.and_then(|bytes| u32::try_from(bytes).ok())
    };
    let (send, receive) = (
        network.socket_send_buffer_bytes,
        network.socket_receive_buffer_bytes,
    );
    SocketSettings {
        backlog: network.socket_listen_backlog_size.max(1).unsigned_abs(),
        send_buffer_bytes: given("socket.send.buffer.bytes", send),
        receive_buffer_bytes: given("socket.receive.buffer.bytes", receive),
        loopback_pacing: network.loopback_pacing,
    }
}

/// Takes the ports, so that one that is in use is known before any file is touched. Nobody can
/// connect yet.
async fn bind(config: &ServerConfig) -> Result<(Listeners, Vec<BoundSocket>), StartError> {
    let mut bound = Listeners::new();
    let mut sockets = Vec::new();
    let settings = socket_settings(config);
    for endpoint in &config.listeners.bound {
        let is_controller = config.listeners.is_controller(&endpoint.listener);
        let advertised = config
            .listeners
            .advertised_to_clients
            .iter()
            .find(|one| one.listener == endpoint.listener)
            .filter(|_| config.values.contains_key("advertised.listeners"));
        let listener = BoundListener::bind(
            endpoint.listener.as_str(),
            &endpoint.host,
            endpoint.port,
            settings,
            advertised.map(|one| (one.host.clone(), one.port)),
            is_controller,
        );
        let (listener, socket) = listener.await.map_err(|source| StartError::Bind {
            listener: endpoint.listener.to_string(),
            address: format!("{}:{}", endpoint.host, endpoint.port),
            source,
        })?;
        bound.push(Arc::new(listener));
        sockets.push(socket);
    }
    Ok((bound, sockets))
}

/// What is there once every file is open.
struct Opened {
    broker: Arc<Broker>,
    controller: Controller<Waiting>,
    controller_thread: Unstarted,
    /// They have the metadata that the controller has.
    publishers: Vec<Box<dyn MetadataPublisher>>,
    failures: UnboundedReceiver<FailedLog>,
    /// The lock of `metadata.log.dir`, when it is none of `log.dirs`.
    metadata_lock: Option<DirectoryLock>,
}

/// Everything that reads and writes files before the first request.
fn open(
    config: ServerConfig,
    listeners: Listeners,
    loggers: Loggers,
) -> Result<Opened, StartError> {
    let LockedDirectories {
        paths,
        metadata_directory,
        usable,
        locks,
        metadata_lock,
    } = LockedDirectories::lock(&config)?;
    let OpenedMetadata {
        directories: prepared,
        log,
        marks,
    } = open_metadata(&config, &usable, metadata_directory, &listeners)?;
    let clean: Vec<bool> = paths.iter().map(|path| marks.is_clean(path)).collect();
    let previous_broker_epoch = marks.broker_epoch(&paths);
    let directories = owned(&paths, locks, &prepared, &marks)?;
    let (link, controller_thread) = controller_thread::new();
    let (failed_logs, failures) = FailedLogs::new();
    let broker = Arc::new(new_broker(
        config,
        prepared.cluster_id,
        listeners,
        directories,
        (link, None),
        failed_logs,
        loggers,
    )?);
    let state = publishers::State(Arc::downgrade(&broker));
    broker.logs.set_users(Box::new(state));
    // Where partitions are decides which of them can have a leader.
    let registered = log.image().cluster.broker(broker.node.id);
    let registered = registered.map(|one| &*one.directories);
    let places = found_logs::find_all(&broker.logs, log.image(), &clean, registered)?;
    let config = broker.node.config.clone();
    let mut starting = StartingController {
        controller: Controller::new(log, &ControllerContext::new(&config), now()),
        config,
    };
    starting.decide(PlaceFoundReplicas {
        broker_id: broker.node.id,
        found: places.found.clone(),
    })?;
    starting.register(&broker, previous_broker_epoch)?;
    let publishers = publishers::all(&broker, places);
    let change = starting.controller.change_at_start();
    for publisher in &publishers {
        publisher.publish_start(&change)?;
    }
    Ok(Opened {
        broker,
        controller: starting.controller,
        controller_thread,
        publishers: publishers.into_iter().map(|one| one as _).collect(),
        failures,
        metadata_lock,
    })
}

/// The metadata log, and the log directories that the metadata are about.
struct OpenedMetadata {
    directories: LogDirectories,
    log: MetadataLog,
    marks: Marks,
}

/// Makes `directories` those of this node, and opens the metadata log in one of them.
fn open_metadata(
    config: &ServerConfig,
    directories: &[PathBuf],
    metadata_directory: PathBuf,
    listeners: &Listeners,
) -> Result<OpenedMetadata, StartError> {
    let chosen_id = config.new_cluster_id.clone();
    let new_cluster_id = chosen_id.unwrap_or_else(|| random_uuid().to_string());
    let bootstrap_records = controller::bootstrap::bootstrap_records(MetadataVersion::LATEST);
    let endpoints = voter_endpoints(listeners);
    let has_fixed_voters = !config.controller.quorum.voters.is_empty();
    let mut options = DirectoryOptions {
        directories,
        metadata_directory: &metadata_directory,
        node_id: config.node_id,
        new_cluster_id: &new_cluster_id,
        new_directory_id: &mut random_uuid,
        new_quorum: (!has_fixed_voters).then(|| endpoints.clone()),
        bootstrap_records: &bootstrap_records,
        is_observer: false,
        now_ms: now_ms(),
    };
    let found = find_log_directories(&RealDisk, &mut options)?;
    let loaded = load_metadata_log(
        config,
        found.prepared(),
        metadata_directory.clone(),
        endpoints,
        bootstrap_records.clone(),
    )?;
    let known = known_directories(loaded.image(), config.node_id);
    let directories = found.prepare(&RealDisk, &mut options, known.as_ref())?;
    for (path, error) in &directories.failed {
        log_directories::log_unusable(path, error);
    }
    if let Some(chosen) = &config.new_cluster_id
        && directories.cluster_id != *chosen
    {
        tracing::warn!(
            "CLUSTER_ID is {chosen}, and the log directories belong to the cluster {}: they stay \
             as they are",
            directories.cluster_id
        );
    }
    // Before anything is appended: a crash from here on is no clean shutdown.
    let marks = take_marks(&directories, &metadata_directory)?;
    let opened = loaded.lead(now_ms())?;
    for event in &opened.events {
        tracing::warn!("{event}");
    }
    Ok(OpenedMetadata {
        directories,
        log: opened.log,
        marks,
    })
}

fn load_metadata_log(
    config: &ServerConfig,
    prepared: &LogDirectories,
    directory: PathBuf,
    endpoints: Vec<VoterEndpoint>,
    bootstrap_records: Vec<MetadataRecord>,
) -> Result<LoadedMetadataLog<RealDisk>, StartError> {
    let directory_id = prepared.id_of(&directory).unwrap_or_default();
    let voters = &config.controller.quorum.voters;
    let loaded = MetadataLog::load(
        RealDisk,
        MetadataLogOptions {
            directory,
            local: LocalVoter {
                id: config.node_id,
                directory_id,
                endpoints,
            },
            fixed_voters: (!voters.is_empty()).then(|| voters.iter().map(|one| one.id).collect()),
            bootstrap_records,
            min_insync_replicas: config.topics.min_insync_replicas,
            config: config.controller.metadata_log,
            now_ms: now_ms(),
        },
    )?;
    Ok(loaded)
}

/// The fetchers of a broker's partitions, which learn of what they are to follow.
fn replica_fetchers_of(logs: &Arc<Logs>) -> Arc<ReplicaFetchers> {
    let replica_fetchers = Arc::new(ReplicaFetchers::new(logs));
    logs.set_followers(Box::new(Followers(Arc::downgrade(&replica_fetchers))));
    replica_fetchers
}

fn new_broker(
    config: ServerConfig,
    cluster_id: String,
    listeners: Listeners,
    log_directories: Vec<Arc<LogDirectory>>,
    (controller, forwarding): (ControllerLink, Option<Forwarding>),
    failed_logs: FailedLogs,
    loggers: Loggers,
) -> Result<Broker, StartError> {
    let network = &config.network;
    let (limits, unknown) = connection_limits(&config);
    if let Some(error) = unknown.into_iter().next() {
        return Err(error);
    }
    let request_memory_bytes = network
        .queued_max_request_bytes
        .and_then(|bytes| u64::try_from(bytes).ok());
    let runtime = Handle::current();
    let host = log_host(&log_directories);
    host.leaders()
        .set_lag_max_ms(config.replication.replica_lag_time_max_ms);
    let sessions = network.max_incremental_fetch_session_cache_slots.max(0) as usize;
    let (controller_memory, groups) = (
        controller_memory(network.socket_request_max_bytes),
        group_config(&config, &MetadataImage::default()),
    );
    let (compression, limit) = (offsets_compression(&config), offsets_commit_limit(&config));
    let node = Arc::new(Node::new(config, cluster_id, loggers, runtime.clone()));
    let logs = Logs::new(node.clone(), controller.clone(), log_directories, host);
    let (disks, config) = (&logs.disks, &node.config);
    let threads = config.groups.coordinator.threads.max(1).unsigned_abs() as usize;
    let threads = CoordinatorThreads::start(threads, disks.clone(), runtime.clone());
    let threads = Arc::new(threads.map_err(no_thread)?);
    let surroundings = CoordinatorContext {
        threads: threads.clone(),
        failed_logs,
        disks: disks.clone(),
        runtime,
    };
    let groups = Groups::new(groups, compression, limit, surroundings.clone());
    let transactions = Transactions::new(config, surroundings);
    let logs = Arc::new(logs);
    let replica_fetchers = replica_fetchers_of(&logs);
    let coordinators = Coordinators::new(node.clone(), logs.clone(), groups, transactions, threads);
    let others = OtherBrokers::new(&node, &Arc::new(PeerConnections::new(config)));
    coordinators.set_peers(Arc::new(others));
    let heavy_work = Arc::new(HeavyWork::default());
    let sockets = Sockets {
        node: node.clone(),
        logs: Some(logs.clone()),
        heavy_work: heavy_work.clone(),
        listeners,
        client_limits: ConnectionLimits::new(limits.clone()),
        controller_limits: ConnectionLimits::new(limits),
        request_memory: RequestMemory::new(request_memory_bytes),
        answer_memory: AnswerMemory::new(request_memory_bytes),
        controller_memory,
        unaccepted: LogRateLimit::default(),
    };
    let (sockets, logs_of_clients) = (Arc::new(sockets), Some(logs.clone()));
    let cluster_node = |controller, logs| {
        Arc::new(ClusterNode {
            node: node.clone(),
            sockets: sockets.clone(),
            heavy_work: heavy_work.clone(),
            controller,
            forwarding: forwarding.clone(),
            logs,
            strangers: Arc::default(),
        })
    };
    Ok(Broker {
        controller_node: cluster_node(controller.for_others(), None),
        cluster_node: cluster_node(controller, logs_of_clients),
        coordinators,
        logs,
        replica_fetchers,
        fetch_sessions: FetchSessions::new(sessions),
    })
}

/// The memory of requests that are before the controller: as much as one may be long.
fn controller_memory(socket_request_max_bytes: i32) -> Arc<ByteBudget> {
    ByteBudget::new(
        "requests that are before the controller use all of their memory, and others wait",
        Some(socket_request_max_bytes.max(1).unsigned_abs().into()),
    )
}

/// What the logs share.
fn log_host(directories: &[Arc<LogDirectory>]) -> LogHost {
    let open_files = OpenFiles::new(FileShares::of_process().logs).with_aside(ASIDE);
    let roots = directories.iter().filter(|one| one.is_usable());
    let roots: Vec<_> = roots.map(|one| std::fs::File::open(one.path())).collect();
    // One that is missing would keep its files from being synced with the others.
    if roots.iter().all(Result::is_ok) {
        roots
            .into_iter()
            .flatten()
            .for_each(|root| open_files.add_root(root));
    }
    let host = LogHost::new(RealDisk, Arc::new(open_files));
    for directory in directories {
        // Partitions count them in this order from here on.
        host.directory_index_of(directory.shared_name());
    }
    host
}

/// The controller at a start, before anybody lives by the metadata.
struct StartingController {
    controller: Controller<Waiting>,
    config: ServerConfig,
}

impl StartingController {
    fn decide<R: Request>(&mut self, request: R) -> Result<R::Response, StartError> {
        let context = ControllerContext::new(&self.config);
        let nobody = Waiting::nobody();
        let controller = &mut self.controller;
        let decided =
            controller.decide_at_start(request, nobody, &context, now(), &mut random_bytes);
        Ok(decided?)
    }

    fn image(&self) -> &Arc<MetadataImage> {
        self.controller.log.image()
    }

    /// Registers this run of the broker, and unfences it: whoever has the metadata log has caught up.
    fn register(
        &mut self,
        broker: &Broker,
        previous_broker_epoch: BrokerEpoch,
    ) -> Result<(), StartError> {
        let broker_id = broker.node.id;
        let broker_epoch = self.decide(RegisterBroker {
            registration: registration(broker, previous_broker_epoch),
            detects_clean_shutdown: true,
        })??;
        self.decide(UnfenceBroker {
            broker_id,
            broker_epoch,
        })??;
        let known = &broker.node.broker_epoch;
        known.store(broker_epoch.0, Ordering::Release);
        // What is in force is not that of the image yet.
        let config = broker.node.config_as_of(self.image());
        let config = config.unwrap_or_else(|_| self.config.clone());
        if let Some(change) = broker.logs.cordoning_change(self.image(), &config) {
            self.decide(change)??;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
