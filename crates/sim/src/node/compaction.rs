//! What is compacted at the moment, and up to where logs are.

use crate::partition::SimPartition;
use model::Offset;
use std::sync::Arc;
use storage::checkpoint::OffsetCheckpoint;
use storage::sim::SimDisk;
use storage::{Compaction, OffsetMap};

/// What is compacted, and what is known to be.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    pub(super) running: Option<Running>,
    /// Up to where logs are compacted.
    pub(super) offsets: OffsetCheckpoint,
    /// Damage that was found: nothing of what a world does explains it.
    pub(super) complaint: Option<String>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) partition: Arc<SimPartition>,
    pub(super) compaction: Compaction<SimDisk>,
    pub(super) map: OffsetMap,
    pub(super) end_offset: Offset,
}
