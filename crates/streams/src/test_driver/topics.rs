//! The topics that a test writes to and reads from.

use super::Driven;
use crate::error::{BoxError, StreamsError};
use crate::headers::Headers;
use crate::record::Record;
use crate::serde::SerdeRef;
use bytes::Bytes;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A topic that a test writes to.
pub struct TestInputTopic<K, V> {
    driven: Rc<RefCell<Driven>>,
    topic: Arc<str>,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<V>,
}

/// A topic that a test reads from.
pub struct TestOutputTopic<K, V> {
    driven: Rc<RefCell<Driven>>,
    topic: Arc<str>,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<V>,
}

impl<K, V> fmt::Debug for TestInputTopic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestInputTopic").field(&self.topic).finish()
    }
}

impl<K, V> fmt::Debug for TestOutputTopic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestOutputTopic").field(&self.topic).finish()
    }
}

impl<K, V> TestInputTopic<K, V> {
    pub(super) fn new(
        driven: &Rc<RefCell<Driven>>,
        topic: &str,
        key_serde: SerdeRef<K>,
        value_serde: SerdeRef<V>,
    ) -> Self {
        Self {
            driven: Rc::clone(driven),
            topic: Arc::from(topic),
            key_serde,
            value_serde,
        }
    }

    /// Writes a record, and lets the topology process everything that comes of it.
    ///
    /// # Errors
    /// The topology reads no such topic, or it failed.
    pub fn pipe(&self, key: K, value: V, timestamp_ms: i64) -> Result<(), StreamsError> {
        self.pipe_record(Record::new(key, value, timestamp_ms))
    }

    /// Writes a record with headers, and lets the topology process everything that comes of it.
    ///
    /// # Errors
    /// The topology reads no such topic, or it failed.
    pub fn pipe_record(&self, record: Record<K, V>) -> Result<(), StreamsError> {
        let mut headers = record.headers;
        let topic = &self.topic;
        let key = bytes_of(&self.key_serde, topic, &mut headers, &record.key)
            .map_err(|error| failed(topic, "key", &error))?;
        let value = bytes_of(&self.value_serde, topic, &mut headers, &record.value)
            .map_err(|error| failed(topic, "value", &error))?;
        self.driven
            .borrow_mut()
            .pipe(&self.topic, (key, value), record.timestamp_ms, headers)
    }
}

fn bytes_of<T>(
    serde: &SerdeRef<T>,
    topic: &str,
    headers: &mut Headers,
    value: &T,
) -> Result<Option<Bytes>, BoxError> {
    let mut bytes = Vec::new();
    let written = serde.serialize(topic, headers, value, &mut bytes)?;
    Ok(written.then(|| Bytes::from(bytes)))
}

/// The serde of a key or a value has failed.
fn failed(topic: &str, what: &str, error: &BoxError) -> StreamsError {
    StreamsError::Other(format!("topic `{topic}`: {what}: {error}"))
}

impl<K, V> TestOutputTopic<K, V> {
    pub(super) fn new(
        driven: &Rc<RefCell<Driven>>,
        topic: &str,
        key_serde: SerdeRef<K>,
        value_serde: SerdeRef<V>,
    ) -> Self {
        Self {
            driven: Rc::clone(driven),
            topic: Arc::from(topic),
            key_serde,
            value_serde,
        }
    }

    /// The next record that was written; none when all are read.
    ///
    /// # Errors
    /// The serdes cannot read it, or nothing was written to the topic and no sink of the topology names it.
    pub fn read_record(&self) -> Result<Option<Record<K, V>>, StreamsError> {
        let mut driven = self.driven.borrow_mut();
        let wall_clock_ms = driven.wall_clock_ms;
        let Some(produced) = driven.produced.get_mut(&self.topic) else {
            return driven.outputs.check(&self.topic).map(|()| None);
        };
        let Some(produced) = produced.pop_front() else {
            return Ok(None);
        };
        let (topic, headers) = (&self.topic, &produced.headers);
        let key = produced.key.as_deref();
        let key = self.key_serde.deserialize(topic, headers, key);
        let value = produced.value.as_deref();
        let value = self.value_serde.deserialize(topic, headers, value);
        Ok(Some(Record {
            key: key.map_err(|error| failed(topic, "key", &error))?,
            value: value.map_err(|error| failed(topic, "value", &error))?,
            timestamp_ms: produced.timestamp_ms.unwrap_or(wall_clock_ms),
            headers: produced.headers,
        }))
    }

    /// All records that were written and not read yet.
    ///
    /// # Errors
    /// As `read_record`.
    pub fn read_records(&self) -> Result<Vec<Record<K, V>>, StreamsError> {
        let mut records = Vec::new();
        while let Some(record) = self.read_record()? {
            records.push(record);
        }
        Ok(records)
    }

    /// Keys and values of all records that were written and not read yet.
    ///
    /// # Errors
    /// As `read_record`.
    pub fn read_key_values(&self) -> Result<Vec<(K, V)>, StreamsError> {
        let records = self.read_records()?;
        Ok(records
            .into_iter()
            .map(|record| (record.key, record.value))
            .collect())
    }

    /// How many records were written and not read yet.
    pub fn len(&self) -> usize {
        self.driven
            .borrow()
            .produced
            .get(&self.topic)
            .map_or(0, std::collections::VecDeque::len)
    }

    /// Whether all are read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
