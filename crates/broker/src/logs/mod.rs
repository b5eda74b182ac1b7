//! Log directories, and the partitions that are in them: from the files of a start to those of a stop.

pub(crate) mod absences;
pub(crate) mod boots;
pub(crate) mod checkpoint_files;
pub(crate) mod checkpoints;
pub(crate) mod cleaner;
pub(crate) mod closing_log_dirs;
pub(crate) mod cordoning;
pub(crate) mod directory_choice;
pub(crate) mod directory_failures;
pub(crate) mod directory_sync;
pub(crate) mod failed_logs;
pub(crate) mod file_shortage;
pub(crate) mod first_use;
pub(crate) mod flushes;
pub(crate) mod found_logs;
pub(crate) mod future_replicas;
pub(crate) mod hosting;
pub(crate) mod idle_logs;
pub(crate) mod log_dir_queue;
pub(crate) mod log_directories;
pub(crate) mod log_updates;
pub(crate) mod maintenance;
pub(crate) mod metadata_changes;
pub(crate) mod missing_logs;
pub(crate) mod new_partitions;
pub(crate) mod opening;
pub(crate) mod owners;
pub(crate) mod partitions;
pub(crate) mod pending_log_updates;
pub(crate) mod preferred_log_dirs;
pub(crate) mod removals;
pub(crate) mod roles;
pub(crate) mod scan;
pub(crate) mod unplaced;

use crate::controller::link::ControllerLink;
use crate::logs::cleaner::Cleaner;
use crate::logs::directory_failures::DirectoryFailures;
use crate::logs::file_shortage::FileShortage;
use crate::logs::flushes::Flushes;
use crate::logs::future_replicas::FutureReplicas;
use crate::logs::log_directories::{LogDirectory, absolute};
use crate::logs::new_partitions::NewPartitions;
use crate::logs::partitions::{HostedTopic, Partitions, Unavailable};
use crate::logs::removals::Removals;
use crate::scheduling::disk_watch::{DiskSpeed, DiskWatch};
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::settings::node::Node;
use metadata::{MetadataImage, Topic};
use model::{ErrorCode, LeaderEpoch};
use replication::{AppendError, LogHost, Partition, PartitionKey, ReadError};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use storage::StorageError;

/// The log directories of this node.
#[derive(Debug)]
pub(crate) struct Logs {
    /// The node that they are of.
    pub(crate) node: Arc<Node>,
    /// Who is told where partitions are.
    pub(crate) controller: ControllerLink,
    /// Every `log.dirs` entry, in their order.
    pub(crate) directories: Vec<Arc<LogDirectory>>,
    /// What their logs share.
    pub(crate) host: Arc<LogHost>,
    /// Which log directories are slow.
    pub(crate) disks: Arc<DiskWatch>,
    /// Syncs that requests wait for.
    pub(crate) flushes: Flushes,
    /// The partitions that are hosted here.
    pub(crate) partitions: Partitions,
    /// New partitions whose logs could not be made yet.
    pub(crate) new_partitions: NewPartitions,
    /// Those that the controller does not know yet.
    pub(crate) directory_failures: DirectoryFailures,
    /// Directories of deleted partitions.
    pub(crate) removals: Removals,
    /// Compacts logs.
    pub(crate) cleaner: Arc<Cleaner>,
    /// Partitions on their way to another log directory.
    pub(crate) future_replicas: FutureReplicas,
    /// That there was no file descriptor left.
    pub(crate) file_shortage: FileShortage,
    /// Lines about logs that clients cannot read.
    unread_logs: LogRateLimit,
    /// Lines about batches that logs do not take which are out of service.
    refused_batches: LogRateLimit,
    /// Who keeps state in partitions.
    users: OnceLock<Box<dyn LeadershipListener>>,
    /// Who copies partitions from their leaders; nobody on a node alone.
    followers: OnceLock<Box<dyn FollowerListener>>,
}

/// Whoever copies partitions from the brokers that lead them.
pub(crate) trait FollowerListener: fmt::Debug + Send + Sync {
    /// A partition has a log, and may have another role than before, or another leader. Called where the disk of
    /// the partition may be waited for.
    fn role_taken(&self, partition: &Arc<Partition>);

    /// A partition is not here any more, or its log takes nothing.
    fn gone(&self, key: PartitionKey);
}

/// Whoever keeps state in partitions, as coordinators do.
pub(crate) trait LeadershipListener: fmt::Debug + Send + Sync {
    /// A partition has its log, and is led here in this epoch. This may come after [`Self::left`], and does
    /// nothing then.
    fn led(&self, partition: Arc<Partition>, leader_epoch: LeaderEpoch);

    /// A partition of this topic, which was led here in this epoch at most, is so no more.
    fn left(&self, topic: &str, key: PartitionKey, leader_epoch: LeaderEpoch);

    /// Topics are gone, which `image` does not have. Gives the places of the log directories in which
    /// [`Self::forget_deleted`] is to be called.
    fn topics_deleted(&self, image: &Arc<MetadataImage>, topics: &[&Topic]) -> BTreeSet<usize>;

    /// Removes what the partitions of a log directory have of deleted topics; this may wait for its
    /// disk.
    fn forget_deleted(&self, directory: &str);
}

