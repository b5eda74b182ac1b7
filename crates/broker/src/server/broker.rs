//! What the tasks of a server share.

use crate::api::fetch_sessions::FetchSessions;
use crate::controller::link::ControllerLink;
use crate::coordinators::coordinator_topics::UnmadeTopics;
use crate::coordinators::groups::{Groups, OFFSETS_TOPIC};
use crate::coordinators::transactions::{TRANSACTION_TOPIC, Transactions};
use crate::logs::cleaner::Cleaner;
use crate::logs::creations::Creations;
use crate::logs::file_shortage::FileShortage;
use crate::logs::flushes::Flushes;
use crate::logs::log_directories::{LogDirectory, absolute};
use crate::logs::maintenance;
use crate::logs::moves::Moves;
use crate::logs::partitions::{Absence, HostedTopic, Partitions};
use crate::logs::removals::Removals;
use crate::net::{AnswerMemory, ByteBudget, ConnectionLimits, Listeners, RequestMemory};
use crate::runtime::disk_watch::{DiskWatch, Pace};
use crate::runtime::heavy_work::HeavyWork;
use crate::runtime::seldom::Seldom;
use crate::settings::loggers::Loggers;
use config::{BrokerLayers, ConfigMap, ServerConfig};
use controller::ChangeDirectories;
use metadata::{Config, ConfigResource, MetadataImage};
use model::{ErrorCode, Uuid};
use parking_lot::RwLock;
use replication::{AppendError, LogHost, Partition, ReadError};
use rustix::io::Errno;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, AtomicI64, Ordering};
use std::time::Instant;
use storage::StorageError;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A running broker and controller.
#[derive(Debug)]
pub(crate) struct Broker {
    /// What it was started with.
    pub(crate) config: ServerConfig,
    /// The configuration in force; see [`Broker::live_config`].
    pub(crate) live_config: RwLock<Arc<ServerConfig>>,
    /// The cluster's id, as `meta.properties` has it.
    pub(crate) cluster_id: String,
    /// The level of `kraft.version`: the quorum's, hence not in the image.
    pub(crate) kraft_version: AtomicI16,
    /// `node.id`.
    pub(crate) node_id: i32,
    /// The epoch of the registration of this run; -1 before.
    pub(crate) broker_epoch: AtomicI64,
    /// Where it listens.
    pub(crate) listeners: Listeners,
    /// How many connections there may be of clients.
    pub(crate) client_limits: ConnectionLimits,
    /// How many connections there may be to the controller, which clients cannot use up.
    pub(crate) controller_limits: ConnectionLimits,
    /// Memory of requests that are read and not yet answered: `queued.max.request.bytes`.
    pub(crate) request_memory: RequestMemory,
    /// Memory of answers that clients have not read yet.
    pub(crate) answer_memory: AnswerMemory,
    /// Memory of requests that are before the controller.
    pub(crate) controller_memory: Arc<ByteBudget>,
    /// Syncs that requests wait for.
    pub(crate) flushes: Flushes,
    /// Which log directories are slow.
    pub(crate) disks: Arc<DiskWatch>,
    /// What would hold up other requests.
    pub(crate) heavy_work: HeavyWork,
    /// Every `log.dirs` entry, in their order.
    pub(crate) log_directories: Vec<Arc<LogDirectory>>,
    /// What their logs share.
    pub(crate) logs: Arc<LogHost>,
    /// That there was no file descriptor left.
    pub(crate) file_shortage: FileShortage,
    /// Lines about logs that clients cannot read.
    pub(crate) unread_logs: Seldom,
    /// Lines about topics of coordinators that cannot be made.
    pub(crate) unmade_topics: UnmadeTopics,
    /// Lines about connections that could not be accepted.
    pub(crate) unaccepted: Seldom,
    /// Lines about batches that logs do not take which are out of service.
    pub(crate) refused_batches: Seldom,
    /// The partitions that are led here.
    pub(crate) partitions: Partitions,
    /// Directories of deleted partitions.
    pub(crate) removals: Removals,
    /// New partitions whose logs could not be made yet.
    pub(crate) creations: Arc<Creations>,
    /// Compacts logs.
    pub(crate) cleaner: Arc<Cleaner>,
    /// Partitions on their way to another log directory.
    pub(crate) moves: Moves,
    /// Where tasks run.
    pub(crate) runtime: Handle,
    /// Decides about the cluster, one request after the other.
    pub(crate) controller: ControllerLink,
    /// What this process logs.
    pub(crate) loggers: Loggers,
    /// The group coordinator.
    pub(crate) groups: Arc<Groups>,
    /// The transaction coordinator.
    pub(crate) transactions: Transactions,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
    /// Producer ids that the controller has given to this broker.
    pub(crate) producer_ids: tokio::sync::Mutex<std::ops::Range<i64>>,
    /// True once the broker stops; every task looks at it.
    pub(crate) stop: watch::Sender<bool>,
    /// Why the process is to end at once; empty while it is not.
    pub(crate) halted: watch::Sender<String>,
    /// The newest image.
    pub(crate) image: RwLock<Arc<MetadataImage>>,
}

