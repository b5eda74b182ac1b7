//! The buffer of suppress: the newest change of each key, in the order of times.
//!
//! It is in memory. The changelog gets at each commit what became of the keys that were touched since.

use super::buffered::{lend, own, size_of_context};
use super::codec::Codec;
use super::layers::Changelog;
use super::window_key::damaged;
use super::{ChangelogRecord, Offsets, StateStore};
use crate::error::StreamsError;
use crate::formats::buffer_value::{
    BufferChange, BufferValue, BufferVersion, VERSION_HEADER, VERSION_HEADER_VALUE,
};
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::record::{Change, RecordContext};
use crate::store_fault::StoreFault;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A change that leaves the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Released<K, V> {
    pub(crate) key: K,
    pub(crate) change: Change<V>,
    /// Of the record that made the change.
    pub(crate) context: RecordContext,
}

#[derive(Debug)]
struct Held {
    /// What the table had before the first change that is held back.
    prior: Option<Bytes>,
    old: Option<Bytes>,
    new: Option<Bytes>,
    context: RecordContext,
}

impl Held {
    /// What it counts for, as Kafka Streams counts.
    fn bytes(&self, key: &[u8]) -> usize {
        let length = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        let old = match self.old == self.prior {
            true => 0,
            false => length(&self.old),
        };
        let values = length(&self.prior) + old + length(&self.new);
        8 + key.len() + values + size_of_context(&self.context)
    }
}

/// Changes by time and key.
pub(crate) struct SuppressBuffer<K, V> {
    name: Arc<str>,
    codec: Codec<K, V>,
    changelog: Option<Changelog>,
    held: BTreeMap<(i64, Bytes), Held>,
    /// The time by which a key is in the buffer: that of its first change.
    times_ms: BTreeMap<Bytes, i64>,
    /// Keys whose newest state the changelog does not have.
    unlogged: BTreeSet<Bytes>,
    bytes: usize,
}

