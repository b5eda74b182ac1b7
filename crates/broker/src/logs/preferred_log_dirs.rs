//! Log directories of partitions that are still to be made, named by AlterReplicaLogDirs: a tool may
//! say where a partition goes before it is there (KIP-113). They are in memory only, as Kafka's.

use crate::logs::log_directories::LogDirectory;
use model::TopicPartition;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many partitions can be told ahead. One more gets the answer that these get, and is forgotten.
const PARTITIONS_MAX: usize = 100_000;

/// Log directories by the names of partitions that are not there yet.
#[derive(Debug, Default)]
pub(crate) struct PreferredLogDirs(Mutex<BTreeMap<TopicPartition, Arc<LogDirectory>>>);

impl PreferredLogDirs {
    /// A partition is to be made in this directory.
    pub(crate) fn note(&self, name: &TopicPartition, directory: &Arc<LogDirectory>) {
        let mut noted = self.0.lock();
        if noted.len() < PARTITIONS_MAX || noted.contains_key(name) {
            noted.insert(name.clone(), directory.clone());
        }
    }

    /// The directory that a partition is to be made in, if it can be used.
    pub(crate) fn of(&self, name: &TopicPartition) -> Option<Arc<LogDirectory>> {
        let directory = self.0.lock().get(name).cloned();
        directory.filter(|one| one.is_usable())
    }

    /// A partition has been made, or never can be.
    pub(crate) fn remove(&self, name: &TopicPartition) {
        self.0.lock().remove(name);
    }
}
