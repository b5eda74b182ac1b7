//! Key-value stores.

use super::base::{Base, Beside, Flushed, Found, OverBytes};
use super::byte_store::{Forwarding, Scan};
use super::bytes::{Bounds, Direction};
use super::codec::{Codec, Plain, View};
use crate::error::StreamsError;
use crate::formats::key_range::KeyRange;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::serde::Serde;
use crate::store_fault::StoreFault;
use std::fmt;
use std::ops::{Bound, RangeBounds as _};

/// Values by key. Whether rows have timestamps or headers is the store's format, which its builder chose; every store
/// can be read and written in every view: what its format has not is -1 or empty when it is read, and left out when it
/// is written.
///
/// Ranges follow the order of the serialized keys.
pub struct KeyValueStore<K, V> {
    pub(crate) base: Base<K, V>,
    /// The end of a range, while it is made.
    end: Vec<u8>,
}

/// A key-value store whose rows have timestamps: what tables and aggregations are kept in.
pub type TimestampedKeyValueStore<K, V> = KeyValueStore<K, V>;

/// A key-value store whose rows have timestamps and headers (KIP-1271).
pub type TimestampedKeyValueStoreWithHeaders<K, V> = KeyValueStore<K, V>;

impl<K, V> fmt::Debug for KeyValueStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)
    }
}

impl<K, V> OverBytes for KeyValueStore<K, V> {
    type Key = K;
    type Value = V;

    fn base(&self) -> &Base<K, V> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<K, V> {
        &mut self.base
    }
}

/// Every segment; a key-value store has none.
const ALL_TIMES: (i64, i64) = (0, i64::MAX);

impl<K, V> KeyValueStore<K, V> {
    pub(crate) const fn new(base: Base<K, V>) -> Self {
        Self {
            base,
            end: Vec::new(),
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn get(&mut self, key: &K) -> Result<Option<V>, StreamsError> {
        self.get_as::<Plain>(key)
    }

    /// The value of `key` in a view, such as `Timestamped`.
    ///
    /// # Errors
    /// As `get`.
    pub fn get_as<F: View>(&mut self, key: &K) -> Result<Option<F::Of<V>>, StreamsError> {
        let base = &mut self.base;
        let written = base.codec.write_key(key, &mut base.key);
        let value = written.and_then(|()| base.get::<F>());
        base.named(value)
    }

    /// Sets the value of `key`; none deletes it. The row has the timestamp of the record that is processed, and no
    /// headers.
    ///
    /// # Errors
    /// As `get`.
    pub fn put(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
    ) -> Result<(), StreamsError> {
        let timestamp_ms = context.record.timestamp_ms;
        self.put_timestamped(context, key, value, timestamp_ms)
    }

    /// Sets the value of `key` with a timestamp; none deletes it.
    ///
    /// # Errors
    /// As `get`.
    pub fn put_timestamped(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
    ) -> Result<(), StreamsError> {
        self.put_with_headers(context, key, value, timestamp_ms, &Headers::EMPTY)
    }

    /// Sets the value of `key` with a timestamp and headers; none deletes it.
    ///
    /// # Errors
    /// As `get`.
    pub fn put_with_headers(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
        headers: &Headers,
    ) -> Result<(), StreamsError> {
        let base = &mut self.base;
        let beside = Beside {
            timestamp_ms,
            headers,
        };
        let written = base.codec.write_key(key, &mut base.key);
        let put = written.and_then(|()| base.put(context, value, beside));
        base.named(put)
    }

    /// Sets the value of `key` if it has none; the value that it has.
    ///
    /// # Errors
    /// As `get`.
    pub fn put_if_absent(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
    ) -> Result<Option<V>, StreamsError> {
        let present = self.get(key)?;
        if present.is_none() {
            self.put(context, key, value)?;
        }
        Ok(present)
    }

    /// Sets the values of keys, in order; none deletes.
    ///
    /// # Errors
    /// As `get`; what came before is set.
    pub fn put_all<'a>(
        &mut self,
        context: &mut TaskContext,
        entries: impl IntoIterator<Item = (&'a K, Option<&'a V>)>,
    ) -> Result<(), StreamsError>
    where
        K: 'a,
        V: 'a,
    {
        entries
            .into_iter()
            .try_for_each(|(key, value)| self.put(context, key, value))
    }

    /// Deletes `key`; the value that it had.
    ///
    /// # Errors
    /// As `get`.
    pub fn delete(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<V>, StreamsError> {
        let old = self.get(key)?;
        self.put(context, key, None)?;
        Ok(old)
    }

    /// Keys from the first to the last, both included; none is without bound.
    ///
    /// # Errors
    /// As `get`; each row may fail for itself.
    pub fn range(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
    ) -> Result<impl Iterator<Item = Found<K, V>> + '_, StreamsError> {
        self.range_as::<Plain>(from, to, Direction::Forward)
    }

    /// As `range`, from the last key to the first.
    ///
    /// # Errors
    /// As `range`.
    pub fn reverse_range(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
    ) -> Result<impl Iterator<Item = Found<K, V>> + '_, StreamsError> {
        self.range_as::<Plain>(from, to, Direction::Backward)
    }

