//! What logs of a directory are to be told: the newest of each kind, however often it changes.

use parking_lot::Mutex;
use replication::PartitionKey;
use std::collections::BTreeMap;

/// What a log is to be told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingLogUpdate {
    /// The role that its partition has then.
    pub(super) has_role: bool,
    /// Whether this broker did not lead before: who keeps state in the partition has left it.
    pub(super) is_elected: bool,
    /// The settings of its topic, as they are then.
    pub(super) has_settings: bool,
}

/// Logs of a directory that are to be told something.
#[derive(Debug, Default)]
pub(crate) struct PendingLogUpdates(Mutex<BTreeMap<PartitionKey, PendingLogUpdate>>);

impl PendingLogUpdates {
    pub(super) fn note(&self, key: PartitionKey, note: impl FnOnce(&mut PendingLogUpdate)) {
        note(self.0.lock().entry(key).or_default());
    }

    pub(super) fn take_one(&self) -> Option<(PartitionKey, PendingLogUpdate)> {
        self.0.lock().pop_first()
    }
}
