//! The key of a window: a key, where its window starts, and a number for those that repeat.
//!
//! | where | bytes |
//! |--|--|
//! | window store, its changelog | key, i64 start, i32 sequence number |
//! | ordinary topic | key, i64 start |
//! | time-first store, grace buffer | 0, i64 start, key, i32 sequence number |
//! | key-first index of such a store (the value is empty) | 1, key, i64 start, i32 sequence number |
//!
//! Times sort as unsigned bytes, so those below zero, which Kafka Streams does not have, sort last.

use super::FormatError;
use super::key_range::{KeyRange, highest, lowest};

/// Bytes behind the key.
const SUFFIX_BYTES: usize = 8 + 4;
/// In front of a time-first key.
pub(super) const TIME_FIRST: u8 = 0;
/// In front of a key of the index of a time-first store.
pub(crate) const KEY_FIRST: u8 = 1;

/// The key of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowKey<'a> {
    /// The serialized key of the record.
    pub key: &'a [u8],
    /// Where the window starts.
    pub window_start_ms: i64,
    /// Tells records of one key and time apart in stores that keep duplicates; elsewhere 0.
    pub sequence_number: i32,
}

impl<'a> WindowKey<'a> {
    /// Reads the key of a window store.
    ///
    /// # Errors
    /// When there are fewer bytes than start and sequence number have.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let (rest, number) = stored.split_last_chunk().ok_or(FormatError::Truncated)?;
        Ok(Self {
            sequence_number: i32::from_be_bytes(*number),
            ..Self::read_topic(rest)?
        })
    }

    /// Reads the key of an ordinary topic. It does not say where the window ends
    /// ([`window_end_ms`]).
    ///
    /// # Errors
    /// When there are fewer bytes than the start has.
    pub fn read_topic(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let (key, start) = bytes.split_last_chunk().ok_or(FormatError::Truncated)?;
        Ok(Self {
            key,
            window_start_ms: i64::from_be_bytes(*start),
            sequence_number: 0,
        })
    }

    /// Reads the key of a time-first store.
    ///
    /// # Errors
    /// When there are too few bytes, or they are another form's.
    pub fn read_time_first(stored: &'a [u8]) -> Result<Self, FormatError> {
        let rest = without_prefix(TIME_FIRST, stored)?;
        let (start, rest) = rest.split_first_chunk().ok_or(FormatError::Truncated)?;
        let (key, number) = rest.split_last_chunk().ok_or(FormatError::Truncated)?;
        Ok(Self {
            key,
            window_start_ms: i64::from_be_bytes(*start),
            sequence_number: i32::from_be_bytes(*number),
        })
    }

    /// Reads the key of the index of a time-first store.
    ///
    /// # Errors
    /// When there are too few bytes, or they are another form's.
    pub fn read_key_first(stored: &'a [u8]) -> Result<Self, FormatError> {
        Self::read(without_prefix(KEY_FIRST, stored)?)
    }

    /// The key of a window store and its changelog.
    pub fn to_store_key(&self) -> Vec<u8> {
        [self.key, &self.suffix()].concat()
    }

    /// The key of an ordinary topic.
    pub fn to_topic_key(&self) -> Vec<u8> {
        [self.key, &self.window_start_ms.to_be_bytes()].concat()
    }

    /// The key of a time-first store.
    pub fn to_time_first_key(&self) -> Vec<u8> {
        let start = self.window_start_ms.to_be_bytes();
        let number = self.sequence_number.to_be_bytes();
        [&[TIME_FIRST][..], &start, self.key, &number].concat()
    }

    /// The key of the index of a time-first store.
    pub fn to_key_first_key(&self) -> Vec<u8> {
        [&[KEY_FIRST], self.key, &self.suffix()].concat()
    }

    fn suffix(&self) -> [u8; SUFFIX_BYTES] {
        let mut suffix = [0; SUFFIX_BYTES];
        let (start, number) = suffix.split_at_mut(8);
        start.copy_from_slice(&self.window_start_ms.to_be_bytes());
        number.copy_from_slice(&self.sequence_number.to_be_bytes());
        suffix
    }

    /// Where in a window store the windows of one key are that start from `from_ms` to `to_ms`.
    pub fn range_of_key(key: &[u8], from_ms: i64, to_ms: i64) -> KeyRange {
        Self::prefixed_range_of_key(&[], key, from_ms, to_ms)
    }

    /// [`range_of_key`](Self::range_of_key) in the index of a time-first store.
    pub fn key_first_range_of_key(key: &[u8], from_ms: i64, to_ms: i64) -> KeyRange {
        Self::prefixed_range_of_key(&[KEY_FIRST], key, from_ms, to_ms)
    }

    fn prefixed_range_of_key(prefix: &[u8], key: &[u8], from_ms: i64, to_ms: i64) -> KeyRange {
        let (lower, upper) = (suffix_from(from_ms), suffix_to(to_ms));
        let of_suffix = |suffix: &[u8]| [prefix, key, suffix].concat();
        KeyRange::inclusive(of_suffix(&lower), of_suffix(&upper))
    }

    /// Where in a window store the windows of keys from `from` to `to` are that start at `to_ms`
    /// at the latest; `None` is without bound.
    pub fn range(from: Option<&[u8]>, to: Option<&[u8]>, to_ms: i64) -> KeyRange {
        let lower = from.map_or_else(Vec::new, |from| lowest(&[], from, SUFFIX_BYTES));
        match to {
            Some(to) => KeyRange::inclusive(lower, highest(&[], to, &suffix_to(to_ms))),
            None => KeyRange::from(lower),
        }
    }

    /// [`range`](Self::range) in the index of a time-first store.
    pub fn key_first_range(from: Option<&[u8]>, to: Option<&[u8]>, to_ms: i64) -> KeyRange {
        let lower = lowest(&[KEY_FIRST], from.unwrap_or_default(), 0);
        match to {
            Some(to) => KeyRange::inclusive(lower, highest(&[KEY_FIRST], to, &suffix_to(to_ms))),
            None => KeyRange::up_to_prefix(lower, &[KEY_FIRST]),
        }
    }

    /// Where in a time-first store the windows of all keys are that start from `from_ms` to `to_ms`.
    pub fn time_first_range(from_ms: i64, to_ms: i64) -> KeyRange {
        time_first_range(from_ms, to_ms)
    }

    /// Whether this is a window of a key from `from` to `to` that starts from `from_ms` to `to_ms`:
    /// what a fetch asks of each key that it finds in its range.
    pub fn is_within(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        from_ms: i64,
        to_ms: i64,
    ) -> bool {
        from.is_none_or(|from| from <= self.key)
            && to.is_none_or(|to| self.key <= to)
            && (from_ms..=to_ms).contains(&self.window_start_ms)
    }
}

