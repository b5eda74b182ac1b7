//! Window stores.

use super::base::{Base, Beside, Flushed, Found, OverBytes};
use super::byte_store::{Forwarding, Scan};
use super::bytes::Direction;
use super::codec::{Codec, Plain, View};
use super::window_key::{bounds, damaged};
use crate::error::StreamsError;
use crate::formats::key_range::KeyRange;
use crate::formats::window_key::{WindowKey, window_end_ms};
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::serde::{Window, Windowed};
use crate::store_fault::StoreFault;
use std::fmt;
use std::ops::RangeInclusive;

/// Values by key and start of a window, for a time.
///
/// As in [`KeyValueStore`](super::KeyValueStore) the format of rows is the builder's choice, and every store can be
/// used in every view. A row that is older than the retention, measured from the newest one, is not seen any more,
/// unless a cache still has it, and one that is much older is not written. Ranges of one key are in the order of time.
/// Ranges of several keys go segment by segment, and by key within one; in a store in memory, and in one for results
/// that are emitted when windows close, by time.
pub struct WindowStore<K, V> {
    pub(crate) base: Base<K, V>,
    window_size_ms: i64,
    ranges_by_time: RangesByTime,
    /// The key of the end of a range.
    end: Vec<u8>,
}

/// Which ranges of several keys are in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangesByTime {
    Never,
    OfAllKeys,
    Always,
}

/// A window store whose rows have timestamps.
pub type TimestampedWindowStore<K, V> = WindowStore<K, V>;

/// A window store whose rows have timestamps and headers (KIP-1271).
pub type TimestampedWindowStoreWithHeaders<K, V> = WindowStore<K, V>;

impl<K, V> fmt::Debug for WindowStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)
    }
}

impl<K, V> OverBytes for WindowStore<K, V> {
    type Key = K;
    type Value = V;

    fn base(&self) -> &Base<K, V> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<K, V> {
        &mut self.base
    }
}

/// A window of a key and its value, in a view.
type WindowRow<F, K, V> = Result<(Windowed<K>, <F as View>::Of<V>), StreamsError>;

/// The times of a fetch: no window starts before the epoch.
fn of(times_ms: &RangeInclusive<i64>) -> (i64, i64) {
    ((*times_ms.start()).max(0), *times_ms.end())
}

/// What a fetch wants of the rows of its range.
struct Wanted {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    times_ms: (i64, i64),
}

impl<K, V> WindowStore<K, V> {
    pub(crate) const fn new(
        base: Base<K, V>,
        window_size_ms: i64,
        ranges_by_time: RangesByTime,
    ) -> Self {
        Self {
            base,
            window_size_ms,
            ranges_by_time,
            end: Vec::new(),
        }
    }

    /// The size of the windows.
    pub const fn window_size_ms(&self) -> i64 {
        self.window_size_ms
    }

    fn write_key(&mut self, key: &K, window_start_ms: i64) -> Result<(), StoreFault> {
        let base = &mut self.base;
        base.codec.write_key(key, &mut base.key)?;
        base.key.extend_from_slice(&window_start_ms.to_be_bytes());
        // The layers below number rows of stores that keep duplicates.
        base.key.extend_from_slice(&0_i32.to_be_bytes());
        Ok(())
    }

