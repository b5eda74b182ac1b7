//! The rows of a versioned store (KIP-889): the latest version of each key, and older ones by the time at which they
//! ended.
//!
//! All are in one map: rows of a segment begin with its number, latest versions with -1. A row of a segment has the
//! versions of a key that ended within the segment's time, so a version is found by going from the newest segment
//! back to that of the time that is asked for.

use super::ChangelogRecord;
use super::bytes::{Backend, ByteMap as _, Direction, Offsets};
use super::window_key::damaged;
use crate::formats::key_range::KeyRange;
use crate::formats::segments::{first_live_segment_id, segment_id};
use crate::formats::stored_value::TimestampedValue;
use crate::formats::versioned_row::{FoundVersion, LATEST_VALUES_SEGMENT_ID, VersionedRow};
use crate::store_fault::StoreFault;
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds as _};

/// What became of a version that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionedPut {
    /// It is too old to be kept.
    NotPut,
    /// It is the latest one of its key.
    Latest,
    /// It is valid until then, when a newer one starts.
    ValidTo(i64),
}

/// A version as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredVersion {
    pub(crate) value: Vec<u8>,
    pub(crate) valid_from_ms: i64,
    /// None for the latest version.
    pub(crate) valid_to_ms: Option<i64>,
}

/// What a typed versioned store asks of its rows.
pub(crate) trait VersionedBytes {
    fn put(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp_ms: i64,
    ) -> Result<VersionedPut, StoreFault>;

    /// The version that is valid at a time, or the latest one.
    fn get(&self, key: &[u8], as_of_ms: Option<i64>) -> Result<Option<StoredVersion>, StoreFault>;

    /// The versions that were valid at any time from the first to the last, latest first.
    fn versions(
        &self,
        key: &[u8],
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<StoredVersion>, StoreFault>;

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault>;
    fn is_persistent(&self) -> bool;
    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault>;
    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault>;
    fn was_left_open(&self) -> bool;
    fn close(&mut self) -> Result<(), StoreFault>;
}

pub(crate) struct VersionedRows<B: Backend> {
    backend: B,
    map: B::Map,
    history_retention_ms: i64,
    segment_interval_ms: i64,
    /// Segments that may have rows.
    segments: BTreeSet<i64>,
    observed_ms: i64,
}

fn segment_key(segment: i64, key: &[u8]) -> Vec<u8> {
    [&segment.to_be_bytes(), key].concat()
}

impl<B: Backend> VersionedRows<B> {
    pub(crate) fn open(
        mut backend: B,
        history_retention_ms: i64,
        segment_interval_ms: i64,
    ) -> Result<Self, StoreFault> {
        let map = backend.open(None)?;
        let segments = segments_of(&map)?;
        Ok(Self {
            backend,
            map,
            history_retention_ms,
            segment_interval_ms,
            segments,
            observed_ms: -1,
        })
    }

    const fn segment(&self, time_ms: i64) -> i64 {
        segment_id(time_ms, self.segment_interval_ms)
    }

    /// Changes the row of `key` in the segment of a time. Does nothing if that has expired.
    fn change_row(
        &mut self,
        key: &[u8],
        time_ms: i64,
        change: impl FnOnce(Option<VersionedRow<'_>>) -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        let oldest_live = first_live_segment_id(
            self.observed_ms,
            self.history_retention_ms,
            self.segment_interval_ms,
        );
        let segment = self.segment(time_ms);
        // The numbers below zero are not of times: the latest values are there, which never expire.
        if segment < oldest_live.max(0) {
            return Ok(());
        }
        if self.segments.insert(segment) {
            self.expire(oldest_live)?;
        }
        let row_key = segment_key(segment, key);
        let stored = self.map.get(&row_key)?;
        let row = stored
            .as_deref()
            .map(VersionedRow::read)
            .transpose()
            .map_err(damaged)?;
        let changed = change(row);
        drop(stored);
        self.map.put(&row_key, &changed)
    }

    fn expire(&mut self, oldest_live: i64) -> Result<(), StoreFault> {
        while let Some(segment) = self.segments.first().copied()
            && segment < oldest_live
        {
            let range = KeyRange::of_prefix(&segment.to_be_bytes());
            let bounds = (range.start_bound(), range.end_bound());
            self.map.prepare_scan();
            let keys: Vec<Vec<u8>> = self
                .map
                .scan(&bounds, Direction::Forward)
                .map(|row| row.map(|(key, _)| key.to_vec()))
                .collect::<Result<_, _>>()?;
            for key in keys {
                self.map.delete(&key)?;
            }
            self.segments.remove(&segment);
        }
        Ok(())
    }

