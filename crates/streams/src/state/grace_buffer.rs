//! The buffer of a stream-table join with grace: records of the stream, until the table has had time to change.
//!
//! Rows are in the order of time, key and a number. The changelog has the same keys.

use super::buffered::{lend, own};
use super::byte_store::{ByteStore, Scan};
use super::bytes::Direction;
use super::codec::Codec;
use super::layers::Changelog;
use super::sequence::Sequence;
use super::window_key::damaged;
use super::{ChangelogRecord, Offsets, StateStore};
use crate::error::StreamsError;
use crate::formats::buffer_value::{BufferChange, BufferValue, BufferVersion};
use crate::formats::key_range::KeyRange;
use crate::formats::window_key::WindowKey;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::record::RecordContext;
use crate::store_fault::StoreFault;
use std::fmt;
use std::ops::{Bound, RangeBounds as _};
use std::sync::Arc;

/// A record of the stream that leaves the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Due<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    pub(crate) context: RecordContext,
}

pub(crate) struct GraceBuffer<K, V> {
    name: Arc<str>,
    codec: Codec<K, V>,
    rows: Box<dyn ByteStore>,
    changelog: Option<Changelog>,
    grace_ms: i64,
    sequence: Sequence,
    /// The latest time of a row that was here since the buffer was opened; -1 before the first. A record that does not
    /// wait, or is dropped before it comes here, does not count.
    observed_ms: i64,
    /// Nothing in the buffer is of an earlier time; none if that is not known.
    first_time_ms: Option<i64>,
}

impl<K, V> fmt::Debug for GraceBuffer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GraceBuffer").field(&self.name).finish()
    }
}

impl<K, V> GraceBuffer<K, V> {
    pub(crate) fn new(
        name: &Arc<str>,
        codec: Codec<K, V>,
        rows: Box<dyn ByteStore>,
        changelog: Option<Changelog>,
        grace_ms: i64,
    ) -> Self {
        let mut sequence = Sequence::default();
        if let Some(Changelog {
            topic, partition, ..
        }) = &changelog
            && let Ok(Some(offset)) = rows.committed_offset(topic, *partition)
        {
            sequence.go_on_behind(offset);
        }
        Self {
            name: Arc::clone(name),
            codec,
            rows,
            changelog,
            grace_ms,
            sequence,
            observed_ms: -1,
            first_time_ms: None,
        }
    }

    fn named<T>(&self, result: Result<T, StoreFault>) -> Result<T, StreamsError> {
        result.map_err(|fault| fault.of(&self.name))
    }

    /// Holds the record that is processed back. False says that it is older than the grace of the latest that was held
    /// allows, or has a null key or value, and is to be joined at once.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub(crate) fn put(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: &V,
    ) -> Result<bool, StreamsError> {
        if context.record.timestamp_ms < self.due_ms() {
            return Ok(false);
        }
        let put = self.put_record(context, key, value);
        self.named(put)
    }

    /// Records until this time have waited long enough.
    const fn due_ms(&self) -> i64 {
        self.observed_ms.saturating_sub(self.grace_ms)
    }

    fn put_record(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: &V,
    ) -> Result<bool, StoreFault> {
        let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
        match self.codec.write_key(key, &mut key_bytes) {
            Err(StoreFault::NullKey) => return Ok(false),
            other => other?,
        }
        let headers = &Headers::EMPTY;
        if !self.codec.write_row(value, -1, headers, &mut value_bytes)? {
            return Ok(false);
        }
        let timestamp_ms = context.record.timestamp_ms;
        let row_key = WindowKey {
            key: &key_bytes,
            window_start_ms: timestamp_ms,
            sequence_number: self.sequence.next_number(),
        }
        .to_time_first_key();
        let record = context.record.clone();
        let held = BufferValue {
            context: lend(&record),
            prior: None,
            old: None,
            new: Some(&value_bytes),
        };
        let mut row = Vec::new();
        held.write(&mut row);
        self.rows.put(context, &row_key, Some(&row))?;
        self.observed_ms = self.observed_ms.max(timestamp_ms);
        self.first_time_ms = self.first_time_ms.map(|first| first.min(timestamp_ms));
        if let Some(changelog) = &self.changelog {
            let value = held.to_changelog(0);
            changelog.log(context, &row_key, Some(&value), None, Headers::new());
        }
        Ok(true)
    }

    /// Takes the next record whose grace has passed.
    ///
    /// # Errors
    /// As `put`.
    pub(crate) fn take_due(
        &mut self,
        context: &mut TaskContext,
    ) -> Result<Option<Due<K, V>>, StreamsError> {
        let due_ms = self.due_ms();
        if self.first_time_ms.is_some_and(|first| first > due_ms) {
            return Ok(None);
        }
        let taken = self.take_first(context, due_ms);
        self.named(taken)
    }

    fn take_first(
        &mut self,
        context: &mut TaskContext,
        due_ms: i64,
    ) -> Result<Option<Due<K, V>>, StoreFault> {
        // Of earlier times the store may have many rows that were taken, and are deleted.
        let since = match self.first_time_ms {
            Some(first_ms @ 0..) => WindowKey::time_first_range(first_ms, i64::MAX),
            _ => KeyRange::all(),
        };
        let scan = Scan {
            bounds: (since.start_bound(), Bound::Unbounded),
            times_ms: (0, i64::MAX),
            direction: Direction::Forward,
            time_first: false,
            shows_expired: false,
        };
        let Some(row) = self.rows.scan(&scan)?.next() else {
            self.first_time_ms = Some(i64::MAX);
            return Ok(None);
        };
        let (row_key, row) = row?;
        let key = WindowKey::read_time_first(&row_key).map_err(damaged)?;
        self.first_time_ms = Some(key.window_start_ms);
        if key.window_start_ms > due_ms {
            return Ok(None);
        }
        let held = BufferValue::read(&row).map_err(damaged)?;
        let value = held.new.unwrap_or_default();
        let due = Due {
            key: self.codec.read_key(key.key)?,
            value: self.codec.read_value(value)?,
            context: own(&held.context),
        };
        let row_key = row_key.to_vec();
        drop(row);
        self.rows.put(context, &row_key, None)?;
        if let Some(changelog) = &self.changelog {
            changelog.log(context, &row_key, None, None, Headers::new());
        }
        Ok(Some(due))
    }

    fn restore_record(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        self.first_time_ms = None;
        self.sequence.go_on_behind(record.offset);
        let key = WindowKey::read_time_first(&record.key).map_err(damaged)?;
        self.observed_ms = self.observed_ms.max(key.window_start_ms);
        let mut record = record.clone();
        if let Some(value) = &mut record.value {
            // The changelog has a time behind what the buffer keeps.
            BufferChange::read(BufferVersion::Three, value).map_err(damaged)?;
            value.truncate(value.len() - size_of::<i64>());
        }
        self.rows.restore(&record)
    }
}

impl<K, V> StateStore for GraceBuffer<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn is_persistent(&self) -> bool {
        self.rows.is_persistent()
    }

    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        let restored = records
            .iter()
            .try_for_each(|record| self.restore_record(record));
        self.named(restored)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError> {
        let settled = self.rows.settle(most_bytes);
        self.named(settled)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.rows.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError> {
        let committed = self.rows.commit(offsets);
        self.named(committed)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StreamsError> {
        self.named(self.rows.committed_offset(topic, partition))
    }

    fn was_left_open(&self) -> bool {
        self.rows.was_left_open()
    }

    fn close(&mut self) -> Result<(), StreamsError> {
        let closed = self.rows.close();
        self.named(closed)
    }
}