impl<K, V> fmt::Debug for SuppressBuffer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuppressBuffer")
            .field("name", &self.name)
            .field("records", &self.held.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<K, V> SuppressBuffer<K, V> {
    pub(crate) fn new(name: &Arc<str>, codec: Codec<K, V>, changelog: Option<Changelog>) -> Self {
        Self {
            name: Arc::clone(name),
            codec,
            changelog,
            held: BTreeMap::new(),
            times_ms: BTreeMap::new(),
            unlogged: BTreeSet::new(),
            bytes: 0,
        }
    }

    fn named<T>(&self, result: Result<T, StoreFault>) -> Result<T, StreamsError> {
        result.map_err(|fault| fault.of(&self.name))
    }

    /// Holds a change back, of the record that is processed. A key that is in the buffer keeps its time.
    ///
    /// # Errors
    /// A serde failed.
    pub(crate) fn put(
        &mut self,
        context: &TaskContext,
        time_ms: i64,
        key: &K,
        change: &Change<V>,
    ) -> Result<(), StreamsError> {
        let put = self.put_change(context, time_ms, key, change);
        self.named(put)
    }

    fn put_change(
        &mut self,
        context: &TaskContext,
        time_ms: i64,
        key: &K,
        change: &Change<V>,
    ) -> Result<(), StoreFault> {
        let mut bytes = Vec::new();
        self.codec.write_key(key, &mut bytes)?;
        let key = Bytes::from(bytes);
        let old = self.serialize(change.old.as_ref())?;
        let new = self.serialize(change.new.as_ref())?;
        let prior = self.prior(&key).unwrap_or_else(|| old.clone());
        let held = Held {
            prior,
            old,
            new,
            context: context.record.clone(),
        };
        self.unlogged.insert(key.clone());
        self.hold(time_ms, key, held);
        Ok(())
    }

    fn serialize(&self, value: Option<&V>) -> Result<Option<Bytes>, StoreFault> {
        let Some(value) = value else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let is_value = self
            .codec
            .write_row(value, -1, &Headers::EMPTY, &mut bytes)?;
        Ok(is_value.then(|| Bytes::from(bytes)))
    }

    fn prior(&self, key: &Bytes) -> Option<Option<Bytes>> {
        let time_ms = self.times_ms.get(key)?;
        let held = self.held.get(&(*time_ms, key.clone()))?;
        Some(held.prior.clone())
    }

    fn hold(&mut self, time_ms: i64, key: Bytes, held: Held) {
        let time_ms = *self.times_ms.entry(key.clone()).or_insert(time_ms);
        self.bytes += held.bytes(&key);
        if let Some(before) = self.held.insert((time_ms, key.clone()), held) {
            self.bytes -= before.bytes(&key);
        }
    }

    /// What the table had before the first change of `key` that is held back; none if none is.
    ///
    /// # Errors
    /// A serde failed.
    pub(crate) fn prior_value(&self, key: &K) -> Result<Option<Option<V>>, StreamsError> {
        let mut bytes = Vec::new();
        let prior = self.codec.write_key(key, &mut bytes).and_then(|()| {
            self.prior(&Bytes::from(bytes))
                .map(|prior| self.read(prior.as_ref()))
                .transpose()
        });
        self.named(prior)
    }

    fn read(&self, value: Option<&Bytes>) -> Result<Option<V>, StoreFault> {
        value.map(|value| self.codec.read_value(value)).transpose()
    }

    /// The smallest time in the buffer.
    pub(crate) fn first_time_ms(&self) -> Option<i64> {
        self.held
            .first_key_value()
            .map(|((time_ms, _), _)| *time_ms)
    }

    /// How many keys are in the buffer.
    pub(crate) fn record_count(&self) -> usize {
        self.held.len()
    }

    /// What the buffer holds, as Kafka Streams counts.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the change of the smallest time, and of the first key of that time.
    ///
    /// # Errors
    /// A serde failed.
    pub(crate) fn release_first(&mut self) -> Result<Option<Released<K, V>>, StreamsError> {
        let released = self.take_first();
        self.named(released)
    }

    fn take_first(&mut self) -> Result<Option<Released<K, V>>, StoreFault> {
        let Some(((_, key), held)) = self.held.pop_first() else {
            return Ok(None);
        };
        self.bytes -= held.bytes(&key);
        self.times_ms.remove(&key);
        let change = Change::new(self.read(held.new.as_ref())?, self.read(held.old.as_ref())?);
        let released = Released {
            key: self.codec.read_key(&key)?,
            change,
            context: held.context,
        };
        self.unlogged.insert(key);
        Ok(Some(released))
    }

    fn restore_record(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let key = record.key.clone();
        let Some(value) = &record.value else {
            if let Some(time_ms) = self.times_ms.remove(&key)
                && let Some(held) = self.held.remove(&(time_ms, key.clone()))
            {
                self.bytes -= held.bytes(&key);
            }
            return Ok(());
        };
        let version = record.headers.last(VERSION_HEADER);
        let version = version.and_then(|header| header.value.as_deref());
        let version = BufferVersion::of_header(version).map_err(damaged)?;
        let change = BufferChange::read(version, value).map_err(damaged)?;
        let context = match &change.context {
            Some(context) => own(context),
            // The oldest release did not write where a record came from.
            None => RecordContext {
                topic: Arc::clone(&self.codec.topic),
                offset: record.offset,
                headers: record.headers.clone(),
                ..RecordContext::of_no_record(record.timestamp_ms)
            },
        };
        let copy = |value: Option<&[u8]>| value.map(Bytes::copy_from_slice);
        let old = copy(change.old);
        let prior = match change.prior {
            Some(prior) => copy(prior),
            None => self.prior(&key).unwrap_or_else(|| old.clone()),
        };
        let held = Held {
            prior,
            old,
            new: copy(change.new),
            context,
        };
        self.hold(change.buffer_time_ms, key, held);
        Ok(())
    }
}

impl<K, V> StateStore for SuppressBuffer<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        let restored = records
            .iter()
            .try_for_each(|record| self.restore_record(record));
        self.named(restored)
    }

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError> {
        let unlogged = std::mem::take(&mut self.unlogged);
        let Some(changelog) = &self.changelog else {
            return Ok(());
        };
        for key in unlogged {
            let held = self
                .times_ms
                .get(&key)
                .and_then(|time_ms| Some((*time_ms, self.held.get(&(*time_ms, key.clone()))?)));
            let Some((time_ms, held)) = held else {
                changelog.log(context, &key, None, None, Headers::new());
                continue;
            };
            let value = BufferValue {
                context: lend(&held.context),
                prior: held.prior.as_deref(),
                old: held.old.as_deref(),
                new: held.new.as_deref(),
            };
            let mut headers = Headers::new();
            headers.add(VERSION_HEADER, Bytes::from_static(&VERSION_HEADER_VALUE));
            let value = value.to_changelog(time_ms);
            changelog.log(context, &key, Some(&value), None, headers);
        }
        Ok(())
    }

    fn settle(&mut self, _: u64) -> Result<bool, StreamsError> {
        Ok(true)
    }

    fn unsettled_bytes(&self) -> u64 {
        0
    }

    fn commit(&mut self, _: &Offsets) -> Result<(), StreamsError> {
        Ok(())
    }

    fn committed_offset(&self, _: &str, _: i32) -> Result<Option<i64>, StreamsError> {
        Ok(None)
    }

    fn close(&mut self) -> Result<(), StreamsError> {
        Ok(())
    }
}
