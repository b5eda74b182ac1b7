//! The broker's settings that the group coordinator obeys.

use super::consumer::ConsumerGroupConfig;
use crate::CoordinatorRecord;
use crate::decision::fits_batch;

/// Settings of the group coordinator, named as in `server.properties`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`: how long an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// `group.min.session.timeout.ms`.
    pub session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_max_ms: i32,
    /// `group.max.size`: members of a classic group.
    pub group_size_max: usize,
    /// Consumer groups.
    pub consumer: ConsumerGroupConfig,
    /// `offset.metadata.max.bytes`: length of the text of a committed offset, in UTF-16 units.
    pub offset_metadata_length_max: usize,
    /// `offsets.retention.minutes` in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`: how often expired offsets are looked for.
    pub offsets_retention_check_interval_ms: i64,
    /// The largest batch that the partition of `__consumer_offsets` takes: its `max.message.bytes`.
    pub batch_bytes_max: usize,
}

impl GroupConfig {
    /// Whether a batch of these records is not too large for the log.
    pub(super) fn batch_holds(&self, records: &[CoordinatorRecord]) -> bool {
        fits_batch(records, self.batch_bytes_max)
    }
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay_ms: 3_000,
            session_timeout_min_ms: 6_000,
            session_timeout_max_ms: 1_800_000,
            group_size_max: i32::MAX as usize,
            consumer: ConsumerGroupConfig::default(),
            offset_metadata_length_max: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            batch_bytes_max: 1_048_588,
        }
    }
}