/// The layers of this broker's configuration as of one image.
#[derive(Debug)]
pub(crate) struct ConfigLayers {
    static_values: ConfigMap,
    cluster_wide: Option<Arc<Config>>,
    per_broker: Option<Arc<Config>>,
}

impl ConfigLayers {
    pub(crate) fn of(config: &ServerConfig, image: &MetadataImage) -> Self {
        Self {
            static_values: config.values.clone(),
            cluster_wide: image.configs.of(&ConfigResource::all_brokers()).cloned(),
            per_broker: image
                .configs
                .of(&ConfigResource::broker(config.node_id))
                .cloned(),
        }
    }

    pub(crate) fn layers(&self) -> BrokerLayers<'_> {
        BrokerLayers {
            cluster_wide: self
                .cluster_wide
                .as_deref()
                .unwrap_or(&config::layers::NO_VALUES),
            per_broker: self
                .per_broker
                .as_deref()
                .unwrap_or(&config::layers::NO_VALUES),
            ..BrokerLayers::of_static(&self.static_values)
        }
    }
}

impl Broker {
    /// How many connections there may be to a listener of this kind.
    pub(crate) const fn limits(&self, is_controller: bool) -> &ConnectionLimits {
        match is_controller {
            true => &self.controller_limits,
            false => &self.client_limits,
        }
    }

    /// Lets every request see the newest image.
    pub(crate) fn publish(&self, image: Arc<MetadataImage>) {
        // First the groups: what a request has found in the metadata is not unknown to them.
        self.groups.set_metadata(&image);
        *self.image.write() = image;
    }

    /// The epoch of this run's registration.
    pub(crate) fn broker_epoch(&self) -> i64 {
        self.broker_epoch.load(Ordering::Acquire)
    }

