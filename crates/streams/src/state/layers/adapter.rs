//! The layer between a builder's format of rows and a supplier's that has less: what the supplier's rows lack is
//! left out of them, and is -1 or empty when they are read. The layers above see, and log, everything.

use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::state::ChangelogRecord;
use crate::state::byte_store::{ByteStore, Scan};
use crate::state::bytes::{Offsets, Rows, Stored};
use crate::state::format::RowFormat;
use crate::store_fault::StoreFault;

pub(crate) struct Adapted<S> {
    inner: S,
    /// What the layers above see.
    outer_format: RowFormat,
    /// What `inner` has.
    inner_format: RowFormat,
    scratch: Vec<u8>,
}

impl<S> Adapted<S> {
    pub(crate) const fn new(inner: S, outer_format: RowFormat, inner_format: RowFormat) -> Self {
        Self {
            inner,
            outer_format,
            inner_format,
            scratch: Vec::new(),
        }
    }
}

/// A row of `inner` as the layers above see it.
fn widened<'a>(
    row: &[u8],
    inner_format: RowFormat,
    outer_format: RowFormat,
) -> Result<Stored<'a>, StoreFault> {
    let parts = inner_format.read(row)?;
    let mut widened = Vec::new();
    outer_format.write_prefix(parts.timestamp_ms, &Headers::EMPTY, &mut widened);
    widened.extend_from_slice(parts.value);
    Ok(Stored::Shared(widened.into()))
}

impl<S: ByteStore> ByteStore for Adapted<S> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let (inner_format, outer_format) = (self.inner_format, self.outer_format);
        let row = self.inner.get(key)?;
        row.map(|row| widened(&row, inner_format, outer_format))
            .transpose()
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        let Some(row) = value else {
            return self.inner.put(context, key, None);
        };
        let parts = self.outer_format.read(row)?;
        self.scratch.clear();
        self.inner_format
            .write_prefix(parts.timestamp_ms, &Headers::EMPTY, &mut self.scratch);
        self.scratch.extend_from_slice(parts.value);
        self.inner.put(context, key, Some(&self.scratch))
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        let (inner_format, outer_format) = (self.inner_format, self.outer_format);
        let rows = self.inner.scan(scan)?;
        Ok(Box::new(rows.map(move |row| {
            let (key, row) = row?;
            Ok((key, widened(&row, inner_format, outer_format)?))
        })))
    }

    fn approximate_count(&self) -> u64 {
        self.inner.approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn note_logged(&mut self, offset: i64) {
        self.inner.note_logged(offset);
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        self.inner.restore(record)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.inner.settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.inner.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        self.inner.commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.inner.committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.inner.was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.inner.close()
    }
}
