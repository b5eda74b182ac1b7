//! Where a group goes on in a partition.

use model::TopicPartition;
use std::collections::BTreeMap;

/// An offset that is, or is to be, committed: of the next record to process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset.
    pub offset: i64,
    /// The leader epoch of the record before it; -1 when that is not known.
    pub leader_epoch: i32,
    /// Whatever the application notes with it.
    pub metadata: String,
}

impl CommittedOffset {
    /// An offset with nothing noted.
    pub const fn new(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
        }
    }
}

/// Offsets by partition.
pub type Offsets = BTreeMap<TopicPartition, CommittedOffset>;