    /// Adds the version of a time that ended when a newer one was put.
    fn add_ended(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        valid_from_ms: i64,
        valid_to_ms: i64,
    ) -> Result<(), StoreFault> {
        self.change_row(key, valid_to_ms, |row| match row {
            None => VersionedRow::new(value, valid_from_ms, valid_to_ms).to_bytes(),
            Some(mut row) => {
                row.insert_as_latest(value, valid_from_ms, valid_to_ms);
                row.to_bytes()
            }
        })
    }

    /// Puts a version that is newer than every one there is, or replaces the latest.
    fn put_latest(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp_ms: i64,
    ) -> Result<(), StoreFault> {
        let latest_key = segment_key(LATEST_VALUES_SEGMENT_ID, key);
        match value {
            Some(value) => {
                let mut row = Vec::with_capacity(size_of::<i64>() + value.len());
                TimestampedValue {
                    timestamp_ms,
                    value,
                }
                .write(&mut row);
                self.map.put(&latest_key, &row)
            }
            None => self.map.delete(&latest_key),
        }
    }

    /// Keeps when a key was deleted of which no newer version is known. A row that covers nothing does so.
    fn keep_tombstone(&mut self, key: &[u8], timestamp_ms: i64) -> Result<(), StoreFault> {
        self.change_row(key, timestamp_ms, |row| match row {
            None => VersionedRow::new(None, timestamp_ms, timestamp_ms).to_bytes(),
            Some(mut row) => {
                let end_ms = row.next_timestamp_ms();
                if end_ms < timestamp_ms {
                    row.insert_as_latest(None, end_ms, timestamp_ms);
                }
                row.to_bytes()
            }
        })
    }

    /// Puts a version into the row of a segment that has one of its time.
    fn put_into_row(
        &mut self,
        key: &[u8],
        segment: i64,
        row: &[u8],
        (value, timestamp_ms): (Option<&[u8]>, i64),
    ) -> Result<VersionedPut, StoreFault> {
        let mut row = VersionedRow::read(row).map_err(damaged)?;
        let found = row.find(timestamp_ms).ok_or_else(|| {
            StoreFault::Row("a row lacks a version of a time that it covers".into())
        })?;
        let FoundVersion {
            index,
            valid_from_ms,
            valid_to_ms,
            value: old,
        } = found;
        if valid_from_ms == timestamp_ms {
            row.update(index, timestamp_ms, value);
        } else if self.segment(timestamp_ms) == segment {
            row.insert(index, timestamp_ms, value);
        } else {
            // What the version had before is in the segment in which it now ends.
            let old = old.map(<[u8]>::to_vec);
            self.add_ended(key, old.as_deref(), valid_from_ms, timestamp_ms)?;
            row.update(index, timestamp_ms, value);
        }
        self.map.put(&segment_key(segment, key), &row.to_bytes())?;
        Ok(VersionedPut::ValidTo(valid_to_ms))
    }
}

/// The numbers of the segments that have rows.
fn segments_of(map: &impl super::bytes::ByteMap) -> Result<BTreeSet<i64>, StoreFault> {
    let mut segments = BTreeSet::new();
    let mut from = 0_i64;
    loop {
        let (start, end) = (from.to_be_bytes(), i64::MAX.to_be_bytes());
        let bounds = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
        let Some(row) = map.scan(&bounds, Direction::Forward).next() else {
            return Ok(segments);
        };
        let (key, _) = row?;
        let (segment, _) = key
            .split_first_chunk()
            .ok_or_else(|| StoreFault::Row("a key is shorter than a segment's number".into()))?;
        let segment = i64::from_be_bytes(*segment);
        segments.insert(segment);
        from = segment + 1;
    }
}

impl<B: Backend> VersionedBytes for VersionedRows<B> {
    fn put(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp_ms: i64,
    ) -> Result<VersionedPut, StoreFault> {
        if timestamp_ms < self.observed_ms.saturating_sub(self.history_retention_ms) {
            return Ok(VersionedPut::NotPut);
        }
        self.observed_ms = self.observed_ms.max(timestamp_ms);
        // Where the next newer version starts, as far as is known.
        let mut next_ms = None;
        if let Some(latest) = self.map.get(&segment_key(LATEST_VALUES_SEGMENT_ID, key))? {
            let latest = TimestampedValue::read(&latest).map_err(damaged)?;
            let latest_ms = latest.timestamp_ms;
            if timestamp_ms >= latest_ms {
                let old = latest.value.to_vec();
                if timestamp_ms > latest_ms {
                    self.add_ended(key, Some(&old), latest_ms, timestamp_ms)?;
                } else if value.is_none() {
                    self.keep_tombstone(key, timestamp_ms)?;
                }
                self.put_latest(key, value, timestamp_ms)?;
                return Ok(VersionedPut::Latest);
            }
            next_ms = Some(latest_ms);
        }
        let segments: Vec<i64> = self
            .segments
            .range(self.segment(timestamp_ms)..)
            .rev()
            .copied()
            .collect();
        for segment in segments {
            let Some(stored) = self.map.get(&segment_key(segment, key))? else {
                continue;
            };
            let row = VersionedRow::read(&stored).map_err(damaged)?;
            if row.next_timestamp_ms() <= timestamp_ms {
                // Neither this row nor an older one has anything newer.
                break;
            }
            let min_ms = row.min_timestamp_ms();
            if min_ms <= timestamp_ms {
                let stored = stored.to_vec();
                return self.put_into_row(key, segment, &stored, (value, timestamp_ms));
            }
            next_ms = Some(min_ms);
        }
        let Some(next_ms) = next_ms else {
            match value {
                Some(_) => self.put_latest(key, value, timestamp_ms)?,
                None => self.keep_tombstone(key, timestamp_ms)?,
            }
            return Ok(VersionedPut::Latest);
        };
        self.change_row(key, next_ms, |row| match row {
            None => VersionedRow::new(value, timestamp_ms, next_ms).to_bytes(),
            Some(mut row) => {
                match row.next_timestamp_ms() <= timestamp_ms {
                    true => row.insert_as_latest(value, timestamp_ms, next_ms),
                    false => row.insert_as_earliest(timestamp_ms, value),
                }
                row.to_bytes()
            }
        })?;
        Ok(VersionedPut::ValidTo(next_ms))
    }

