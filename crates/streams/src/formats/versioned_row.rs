//! The row of a versioned store (KIP-889): the versions of a key that ended within one segment.
//!
//! ```text
//!   i64 next timestamp │ i64 lowest timestamp │ (i64 timestamp, i32 size or -1)* newest first
//!                      │ values, oldest first
//! ```
//!
//! A version is valid from its timestamp to that of the next newer one, the newest to the next
//! timestamp of the row. A tombstone (size -1) says that there was no value; gaps are tombstones.
//! A row that has only a tombstone of no duration is degenerate: it covers nothing, and keeps where
//! the next newer version starts.
//!
//! The latest version of a key is in a row of its own: i64 timestamp, value
//! ([`TimestampedValue`](super::stored_value::TimestampedValue)).

use super::FormatError;
use super::field_reader::FieldReader;

/// The segment that the latest versions are in.
pub const LATEST_VALUES_SEGMENT_ID: i64 = -1;
/// Bytes of a version but for its value.
const VERSION_BYTES: usize = 8 + 4;

/// The versions of a key in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedRow<'a> {
    next_timestamp_ms: i64,
    /// Newest first, never empty; timestamps fall.
    versions: Vec<Version<'a>>,
}

/// What a key had from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// From when on.
    pub timestamp_ms: i64,
    /// The serialized value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
}

/// A version that a row was searched for, and until when it was valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundVersion<'a> {
    /// Its place in the row, from the newest.
    pub index: usize,
    /// From when on it was valid.
    pub valid_from_ms: i64,
    /// Until when it was valid, exclusive.
    pub valid_to_ms: i64,
    /// The serialized value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
}

impl<'a> VersionedRow<'a> {
    /// A row of one version; it is degenerate if that is a tombstone of no duration.
    ///
    /// # Panics
    /// When the version ends before it starts, or is a value of no duration.
    pub fn new(value: Option<&'a [u8]>, valid_from_ms: i64, valid_to_ms: i64) -> Self {
        let is_degenerate = value.is_none() && valid_from_ms == valid_to_ms;
        let in_order = valid_from_ms < valid_to_ms || is_degenerate;
        assert!(in_order, "a version starts before it ends");
        Self {
            next_timestamp_ms: valid_to_ms,
            versions: vec![Version {
                timestamp_ms: valid_from_ms,
                value,
            }],
        }
    }

