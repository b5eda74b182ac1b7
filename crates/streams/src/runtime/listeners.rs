//! Who hears how stores are filled from their changelogs.

use riverrun_client::TopicPartition;
use std::fmt;
use std::sync::Arc;

/// Hears how stores of active tasks are restored. Stream threads call it, so it must not wait.
pub trait StateRestoreListener: Send + Sync {
    /// A store is read from `starting_offset` up to `ending_offset` of its changelog, which is excluded.
    fn on_restore_start(
        &self,
        changelog: &TopicPartition,
        store: &str,
        starting_offset: i64,
        ending_offset: i64,
    ) {
        let _ = (changelog, store, starting_offset, ending_offset);
    }

    /// So many records were put into a store.
    fn on_batch_restored(&self, changelog: &TopicPartition, store: &str, restored_count: u64) {
        let _ = (changelog, store, restored_count);
    }

    /// A store is restored; so many records were put into it.
    fn on_restore_end(&self, changelog: &TopicPartition, store: &str, restored_count: u64) {
        let _ = (changelog, store, restored_count);
    }

    /// A store is not restored to the end here: its task goes away, or the thread ends. So many records were put into
    /// it until then (KIP-869).
    fn on_restore_suspended(&self, changelog: &TopicPartition, store: &str, restored_count: u64) {
        let _ = (changelog, store, restored_count);
    }
}

/// Why a standby task ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendReason {
    /// Another instance or thread has it.
    Migrated,
    /// It becomes an active task.
    Promoted,
}

/// Hears how stores of standby tasks follow their changelogs. Stream threads call it, so it must not wait.
pub trait StandbyUpdateListener: Send + Sync {
    /// A store follows its changelog from `starting_offset` on.
    fn on_update_start(&self, changelog: &TopicPartition, store: &str, starting_offset: i64) {
        let _ = (changelog, store, starting_offset);
    }

    /// So many records were put into a store, which has its changelog up to `end_offset` now, excluded.
    fn on_batch_loaded(
        &self,
        changelog: &TopicPartition,
        store: &str,
        batch_count: u64,
        end_offset: i64,
    ) {
        let _ = (changelog, store, batch_count, end_offset);
    }

    /// A store follows no more.
    fn on_update_suspended(
        &self,
        changelog: &TopicPartition,
        store: &str,
        store_offset: i64,
        reason: SuspendReason,
    ) {
        let _ = (changelog, store, store_offset, reason);
    }
}

/// The listeners of an instance.
#[derive(Clone)]
pub(super) struct Listeners {
    pub(super) restore: Arc<dyn StateRestoreListener>,
    pub(super) standby: Arc<dyn StandbyUpdateListener>,
}

/// Listens to nothing.
struct Nobody;

impl StateRestoreListener for Nobody {}
impl StandbyUpdateListener for Nobody {}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            restore: Arc::new(Nobody),
            standby: Arc::new(Nobody),
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}
