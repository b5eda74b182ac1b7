//! What the metadata have for logs that are there: roles and settings.
//!
//! A log may be in a call on a disk that is stuck, so it is told in the queue of its log directory. What is
//! noted for it until then is the newest of each, however often that changes.

use crate::logs::Logs;
use crate::logs::hosting::topic_log_config;
use crate::logs::idle_logs::is_in;
use crate::logs::log_dir_queue::{Handed, LogDirTask};
use crate::logs::log_directories::LogDirectory;
use crate::logs::partitions::HostedTopic;
use crate::logs::pending_log_updates::PendingLogUpdate;
use replication::{Partition, RoleChange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tells logs what has changed for them.
const PENDING_LOG_UPDATES: LogDirTask = LogDirTask {
    name: "pending log updates",
    run: |logs, directory_index| tell_all(logs, &logs.directories[directory_index]),
};

/// Logs that are about to be told something, with the places of their directories.
pub(crate) struct LogUpdate<'a> {
    logs: &'a Arc<Logs>,
    directory_indexes: BTreeSet<usize>,
}

impl<'a> LogUpdate<'a> {
    pub(crate) const fn new(logs: &'a Arc<Logs>) -> Self {
        let directory_indexes = BTreeSet::new();
        Self {
            logs,
            directory_indexes,
        }
    }

    /// A partition has another role.
    pub(crate) fn role(&mut self, partition: &Partition, change: &RoleChange) {
        let is_leader = change.after.is_leader();
        let is_new = !change.before.is_leader()
            || change.before.leader_epoch() != change.after.leader_epoch();
        self.note(partition, |untold| {
            untold.has_role = true;
            untold.is_elected = is_leader && (untold.is_elected || is_new);
        });
    }

    /// The settings of a partition's topic have changed.
    pub(crate) fn settings(&mut self, partition: &Partition) {
        self.note(partition, |untold| untold.has_settings = true);
    }

    fn note(&mut self, partition: &Partition, note: impl FnOnce(&mut PendingLogUpdate)) {
        let directory_index = partition.directory_index();
        let untold = self.logs.directories[directory_index].pending_updates();
        untold.note(partition.key(), note);
        self.directory_indexes.insert(directory_index);
    }

    /// Tells them, and returns when they know, but for those in directories that are behind.
    pub(crate) fn tell(self) {
        self.hand().wait();
    }

    fn hand(self) -> Handed<'a> {
        Handed::new(self.logs).task(&self.directory_indexes, PENDING_LOG_UPDATES)
    }
}

/// Tells the logs of a directory what they are to be told.
fn tell_all(logs: &Arc<Logs>, directory: &LogDirectory) {
    let mut elsewhere = LogUpdate::new(logs);
    while let Some((key, untold)) = directory.pending_updates().take_one() {
        let Some(topic) = logs.partitions.topic_by_id(key.0) else {
            continue;
        };
        let Some(partition) = topic.partition(key.1) else {
            continue;
        };
        // It has moved, and its disk may be another one that is stuck.
        if !is_in(&partition, directory) {
            elsewhere.note(&partition, |there| {
                there.has_role |= untold.has_role;
                there.is_elected |= untold.is_elected;
                there.has_settings |= untold.has_settings;
            });
            continue;
        }
        if untold.has_role {
            take_role(logs, &topic, &partition, untold.is_elected);
        }
        if untold.has_settings {
            // The newest, whichever change this is.
            partition.set_config(topic_log_config(logs, &topic));
        }
        directory.work().note_progress();
    }
    elsewhere.hand().leave();
}

fn take_role(logs: &Logs, topic: &HostedTopic, partition: &Arc<Partition>, is_elected: bool) {
    // The newest, whichever change this is.
    let role = topic.role(partition.index());
    let led_in = role.leader_epoch().filter(|_| role.is_leader());
    if let Err(error) = partition.take_role(role) {
        tracing::error!(%partition, %error, "a leader epoch cannot be written");
        return logs.report_log_error(partition, &error);
    }
    logs.follow(partition);
    // Who keeps state in the partition reads its log, and writes to it. It may have been left by now.
    if let Some(leader_epoch) = led_in.filter(|_| is_elected && !partition.is_failed()) {
        logs.users().led(partition.clone(), leader_epoch);
    }
}