    /// Reads the row of a segment.
    ///
    /// # Errors
    /// When the bytes end early or late, or the timestamps do not fall.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(stored);
        let next_timestamp_ms = reader.i64()?;
        let min_timestamp_ms = reader.i64()?;
        let head = reader.rest();
        let mut count = 0;
        let mut above_ms = next_timestamp_ms;
        let mut values_bytes = 0;
        loop {
            let (timestamp_ms, size) = (reader.i64()?, reader.i32()?);
            let is_degenerate = count == 0 && size == -1 && timestamp_ms == min_timestamp_ms;
            let falls = timestamp_ms < above_ms || (is_degenerate && timestamp_ms == above_ms);
            if !falls || timestamp_ms < min_timestamp_ms {
                return Err(FormatError::Contradiction);
            }
            count += 1;
            above_ms = timestamp_ms;
            values_bytes += match size {
                -1 => 0,
                size => usize::try_from(size).map_err(|_| FormatError::NegativeLength)?,
            };
            if timestamp_ms == min_timestamp_ms {
                break;
            }
        }
        let values = reader.rest();
        match values_bytes.cmp(&values.len()) {
            std::cmp::Ordering::Less => return Err(FormatError::TrailingBytes),
            std::cmp::Ordering::Greater => return Err(FormatError::LengthBeyondEnd),
            std::cmp::Ordering::Equal => {}
        }
        let versions = read_versions(&mut FieldReader::new(head), count, values)?;
        Ok(Self {
            next_timestamp_ms,
            versions,
        })
    }

    /// The row's bytes.
    ///
    /// # Panics
    /// When a value takes 2 GiB or more.
    pub fn to_bytes(&self) -> Vec<u8> {
        let values = self.versions.iter().rev().filter_map(|one| one.value);
        let values_bytes: usize = values.clone().map(<[u8]>::len).sum();
        let mut bytes = Vec::with_capacity(16 + self.versions.len() * VERSION_BYTES + values_bytes);
        bytes.extend_from_slice(&self.next_timestamp_ms.to_be_bytes());
        bytes.extend_from_slice(&self.min_timestamp_ms().to_be_bytes());
        for Version {
            timestamp_ms,
            value,
        } in &self.versions
        {
            let size = value.map_or(-1, |value| {
                i32::try_from(value.len()).expect("a value is smaller than 2 GiB")
            });
            bytes.extend_from_slice(&timestamp_ms.to_be_bytes());
            bytes.extend_from_slice(&size.to_be_bytes());
        }
        values.for_each(|value| bytes.extend_from_slice(value));
        bytes
    }

    /// Where the next newer version starts, which is in another row.
    pub const fn next_timestamp_ms(&self) -> i64 {
        self.next_timestamp_ms
    }

    /// Where the oldest version of the row starts.
    pub fn min_timestamp_ms(&self) -> i64 {
        let oldest = self.versions.last();
        oldest.expect("a row has a version").timestamp_ms
    }

    /// Whether the row covers no time.
    pub fn is_degenerate(&self) -> bool {
        self.min_timestamp_ms() == self.next_timestamp_ms
    }

    /// The versions, newest first.
    pub fn versions(&self) -> impl Iterator<Item = FoundVersion<'a>> {
        let mut valid_to_ms = self.next_timestamp_ms;
        let versions = self.versions.iter().enumerate();
        versions.map(move |(index, version)| FoundVersion {
            index,
            valid_from_ms: version.timestamp_ms,
            valid_to_ms: std::mem::replace(&mut valid_to_ms, version.timestamp_ms),
            value: version.value,
        })
    }

    /// The version that was valid at a time; `None` when the row does not cover it.
    pub fn find(&self, timestamp_ms: i64) -> Option<FoundVersion<'a>> {
        if timestamp_ms >= self.next_timestamp_ms {
            return None;
        }
        let mut versions = self.versions();
        versions.find(|version| version.valid_from_ms <= timestamp_ms)
    }

    /// Adds a version that is newer than all of the row. What the row says of later times goes; a
    /// gap before the new version becomes a tombstone.
    ///
    /// # Panics
    /// When the version does not start before it ends.
    pub fn insert_as_latest(
        &mut self,
        value: Option<&'a [u8]>,
        valid_from_ms: i64,
        valid_to_ms: i64,
    ) {
        assert!(
            valid_from_ms < valid_to_ms,
            "a version starts before it ends"
        );
        // A row that says something of later times lacks what a crash kept from being written.
        self.truncate(valid_from_ms);
        if self.is_degenerate() {
            self.versions.clear();
        }
        if self.next_timestamp_ms < valid_from_ms {
            self.insert(0, self.next_timestamp_ms, None);
        }
        self.insert(0, valid_from_ms, value);
        self.next_timestamp_ms = valid_to_ms;
    }

    /// Adds a version that is older than all of the row and valid until the oldest of it starts.
    ///
    /// # Panics
    /// When the version is not older.
    pub fn insert_as_earliest(&mut self, timestamp_ms: i64, value: Option<&'a [u8]>) {
        let is_older = timestamp_ms < self.min_timestamp_ms();
        assert!(is_older, "the earliest version is older than the others");
        if self.is_degenerate() {
            self.versions.clear();
        }
        self.insert(self.versions.len(), timestamp_ms, value);
    }

    /// Adds a version at a place from the newest; it is valid until the version before it starts.
    ///
    /// # Panics
    /// When the timestamps would not fall.
    pub fn insert(&mut self, index: usize, timestamp_ms: i64, value: Option<&'a [u8]>) {
        let version = Version {
            timestamp_ms,
            value,
        };
        self.versions.insert(index, version);
        self.assert_order(index);
    }

    /// Replaces the version at a place from the newest.
    ///
    /// # Panics
    /// When the timestamps would not fall.
    pub fn update(&mut self, index: usize, timestamp_ms: i64, value: Option<&'a [u8]>) {
        self.versions[index] = Version {
            timestamp_ms,
            value,
        };
        self.assert_order(index);
    }

    /// Forgets all from a time on; a row of which nothing is left is degenerate.
    fn truncate(&mut self, timestamp_ms: i64) {
        if self.next_timestamp_ms <= timestamp_ms {
            return;
        }
        self.next_timestamp_ms = timestamp_ms;
        self.versions
            .retain(|version| version.timestamp_ms < timestamp_ms);
        if self.versions.is_empty() {
            *self = Self::new(None, timestamp_ms, timestamp_ms);
        }
    }

    fn assert_order(&self, index: usize) {
        let newer = index
            .checked_sub(1)
            .and_then(|newer| self.versions.get(newer));
        let around = [
            newer,
            self.versions.get(index),
            self.versions.get(index + 1),
        ];
        let timestamps = around.into_iter().flatten().map(|one| one.timestamp_ms);
        assert!(timestamps.is_sorted_by(|a, b| a > b), "timestamps fall");
    }
}

/// So many versions, whose order and sizes were checked; the newest value is the last.
fn read_versions<'a>(
    head: &mut FieldReader<'a>,
    count: usize,
    mut values: &'a [u8],
) -> Result<Vec<Version<'a>>, FormatError> {
    let mut versions = Vec::with_capacity(count);
    for _ in 0..count {
        let (timestamp_ms, size) = (head.i64()?, head.i32()?);
        let value = match usize::try_from(size) {
            Ok(size) => {
                let start = values.len() - size;
                let (older, value) = values.split_at(start);
                values = older;
                Some(value)
            }
            Err(_) => None,
        };
        versions.push(Version {
            timestamp_ms,
            value,
        });
    }
    Ok(versions)
}

#[cfg(test)]
mod tests;
