//! Session stores.

use super::base::{Base, Beside, Flushed, Found, OverBytes};
use super::byte_store::{Forwarding, Scan};
use super::bytes::{Direction, Row, Rows};
use super::codec::{AggregationWithHeaders, Codec, Plain, View, WithHeaders};
use super::window::RangesByTime;
use super::window_key::{bounds, damaged};
use crate::error::StreamsError;
use crate::formats::key_range::KeyRange;
use crate::formats::session_key::SessionKey;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::serde::{Window, Windowed};
use crate::store_fault::StoreFault;
use std::fmt;
use std::iter::Peekable;
use std::ops::RangeInclusive;

/// Aggregations by key and session, for a time.
///
/// A session whose end is older than the retention, measured from the latest end, is not seen any more, unless a cache
/// still has it. Sessions of a key are in the order of their ends. Ranges of several keys go segment by segment, and by
/// key within one; in a store in memory by end. Of sessions of one key and end the earliest start comes first; in a
/// store in memory without a cache the latest.
pub struct SessionStore<K, A> {
    pub(crate) base: Base<K, A>,
    ranges_by_time: RangesByTime,
    /// Of sessions of one key and end the latest start comes first, and backward the earliest.
    latest_starts_first: bool,
    /// The key of the end of a range.
    end: Vec<u8>,
}

/// A session store whose rows have headers (KIP-1271).
pub type SessionStoreWithHeaders<K, A> = SessionStore<K, A>;

impl<K, A> fmt::Debug for SessionStore<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)
    }
}

impl<K, A> OverBytes for SessionStore<K, A> {
    type Key = K;
    type Value = A;

    fn base(&self) -> &Base<K, A> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<K, A> {
        &mut self.base
    }
}

/// What a search wants of the rows of its range.
struct Wanted {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    earliest_end_ms: i64,
    latest_end_ms: i64,
    latest_start_ms: i64,
}

impl<K, A> SessionStore<K, A> {
    pub(crate) const fn new(
        base: Base<K, A>,
        ranges_by_time: RangesByTime,
        latest_starts_first: bool,
    ) -> Self {
        Self {
            base,
            ranges_by_time,
            latest_starts_first,
            end: Vec::new(),
        }
    }

    /// Whether its rows have headers.
    pub(crate) fn has_headers(&self) -> bool {
        self.base.codec.format.has_headers()
    }

    fn write_key(&mut self, key: &K, session: &Window) -> Result<(), StoreFault> {
        let base = &mut self.base;
        base.codec.write_key(key, &mut base.key)?;
        base.key.extend_from_slice(&session.end_ms.to_be_bytes());
        base.key.extend_from_slice(&session.start_ms.to_be_bytes());
        Ok(())
    }