    /// The newest image of the cluster.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.read().clone()
    }

    /// The layers of this broker's configuration, with what has been set while it runs.
    pub(crate) fn config_layers(&self) -> ConfigLayers {
        ConfigLayers::of(&self.config, &self.image())
    }

    /// Gives up: there is nothing that the broker could go on with. Whoever runs the server ends the
    /// process, so that a supervisor starts it again.
    pub(crate) fn halt(&self, reason: String) {
        let is_news = |halted: &mut String| {
            let is_news = halted.is_empty();
            if is_news {
                tracing::error!(reason, "the server halts");
                halted.clone_from(&reason);
            }
            is_news
        };
        self.halted.send_if_modified(is_news);
    }

    /// Takes a log directory offline after a failed write: none of its logs takes more records,
    /// whichever file it was. Where other directories go on, the controller takes the leadership
    /// from its partitions (KIP-858), which nobody can read any more then. Without another one, or
    /// without the directory of the metadata log, the server halts. Waits for no log: one of them may be
    /// in a call that is stuck.
    pub(crate) fn fail_directory(&self, name: &str, reason: &dyn Display) {
        let mut directories = self.log_directories.iter();
        let found = directories.find(|one| one.name() == name);
        let Some(failed) = found.filter(|one| one.fail(reason)) else {
            return;
        };
        let has_other = self.log_directories.iter().any(|one| !one.is_offline());
        let is_given_up = has_other && !self.holds_metadata(failed);
        if has_other && !is_given_up {
            self.halt(format!(
                "log directory `{name}`, which holds the metadata log, has failed"
            ));
        } else if !has_other {
            self.halt("every log directory has failed".to_owned());
        }
        self.moves.cancel_in(name);
        if is_given_up {
            self.give_up_leaderships(failed.id());
        }
        let place = self.logs.place_of(failed.shared_name());
        for topic in self.partitions.all_topics() {
            let partitions = topic.partitions().into_iter();
            for partition in partitions.filter(|one| one.place() == place) {
                let is_there = partition.fail_at(place);
                // Where one is that is being moved is known when the move has ended.
                let is_there = is_there.unwrap_or_else(|| !self.moves.is_running(&partition));
                if is_there && is_given_up {
                    self.lose(&topic, &partition);
                }
                partition.notify();
            }
        }
    }

    /// Acts on a log directory that has failed while a partition was moved into it, or out of it.
    pub(crate) fn fail_if_offline(&self, partition: &Partition) {
        let place = partition.place();
        let Some(directory) = self.log_directories.get(place) else {
            return;
        };
        if !directory.is_offline() {
            return;
        }
        partition.fail_at(place);
        if let Some(topic) = self.partitions.topic_by_id(partition.topic_id()) {
            self.lose(&topic, partition);
        }
        partition.notify();
    }

    /// Lets no client to a partition whose log directory has failed.
    fn lose(&self, topic: &HostedTopic, partition: &Partition) {
        topic.lose(partition.index(), Absence::Offline);
        self.unload_coordinator(&topic.name, partition.index());
    }

    /// How the disk of a log directory answers.
    pub(crate) fn pace(&self, place: usize) -> Pace {
        let work = self.log_directories[place].work().pace();
        work.max(self.disks.pace(place))
    }

    /// Coordinates nothing any more that a partition holds the state of.
    pub(crate) fn unload_coordinator(&self, topic: &str, index: i32) {
        match topic {
            OFFSETS_TOPIC => self.groups.unload(index),
            TRANSACTION_TOPIC => self.transactions.unload(index),
            _ => {}
        }
    }

    /// Tells the controller that a log directory has failed.
    fn give_up_leaderships(&self, directory: Uuid) {
        let request = ChangeDirectories {
            broker_id: self.node_id,
            broker_epoch: self.broker_epoch(),
            offline: vec![directory],
            cordoned: None,
        };
        let controller = self.controller.clone();
        self.runtime.spawn(async move {
            // Without a controller nobody goes by the metadata any more.
            if let Ok(Err(error)) = controller.request(request).await {
                tracing::error!(%error, "the controller does not take that a log directory has failed");
            }
        });
    }

    /// Whether the metadata log is in a directory.
    pub(crate) fn holds_metadata(&self, directory: &LogDirectory) -> bool {
        directory.path() == absolute(Path::new(&self.config.log.metadata_log_dir))
    }

    /// Acts on a file of a log directory that could not be written. The directory fails, unless
    /// there were only too many files open.
    pub(crate) fn report_directory_error(&self, name: &str, error: &StorageError) {
        if error.is_out_of_files() {
            self.note_shortage(
                "a file of a log directory is written again later",
                name,
                error,
            );
        } else {
            self.fail_directory(name, error);
        }
    }

    /// A partition has left the log directory that it says it is in.
    pub(crate) fn uncount_partition(&self, partition: &Partition) {
        let name = partition.log_directory();
        let left = self.log_directories.iter().find(|one| one.name() == &*name);
        left.into_iter().for_each(|one| one.uncount_partition());
    }

    /// Acts on a failed write to a partition, unless its topic is being deleted.
    pub(crate) fn report_storage_error(&self, partition: &Partition, error: &dyn Display) {
        match self.partitions.topic_by_id(partition.topic_id()) {
            Some(_) => self.fail_directory(&partition.log_directory(), error),
            None => tracing::debug!(%partition, %error, "a deleted partition cannot be written"),
        }
    }

    /// Acts on a log that could not be opened, read or written. Its directory fails, unless there
    /// were only too many files open, or the log has been changed while it was idle: then it alone
    /// is out of service.
    pub(crate) fn report_log_error(&self, partition: &Partition, error: &StorageError) {
        if error.is_log_changed() {
            return tracing::error!(%partition, %error, "the log is out of service");
        }
        match error.is_out_of_files() {
            _ if partition.is_closed() => tracing::debug!(%partition, %error, "the log is closed"),
            true => self.note_shortage("a log is looked at again later", partition, error),
            false => self.report_storage_error(partition, error),
        }
    }

    /// Acts on what was refused or is put off because there is no file descriptor left. Files of
    /// logs that nobody uses are closed for the next attempt.
    pub(crate) fn note_shortage(&self, what: &'static str, of: impl Display, error: impl Display) {
        maintenance::release_files(self);
        if let Some(not_logged) = self.file_shortage.note(what, Instant::now()) {
            tracing::error!(
                %of,
                %error,
                not_logged,
                "{what}: there is no file descriptor left; raise the limit of open files \
                 (`ulimit -n`)"
            );
        }
    }

    /// Acts on what was not read of a log for a client, who is told the code.
    pub(crate) fn report_read_error(&self, partition: &Partition, error: &ReadError) -> ErrorCode {
        let code = error.code();
        if error.is_out_of_files() {
            self.note_shortage("a log is not read", partition, error);
        } else if code == ErrorCode::KafkaStorageError
            && let Some(not_logged) = self.unread_logs.due()
        {
            tracing::error!(%partition, %error, not_logged, "a log cannot be read");
        }
        code
    }

    /// Acts on a connection that was not accepted.
    pub(crate) fn report_accept_error(&self, listener: &str, error: &io::Error) {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        if matches!(number, Some(Errno::MFILE | Errno::NFILE)) {
            self.note_shortage("a connection waits", listener, error);
        } else if let Some(not_logged) = self.unaccepted.due() {
            tracing::warn!(listener, %error, not_logged, "cannot accept a connection");
        }
    }

    /// Acts on a batch that was not appended.
    pub(crate) fn report_append_error(&self, partition: &Partition, error: &AppendError) {
        if error.is_disk_failure() {
            self.report_storage_error(partition, error);
        } else if error.is_log_changed() {
            if let Some(not_logged) = self.refused_batches.due() {
                tracing::error!(%partition, %error, not_logged, "the log is out of service");
            }
        } else if error.is_out_of_files() {
            self.note_shortage("a batch is refused", partition, error);
        } else {
            tracing::debug!(%partition, %error, "a batch is refused");
        }
    }
}
