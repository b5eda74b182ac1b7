//! The layer that writes each row to the changelog, with timestamp and headers in the record's own.

use crate::headers::Headers;
use crate::processor::{Origin, Partitioning, ProducedRecord, TaskContext};
use crate::state::ChangelogRecord;
use crate::state::byte_store::{ByteStore, FlushedRow, Forwarding, Scan};
use crate::state::bytes::{Offsets, Rows, Stored};
use crate::state::format::{RowFormat, own_headers};
use crate::state::sequence::Sequence;
use crate::store_fault::StoreFault;
use bytes::Bytes;
use std::sync::Arc;

/// Where a store's changelog is.
#[derive(Debug, Clone)]
pub(crate) struct Changelog {
    pub(crate) store: Arc<str>,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

impl Changelog {
    pub(crate) fn log(
        &self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp_ms: Option<i64>,
        headers: Headers,
    ) {
        context.collector.push(ProducedRecord {
            topic: Arc::clone(&self.topic),
            partitioning: Partitioning::Exact(self.partition),
            key: Some(Bytes::copy_from_slice(key)),
            value: value.map(Bytes::copy_from_slice),
            timestamp_ms,
            headers,
            origin: Origin::Changelog(Arc::clone(&self.store)),
            cause: context.record.clone(),
        });
    }
}

/// What the records of a changelog have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged {
    pub(crate) format: RowFormat,
    /// Headers of the record that is processed, where the format has none.
    pub(crate) record_headers: bool,
}

pub(crate) struct Changelogged<S> {
    inner: S,
    changelog: Changelog,
    logged: Logged,
    /// Numbers rows of a store that keeps duplicates: those that delete too, so these are not the store's numbers.
    sequence: Option<Sequence>,
}

impl<S: ByteStore> Changelogged<S> {
    pub(crate) fn new(
        inner: S,
        changelog: Changelog,
        logged: Logged,
        retain_duplicates: bool,
    ) -> Self {
        let mut new = Self {
            inner,
            changelog,
            logged,
            sequence: retain_duplicates.then(Sequence::default),
        };
        if retain_duplicates {
            let Changelog {
                topic, partition, ..
            } = &new.changelog;
            // Who restores the store hears of it if that cannot be read.
            if let Ok(Some(offset)) = new.inner.committed_offset(topic, *partition) {
                new.note_logged(offset);
            }
        }
        new
    }

    fn log(
        &self,
        context: &mut TaskContext,
        key: &[u8],
        row: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        let format = self.logged.format;
        let parts = row.map(|row| format.read(row)).transpose()?;
        let timestamp_ms = match &parts {
            Some(parts) if format.has_timestamp() => parts.timestamp_ms,
            _ => context.record.timestamp_ms,
        };
        let headers = match &parts {
            Some(parts) if format.has_headers() => own_headers(&parts.headers),
            _ if format.has_headers() || self.logged.record_headers => {
                context.record.headers.clone()
            }
            _ => Headers::new(),
        };
        let value = parts.map(|parts| parts.value);
        self.changelog
            .log(context, key, value, Some(timestamp_ms), headers);
        Ok(())
    }
}

impl<S: ByteStore> ByteStore for Changelogged<S> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        self.inner.get(key)
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        self.inner.put(context, key, value)?;
        while let Some(evicted) = self.inner.take_evicted() {
            self.log(context, &evicted, None)?;
        }
        let Some(sequence) = &mut self.sequence else {
            return self.log(context, key, value);
        };
        let numbered = sequence.number(key);
        let logged = self.log(context, &numbered, value);
        if let Some(sequence) = &mut self.sequence {
            sequence.give_back(numbered);
        }
        logged
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        self.inner.scan(scan)
    }

    fn approximate_count(&self) -> u64 {
        self.inner.approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn note_logged(&mut self, offset: i64) {
        if let Some(sequence) = &mut self.sequence {
            sequence.go_on_behind(offset);
        }
        self.inner.note_logged(offset);
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        if let Some(sequence) = &mut self.sequence {
            sequence.go_on_behind(record.offset);
        }
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

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StoreFault> {
        self.inner.flush(context)
    }

    fn take_flushed(&mut self) -> Option<FlushedRow> {
        self.inner.take_flushed()
    }

    fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.inner.forward_flushed(forwarding)
    }
}
