//! What a stream thread is started with.

use super::StreamsConfig;
use super::directory::StateDirectory;
use super::inbox::Inbox;
use super::lifecycle::Lifecycle;
use super::listeners::Listeners;
use super::local_state::LocalBoard;
use super::metadata::Hosts;
use super::metrics::ThreadMetrics;
use super::preparation::Preparation;
use super::process_id::ProcessId;
use super::shared::Shared;
use super::task_registry::TaskRegistry;
use super::topics::ApplicationTopics;
use crate::state::SharedRows;
use crate::topology::Topology;
use std::sync::Arc;

/// What a thread is started with.
pub(super) struct ThreadSetup {
    pub(super) index: usize,
    /// Its name, with which the names of its clients begin.
    pub(super) name: Arc<str>,
    pub(super) topology: Arc<Topology>,
    pub(super) config: Arc<StreamsConfig>,
    pub(super) topics: Arc<ApplicationTopics>,
    pub(super) preparation: Arc<Preparation>,
    pub(super) directory: Arc<StateDirectory>,
    pub(super) shared: Arc<Shared>,
    pub(super) process_id: ProcessId,
    /// What the global thread fills.
    pub(super) global_rows: SharedRows,
    pub(super) registry: Arc<TaskRegistry>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) metrics: Arc<ThreadMetrics>,
    pub(super) listeners: Listeners,
    /// What other threads ask.
    pub(super) inbox: Arc<Inbox>,
    /// What it tells others of its tasks.
    pub(super) board: Arc<LocalBoard>,
}

impl ThreadSetup {
    /// Whether the thread is asked to end.
    pub(super) fn is_ending(&self) -> bool {
        self.shared.is_thread_ending(self.index)
    }

    /// What the caches of the thread may hold.
    pub(super) fn cache_bytes(&self) -> usize {
        let shares = self.shared.look(Lifecycle::count_cache_shares);
        self.config.statestore_cache_max_bytes / shares
    }
}
