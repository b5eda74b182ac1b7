//! The key of a session: a key, where the session ends, and where it starts.
//!
//! | where | bytes |
//! |--|--|
//! | session store, its changelog, ordinary topic | key, i64 end, i64 start |
//! | time-first store | 0, i64 end, i64 start, key |
//! | key-first index of such a store (the value is empty) | 1, key, i64 end, i64 start |

use super::FormatError;
use super::key_range::{KeyRange, highest, lowest};
use super::window_key::{KEY_FIRST, TIME_FIRST, time_first_range, without_prefix};

/// Bytes behind the key.
const SUFFIX_BYTES: usize = 8 + 8;

/// The key of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey<'a> {
    /// The serialized key of the records.
    pub key: &'a [u8],
    /// The time of the last record.
    pub end_ms: i64,
    /// The time of the first record.
    pub start_ms: i64,
}

impl<'a> SessionKey<'a> {
    /// Reads the key of a session store, its changelog or an ordinary topic.
    ///
    /// # Errors
    /// When there are fewer bytes than end and start have.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let split = stored.split_last_chunk();
        let (key, times) = split.ok_or(FormatError::Truncated)?;
        Ok(Self::of_times(key, times))
    }

    /// Reads the key of a time-first store.
    ///
    /// # Errors
    /// When there are too few bytes, or they are another form's.
    pub fn read_time_first(stored: &'a [u8]) -> Result<Self, FormatError> {
        let split = without_prefix(TIME_FIRST, stored)?.split_first_chunk();
        let (times, key) = split.ok_or(FormatError::Truncated)?;
        Ok(Self::of_times(key, times))
    }

    /// Reads the key of the index of a time-first store.
    ///
    /// # Errors
    /// When there are too few bytes, or they are another form's.
    pub fn read_key_first(stored: &'a [u8]) -> Result<Self, FormatError> {
        Self::read(without_prefix(KEY_FIRST, stored)?)
    }

    fn of_times(key: &'a [u8], times: &[u8; SUFFIX_BYTES]) -> Self {
        // The end stands in the upper half, the start in the lower.
        let times = u128::from_be_bytes(*times);
        Self {
            key,
            end_ms: (times >> 64) as i64,
            start_ms: times as i64,
        }
    }

    /// The key of a session store, its changelog and ordinary topics.
    pub fn to_store_key(&self) -> Vec<u8> {
        [self.key, &suffix_of(self.end_ms, self.start_ms)].concat()
    }

    /// The key of a time-first store.
    pub fn to_time_first_key(&self) -> Vec<u8> {
        let times = suffix_of(self.end_ms, self.start_ms);
        [&[TIME_FIRST], &times[..], self.key].concat()
    }

    /// The key of the index of a time-first store.
    pub fn to_key_first_key(&self) -> Vec<u8> {
        let times = suffix_of(self.end_ms, self.start_ms);
        [&[KEY_FIRST], self.key, &times].concat()
    }

    /// Where in a session store the sessions of one key are that end at `earliest_end_ms` at the
    /// earliest and start at `latest_start_ms` at the latest.
    pub fn range_of_key(key: &[u8], earliest_end_ms: i64, latest_start_ms: i64) -> KeyRange {
        Self::prefixed_range_of_key(&[], key, earliest_end_ms, latest_start_ms)
    }

    /// [`range_of_key`](Self::range_of_key) in the index of a time-first store.
    pub fn key_first_range_of_key(
        key: &[u8],
        earliest_end_ms: i64,
        latest_start_ms: i64,
    ) -> KeyRange {
        Self::prefixed_range_of_key(&[KEY_FIRST], key, earliest_end_ms, latest_start_ms)
    }

    fn prefixed_range_of_key(
        prefix: &[u8],
        key: &[u8],
        earliest_end_ms: i64,
        latest_start_ms: i64,
    ) -> KeyRange {
        let lower = suffix_of(earliest_end_ms.max(0), 0);
        let upper = latest_suffix(latest_start_ms);
        let of_suffix = |suffix: &[u8]| [prefix, key, suffix].concat();
        KeyRange::inclusive(of_suffix(&lower), of_suffix(&upper))
    }

    /// Where in a session store the sessions of keys from `from` to `to` are that start at
    /// `latest_start_ms` at the latest; `None` is without bound.
    pub fn range(from: Option<&[u8]>, to: Option<&[u8]>, latest_start_ms: i64) -> KeyRange {
        let lower = from.map_or_else(Vec::new, |from| lowest(&[], from, SUFFIX_BYTES));
        match to {
            Some(to) => {
                KeyRange::inclusive(lower, highest(&[], to, &latest_suffix(latest_start_ms)))
            }
            None => KeyRange::from(lower),
        }
    }

    /// [`range`](Self::range) in the index of a time-first store.
    pub fn key_first_range(
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        latest_start_ms: i64,
    ) -> KeyRange {
        let lower = lowest(&[KEY_FIRST], from.unwrap_or_default(), 0);
        let suffix = latest_suffix(latest_start_ms);
        match to {
            Some(to) => KeyRange::inclusive(lower, highest(&[KEY_FIRST], to, &suffix)),
            None => KeyRange::up_to_prefix(lower, &[KEY_FIRST]),
        }
    }

    /// Where in a time-first store the sessions of all keys are that end from `earliest_end_ms` to
    /// `latest_end_ms`.
    pub fn time_first_range(earliest_end_ms: i64, latest_end_ms: i64) -> KeyRange {
        time_first_range(earliest_end_ms, latest_end_ms)
    }

    /// Whether this is a session of a key from `from` to `to` that ends at `earliest_end_ms` at the
    /// earliest and starts at `latest_start_ms` at the latest.
    pub fn is_within(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        earliest_end_ms: i64,
        latest_start_ms: i64,
    ) -> bool {
        from.is_none_or(|from| from <= self.key)
            && to.is_none_or(|to| self.key <= to)
            && earliest_end_ms <= self.end_ms
            && self.start_ms <= latest_start_ms
    }
}

/// A session may start in time and end whenever.
fn latest_suffix(latest_start_ms: i64) -> [u8; SUFFIX_BYTES] {
    suffix_of(i64::MAX, latest_start_ms.max(0))
}

fn suffix_of(end_ms: i64, start_ms: i64) -> [u8; SUFFIX_BYTES] {
    let end = u128::from(end_ms as u64) << 64;
    (end | u128::from(start_ms as u64)).to_be_bytes()
}
