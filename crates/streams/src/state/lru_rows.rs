//! The rows of a key-value store in memory that keeps a number of them: those that were used last.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{ByteString, Direction, Offsets, Rows, Stored, is_empty};
use super::format::RowFormat;
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;
use std::collections::{BTreeMap, VecDeque};

pub(crate) struct LruRows {
    max_entries: usize,
    format: RowFormat,
    rows: BTreeMap<ByteString, Row>,
    /// Keys by their last use.
    uses: BTreeMap<u64, ByteString>,
    next_use: u64,
    evicted: VecDeque<ByteString>,
    scratch: Vec<u8>,
}

struct Row {
    value: ByteString,
    last_use: u64,
}

impl LruRows {
    pub(crate) const fn new(max_entries: usize, format: RowFormat) -> Self {
        Self {
            max_entries,
            format,
            rows: BTreeMap::new(),
            uses: BTreeMap::new(),
            next_use: 0,
            evicted: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let Some(row) = self.rows.remove(key) {
            self.uses.remove(&row.last_use);
        }
        let Some(value) = value else { return };
        let last_use = self.next_use;
        self.next_use += 1;
        self.uses.insert(last_use, key.into());
        let value = value.into();
        self.rows.insert(key.into(), Row { value, last_use });
        while self.rows.len() > self.max_entries
            && let Some((_, key)) = self.uses.pop_first()
        {
            self.rows.remove(&key);
            self.evicted.push_back(key);
        }
    }
}

impl ByteStore for LruRows {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let Some(row) = self.rows.get_mut(key) else {
            return Ok(None);
        };
        if let Some(key) = self.uses.remove(&row.last_use) {
            row.last_use = self.next_use;
            self.next_use += 1;
            self.uses.insert(row.last_use, key);
        }
        Ok(Some(Stored::Borrowed(&row.value)))
    }

    fn put(
        &mut self,
        _: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        self.set(key, value);
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        if is_empty(&scan.bounds) {
            return Ok(Box::new(std::iter::empty()));
        }
        let rows = self
            .rows
            .range::<[u8], _>(scan.bounds)
            .map(|(key, row)| Ok((Stored::Borrowed(key), Stored::Borrowed(&row.value))));
        Ok(match scan.direction {
            Direction::Forward => Box::new(rows),
            Direction::Backward => Box::new(rows.rev()),
        })
    }

    fn take_evicted(&mut self) -> Option<ByteString> {
        self.evicted.pop_front()
    }

    fn approximate_count(&self) -> u64 {
        self.rows.len() as u64
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let value = self.format.restore(record, &mut scratch);
        self.set(&record.key, value);
        self.evicted.clear();
        self.scratch = scratch;
        Ok(())
    }

    fn settle(&mut self, _: u64) -> Result<bool, StoreFault> {
        Ok(true)
    }

    fn unsettled_bytes(&self) -> u64 {
        0
    }

    fn commit(&mut self, _: &Offsets) -> Result<(), StoreFault> {
        Ok(())
    }

    fn committed_offset(&self, _: &str, _: i32) -> Result<Option<i64>, StoreFault> {
        Ok(None)
    }

    fn was_left_open(&self) -> bool {
        false
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        Ok(())
    }
}
