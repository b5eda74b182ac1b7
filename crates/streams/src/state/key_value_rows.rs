//! The rows of a key-value store: one map.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{Backend, ByteMap as _, Offsets, Rows, Stored};
use super::format::RowFormat;
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;

pub(crate) struct KeyValueRows<B: Backend> {
    backend: B,
    map: B::Map,
    format: RowFormat,
    scratch: Vec<u8>,
}

impl<B: Backend> KeyValueRows<B> {
    pub(crate) fn open(mut backend: B, format: RowFormat) -> Result<Self, StoreFault> {
        let map = backend.open(None)?;
        Ok(Self {
            backend,
            map,
            format,
            scratch: Vec::new(),
        })
    }
}

impl<B: Backend> ByteStore for KeyValueRows<B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        self.map.get(key)
    }

    fn put(
        &mut self,
        _: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        match value {
            Some(value) => self.map.put(key, value),
            None => self.map.delete(key),
        }
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        self.map.prepare_scan();
        Ok(self.map.scan(&scan.bounds, scan.direction))
    }

    fn approximate_count(&self) -> u64 {
        self.map.approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.backend.is_persistent()
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let value = self.format.restore(record, &mut self.scratch);
        self.map.restore(&record.key, value)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.map.settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.map.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        if !offsets.is_empty() {
            self.map.flush()?;
        }
        self.backend.commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.backend.committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.backend.was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.map.close()?;
        self.backend.close()
    }
}
