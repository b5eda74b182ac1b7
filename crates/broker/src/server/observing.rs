//! The start of a broker whose controller is another node, and its controlled shutdown.
//!
//! ```text
//!   log directories ── whose? ──> follow the quorum ── all that it has committed is here ──> prepare directories
//!     ──> register ── the registration is here, too ──> open logs ──> places of logs ──> unfenced ──> accept
//! ```
//!
//! Nothing is deleted, cut or set aside because metadata lack it that have not caught up: the logs are opened
//! over an image that has this run's registration, hence all that was committed before.

use super::directories::{LockedDirectories, owned, read_marks};
use super::listening::{Bound, accept};
use super::publishers;
use super::registration::registration;
use super::{Server, begin, blocking, new_broker, no_thread};
use crate::api::ListenerService;
use crate::api::broker::Broker;
use crate::controller::link::ControllerLink;
use crate::controller::metadata_loader::{self, MetadataLoader, MetadataPublisher, Tasks};
use crate::logs::failed_logs::{FailedLog, FailedLogs};
use crate::logs::{found_logs, log_directories};
use crate::net::Listeners;
use crate::peers::connections::PeerConnections;
use crate::peers::controller_channel::ControllerChannel;
use crate::peers::forwarding::Forwarding;
use crate::peers::lifecycle::{BrokerLifecycle, LifecycleParts, UnstartedLifecycle};
use crate::peers::quorum_cluster;
use crate::peers::quorum_follower::{FollowerParts, QuorumFollower};
use crate::peers::quorum_nodes::QuorumNodes;
use crate::peers::quorum_requests::Fetcher;
use crate::peers::remote_controller::ControllerOfQuorum;
use crate::scheduling::clock::{now, now_ms, random_uuid};
use crate::settings::loggers::Loggers;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::directories::DirectoryAssignment;
use controller::metadata_log::{
    DirectoryOptions, FoundDirectories, LogDirectories, ObservedLogOptions, ObservedMetadataLog,
    OpenMetadataLogError, find_log_directories, known_directories, recorded_cluster_id,
};
use controller::{AssignReplicasToDirectories, BrokerLifeSettings, BrokerState, MetadataChange};
use metadata::MetadataImage;
use model::{BrokerEpoch, BrokerId, Uuid};
use raft::Timeouts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::RealDisk;
use storage::clean_shutdown::take_clean_shutdown;
use storage::directory_lock::DirectoryLock;
use tokio::sync::mpsc::UnboundedReceiver;

/// How long a broker that stops waits for its controller, as Apache Kafka's.
const HAND_OVER_MAX: Duration = Duration::from_mins(5);
/// The pause before the controller is told again where logs are.
const TELL_PAUSE: Duration = Duration::from_secs(1);

/// Starts a broker that follows the controller of another node. Clients can connect when this returns.
pub(super) async fn start(
    config: ServerConfig,
    bound: Bound,
    loggers: Loggers,
) -> Result<Server, StartError> {
    let Bound {
        listeners,
        sockets,
        reserve,
    } = bound;
    let following = Following::begin(&config).await?;
    let (follower, foreign) = (following.follower.clone(), following.foreign());
    let image = caught_up(&follower, foreign).await?;
    let (lifecycle, unstarted) = BrokerLifecycle::new();
    let of_broker = lifecycle.clone();
    let prepare = move || following.prepare(config, &image, listeners, loggers, of_broker);
    let prepared = blocking(prepare).await?;
    let broker = prepared.broker.clone();
    prepared.live(&follower, unstarted)?;
    let registered = alive(&follower, lifecycle.reach(BrokerState::Recovery)).await??;
    let broker_epoch = registered.broker_epoch.unwrap_or(BrokerEpoch::NONE);
    let known = &broker.node.broker_epoch;
    known.store(broker_epoch.0, Ordering::Release);
    let change = begun(&follower).await?;
    let opened = blocking(move || prepared.open(&change)).await?;
    alive(&follower, tell_places(&broker, opened.found)).await?;
    let halt = publishers::halt(&broker.node);
    let halt_loader = move |reason| halt(reason);
    let (tasks, image) = (opened.tasks, opened.image);
    let loading = metadata_loader::start(tasks, image, opened.publishers, halt_loader);
    loading.map_err(no_thread)?;
    follower.go_live();
    broker.coordinators.ask_for_producer_ids_ahead();
    let mut tasks = begin(&broker, opened.failures, &reserve)?;
    tasks.extend(watch(&broker, &follower, &lifecycle));
    lifecycle.set_ready();
    alive(&follower, lifecycle.reach(BrokerState::Running)).await??;
    // Only now: whoever can connect is served.
    let accepting = accept(&broker.sockets, sockets, |_| {
        ListenerService::Broker(broker.clone())
    });
    tasks.extend(accepting?);
    Ok(Server {
        node: broker.cluster_node.clone(),
        broker: Some(broker),
        tasks,
        lifecycle: Some(lifecycle),
        _locks: opened.metadata_lock.into_iter().collect(),
        _reserve: reserve,
    })
}