    fn get(&self, key: &[u8], as_of_ms: Option<i64>) -> Result<Option<StoredVersion>, StoreFault> {
        let latest = self.map.get(&segment_key(LATEST_VALUES_SEGMENT_ID, key))?;
        let latest = latest
            .as_deref()
            .map(TimestampedValue::read)
            .transpose()
            .map_err(damaged)?
            .map(|latest| StoredVersion {
                value: latest.value.to_vec(),
                valid_from_ms: latest.timestamp_ms,
                valid_to_ms: None,
            });
        let Some(as_of_ms) = as_of_ms else {
            return Ok(latest);
        };
        if let Some(latest) = latest
            && latest.valid_from_ms <= as_of_ms
        {
            return Ok(Some(latest));
        }
        if as_of_ms < self.observed_ms.saturating_sub(self.history_retention_ms) {
            return Ok(None);
        }
        for segment in self.segments.range(self.segment(as_of_ms)..).rev() {
            let Some(stored) = self.map.get(&segment_key(*segment, key))? else {
                continue;
            };
            let row = VersionedRow::read(&stored).map_err(damaged)?;
            if row.next_timestamp_ms() <= as_of_ms {
                return Ok(None);
            }
            if let Some(found) = row.find(as_of_ms) {
                return Ok(own(found));
            }
        }
        Ok(None)
    }

    fn versions(
        &self,
        key: &[u8],
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<StoredVersion>, StoreFault> {
        let oldest_ms = self.observed_ms.saturating_sub(self.history_retention_ms);
        let from_ms = from_ms.max(oldest_ms);
        let mut versions = Vec::new();
        versions.extend(
            self.get(key, None)?
                .filter(|latest| latest.valid_from_ms <= to_ms),
        );
        if to_ms < oldest_ms {
            return Ok(versions);
        }
        for segment in self.segments.range(self.segment(from_ms.max(0))..).rev() {
            let Some(stored) = self.map.get(&segment_key(*segment, key))? else {
                continue;
            };
            let row = VersionedRow::read(&stored).map_err(damaged)?;
            let wanted = row
                .versions()
                .filter(|version| version.valid_from_ms <= to_ms && version.valid_to_ms > from_ms);
            versions.extend(wanted.filter_map(own));
        }
        Ok(versions)
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        self.put(&record.key, record.value.as_deref(), record.timestamp_ms)
            .map(|_| ())
    }

    fn is_persistent(&self) -> bool {
        self.backend.is_persistent()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        self.map.flush()?;
        self.backend.commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.backend.committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.backend.was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.map.flush()?;
        self.backend.close()
    }
}

fn own(found: FoundVersion<'_>) -> Option<StoredVersion> {
    Some(StoredVersion {
        value: found.value?.to_vec(),
        valid_from_ms: found.valid_from_ms,
        valid_to_ms: Some(found.valid_to_ms),
    })
}