impl Logs {
    /// The logs of these directories.
    pub(crate) fn new(
        node: Arc<Node>,
        controller: ControllerLink,
        directories: Vec<Arc<LogDirectory>>,
        host: LogHost,
    ) -> Self {
        let names = directories.iter().map(|one| one.shared_name().clone());
        Self {
            node,
            controller,
            disks: Arc::new(DiskWatch::new(names)),
            flushes: Flushes::new(directories.len()),
            directories,
            host: Arc::new(host),
            partitions: Partitions::default(),
            new_partitions: NewPartitions::default(),
            directory_failures: DirectoryFailures::default(),
            removals: Removals::default(),
            cleaner: Arc::default(),
            future_replicas: FutureReplicas::default(),
            file_shortage: FileShortage::default(),
            unread_logs: LogRateLimit::default(),
            refused_batches: LogRateLimit::default(),
            users: OnceLock::new(),
            followers: OnceLock::new(),
        }
    }

    /// Lets those who keep state in partitions know from now on.
    pub(crate) fn set_users(&self, users: Box<dyn LeadershipListener>) {
        let set = self.users.set(users);
        assert!(set.is_ok(), "they are set once");
    }

    pub(crate) fn users(&self) -> &dyn LeadershipListener {
        let users = self.users.get();
        &**users.expect("they are set before any log is opened")
    }

    /// Lets those who copy partitions know from now on.
    pub(crate) fn set_followers(&self, followers: Box<dyn FollowerListener>) {
        let set = self.followers.set(followers);
        assert!(set.is_ok(), "they are set once");
    }

    /// Lets those know who copy partitions that one has a role.
    pub(crate) fn follow(&self, partition: &Arc<Partition>) {
        if let Some(followers) = self.followers.get() {
            followers.role_taken(partition);
        }
    }

    /// Lets those know who copy partitions that one is gone.
    pub(crate) fn unfollow(&self, key: PartitionKey) {
        if let Some(followers) = self.followers.get() {
            followers.gone(key);
        }
    }

    /// Takes a log directory offline after a failed write: none of its logs takes more records,
    /// whichever file it was. Where other directories go on, the controller takes the leadership
    /// from its partitions (KIP-858), which nobody can read any more then. Without another one, or
    /// without the directory of the metadata log, the server halts. Waits for no log: one of them may be
    /// in a call that is stuck.
    pub(crate) fn fail_directory(&self, name: &str, reason: &dyn Display) {
        let mut directories = self.directories.iter();
        let found = directories.find(|one| one.name() == name);
        let Some(failed) = found.filter(|one| one.fail(reason)) else {
            return;
        };
        let has_other = self.directories.iter().any(|one| !one.is_offline());
        let is_given_up = has_other && !self.holds_metadata(failed);
        if has_other && !is_given_up {
            self.node.halt(format!(
                "log directory `{name}`, which holds the metadata log, has failed"
            ));
        } else if !has_other {
            self.node.halt("every log directory has failed".to_owned());
        }
        self.future_replicas.cancel_in(name);
        if is_given_up {
            self.directory_failures.note(failed.id());
        }
        let directory_index = self.host.directory_index_of(failed.shared_name());
        for topic in self.partitions.all_topics() {
            let partitions = topic.partitions().into_iter();
            for partition in partitions.filter(|one| one.directory_index() == directory_index) {
                let is_there = partition.fail_at(directory_index);
                // Where one is that is being moved is known when the move has ended.
                let is_there =
                    is_there.unwrap_or_else(|| !self.future_replicas.is_running(&partition));
                if is_there && is_given_up {
                    self.lose(&topic, &partition);
                }
                partition.notify();
            }
        }
    }

    /// Acts on a log directory that has failed while a partition was made in it, or moved into it or out of
    /// it.
    pub(crate) fn fail_if_offline(&self, partition: &Partition) {
        let directory_index = partition.directory_index();
        let Some(directory) = self.directories.get(directory_index) else {
            return;
        };
        if !directory.is_offline() {
            return;
        }
        partition.fail_at(directory_index);
        if let Some(topic) = self.partitions.topic_by_id(partition.topic_id()) {
            self.lose(&topic, partition);
        }
        partition.notify();
    }

    /// Lets no client to a partition whose log directory has failed.
    fn lose(&self, topic: &HostedTopic, partition: &Partition) {
        topic.lose(partition.index(), Unavailable::Offline);
        self.unfollow(partition.key());
        let role = topic.role(partition.index());
        if let Some(leader_epoch) = role.leader_epoch() {
            self.users()
                .left(&topic.name, partition.key(), leader_epoch);
        }
    }

    /// How the disk of a log directory answers.
    pub(crate) fn pace(&self, directory_index: usize) -> DiskSpeed {
        let work = self.directories[directory_index].work().pace();
        work.max(self.disks.pace(directory_index))
    }

    /// Whether the metadata log is in a directory.
    pub(crate) fn holds_metadata(&self, directory: &LogDirectory) -> bool {
        directory.path() == absolute(Path::new(&self.node.config.log.metadata_log_dir))
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
        let left = self.directories.iter().find(|one| one.name() == &*name);
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

    /// Makes the logs that could not be made before.
    pub(crate) fn create_missing(&self) {
        if self.new_partitions.is_empty() || !self.new_partitions.ask() {
            return;
        }
        self.controller.revisit();
    }

    /// Acts on what was refused or is put off because there is no file descriptor left. Files of
    /// logs that nobody uses are closed for the next attempt.
    pub(crate) fn note_shortage(&self, what: &'static str, of: impl Display, error: impl Display) {
        file_shortage::release_files(self);
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

    /// How many records of leaders were refused without a line since the last one, if one is due.
    pub(crate) fn refused_records_due(&self) -> Option<u64> {
        self.refused_batches.due()
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