    /// Sets the value of `key` in the window that starts then; none deletes it. The row has the timestamp of the record
    /// that is processed, and no headers.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn put(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        window_start_ms: i64,
    ) -> Result<(), StreamsError> {
        let timestamp_ms = context.record.timestamp_ms;
        self.put_timestamped(context, key, value, timestamp_ms, window_start_ms)
    }

    /// As `put`, with a timestamp.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_timestamped(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
        window_start_ms: i64,
    ) -> Result<(), StreamsError> {
        let headers = &Headers::EMPTY;
        self.put_with_headers(context, key, value, timestamp_ms, headers, window_start_ms)
    }

    /// As `put`, with a timestamp and headers.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_with_headers(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
        headers: &Headers,
        window_start_ms: i64,
    ) -> Result<(), StreamsError> {
        let beside = Beside {
            timestamp_ms,
            headers,
        };
        let put = self
            .write_key(key, window_start_ms)
            .and_then(|()| self.base.put(context, value, beside));
        self.base.named(put)
    }

    /// The value of `key` in the window that starts then.
    ///
    /// # Errors
    /// As `put`.
    pub fn fetch_one(&mut self, key: &K, window_start_ms: i64) -> Result<Option<V>, StreamsError> {
        self.fetch_one_as::<Plain>(key, window_start_ms)
    }

    /// As `fetch_one`, in a view.
    ///
    /// # Errors
    /// As `put`.
    pub fn fetch_one_as<F: View>(
        &mut self,
        key: &K,
        window_start_ms: i64,
    ) -> Result<Option<F::Of<V>>, StreamsError> {
        let value = self
            .write_key(key, window_start_ms)
            .and_then(|()| self.base.get::<F>());
        self.base.named(value)
    }

    /// The windows of `key` that start within these times, with their values: first times first.
    ///
    /// # Errors
    /// As `put`; each row may fail for itself.
    pub fn fetch(
        &mut self,
        key: &K,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<i64, V>> + '_, StreamsError> {
        self.fetch_as::<Plain>(key, times_ms, Direction::Forward)
    }

    /// As `fetch`, last times first.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn backward_fetch(
        &mut self,
        key: &K,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<i64, V>> + '_, StreamsError> {
        self.fetch_as::<Plain>(key, times_ms, Direction::Backward)
    }

    /// As `fetch`, in a view and a direction.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_as<F: View>(
        &mut self,
        key: &K,
        times_ms: RangeInclusive<i64>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<i64, F::Of<V>>> + '_, StreamsError> {
        let base = &mut self.base;
        let written = base.codec.write_key(key, &mut base.key);
        base.named(written)?;
        let times_ms = of(&times_ms);
        let key = self.base.key.clone();
        let range = WindowKey::range_of_key(&key, times_ms.0, times_ms.1);
        let wanted = Wanted {
            from: Some(key.clone()),
            to: Some(key),
            times_ms,
        };
        self.rows::<F, _, _>(&range, wanted, direction, false, |_, key| {
            Ok(key.window_start_ms)
        })
    }

    /// The windows of keys from the first to the last, both included, that start within these times. No key is without
    /// bound.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_keys(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, V>> + '_, StreamsError> {
        self.fetch_keys_as::<Plain>(from, to, times_ms, Direction::Forward)
    }

    /// As `fetch_keys`, the other way round.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn backward_fetch_keys(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, V>> + '_, StreamsError> {
        self.fetch_keys_as::<Plain>(from, to, times_ms, Direction::Backward)
    }

    /// As `fetch_keys`, in a view and a direction.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_keys_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        times_ms: RangeInclusive<i64>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<V>>> + '_, StreamsError> {
        self.fetch_between::<F>(from, to, of(&times_ms), direction)
    }

    /// All windows that start within these times, first times first, of a store whose results are emitted when windows
    /// close.
    ///
    /// # Errors
    /// As `fetch`.
    pub(crate) fn fetch_closed_as<F: View>(
        &mut self,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = WindowRow<F, K, V>> + '_, StreamsError> {
        self.fetch_between::<F>(None, None, of(&times_ms), Direction::Forward)
    }

    /// Windows of keys within these bounds that start within these times.
    fn fetch_between<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        times_ms: (i64, i64),
        direction: Direction,
    ) -> Result<impl Iterator<Item = WindowRow<F, K, V>> + use<'_, F, K, V>, StreamsError> {
        let Base { codec, key, .. } = &mut self.base;
        let written = from
            .map_or(Ok(()), |from| codec.write_key(from, key))
            .and_then(|()| to.map_or(Ok(()), |to| codec.write_key(to, &mut self.end)));
        self.base.named(written)?;
        let wanted = Wanted {
            from: from.map(|_| self.base.key.clone()),
            to: to.map(|_| self.end.clone()),
            times_ms,
        };
        let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
        let range = WindowKey::range(from, to, wanted.times_ms.1);
        let is_time_first = match self.ranges_by_time {
            RangesByTime::Never => false,
            RangesByTime::OfAllKeys => from.is_none() && to.is_none(),
            RangesByTime::Always => true,
        };
        let size_ms = self.window_size_ms;
        let read_key =
            move |codec: &Codec<K, V>, key: WindowKey<'_>| windowed(codec, &key, size_ms);
        self.rows::<F, _, _>(&range, wanted, direction, is_time_first, read_key)
    }

    /// All windows that start within these times.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_all(
        &mut self,
        times_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, V>> + '_, StreamsError> {
        self.fetch_keys(None, None, times_ms)
    }

    /// All windows.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn all(
        &mut self,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, V>> + '_, StreamsError> {
        self.fetch_all(0..=i64::MAX)
    }

    /// All windows, the other way round.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn backward_all(
        &mut self,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, V>> + '_, StreamsError> {
        self.backward_fetch_keys(None, None, 0..=i64::MAX)
    }

    fn rows<F: View, T, R>(
        &mut self,
        range: &KeyRange,
        wanted: Wanted,
        direction: Direction,
        time_first: bool,
        read_key: R,
    ) -> Result<impl Iterator<Item = Found<T, F::Of<V>>> + use<'_, F, T, R, K, V>, StreamsError>
    where
        R: Fn(&Codec<K, V>, WindowKey<'_>) -> Result<T, StoreFault>,
    {
        let Base {
            name, codec, bytes, ..
        } = &mut self.base;
        let scan = Scan {
            bounds: bounds(range),
            times_ms: wanted.times_ms,
            direction,
            time_first,
            shows_expired: false,
        };
        let rows = bytes.scan(&scan).map_err(|fault| fault.of(name))?;
        Ok(rows.filter_map(move |row| {
            let read = row.and_then(|(key, row)| {
                let key = WindowKey::read(&key).map_err(damaged)?;
                let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
                if !key.is_within(from, to, wanted.times_ms.0, wanted.times_ms.1) {
                    return Ok(None);
                }
                Ok(Some((read_key(codec, key)?, codec.read_row::<F>(&row)?)))
            });
            read.map_err(|fault| fault.of(name)).transpose()
        }))
    }

    /// About how many rows there are, as in a key-value store.
    pub fn approximate_num_entries(&self) -> u64 {
        self.base.bytes.approximate_count()
    }

    /// Whether the store has a cache, which from now on keeps what it gives on for `take_flushed`.
    pub fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.base.forward_flushed(forwarding)
    }

    /// The oldest change that the cache has given on and nobody has taken; see
    /// [`KeyValueStore::take_flushed`](super::KeyValueStore::take_flushed).
    ///
    /// # Errors
    /// A row is damaged, or a serde failed.
    pub fn take_flushed(&mut self) -> Result<Option<Flushed<Windowed<K>, V>>, StreamsError> {
        let size_ms = self.window_size_ms;
        let taken = self.base.take_flushed(|codec, key| {
            windowed(codec, &WindowKey::read(key).map_err(damaged)?, size_ms)
        });
        self.base.named(taken)
    }
}

fn windowed<K, V>(
    codec: &Codec<K, V>,
    key: &WindowKey<'_>,
    size_ms: i64,
) -> Result<Windowed<K>, StoreFault> {
    let end_ms = window_end_ms(key.window_start_ms, size_ms);
    Ok(Windowed::new(
        codec.read_key(key.key)?,
        Window::of_time(key.window_start_ms, end_ms),
    ))
}