/// Where a window of this size ends; the end of time when that is too late for an i64.
pub const fn window_end_ms(window_start_ms: i64, size_ms: i64) -> i64 {
    window_start_ms.saturating_add(size_ms)
}

/// The keys of a time-first store from one time to another, of windows or sessions.
pub(super) fn time_first_range(from_ms: i64, to_ms: i64) -> KeyRange {
    let of_time = |time_ms: i64| {
        let mut prefix = vec![TIME_FIRST];
        prefix.extend(time_ms.to_be_bytes());
        prefix
    };
    match to_ms {
        // There are no times below zero, and they would sort last.
        ..0 => KeyRange::inclusive(of_time(0), Vec::new()),
        _ => KeyRange::up_to_prefix(of_time(from_ms.max(0)), &of_time(to_ms)),
    }
}

pub(super) fn without_prefix(prefix: u8, stored: &[u8]) -> Result<&[u8], FormatError> {
    match stored.split_first() {
        Some((first, rest)) if *first == prefix => Ok(rest),
        Some((first, _)) => Err(FormatError::UnknownFlag(i32::from(*first))),
        None => Err(FormatError::Truncated),
    }
}

fn suffix_from(from_ms: i64) -> [u8; SUFFIX_BYTES] {
    suffix_of(from_ms.max(0), 0)
}

fn suffix_to(to_ms: i64) -> [u8; SUFFIX_BYTES] {
    suffix_of(to_ms.max(0), i32::MAX)
}

fn suffix_of(window_start_ms: i64, sequence_number: i32) -> [u8; SUFFIX_BYTES] {
    WindowKey {
        key: &[],
        window_start_ms,
        sequence_number,
    }
    .suffix()
}

#[cfg(test)]
mod tests;
