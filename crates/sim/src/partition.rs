//! A partition on a simulated disk, and what a world sees of one.

use replication::{Partition, PartitionKey, PartitionOffsets};
use storage::sim::SimDisk;

pub(crate) type SimPartition = Partition<SimDisk>;

/// What a world can see of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) key: PartitionKey,
    pub(crate) offsets: PartitionOffsets,
}
