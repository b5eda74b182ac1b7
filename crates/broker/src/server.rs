//! Starting and stopping: read from top to bottom, this is how a server is put together.

mod controlling;
mod directories;
mod handing_over;
mod listening;
mod observing;
mod own_controller;
mod publishers;
mod registration;

use self::directories::{LockedDirectories, owned};
use self::listening::{Bound, accept, bind, new_sockets};
use self::own_controller::{
    OpenedMetadata, PublishedController, StartingController, open_metadata,
};
use crate::api::ListenerService;
use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::api::fetch_sessions::FetchSessions;
use crate::controller::controller_thread;
use crate::controller::link::ControllerLink;
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
use crate::logs::log_directories::{LogDirectory, absolute};
use crate::logs::{
    Logs, cleaner, closing_log_dirs, found_logs, future_replicas, maintenance, new_partitions,
};
use crate::net::Listeners;
use crate::peers::connections::PeerConnections;
use crate::peers::forwarding::Forwarding;
use crate::peers::isr_changes;
use crate::peers::lifecycle::BrokerLifecycle;
use crate::peers::replica_fetchers::{Followers, ReplicaFetchers};
use crate::peers::transactions::OtherBrokers;
use crate::scheduling::clock;
use crate::scheduling::heavy_work::HeavyWork;
use crate::scheduling::metadata_disk::MetadataDisk;
use crate::scheduling::off_workers::ASIDE;
use crate::scheduling::reserve::{Reserve, ReserveEnd};
use crate::settings::file_shares::FileShares;
use crate::settings::loggers::Loggers;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::PlaceFoundReplicas;
use metadata::MetadataImage;
use replication::LogHost;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use storage::directory_lock::DirectoryLock;
use storage::{OpenFiles, RealDisk};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

