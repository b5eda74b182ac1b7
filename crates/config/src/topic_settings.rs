//! Everything a log needs to know about its topic: the topic's overrides over the broker's
//! defaults, typed.

use crate::layers::{BrokerLayers, ConfigMap, topic_default};
use crate::topic::TOPIC;
use crate::typed::TypedValues;
use crate::value::{Value, ValueError};

/// What happens to old segments. With both, old segments are deleted and the rest is compacted;
/// with neither, everything is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Segments are deleted by age and size.
    pub delete: bool,
    /// The last record of each key is kept.
    pub compact: bool,
}

/// The codec in which batches are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicCompression {
    /// As the producer sent them.
    Producer,
    /// Without compression.
    Uncompressed,
    /// gzip at this level; -1 is the library's choice.
    Gzip(i32),
    /// snappy.
    Snappy,
    /// lz4 at this level.
    Lz4(i32),
    /// zstd at this level.
    Zstd(i32),
}

/// Which timestamp a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The time its producer set.
    CreateTime,
    /// The time the broker appended it.
    LogAppendTime,
}

/// Typed values of one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicSettings {
    /// What happens to old segments.
    pub cleanup_policy: CleanupPolicy,
    /// Codec in which batches are stored.
    pub compression: TopicCompression,
    /// How long a tombstone stays.
    pub delete_retention_ms: i64,
    /// How long a deleted file stays on disk.
    pub file_delete_delay_ms: i64,
    /// Records between two forced writes; `i64::MAX` leaves it to the operating system.
    pub flush_messages: i64,
    /// Milliseconds between two forced writes; `i64::MAX` leaves it to the operating system.
    pub flush_ms: i64,
    /// Bytes between two entries of the offset index.
    pub index_interval_bytes: i32,
    /// Longest time a record stays out of reach of compaction.
    pub max_compaction_lag_ms: i64,
    /// Largest batch accepted.
    pub max_message_bytes: i32,
    /// How far a timestamp may lie ahead of the clock; with `CreateTime`.
    pub message_timestamp_after_max_ms: i64,
    /// How far a timestamp may lie behind the clock; with `CreateTime`.
    pub message_timestamp_before_max_ms: i64,
    /// Which timestamp a record carries.
    pub message_timestamp_type: TimestampType,
    /// Share of uncompacted bytes from which the log is worth compacting.
    pub min_cleanable_dirty_ratio: f64,
    /// Shortest time a record stays untouched by compaction.
    pub min_compaction_lag_ms: i64,
    /// In-sync replicas that acks=all needs.
    pub min_insync_replicas: i32,
    /// Size limit of the log; -1 for none.
    pub retention_bytes: i64,
    /// Age limit of a segment; -1 for none.
    pub retention_ms: i64,
    /// Size at which a segment is closed.
    pub segment_bytes: i32,
    /// Size limit of one index file.
    pub segment_index_bytes: i32,
    /// Most milliseconds by which closing a segment is brought forward at random.
    pub segment_jitter_ms: i64,
    /// Age at which a segment is closed.
    pub segment_ms: i64,
}

/// What topics without overrides have on one broker; made once for each change of the broker's
/// configuration.
#[derive(Debug, Clone)]
pub struct TopicDefaults {
    values: TypedValues,
}

impl TopicDefaults {
    /// The defaults on a broker with `layers`.
    pub fn of_broker(layers: &BrokerLayers<'_>) -> Result<Self, ValueError> {
        let effective = layers.effective();
        let mut values = TypedValues::defaults(&TOPIC);
        for definition in TOPIC.iter() {
            if let Some(text) = topic_default(definition, &effective)? {
                values.set(&TOPIC, definition.name, &text)?;
            }
        }
        Ok(Self { values })
    }

    /// The settings of a topic with `overrides`. Keys that no topic has are skipped: the metadata
    /// of another version may hold some.
    pub fn settings(&self, overrides: &ConfigMap) -> Result<TopicSettings, ValueError> {
        if overrides.is_empty() {
            return Ok(TopicSettings::of_values(&self.values));
        }
        Ok(TopicSettings::of_values(&self.with_overrides(overrides)?))
    }

    pub(crate) fn with_overrides(&self, overrides: &ConfigMap) -> Result<TypedValues, ValueError> {
        let mut values = self.values.clone();
        for (name, text) in overrides {
            values.set(&TOPIC, name, text)?;
        }
        Ok(values)
    }
}

impl TopicSettings {
    /// The settings of a topic without overrides on a broker without values.
    pub fn kafka_defaults() -> Self {
        Self::of_values(&TypedValues::defaults(&TOPIC))
    }

    pub(crate) fn of_values(values: &TypedValues) -> Self {
        Self {
            cleanup_policy: cleanup_policy(values.list("cleanup.policy")),
            compression: compression(values),
            delete_retention_ms: values.long("delete.retention.ms"),
            file_delete_delay_ms: values.long("file.delete.delay.ms"),
            flush_messages: values.long("flush.messages"),
            flush_ms: values.long("flush.ms"),
            index_interval_bytes: values.int("index.interval.bytes"),
            max_compaction_lag_ms: values.long("max.compaction.lag.ms"),
            max_message_bytes: values.int("max.message.bytes"),
            message_timestamp_after_max_ms: values.long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: values.long("message.timestamp.before.max.ms"),
            message_timestamp_type: timestamp_type(values),
            min_cleanable_dirty_ratio: values.double("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: values.long("min.compaction.lag.ms"),
            min_insync_replicas: values.int("min.insync.replicas"),
            retention_bytes: values.long("retention.bytes"),
            retention_ms: values.long("retention.ms"),
            segment_bytes: values
                .int_or_null("internal.segment.bytes")
                .unwrap_or_else(|| values.int("segment.bytes")),
            segment_index_bytes: values.int("segment.index.bytes"),
            segment_jitter_ms: values.long("segment.jitter.ms"),
            segment_ms: values.long("segment.ms"),
        }
    }
}

fn cleanup_policy(policies: &[String]) -> CleanupPolicy {
    let has = |name: &str| policies.iter().any(|policy| policy == name);
    CleanupPolicy {
        delete: has("delete"),
        compact: has("compact"),
    }
}

fn compression(values: &TypedValues) -> TopicCompression {
    match values.text("compression.type") {
        Some("uncompressed") => TopicCompression::Uncompressed,
        Some("gzip") => TopicCompression::Gzip(values.int("compression.gzip.level")),
        Some("snappy") => TopicCompression::Snappy,
        Some("lz4") => TopicCompression::Lz4(values.int("compression.lz4.level")),
        Some("zstd") => TopicCompression::Zstd(values.int("compression.zstd.level")),
        _ => TopicCompression::Producer,
    }
}

fn timestamp_type(values: &TypedValues) -> TimestampType {
    match values.value("message.timestamp.type") {
        Some(Value::Text(text)) if text == "LogAppendTime" => TimestampType::LogAppendTime,
        _ => TimestampType::CreateTime,
    }
}

#[cfg(test)]
mod tests;
