//! Where a partition begins and ends, and up to where who reads it sees.

use model::{LeaderEpoch, Offset};

/// Offsets of a partition as of one moment:
/// `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The first offset that there is.
    pub log_start_offset: Offset,
    /// The first offset of an open transaction, or the high watermark.
    pub last_stable_offset: Offset,
    /// The first offset that is not on every in-sync replica.
    pub high_watermark: Offset,
    /// The offset of the next record.
    pub log_end_offset: Offset,
    /// The epoch of the leader.
    pub leader_epoch: LeaderEpoch,
}
