//! What is kept of a log that is idle.

use model::Offset;

/// What is kept of a log that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleLog {
    /// Offset of the first record that readers may see.
    pub log_start_offset: Offset,
    /// Offset of the next record.
    pub log_end_offset: Offset,
    /// What the log directory's checkpoint is to say.
    pub recovery_point: Offset,
    /// Records below are durable; above the recovery point where the indexes of what was flushed
    /// last are not.
    pub flushed_end_offset: Offset,
    /// Base offset of the active segment.
    pub(crate) active_base_offset: Offset,
    /// Size of all log files.
    pub size_bytes: u64,
    /// Largest timestamp of the first segment.
    pub(crate) oldest_timestamp_ms: i64,
    /// Size of the first segment's log file.
    pub(crate) first_segment_bytes: u32,
    /// How many segments there are.
    pub segment_count: u32,
    /// How many transactions have been verified: proofs of before are none afterwards.
    pub(crate) verification_count: u64,
    /// Whether all of it is durable, the indexes of the active segment with it.
    pub is_synced: bool,
    /// [`OpenFiles::failed_sync_count`](crate::OpenFiles::failed_sync_count) when it was durable or
    /// opened. After another failed sync only one of its own makes it durable.
    pub(crate) answered_syncs: u32,
}