    /// Sets the aggregation of a session; none deletes it.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn put(
        &mut self,
        context: &mut TaskContext,
        session: &Windowed<K>,
        aggregation: Option<&A>,
    ) -> Result<(), StreamsError> {
        self.put_with_headers(context, session, aggregation, &Headers::EMPTY)
    }

    /// As `put`, with headers.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_with_headers(
        &mut self,
        context: &mut TaskContext,
        session: &Windowed<K>,
        aggregation: Option<&A>,
        headers: &Headers,
    ) -> Result<(), StreamsError> {
        let beside = Beside {
            timestamp_ms: context.record.timestamp_ms,
            headers,
        };
        let put = self
            .write_key(&session.key, &session.window)
            .and_then(|()| self.base.put(context, aggregation, beside));
        self.base.named(put)
    }

    /// Deletes a session.
    ///
    /// # Errors
    /// As `put`.
    pub fn remove(
        &mut self,
        context: &mut TaskContext,
        session: &Windowed<K>,
    ) -> Result<(), StreamsError> {
        self.put(context, session, None)
    }

    /// The aggregation of the session of `key` with exactly these times.
    ///
    /// # Errors
    /// As `put`.
    pub fn fetch_session(
        &mut self,
        key: &K,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Option<A>, StreamsError> {
        let aggregation = self
            .write_key(key, &Window::of_session(start_ms, end_ms))
            .and_then(|()| self.base.get::<Plain>());
        self.base.named(aggregation)
    }

    /// As `fetch_session`, with headers.
    ///
    /// # Errors
    /// As `put`.
    pub fn fetch_session_with_headers(
        &mut self,
        key: &K,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Option<AggregationWithHeaders<A>>, StreamsError> {
        let aggregation = self
            .write_key(key, &Window::of_session(start_ms, end_ms))
            .and_then(|()| self.base.get::<WithHeaders>());
        let aggregation = self.base.named(aggregation)?;
        Ok(aggregation.map(|read| AggregationWithHeaders {
            aggregation: read.value,
            headers: read.headers,
        }))
    }

    /// The sessions of `key` that end at `earliest_end_ms` at the earliest and start at `latest_start_ms` at the
    /// latest, earliest ends first.
    ///
    /// # Errors
    /// As `put`; each row may fail for itself.
    pub fn find_sessions(
        &mut self,
        key: &K,
        earliest_end_ms: i64,
        latest_start_ms: i64,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        let direction = Direction::Forward;
        self.find_sessions_as::<Plain>(key, earliest_end_ms, latest_start_ms, direction)
    }

    /// As `find_sessions`, latest ends first.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn backward_find_sessions(
        &mut self,
        key: &K,
        earliest_end_ms: i64,
        latest_start_ms: i64,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        let direction = Direction::Backward;
        self.find_sessions_as::<Plain>(key, earliest_end_ms, latest_start_ms, direction)
    }

    /// As `find_sessions`, in a view and a direction.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn find_sessions_as<F: View>(
        &mut self,
        key: &K,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + '_, StreamsError> {
        let base = &mut self.base;
        let written = base.codec.write_key(key, &mut base.key);
        base.named(written)?;
        let earliest_end_ms = earliest_end_ms.max(0);
        let key = self.base.key.clone();
        let range = SessionKey::range_of_key(&key, earliest_end_ms, latest_start_ms);
        let wanted = Wanted {
            from: Some(key.clone()),
            to: Some(key),
            earliest_end_ms,
            latest_end_ms: i64::MAX,
            latest_start_ms,
        };
        self.rows::<F>(&range, wanted, (direction, false, false))
    }

    /// As `find_sessions`, of keys from the first to the last, both included. No key is without bound.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn find_sessions_of_keys(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        self.find_sessions_of_keys_as::<Plain>(
            from,
            to,
            earliest_end_ms,
            latest_start_ms,
            direction,
        )
    }

    /// As `find_sessions_of_keys`, in a view.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn find_sessions_of_keys_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + '_, StreamsError> {
        let Base { codec, key, .. } = &mut self.base;
        let written = from
            .map_or(Ok(()), |from| codec.write_key(from, key))
            .and_then(|()| to.map_or(Ok(()), |to| codec.write_key(to, &mut self.end)));
        self.base.named(written)?;
        let wanted = Wanted {
            from: from.map(|_| self.base.key.clone()),
            to: to.map(|_| self.end.clone()),
            earliest_end_ms: earliest_end_ms.max(0),
            latest_end_ms: i64::MAX,
            latest_start_ms,
        };
        let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
        let range = SessionKey::range(from, to, latest_start_ms);
        let by_time = self.ranges_by_time == RangesByTime::Always;
        self.rows::<F>(&range, wanted, (direction, by_time, false))
    }

    /// All sessions that end within these times; in a store for results that are emitted when sessions close, in the
    /// order of their ends.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn find_sessions_by_end(
        &mut self,
        ends_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        self.find_sessions_by_end_as::<Plain>(ends_ms)
    }

    /// As `find_sessions_by_end`, in a view.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn find_sessions_by_end_as<F: View>(
        &mut self,
        ends_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + '_, StreamsError> {
        self.find_between::<F>(ends_ms, false)
    }

    /// As `find_sessions_by_end`, of a store whose results are emitted when sessions close: as in Kafka Streams it
    /// shows sessions that have expired too, as long as their segment is there.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub(crate) fn find_closed_sessions(
        &mut self,
        ends_ms: RangeInclusive<i64>,
    ) -> Result<impl Iterator<Item = Result<(Windowed<K>, A), StreamsError>> + '_, StreamsError>
    {
        self.find_between::<Plain>(ends_ms, true)
    }

    fn find_between<F: View>(
        &mut self,
        ends_ms: RangeInclusive<i64>,
        shows_expired: bool,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + use<'_, F, K, A>, StreamsError>
    {
        let wanted = Wanted {
            from: None,
            to: None,
            earliest_end_ms: (*ends_ms.start()).max(0),
            latest_end_ms: *ends_ms.end(),
            latest_start_ms: i64::MAX,
        };
        let range = SessionKey::range(None, None, i64::MAX);
        let by_time = self.ranges_by_time != RangesByTime::Never;
        self.rows::<F>(&range, wanted, (Direction::Forward, by_time, shows_expired))
    }

    /// All sessions of `key`.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn fetch(
        &mut self,
        key: &K,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        self.find_sessions(key, 0, i64::MAX)
    }

    /// All sessions of `key`, latest first.
    ///
    /// # Errors
    /// As `find_sessions`.
    pub fn backward_fetch(
        &mut self,
        key: &K,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        self.backward_find_sessions(key, 0, i64::MAX)
    }

    fn rows<F: View>(
        &mut self,
        range: &KeyRange,
        wanted: Wanted,
        (direction, time_first, shows_expired): (Direction, bool, bool),
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + use<'_, F, K, A>, StreamsError>
    {
        let Base {
            name, codec, bytes, ..
        } = &mut self.base;
        let scan = Scan {
            bounds: bounds(range),
            times_ms: (wanted.earliest_end_ms, wanted.latest_end_ms),
            direction,
            time_first,
            shows_expired,
        };
        let rows = bytes.scan(&scan).map_err(|fault| fault.of(name))?;
        let rows: Rows<'_> = match self.latest_starts_first {
            true => Box::new(TurnedStarts {
                rows: rows.peekable(),
                turned: Vec::new(),
            }),
            false => rows,
        };
        Ok(rows.filter_map(move |row| {
            let read = row.and_then(|(key, row)| {
                let key = SessionKey::read(&key).map_err(damaged)?;
                let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
                let is_within =
                    key.is_within(from, to, wanted.earliest_end_ms, wanted.latest_start_ms);
                if !is_within || key.end_ms > wanted.latest_end_ms {
                    return Ok(None);
                }
                Ok(Some((windowed(codec, &key)?, codec.read_row::<F>(&row)?)))
            });
            read.map_err(|fault| fault.of(name)).transpose()
        }))
    }

    /// Whether the store has a cache, which from now on keeps what it gives on for `take_flushed`.
    pub fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.base.forward_flushed(forwarding)
    }

    /// The oldest change that the cache has given on and nobody has taken; see
    /// [`KeyValueStore::take_flushed`](super::KeyValueStore::take_flushed). Its time is the end of the session.
    ///
    /// # Errors
    /// A row is damaged, or a serde failed.
    pub fn take_flushed(&mut self) -> Result<Option<Flushed<Windowed<K>, A>>, StreamsError> {
        let taken = self
            .base
            .take_flushed(|codec, key| windowed(codec, &SessionKey::read(key).map_err(damaged)?));
        let taken = self.base.named(taken)?;
        let has_headers = self.has_headers();
        Ok(taken.map(|mut flushed| {
            flushed.timestamp_ms = flushed.key.window.end_ms;
            if has_headers {
                // Those of the row, which an aggregation has none of.
                flushed.context.headers = Headers::new();
            }
            flushed
        }))
    }
}

/// Rows of sessions, those of one key and end the other way round.
struct TurnedStarts<'a> {
    rows: Peekable<Rows<'a>>,
    /// Of one key and end; the next is the last.
    turned: Vec<Row<'a>>,
}

impl<'a> Iterator for TurnedStarts<'a> {
    type Item = Result<Row<'a>, StoreFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.turned.is_empty() {
            match self.rows.next()? {
                Ok(first) => self.turned.push(first),
                fault @ Err(_) => return Some(fault),
            }
            let key_and_end = |(key, _): &Row<'_>| key.len().saturating_sub(size_of::<i64>());
            while let Some(last) = self.turned.last()
                && let Some(Ok(row)) = self.rows.peek()
                && last.0[..key_and_end(last)] == row.0[..key_and_end(row)]
                && let Some(Ok(row)) = self.rows.next()
            {
                self.turned.push(row);
            }
        }
        self.turned.pop().map(Ok)
    }
}

fn windowed<K, A>(codec: &Codec<K, A>, key: &SessionKey<'_>) -> Result<Windowed<K>, StoreFault> {
    Ok(Windowed::new(
        codec.read_key(key.key)?,
        Window::of_session(key.start_ms, key.end_ms),
    ))
}
