//! What is known of a log while nobody can ask it.

use crate::partition_offsets::PartitionOffsets;
use model::Offset;

/// What is known of a log that is locked, and has not left its directory yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovedLog {
    pub(crate) directory_index: usize,
    pub(crate) recovery_point: Offset,
    pub(crate) offsets: PartitionOffsets,
}