/// Ends the process when the quorum can no longer be followed, or the controller not be lived with.
fn watch(
    broker: &Arc<Broker>,
    follower: &QuorumFollower,
    lifecycle: &BrokerLifecycle,
) -> [tokio::task::JoinHandle<()>; 2] {
    let (follower, halt) = (follower.clone(), publishers::halt(&broker.node));
    let following = async move { halt(follower.failed().await) };
    let (lifecycle, halt) = (lifecycle.clone(), publishers::halt(&broker.node));
    let living = async move { halt(lifecycle.failed().await.to_string()) };
    [tokio::spawn(following), tokio::spawn(living)]
}

/// Tells the controller where logs are, before any of them is led here, if the metadata have them elsewhere.
async fn tell_places(broker: &Broker, found: Vec<DirectoryAssignment>) {
    let image = broker.node.image();
    if found.is_empty() || !image.metadata_version().supports_directory_assignment() {
        return;
    }
    let request = AssignReplicasToDirectories {
        broker_id: broker.node.id,
        broker_epoch: broker.node.broker_epoch(),
        assignments: found,
    };
    loop {
        let refusal = match broker.controller.request(request.clone()).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(code) => code.to_string(),
        };
        tracing::warn!(
            error = refusal,
            "the controller does not know yet where logs are"
        );
        tokio::time::sleep(TELL_PAUSE).await;
    }
}

/// Hands over what the broker leads before it stops, as long as its controller needs.
pub(super) async fn hand_over(broker: &Broker, lifecycle: &BrokerLifecycle) {
    let patience = match broker
        .node
        .config
        .controller
        .lifecycle
        .controlled_shutdown_enable
    {
        true => HAND_OVER_MAX,
        false => Duration::ZERO,
    };
    if !patience.is_zero() {
        tracing::info!(
            "the broker asks its controller to let it stop, for five minutes at most, and for \
             `broker.session.timeout.ms` if there is no answer"
        );
    }
    lifecycle.begin_shutdown(patience);
    let stopped = tokio::time::timeout(patience, lifecycle.reach(BrokerState::ShuttingDown));
    match stopped.await {
        // It has said how.
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the broker stops without its controller"),
        Err(_) if patience.is_zero() => {}
        Err(_) => {
            tracing::warn!("the controller has not let the broker stop in time; it stops anyway")
        }
    }
}

/// What the future gives, unless the quorum can be followed no more.
async fn alive<T>(
    follower: &QuorumFollower,
    future: impl Future<Output = T>,
) -> Result<T, StartError> {
    tokio::select! {
        done = future => Ok(done),
        failure = follower.failed() => Err(StartError::Follow(failure)),
    }
}

/// Waits until all that the quorum has committed is here, and gives it.
async fn caught_up(
    follower: &QuorumFollower,
    foreign: StartError,
) -> Result<Arc<MetadataImage>, StartError> {
    let mut progress = follower.progress();
    let caught_up = progress.wait_for(|progress| progress.has_caught_up || progress.is_foreign);
    let caught_up = async { caught_up.await.is_ok_and(|progress| progress.has_caught_up) };
    match alive(follower, caught_up).await? {
        true => Ok(begun(follower).await?.delta.after),
        false => Err(foreign),
    }
}

async fn begun(follower: &QuorumFollower) -> Result<MetadataChange, StartError> {
    let ended = || StartError::Follow("the quorum is followed no more".to_owned());
    follower.begin().await.ok_or_else(ended)
}

