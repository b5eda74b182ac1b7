//! Sources: nodes that read records of topics.

use crate::error::{Failure, Place, StreamsError};
use crate::headers::Headers;
use crate::processor::{DefaultTimestampExtractor, Outputs, TaskContext};
use crate::record::{Data, Record, RecordContext};
use crate::serde::{DefaultSerde, SerdeRef};
use bytes::Bytes;
use regex_lite::Regex;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Matches the topics whose whole names a pattern of a source describes.
pub(crate) fn whole_names(pattern: &str) -> Result<Regex, regex_lite::Error> {
    Regex::new(&format!("^(?:{pattern})$"))
}

/// A record as a consumer gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// The topic, under its full name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970, as the producer or the broker set it.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
}

/// Which time a record has.
#[derive(Default)]
pub enum TimestampExtractor<K, V> {
    /// The record's own; a negative one ends the task.
    #[default]
    FailOnInvalidTimestamp,
    /// The record's own; a record with a negative one is dropped.
    LogAndSkipOnInvalidTimestamp,
    /// The record's own; the largest of the partition so far instead of a negative one, which ends the task if there is
    /// no other before it.
    UsePartitionTimeOnInvalidTimestamp,
    /// The clock's when the record is read.
    WallclockTimestampExtractor,
    /// What the function says of a record, whose timestamp is its own, and of the largest timestamp of the partition
    /// so far, -1 at first. A record with a negative one is dropped.
    Custom(TimestampFunction<K, V>),
}

impl<K, V> TimestampExtractor<K, V> {
    /// What `default.timestamp.extractor` stands for.
    const fn of_default(default: DefaultTimestampExtractor) -> Self {
        match default {
            DefaultTimestampExtractor::FailOnInvalidTimestamp => Self::FailOnInvalidTimestamp,
            DefaultTimestampExtractor::LogAndSkipOnInvalidTimestamp => {
                Self::LogAndSkipOnInvalidTimestamp
            }
            DefaultTimestampExtractor::UsePartitionTimeOnInvalidTimestamp => {
                Self::UsePartitionTimeOnInvalidTimestamp
            }
            DefaultTimestampExtractor::WallclockTimestampExtractor => {
                Self::WallclockTimestampExtractor
            }
        }
    }
}

impl<K, V> Clone for TimestampExtractor<K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::FailOnInvalidTimestamp => Self::FailOnInvalidTimestamp,
            Self::LogAndSkipOnInvalidTimestamp => Self::LogAndSkipOnInvalidTimestamp,
            Self::UsePartitionTimeOnInvalidTimestamp => Self::UsePartitionTimeOnInvalidTimestamp,
            Self::WallclockTimestampExtractor => Self::WallclockTimestampExtractor,
            Self::Custom(function) => Self::Custom(Arc::clone(function)),
        }
    }
}

/// A function of a record and the largest timestamp of its partition so far.
pub type TimestampFunction<K, V> = Arc<dyn Fn(&Record<K, V>, i64) -> i64 + Send + Sync>;

impl<K, V> fmt::Debug for TimestampExtractor<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailOnInvalidTimestamp => "FailOnInvalidTimestamp",
            Self::LogAndSkipOnInvalidTimestamp => "LogAndSkipOnInvalidTimestamp",
            Self::UsePartitionTimeOnInvalidTimestamp => "UsePartitionTimeOnInvalidTimestamp",
            Self::WallclockTimestampExtractor => "WallclockTimestampExtractor",
            Self::Custom(_) => "Custom",
        })
    }
}

/// How a topic is read.
pub struct Consumed<K, V> {
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    /// `default.timestamp.extractor` when there is none.
    pub(crate) timestamp_extractor: Option<TimestampExtractor<K, V>>,
    pub(crate) auto_offset_reset: Option<AutoOffsetReset>,
    pub(crate) name: Option<String>,
}

/// Where a source begins in a partition that the application has no offset of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first record.
    Earliest,
    /// After the last record.
    Latest,
    /// Nowhere: the application ends.
    None,
    /// At the first record that is at most this many milliseconds old (KIP-1106).
    ByDuration(i64),
}

impl<K, V> Clone for Consumed<K, V> {
    fn clone(&self) -> Self {
        Self {
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            timestamp_extractor: self.timestamp_extractor.clone(),
            auto_offset_reset: self.auto_offset_reset,
            name: self.name.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Consumed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumed")
            .field("timestamp_extractor", &self.timestamp_extractor)
            .field("auto_offset_reset", &self.auto_offset_reset)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: DefaultSerde, V: DefaultSerde> Default for Consumed<K, V> {
    fn default() -> Self {
        Self::with(K::serde(), V::serde())
    }
}

impl<K, V> Consumed<K, V> {
    /// Keys and values are read by these serdes.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde,
            value_serde,
            timestamp_extractor: None,
            auto_offset_reset: None,
            name: None,
        }
    }

    /// Names the source.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Which time a record has, whatever `default.timestamp.extractor` says.
    #[must_use]
    pub fn with_timestamp_extractor(mut self, extractor: TimestampExtractor<K, V>) -> Self {
        self.timestamp_extractor = Some(extractor);
        self
    }

    /// Where to begin in a partition that the application has no offset of.
    #[must_use]
    pub fn with_auto_offset_reset(mut self, reset: AutoOffsetReset) -> Self {
        self.auto_offset_reset = Some(reset);
        self
    }
}

/// What became of a record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// It waits to be processed, and has this timestamp.
    Waits(i64),
    /// It was dropped.
    Dropped,
}

