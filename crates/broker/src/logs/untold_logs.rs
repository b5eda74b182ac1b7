//! What the metadata have for logs that are there: roles and settings.
//!
//! A log may be in a call on a disk that is stuck, so it is told in the queue of its log directory. What is
//! noted for it until then is the newest of each, however often that changes.

use crate::logs::Logs;
use crate::logs::directory_work::{Errand, Handed};
use crate::logs::hosting::topic_log_config;
use crate::logs::idle_logs::is_in;
use crate::logs::log_directories::LogDirectory;
use crate::logs::partitions::HostedTopic;
use parking_lot::Mutex;
use replication::{Partition, PartitionKey, RoleChange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a log is to be told.
#[derive(Debug, Clone, Copy, Default)]
struct Untold {
    /// The role that its partition has then.
    has_role: bool,
    /// Whether this broker did not lead before: who keeps state in the partition has left it.
    is_elected: bool,
    /// The settings of its topic, as they are then.
    has_settings: bool,
}

/// Logs of a directory that are to be told something.
#[derive(Debug, Default)]
pub(crate) struct UntoldLogs(Mutex<BTreeMap<PartitionKey, Untold>>);

impl UntoldLogs {
    fn note(&self, key: PartitionKey, note: impl FnOnce(&mut Untold)) {
        note(self.0.lock().entry(key).or_default());
    }

    fn take_one(&self) -> Option<(PartitionKey, Untold)> {
        self.0.lock().pop_first()
    }
}

/// Logs that are about to be told something, with the places of their directories.
pub(crate) struct Telling<'a> {
    logs: &'a Arc<Logs>,
    places: BTreeSet<usize>,
}

impl<'a> Telling<'a> {
    pub(crate) const fn new(logs: &'a Arc<Logs>) -> Self {
        let places = BTreeSet::new();
        Self { logs, places }
    }

    /// A partition has another role.
    pub(crate) fn role(&mut self, partition: &Partition, change: &RoleChange) {
        let (was_leader, is_leader) = (change.before.is_leader(), change.after.is_leader());
        self.note(partition, |untold| {
            untold.has_role = true;
            untold.is_elected = is_leader && (untold.is_elected || !was_leader);
        });
    }

    /// The settings of a partition's topic have changed.
    pub(crate) fn settings(&mut self, partition: &Partition) {
        self.note(partition, |untold| untold.has_settings = true);
    }

    fn note(&mut self, partition: &Partition, note: impl FnOnce(&mut Untold)) {
        let place = partition.place();
        let untold = self.logs.directories[place].untold_logs();
        untold.note(partition.key(), note);
        self.places.insert(place);
    }

    /// Tells them, and returns when they know, but for those in directories that are behind.
    pub(crate) fn tell(self) {
        self.hand().wait();
    }

    fn hand(self) -> Handed<'a> {
        Handed::new(self.logs).errand(&self.places, Errand::UntoldLogs)
    }
}

/// Tells the logs of a directory what they are to be told.
pub(crate) fn tell_all(logs: &Arc<Logs>, directory: &LogDirectory) {
    let mut elsewhere = Telling::new(logs);
    while let Some((key, untold)) = directory.untold_logs().take_one() {
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
        tracing::error!(%partition, %error, "a leader epoch cannot be noted");
        return logs.report_log_error(partition, &error);
    }
    // Who keeps state in the partition reads its log, and writes to it. It may have been left by now.
    if let Some(leader_epoch) = led_in.filter(|_| is_elected && !partition.is_failed()) {
        logs.users().led(partition.clone(), leader_epoch);
    }
}
