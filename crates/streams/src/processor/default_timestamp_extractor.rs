//! `default.timestamp.extractor`: which time records have whose source does not say.

/// Kafka Streams' own extractors. `Consumed::with_timestamp_extractor` takes another one for a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultTimestampExtractor {
    /// The record's own; a negative one ends the task.
    #[default]
    FailOnInvalidTimestamp,
    /// The record's own; a record with a negative one is dropped.
    LogAndSkipOnInvalidTimestamp,
    /// The record's own; the largest of the partition so far instead of a negative one.
    UsePartitionTimeOnInvalidTimestamp,
    /// The clock's when the record is read.
    WallclockTimestampExtractor,
}

impl DefaultTimestampExtractor {
    /// The extractor that Kafka Streams has under the name of a class, without its package.
    pub fn of_class(name: &str) -> Option<Self> {
        Some(match name {
            "FailOnInvalidTimestamp" => Self::FailOnInvalidTimestamp,
            "LogAndSkipOnInvalidTimestamp" => Self::LogAndSkipOnInvalidTimestamp,
            "UsePartitionTimeOnInvalidTimestamp" => Self::UsePartitionTimeOnInvalidTimestamp,
            "WallclockTimestampExtractor" => Self::WallclockTimestampExtractor,
            _ => return None,
        })
    }
}
