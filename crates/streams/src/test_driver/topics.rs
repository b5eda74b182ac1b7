//! The topics that a test writes to and reads from.

use super::Driven;
use crate::error::StreamsError;
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
        let key = bytes_of(&self.key_serde, &self.topic, &mut headers, &record.key)?;
        let value = bytes_of(&self.value_serde, &self.topic, &mut headers, &record.value)?;
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
) -> Result<Option<Bytes>, StreamsError> {
    let mut bytes = Vec::new();
    let written = serde
        .serialize(topic, headers, value, &mut bytes)
        .map_err(|error| StreamsError::Other(format!("topic `{topic}`: {error}")))?;
    Ok(written.then(|| Bytes::from(bytes)))
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
    /// The serdes cannot read it.
    pub fn read_record(&self) -> Result<Option<Record<K, V>>, StreamsError> {
        let mut driven = self.driven.borrow_mut();
        let wall_clock_ms = driven.wall_clock_ms;
        let Some(produced) = driven
            .produced
            .get_mut(&self.topic)
            .and_then(std::collections::VecDeque::pop_front)
        else {
            return Ok(None);
        };
        let read = |error| StreamsError::Other(format!("topic `{}`: {error}", self.topic));
        Ok(Some(Record {
            key: self
                .key_serde
                .deserialize(&self.topic, &produced.headers, produced.key.as_deref())
                .map_err(read)?,
            value: self
                .value_serde
                .deserialize(&self.topic, &produced.headers, produced.value.as_deref())
                .map_err(read)?,
            timestamp_ms: produced.timestamp_ms.unwrap_or(wall_clock_ms),
            headers: produced.headers,
        }))
    }

    /// All records that were written and not read yet.
    ///
    /// # Errors
    /// The serdes cannot read one.
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
    /// The serdes cannot read one.
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
