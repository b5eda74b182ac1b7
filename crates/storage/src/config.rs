//! The settings of a topic that its logs obey, with Kafka's names and defaults.
//!
//! Units are last in a name; `-1` and Kafka's `Long.MAX_VALUE`, which stand for "no limit", are
//! kept as they are, so that a setting compares equal to what the user wrote.

use record::TimestampType;

/// What happens to old records; both, one or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Remove old segments, by time and size.
    pub delete: bool,
    /// Keep the latest record of each key.
    pub compact: bool,
}

/// The settings of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is closed before it grows beyond this.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment is closed when its first batch is older than this.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: how much earlier at most, so that partitions do not roll together.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: a segment is closed when an index has grown to this.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: bytes of batches per index entry.
    pub index_interval_bytes: u32,
    /// `retention.ms`: age at which a segment goes; -1 for never.
    pub retention_ms: i64,
    /// `retention.bytes`: size to which the log is cut down by whole segments; -1 for none.
    pub retention_bytes: i64,
    /// `max.message.bytes`: largest batch.
    pub max_message_bytes: u32,
    /// `flush.messages`: records after which a flush is due.
    pub flush_messages: i64,
    /// `flush.ms`: time after which a flush is due.
    pub flush_ms: i64,
    /// `file.delete.delay.ms`: time between a segment's end and its files'.
    pub file_delete_delay_ms: i64,
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far back a producer may date a record.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead a producer may date a record.
    pub timestamp_after_max_ms: i64,
    /// `compression.type` with its level; `None` keeps the producer's.
    pub compression: Option<record::Codec>,
    /// `min.cleanable.dirty.ratio`: share of the log that must be dirty to compact it.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: records younger than this are not compacted.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: records older than this are compacted in any case.
    pub max_compaction_lag_ms: i64,
    /// `delete.retention.ms`: how long a tombstone stays after it has taken effect.
    pub delete_retention_ms: i64,
    /// `min.insync.replicas`: how many replicas a batch with `acks=all` needs.
    pub min_insync_replicas: u32,
    /// `producer.id.expiration.ms` of the broker.
    pub producer_id_expiration_ms: i64,
    /// `transaction.partition.verification.enable` of the broker: whether a producer's first
    /// transactional batch needs a [`crate::VerificationGuard`].
    pub verify_transactions: bool,
}

impl LogConfig {
    /// Age at which a segment is closed: records that are to be compacted in time must leave the
    /// active segment.
    pub const fn segment_ms_max(&self) -> i64 {
        let lag_ms = self.max_compaction_lag_ms;
        match self.cleanup_policy.compact && lag_ms > 0 && lag_ms < self.segment_ms {
            true => lag_ms,
            false => self.segment_ms,
        }
    }
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        const HOUR_MS: i64 = 3_600_000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * HOUR_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * HOUR_MS,
            retention_bytes: -1,
            max_message_bytes: (1 << 20) + 12,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            file_delete_delay_ms: 60_000,
            cleanup_policy: CleanupPolicy {
                delete: true,
                compact: false,
            },
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: HOUR_MS,
            compression: None,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 24 * HOUR_MS,
            min_insync_replicas: 1,
            producer_id_expiration_ms: 24 * HOUR_MS,
            verify_transactions: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_ends_early_where_its_records_are_to_be_compacted_in_time() {
        let segment_ms = |compact, lag_ms| {
            let config = LogConfig {
                segment_ms: 1000,
                cleanup_policy: CleanupPolicy {
                    delete: true,
                    compact,
                },
                max_compaction_lag_ms: lag_ms,
                ..LogConfig::default()
            };
            config.segment_ms_max()
        };
        for (lag_ms, expected) in [
            (0, 1000),
            (1, 1),
            (999, 999),
            (1001, 1000),
            (i64::MAX, 1000),
        ] {
            assert_eq!(segment_ms(true, lag_ms), expected, "lag {lag_ms}");
            assert_eq!(
                segment_ms(false, lag_ms),
                1000,
                "lag {lag_ms}, not compacted"
            );
        }
    }
}