/// A quorum that is followed, and the log directories as they were found.
struct Following {
    locked: LockedDirectories,
    found: FoundDirectories,
    cluster_id: String,
    /// That of the metadata log; of a directory that is new, the id that it is to have.
    directory_id: Uuid,
    connections: PeerConnections,
    controllers: String,
    follower: QuorumFollower,
    loader: MetadataLoader,
    tasks: Tasks,
}

impl Following {
    /// Finds out whose the log directories are, and begins to follow that cluster's quorum.
    async fn begin(config: &ServerConfig) -> Result<Self, StartError> {
        let quorum = &config.controller.quorum;
        let nodes = QuorumNodes::new(quorum);
        let controllers = nodes.configured();
        let of_config = config.clone();
        let locked = blocking(move || {
            let locked = LockedDirectories::lock(&of_config)?;
            let recorded = recorded_cluster_id(&RealDisk, &locked.usable, of_config.node_id)?;
            Ok((locked, recorded))
        });
        let (locked, recorded) = locked.await?;
        let cluster_id = match recorded.or_else(|| config.new_cluster_id.clone()) {
            Some(id) => id,
            None => quorum_cluster::ask_cluster_id(config).await,
        };
        let of_config = config.clone();
        let opened = blocking(move || open_log(&of_config, locked, &cluster_id));
        let (log, locked, found) = opened.await?;
        let cluster_id = found.prepared().cluster_id.clone();
        let (loader, tasks) = MetadataLoader::new();
        // The quorum knows a follower by its directory, and one that tells another id later as another follower.
        let known_id = found.prepared().id_of(&locked.metadata_directory);
        let directory_id = known_id.unwrap_or_else(random_uuid);
        let follower = QuorumFollower::start(FollowerParts {
            log,
            fetcher: Fetcher {
                cluster_id: cluster_id.clone(),
                node_id: config.node_id,
                directory_id,
                fetch_max_bytes: quorum.fetch_max_bytes,
                snapshot_max_bytes: quorum.fetch_snapshot_max_bytes,
            },
            nodes,
            listener: config
                .listeners
                .of_controllers()
                .map(|name| name.as_str().to_owned())
                .unwrap_or_default(),
            connections: PeerConnections::new(config),
            loader: loader.clone(),
        });
        Ok(Self {
            locked,
            found,
            cluster_id,
            directory_id,
            connections: PeerConnections::new(config),
            controllers,
            follower: follower.map_err(no_thread)?,
            loader,
            tasks,
        })
    }

    /// That the quorum is another cluster's.
    fn foreign(&self) -> StartError {
        StartError::ForeignCluster {
            cluster_id: self.cluster_id.clone(),
            controllers: self.controllers.clone(),
        }
    }

    /// Prepares the log directories, given what the metadata know of them, and makes the broker.
    fn prepare(
        self,
        config: ServerConfig,
        image: &MetadataImage,
        listeners: Listeners,
        loggers: Loggers,
        lifecycle: BrokerLifecycle,
    ) -> Result<Prepared, StartError> {
        let LockedDirectories {
            paths,
            metadata_directory,
            usable,
            locks,
            metadata_lock,
        } = self.locked;
        let registered = image.cluster.broker(config.node_id);
        let known = match registered {
            // Below metadata.version 3.7-IV2 nobody knows, unless the broker is a new one.
            None => Some(BTreeMap::new()),
            Some(_) => known_directories(image, config.node_id),
        };
        let found = self.found;
        let options = (config.node_id, &*usable, &*metadata_directory);
        let prepared = prepare_directories(found, options, self.directory_id, known.as_ref())?;
        for (path, error) in &prepared.failed {
            log_directories::log_unusable(path, error);
        }
        let marks = read_marks(&prepared, &metadata_directory)?;
        let directories = owned(&paths, locks, &prepared, &marks)?;
        let channel = ControllerChannel::new(self.connections, self.follower.leader());
        let forwarding = Forwarding::new(channel.clone());
        tokio::runtime::Handle::current().spawn(forwarding.clone().learn_versions());
        let remote = ControllerOfQuorum {
            channel,
            lifecycle,
            follower: self.follower,
        };
        let link = ControllerLink::remote(Arc::new(remote), self.loader);
        let (failed_logs, failures) = FailedLogs::new();
        let broker = new_broker(
            config,
            self.cluster_id,
            listeners,
            directories,
            (link, Some(forwarding)),
            failed_logs,
            loggers,
        )?;
        Ok(Prepared {
            broker: Arc::new(broker),
            registered: registered.map(|one| one.directories.clone()),
            clean: paths.iter().map(|path| marks.is_clean(path)).collect(),
            previous_broker_epoch: marks.broker_epoch(&paths),
            failures,
            metadata_lock,
            tasks: self.tasks,
        })
    }
}

