//! What every typed store stands on: its name, its serdes, its layers of bytes, and room to serialize into.

use super::byte_store::{ByteStore, FlushedRow, Forwarding};
use super::codec::{Codec, Plain, Timestamped, View};
use super::{ChangelogRecord, Offsets, StateStore};
use crate::error::StreamsError;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::record::{Change, RecordContext};
use crate::store_fault::StoreFault;
use std::fmt;
use std::sync::Arc;

pub(crate) struct Base<K, V> {
    pub(crate) name: Arc<str>,
    pub(crate) codec: Codec<K, V>,
    pub(crate) bytes: Box<dyn ByteStore>,
    /// The key of the call that runs.
    pub(crate) key: Vec<u8>,
    /// The row of the call that runs.
    pub(crate) row: Vec<u8>,
}

impl<K, V> fmt::Debug for Base<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

/// What stands beside a value that is put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) timestamp_ms: i64,
    pub(crate) headers: &'a Headers,
}

/// A row of a range: its key and its value, or why it cannot be read.
pub type Found<K, V> = Result<(K, V), StreamsError>;

/// A change that a cache has given on, for the node that owns the store to forward.
#[derive(Debug, Clone)]
pub struct Flushed<K, V> {
    /// The key.
    pub key: K,
    /// The values; the old one only if it was asked for.
    pub change: Change<V>,
    /// The time of the change: that of the value if the store knows it, else that of the record.
    pub timestamp_ms: i64,
    /// The record that made the change.
    pub context: RecordContext,
}

impl<K, V> Base<K, V> {
    pub(crate) fn new(name: &Arc<str>, codec: Codec<K, V>, bytes: Box<dyn ByteStore>) -> Self {
        Self {
            name: Arc::clone(name),
            codec,
            bytes,
            key: Vec::new(),
            row: Vec::new(),
        }
    }

    /// A fault with the store's name.
    pub(crate) fn named<T>(&self, result: Result<T, StoreFault>) -> Result<T, StreamsError> {
        result.map_err(|fault| fault.of(&self.name))
    }

    /// The row of the key in `self.key`.
    pub(crate) fn get<F: View>(&mut self) -> Result<Option<F::Of<V>>, StoreFault> {
        match self.bytes.get(&self.key)? {
            Some(row) => self.codec.read_row::<F>(&row).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the row of the key in `self.key`, or deletes it.
    pub(crate) fn put(
        &mut self,
        context: &mut TaskContext,
        value: Option<&V>,
        beside: Beside<'_>,
    ) -> Result<(), StoreFault> {
        let is_value = match value {
            Some(value) => {
                let (timestamp_ms, headers) = (beside.timestamp_ms, beside.headers);
                self.codec
                    .write_row(value, timestamp_ms, headers, &mut self.row)?
            }
            None => false,
        };
        let row = is_value.then_some(self.row.as_slice());
        self.bytes.put(context, &self.key, row)
    }

    /// The oldest change that the cache has given on; `read_key` knows the store's keys.
    pub(crate) fn take_flushed<K2>(
        &mut self,
        read_key: impl FnOnce(&Codec<K, V>, &[u8]) -> Result<K2, StoreFault>,
    ) -> Result<Option<Flushed<K2, V>>, StoreFault> {
        let Some(FlushedRow {
            key,
            new,
            old,
            context,
        }) = self.bytes.take_flushed()
        else {
            return Ok(None);
        };
        let key = read_key(&self.codec, &key)?;
        let old = old
            .map(|row| self.codec.read_row::<Plain>(&row))
            .transpose()?;
        let new = new
            .map(|row| self.codec.read_row::<Timestamped>(&row))
            .transpose()?;
        let timestamp_ms = match &new {
            Some(new) if self.codec.format.has_timestamp() => new.timestamp_ms,
            _ => context.timestamp_ms,
        };
        Ok(Some(Flushed {
            key,
            change: Change::new(new.map(|new| new.value), old),
            timestamp_ms,
            context,
        }))
    }

    pub(crate) fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.bytes.forward_flushed(forwarding)
    }

    pub(crate) fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError> {
        let flushed = self.bytes.flush(context);
        self.named(flushed)
    }

    pub(crate) fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        let restored = records
            .iter()
            .try_for_each(|record| self.bytes.restore(record));
        self.named(restored)
    }

    pub(crate) fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError> {
        let settled = self.bytes.settle(most_bytes);
        self.named(settled)
    }

    pub(crate) fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError> {
        let committed = self.bytes.commit(offsets);
        self.named(committed)
    }

    pub(crate) fn committed_offset(
        &self,
        topic: &str,
        partition: i32,
    ) -> Result<Option<i64>, StreamsError> {
        self.named(self.bytes.committed_offset(topic, partition))
    }

    pub(crate) fn close(&mut self) -> Result<(), StreamsError> {
        let closed = self.bytes.close();
        self.named(closed)
    }
}

/// A typed store over layers of bytes.
pub(crate) trait OverBytes {
    type Key;
    type Value;

    fn base(&self) -> &Base<Self::Key, Self::Value>;
    fn base_mut(&mut self) -> &mut Base<Self::Key, Self::Value>;
}

impl<S: OverBytes> StateStore for S {
    fn name(&self) -> &Arc<str> {
        &self.base().name
    }

    fn is_persistent(&self) -> bool {
        self.base().bytes.is_persistent()
    }

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError> {
        self.base_mut().flush(context)
    }

    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        self.base_mut().restore(records)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError> {
        self.base_mut().settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.base().bytes.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError> {
        self.base_mut().commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StreamsError> {
        self.base().committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.base().bytes.was_left_open()
    }

    fn close(&mut self) -> Result<(), StreamsError> {
        self.base_mut().close()
    }
}