/// A server that runs until it is stopped.
#[derive(Debug)]
pub struct Server {
    node: Arc<ClusterNode>,
    /// None of a controller alone.
    broker: Option<Arc<Broker>>,
    tasks: Tasks,
    /// Of a broker that follows another node's controller.
    lifecycle: Option<BrokerLifecycle>,
    /// Of log directories that no broker has.
    _locks: Vec<DirectoryLock>,
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
    /// Starts a broker, a controller, or both. Clients can connect when this returns.
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
        &self.node.node.cluster_id
    }

    /// The addresses that the server listens on, with the names of the listeners.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let listeners = self.node.sockets.listeners.iter();
        listeners
            .map(|one| (one.name.clone(), one.address))
            .collect()
    }

    /// Waits until the server cannot go on: its metadata log or every log directory has failed.
    /// Gives the reason. It has been logged, and the process is to end at once, without
    /// [`Server::stop`].
    pub async fn halted(&self) -> String {
        let mut halted = self.node.node.halted.subscribe();
        let reason = halted.wait_for(|reason| !reason.is_empty()).await;
        reason.expect("the broker is there").clone()
    }

    /// How many logs are open, and how many idle ones were opened to become so and are not noted as
    /// durable yet: upkeep and the next start cost in proportion to both.
    pub fn log_counts(&self) -> (usize, usize) {
        let count = |broker: &Arc<Broker>| {
            let logs = &broker.logs.host;
            (logs.open_logs().len(), logs.unsettled_logs().len())
        };
        self.broker.as_ref().map_or((0, 0), count)
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
    let bound = Bound {
        listeners,
        sockets,
        reserve,
    };
    if !config.roles.controller {
        return observing::start(config, bound, loggers).await;
    }
    if !config.roles.broker {
        return controlling::start(config, bound, loggers).await;
    }
    let Bound {
        listeners,
        sockets,
        reserve,
    } = bound;
    let opened = blocking(move || open(config, listeners, loggers)).await?;
    let broker = opened.broker;
    opened.controller.start(&broker.node)?;
    let mut tasks = begin(&broker, opened.failures, &reserve)?;
    // Only now: whoever can connect is served.
    let accepting = accept(&broker.sockets, sockets, |listener| {
        match listener.is_controller {
            true => ListenerService::Controller(broker.controller_node.clone()),
            false => ListenerService::Broker(broker.clone()),
        }
    });
    tasks.extend(accepting?);
    Ok(Server {
        node: broker.cluster_node.clone(),
        broker: Some(broker),
        tasks,
        lifecycle: None,
        _locks: opened.metadata_lock.into_iter().collect(),
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
    if broker.node.config.roles.controller {
        let runtime = broker.node.runtime.clone();
        let watching = broker.metadata_disk.start(runtime, reserve.0.clone());
        watching.map_err(no_thread)?;
    }
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

/// Work on files, off the workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StartError> + Send + 'static,
) -> Result<T, StartError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("opening does not panic")
}

fn no_thread(error: impl std::fmt::Display) -> StartError {
    StartError::Unsupported(format!("no thread can be started: {error}"))
}

async fn stop(server: Server) {
    match (&server.lifecycle, &server.broker) {
        (Some(lifecycle), Some(broker)) => observing::hand_over(broker, lifecycle).await,
        (None, Some(broker)) => handing_over::hand_over_to_others(broker).await,
        (_, None) => {}
    }
    if server.lifecycle.is_none() {
        handing_over::let_others_stop(&server.node).await;
    }
    server.node.node.stop.send_replace(true);
    for task in server.tasks {
        task.abort();
        let _ = task.await;
    }
    if let Some(broker) = &server.broker {
        let settling = async {
            // From here on no log is made, and none goes: those that are closed are all of them.
            let _ = broker.controller.settle().await;
            new_partitions::note_places(&broker.logs).await;
        };
        if tokio::time::timeout(closing_log_dirs::STUCK, settling)
            .await
            .is_err()
        {
            tracing::error!(
                "a disk does not answer: the last changes of the metadata are not applied"
            );
        }
    }
    let is_metadata_closed = close_metadata(&server.node).await;
    if let Some(broker) = &server.broker {
        let logs = broker.logs.clone();
        let leave = move || closing_log_dirs::leave(&logs, is_metadata_closed);
        let _ = tokio::task::spawn_blocking(leave).await;
        broker.coordinators.end();
    }
}

/// Closes the metadata log; whether it was shut down cleanly.
async fn close_metadata(node: &ClusterNode) -> bool {
    match tokio::time::timeout(closing_log_dirs::STUCK, node.controller.close()).await {
        Ok(Ok(Ok(closed))) => {
            if let Err(error) = closed.note {
                tracing::warn!(%error, "a metadata log that has become shorter may not be noticed by the next start");
            }
            true
        }
        Ok(Ok(Err(error))) => {
            tracing::error!(%error, "the metadata log was not shut down cleanly");
            false
        }
        Ok(Err(_)) => false,
        Err(_) => {
            let directory = &node.node.config.log.metadata_log_dir;
            tracing::error!(
                directory,
                "the metadata log was not shut down cleanly: its disk does not answer"
            );
            false
        }
    }
}

/// What a configuration may ask for and this build does not do.
fn check_supported(config: &ServerConfig) -> Result<(), StartError> {
    let refuse = |what: &str| Err(StartError::Unsupported(what.to_owned()));
    let voters = &config.controller.quorum.voters;
    if config.roles.controller && voters.iter().any(|voter| voter.id != config.node_id) {
        return refuse(
            "`controller.quorum.voters` names other nodes, and a controller of riverrun votes alone: name this \
             node only; where several controllers are wanted, run those of Apache Kafka and set \
             `process.roles=broker` here, which joins them",
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

/// What is there once every file is open.
struct Opened {
    broker: Arc<Broker>,
    controller: PublishedController,
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
    let mut starting = StartingController::new(log, config);
    starting.decide(PlaceFoundReplicas {
        broker_id: broker.node.id,
        found: places.found.clone(),
    })?;
    starting.register(&broker, previous_broker_epoch)?;
    let publishers = publishers::all(&broker, places);
    Ok(Opened {
        broker,
        controller: starting.publish(publishers, controller_thread)?,
        failures,
        metadata_lock,
    })
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
    let runtime = Handle::current();
    let host = log_host(&log_directories);
    host.leaders()
        .set_lag_max_ms(config.replication.replica_lag_time_max_ms);
    let sessions = config.network.max_incremental_fetch_session_cache_slots;
    let groups = group_config(&config, &MetadataImage::default());
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
    let work = heavy_work.clone();
    let sockets = new_sockets(node.clone(), Some(logs.clone()), work, listeners)?;
    let (sockets, logs_of_clients) = (Arc::new(sockets), Some(logs.clone()));
    let metadata_disk = MetadataDisk::among(
        &logs.disks,
        logs.directories.iter().map(|one| one.path()),
        &absolute(Path::new(&config.log.metadata_log_dir)),
    );
    let cluster_node = |controller, logs| {
        Arc::new(ClusterNode {
            node: node.clone(),
            sockets: sockets.clone(),
            heavy_work: heavy_work.clone(),
            controller,
            metadata_disk: metadata_disk.clone(),
            forwarding: forwarding.clone(),
            logs,
            foreign_nodes: Arc::default(),
            refused_registrations: Arc::default(),
        })
    };
    Ok(Broker {
        controller_node: cluster_node(controller.for_others(), None),
        cluster_node: cluster_node(controller, logs_of_clients),
        coordinators,
        logs,
        replica_fetchers,
        fetch_sessions: FetchSessions::new(sessions.max(0) as usize),
    })
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

#[cfg(test)]
mod tests;