/// Opens the metadata log as it lies there. Nothing tells yet how much of it is committed.
fn open_log(
    config: &ServerConfig,
    locked: LockedDirectories,
    cluster_id: &str,
) -> Result<(ObservedMetadataLog, LockedDirectories, FoundDirectories), StartError> {
    let options = (config.node_id, &*locked.usable, &*locked.metadata_directory);
    let found = with_options(options, cluster_id, &mut random_uuid, |options| {
        find_log_directories(&RealDisk, options)
    })?;
    let quorum = &config.controller.quorum;
    let voters = &quorum.voters;
    let (log, events) = ObservedMetadataLog::open(
        RealDisk,
        ObservedLogOptions {
            directory: locked.metadata_directory.clone(),
            node_id: config.node_id,
            fixed_voters: (!voters.is_empty()).then(|| voters.iter().map(|one| one.id).collect()),
            timeouts: Timeouts {
                fetch_ms: quorum.fetch_timeout_ms.into(),
                request_ms: quorum.request_timeout_ms.into(),
                retry_backoff_ms: quorum.retry_backoff_ms.into(),
            },
            config: config.controller.metadata_log,
            now: now(),
        },
    )?;
    for event in &events {
        tracing::warn!("{event}");
    }
    Ok((log, locked, found))
}

/// Prepares the log directories that are new, as [`FoundDirectories::prepare`] does; that of the metadata log has this
/// id then, if it is one of them.
fn prepare_directories(
    found: FoundDirectories,
    options: (BrokerId, &[PathBuf], &Path),
    directory_id: Uuid,
    known: Option<&BTreeMap<Uuid, usize>>,
) -> Result<LogDirectories, OpenMetadataLogError> {
    let cluster_id = found.prepared().cluster_id.clone();
    let is_new = found.prepared().id_of(options.2).is_none();
    // It is prepared first.
    let mut chosen = is_new.then_some(directory_id);
    let mut new_id = || chosen.take().unwrap_or_else(random_uuid);
    with_options(options, &cluster_id, &mut new_id, |options| {
        found.prepare(&RealDisk, options, known)
    })
}

