//! What is sent, and what the broker made of it.

use std::sync::Arc;

use crate::Error;

pub use record::Header;

/// A record to send. It borrows everything: the producer copies it once, into its batch.
///
/// ```
/// use riverrun_client::producer::ProducerRecord;
///
/// let record = ProducerRecord::new("orders").key(b"42").value(b"three apples");
/// assert_eq!(record.partition, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; chosen by the key, or else by load, when there is none.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; the time of the call when there is none.
    pub timestamp: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; a record without one is a tombstone of a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers, in order; keys may repeat.
    pub headers: &'a [Header<'a>],
}

impl<'a> ProducerRecord<'a> {
    /// A record without key, value and headers.
    pub const fn new(topic: &'a str) -> Self {
        Self {
            topic,
            partition: None,
            timestamp: None,
            key: None,
            value: None,
            headers: &[],
        }
    }

    /// With this key.
    #[must_use]
    pub const fn key(self, key: &'a [u8]) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// With this value.
    #[must_use]
    pub const fn value(self, value: &'a [u8]) -> Self {
        Self {
            value: Some(value),
            ..self
        }
    }

    /// With these headers.
    #[must_use]
    pub const fn headers(self, headers: &'a [Header<'a>]) -> Self {
        Self { headers, ..self }
    }

    /// To this partition.
    #[must_use]
    pub const fn partition(self, partition: i32) -> Self {
        Self {
            partition: Some(partition),
            ..self
        }
    }

    /// With this time, in milliseconds since 1970.
    #[must_use]
    pub const fn timestamp(self, timestamp: i64) -> Self {
        Self {
            timestamp: Some(timestamp),
            ..self
        }
    }
}

/// Where a record was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; `None` with `acks=0`, and when the broker recognized a record sent before
    /// without telling where it is.
    pub offset: Option<i64>,
    /// The record's time: the producer's, or the broker's with `LogAppendTime`.
    pub timestamp: i64,
}

/// Called once with what became of a record, on the producer's own task: it must not block.
/// Those of a partition are called in the order of its records.
pub(crate) type Callback = Box<dyn FnOnce(Result<RecordMetadata, Error>) + Send>;

/// Who hears of a record's outcome, beside its delivery.
#[derive(Default)]
pub(crate) enum Listener<'a> {
    /// Nobody, or one who has been taken already.
    #[default]
    Nobody,
    /// A function of this record.
    Callback(Callback),
    /// The producer's observer, which has noted this.
    Observer(&'a [u8]),
}