/// The first record of an input partition, read and not yet processed.
pub(crate) trait SourceQueue {
    /// Reads a record, which waits until `process`. The largest timestamp of the partition so far is -1 at first.
    fn decode(
        &mut self,
        context: &mut TaskContext,
        raw: &RawRecord,
        partition_time_ms: i64,
    ) -> Result<Decoded, StreamsError>;

    /// Gives the record that waits to the children of the source.
    fn process(&mut self, context: &mut TaskContext) -> Result<(), Failure>;
}

/// A source of a task: its children, and how it reads.
pub(crate) struct TypedSource<K, V> {
    pub(crate) name: Arc<str>,
    pub(crate) consumed: Rc<Consumed<K, V>>,
    pub(crate) outputs: Rc<Outputs<K, V>>,
    pub(crate) head: Option<Record<K, V>>,
}

impl<K: Data, V: Data> TypedSource<K, V> {
    fn read(&self, raw: &RawRecord) -> Result<Record<K, V>, crate::error::BoxError> {
        let key = self
            .consumed
            .key_serde
            .deserialize(&raw.topic, &raw.headers, raw.key.as_deref())
            .map_err(|error| format!("key: {error}"))?;
        let value = self
            .consumed
            .value_serde
            .deserialize(&raw.topic, &raw.headers, raw.value.as_deref())
            .map_err(|error| format!("value: {error}"))?;
        Ok(Record {
            key,
            value,
            timestamp_ms: raw.timestamp_ms,
            headers: raw.headers.clone(),
        })
    }

    /// The time of `record`; none when it is to be dropped.
    fn timestamp(
        &self,
        context: &TaskContext,
        record: &Record<K, V>,
        partition_time_ms: i64,
    ) -> Result<Option<i64>, StreamsError> {
        let own = record.timestamp_ms;
        let default = TimestampExtractor::of_default(context.default_timestamp_extractor);
        let own_extractor = self.consumed.timestamp_extractor.as_ref();
        let timestamp_ms = match own_extractor.unwrap_or(&default) {
            TimestampExtractor::FailOnInvalidTimestamp if own < 0 => {
                return Err(self.invalid_timestamp(context, own));
            }
            TimestampExtractor::UsePartitionTimeOnInvalidTimestamp if own < 0 => {
                // Nobody has asked for records to be dropped.
                if partition_time_ms < 0 {
                    return Err(self.invalid_timestamp(context, own));
                }
                partition_time_ms
            }
            TimestampExtractor::WallclockTimestampExtractor => context.wall_clock_ms,
            TimestampExtractor::Custom(function) => function(record, partition_time_ms),
            _ => own,
        };
        if timestamp_ms < 0 {
            log_dropped(&self.name, &context.record, timestamp_ms);
            return Ok(None);
        }
        Ok(Some(timestamp_ms))
    }

    fn invalid_timestamp(&self, context: &TaskContext, timestamp_ms: i64) -> StreamsError {
        let place = Place {
            node: Arc::clone(&self.name),
            ..context.place()
        };
        StreamsError::InvalidTimestamp {
            place,
            timestamp_ms,
        }
    }
}

/// Says that a record is dropped for its timestamp.
fn log_dropped(source: &str, record: &RecordContext, timestamp_ms: i64) {
    tracing::warn!(
        node = source,
        topic = &*record.topic,
        partition = record.partition,
        offset = record.offset,
        timestamp_ms,
        "a record has a negative timestamp; the application goes on without it"
    );
}

impl<K: Data, V: Data> SourceQueue for TypedSource<K, V> {
    fn decode(
        &mut self,
        context: &mut TaskContext,
        raw: &RawRecord,
        partition_time_ms: i64,
    ) -> Result<Decoded, StreamsError> {
        let enclosing = std::mem::replace(
            &mut context.record,
            RecordContext {
                topic: Arc::clone(&raw.topic),
                partition: raw.partition,
                offset: raw.offset,
                timestamp_ms: raw.timestamp_ms,
                headers: raw.headers.clone(),
            },
        );
        let raws = std::mem::replace(
            &mut context.raw_record,
            (raw.key.clone(), raw.value.clone()),
        );
        let decoded = match self.read(raw) {
            Ok(mut record) => match self.timestamp(context, &record, partition_time_ms)? {
                Some(timestamp_ms) => {
                    record.timestamp_ms = timestamp_ms;
                    self.head = Some(record);
                    Decoded::Waits(timestamp_ms)
                }
                None => {
                    context.drop_record();
                    Decoded::Dropped
                }
            },
            Err(error) => {
                context.handle_deserialization_error(&self.name, error)?;
                Decoded::Dropped
            }
        };
        context.record = enclosing;
        context.raw_record = raws;
        Ok(decoded)
    }

    fn process(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        let Some(record) = self.head.take() else {
            return Ok(());
        };
        let enclosing = context.enter(&self.name, record.timestamp_ms, &record.headers);
        let processed = self.outputs.forward(context, record);
        let processed = context.handled(processed);
        context.leave(enclosing);
        processed
    }
}