    /// All keys.
    ///
    /// # Errors
    /// As `range`.
    pub fn all(&mut self) -> Result<impl Iterator<Item = Found<K, V>> + '_, StreamsError> {
        self.range(None, None)
    }

    /// All keys, from the last to the first.
    ///
    /// # Errors
    /// As `range`.
    pub fn reverse_all(&mut self) -> Result<impl Iterator<Item = Found<K, V>> + '_, StreamsError> {
        self.reverse_range(None, None)
    }

    /// As `range`, with values in a view, and in a direction.
    ///
    /// # Errors
    /// As `range`.
    pub fn range_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<K, F::Of<V>>> + '_, StreamsError> {
        let Base { codec, key, .. } = &mut self.base;
        let written = from
            .map_or(Ok(()), |from| codec.write_key(from, key))
            .and_then(|()| to.map_or(Ok(()), |to| codec.write_key(to, &mut self.end)));
        self.base.named(written)?;
        let bound = |is_bounded: bool, key: &[u8]| match is_bounded {
            true => Bound::Included(key.to_vec()),
            false => Bound::Unbounded,
        };
        let bounds = (
            bound(from.is_some(), &self.base.key),
            bound(to.is_some(), &self.end),
        );
        let slices = (
            bounds.0.as_ref().map(Vec::as_slice),
            bounds.1.as_ref().map(Vec::as_slice),
        );
        self.rows::<F>(slices, direction)
    }

    /// Keys whose bytes begin with those of `prefix`, which `serde` writes.
    ///
    /// # Errors
    /// As `range`.
    pub fn prefix_scan<P>(
        &mut self,
        prefix: &P,
        serde: &dyn Serde<P>,
    ) -> Result<impl Iterator<Item = Found<K, V>> + '_, StreamsError> {
        self.prefix_scan_as::<Plain, P>(prefix, serde)
    }

    /// As `prefix_scan`, with values in a view.
    ///
    /// # Errors
    /// As `range`.
    pub fn prefix_scan_as<F: View, P>(
        &mut self,
        prefix: &P,
        serde: &dyn Serde<P>,
    ) -> Result<impl Iterator<Item = Found<K, F::Of<V>>> + '_, StreamsError> {
        let mut bytes = Vec::new();
        let topic = &self.base.codec.topic;
        let written = serde
            .serialize(topic, &mut Headers::new(), prefix, &mut bytes)
            .map_err(StoreFault::Key);
        self.base.named(written)?;
        let range = KeyRange::of_prefix(&bytes);
        self.rows::<F>((range.start_bound(), range.end_bound()), Direction::Forward)
    }

    fn rows<F: View>(
        &mut self,
        bounds: Bounds<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<K, F::Of<V>>> + use<'_, F, K, V>, StreamsError> {
        let Base {
            name, codec, bytes, ..
        } = &mut self.base;
        let scan = Scan {
            bounds,
            times_ms: ALL_TIMES,
            direction,
            time_first: false,
            shows_expired: false,
        };
        let rows = bytes.scan(&scan).map_err(|fault| fault.of(name))?;
        Ok(rows.map(move |row| {
            let read =
                row.and_then(|(key, row)| Ok((codec.read_key(&key)?, codec.read_row::<F>(&row)?)));
            read.map_err(|fault| fault.of(name))
        }))
    }

    /// About how many keys there are: on disk, keys that were written several times or deleted may count.
    pub fn approximate_num_entries(&self) -> u64 {
        self.base.bytes.approximate_count()
    }

    /// Whether the store has a cache, which from now on keeps what it gives on for `take_flushed`.
    pub fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.base.forward_flushed(forwarding)
    }

    /// The oldest change that the cache has given on and nobody has taken: ask after each write and after a flush, and
    /// forward it once the store is not borrowed any more.
    ///
    /// # Errors
    /// A row is damaged, or a serde failed.
    pub fn take_flushed(&mut self) -> Result<Option<Flushed<K, V>>, StreamsError> {
        let taken = self.base.take_flushed(Codec::read_key);
        self.base.named(taken)
    }
}