/// Calls `work` with what directories of a cluster that is there are made with: node, directories, and which one
/// of them is for the metadata log; the cluster, and the ids of directories.
fn with_options<T>(
    (node_id, directories, metadata_directory): (BrokerId, &[PathBuf], &Path),
    cluster_id: &str,
    new_directory_id: &mut dyn FnMut() -> Uuid,
    work: impl FnOnce(&mut DirectoryOptions<'_>) -> T,
) -> T {
    work(&mut DirectoryOptions {
        directories,
        metadata_directory,
        node_id,
        new_cluster_id: cluster_id,
        new_directory_id,
        new_quorum: None,
        bootstrap_records: &[],
        is_observer: true,
        now_ms: now_ms(),
    })
}

/// A broker that may register: its log directories are its own, and nothing of them is opened.
struct Prepared {
    broker: Arc<Broker>,
    /// The directories of its last registration.
    registered: Option<Vec<Uuid>>,
    /// Whether each directory was shut down cleanly.
    clean: Vec<bool>,
    previous_broker_epoch: BrokerEpoch,
    failures: UnboundedReceiver<FailedLog>,
    /// The lock of `metadata.log.dir`, when it is none of `log.dirs`.
    metadata_lock: Option<DirectoryLock>,
    tasks: Tasks,
}

/// A broker whose logs are open.
struct Opened {
    /// They have the image.
    publishers: Vec<Box<dyn MetadataPublisher>>,
    image: Arc<MetadataImage>,
    /// Where logs are that the metadata have elsewhere.
    found: Vec<DirectoryAssignment>,
    failures: UnboundedReceiver<FailedLog>,
    metadata_lock: Option<DirectoryLock>,
    tasks: Tasks,
}

impl Prepared {
    /// Registers this run of the broker, and sends heartbeats from then on.
    fn live(
        &self,
        follower: &QuorumFollower,
        unstarted: UnstartedLifecycle,
    ) -> Result<(), StartError> {
        let (node, config) = (self.broker.node.clone(), &self.broker.node.config);
        let progress = follower.progress();
        // Until anybody lives by the metadata, they are where they are followed to.
        let metadata_offset = move || match node.image().provenance.last_offset {
            offset if !offset.is_none() => offset,
            _ => progress.borrow().last_offset,
        };
        let lifecycle = &config.controller.lifecycle;
        let living = unstarted.start(LifecycleParts {
            // Its own, so that no other request holds a heartbeat up.
            channel: ControllerChannel::new(PeerConnections::new(config), follower.leader()),
            cluster_id: self.broker.node.cluster_id.clone(),
            registration: registration(&self.broker, self.previous_broker_epoch),
            settings: BrokerLifeSettings {
                heartbeat_interval_ms: lifecycle.heartbeat_interval_ms.into(),
                session_timeout_ms: config.controller.tasks.broker_session_timeout_ms,
                registration_timeout_ms: lifecycle.registration_timeout_ms.into(),
                log_dir_failure_timeout_ms: lifecycle.directory_failure_timeout_ms,
            },
            metadata_offset: Box::new(metadata_offset),
        });
        living.map_err(no_thread)
    }

    /// Opens the logs, given all that is committed as one change from the empty image.
    fn open(self, change: &MetadataChange) -> Result<Opened, StartError> {
        let broker = &self.broker;
        // Before anything is appended: a crash from here on is no clean shutdown.
        for directory in broker.logs.directories.iter().filter(|one| one.is_usable()) {
            match take_clean_shutdown(&RealDisk, directory.path()) {
                Ok(_) => {}
                Err(error) if broker.logs.holds_metadata(directory) => return Err(error.into()),
                Err(error) => broker.logs.fail_directory(directory.name(), &error),
            }
        }
        let state = publishers::State(Arc::downgrade(broker));
        broker.logs.set_users(Box::new(state));
        let image = &change.delta.after;
        let registered = self.registered.as_deref();
        let places = found_logs::find_all(&broker.logs, image, &self.clean, registered)?;
        let mut found = places.found.clone();
        let publishers = publishers::all(broker, places);
        for publisher in &publishers {
            publisher.publish_start(change)?;
        }
        // Of what was found, a log that cannot be opened is lost: that is told by itself, and is the last word.
        let new_partitions = &broker.logs.new_partitions;
        found.retain(|one| !new_partitions.is_unnoted((one.topic_id, one.partition_id)));
        Ok(Opened {
            publishers: publishers.into_iter().map(|one| one as _).collect(),
            image: image.clone(),
            found,
            failures: self.failures,
            metadata_lock: self.metadata_lock,
            tasks: self.tasks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::sources::{Sources, load};

    /// A leader of Apache Kafka would tell of two followers for five minutes.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_directory_has_the_id_that_the_quorum_was_told_before() {
        let root = trials::directory();
        let directories = ["one", "two"].map(|name| root.path().join(name));
        let names = directories
            .each_ref()
            .map(|path| path.display().to_string());
        let keys = [
            ("process.roles", "broker"),
            ("node.id", "2"),
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            // Nobody answers there.
            ("controller.quorum.bootstrap.servers", "127.0.0.1:1"),
            ("log.dirs", &names.join(",")),
        ];
        let overrides = keys.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sources = Sources {
            overrides: &overrides,
            ..Sources::default()
        };
        let values = load(&sources).unwrap().values;
        let mut config = ServerConfig::read(&values).unwrap();
        config.new_cluster_id = Some("cluster".to_owned());
        for is_new in [true, false] {
            let following = Following::begin(&config).await.unwrap();
            let (told, locked) = (following.directory_id, &following.locked);
            let known = following.found.prepared().id_of(&locked.metadata_directory);
            assert_eq!(known, (!is_new).then_some(told));
            let options = (BrokerId(2), &*locked.usable, &*locked.metadata_directory);
            let known = BTreeMap::new();
            let prepared = prepare_directories(following.found, options, told, Some(&known));
            let [one, two] = directories
                .each_ref()
                .map(|path| prepared.as_ref().unwrap().id_of(path));
            assert!(one == Some(told) && two.is_some() && two != one);
            following.follower.close().await.unwrap().unwrap();
        }
    }
}
