//! The rows of a window or session store: a map for each segment, keys first.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{Backend, ByteMap as _, Offsets, Rows, Stored};
use super::fault::StoreFault;
use super::format::RowFormat;
use super::segments::Segments;
use super::sequence::Sequence;
use super::window_key::KeyKind;
use crate::processor::TaskContext;

pub(crate) struct WindowRows<B: Backend> {
    segments: Segments<B>,
    kind: KeyKind,
    format: RowFormat,
    /// Numbers rows of a store that keeps duplicates.
    sequence: Option<Sequence>,
    scratch: Vec<u8>,
}

impl<B: Backend> WindowRows<B> {
    pub(crate) fn new(
        segments: Segments<B>,
        kind: KeyKind,
        format: RowFormat,
        retain_duplicates: bool,
    ) -> Self {
        Self {
            segments,
            kind,
            format,
            sequence: retain_duplicates.then(Sequence::default),
            scratch: Vec::new(),
        }
    }

    /// Whether the row is not too old.
    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<bool, StoreFault> {
        let time_ms = self.kind.time_ms(key)?;
        let Some(map) = self.segments.for_write(time_ms)? else {
            return Ok(false);
        };
        match value {
            Some(value) => map.put(key, value)?,
            None => map.delete(key)?,
        }
        Ok(true)
    }
}

impl<B: Backend> ByteStore for WindowRows<B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let time_ms = self.kind.time_ms(key)?;
        match self.segments.for_read(time_ms) {
            Some(map) => map.get(key),
            None => Ok(None),
        }
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        let is_kept = match &mut self.sequence {
            None => self.write(key, value)?,
            Some(sequence) => {
                // A row of duplicates is never deleted one by one.
                if value.is_none() {
                    return Ok(());
                }
                let key = sequence.number(key);
                let is_kept = self.write(&key, value)?;
                if let Some(sequence) = &mut self.sequence {
                    sequence.give_back(key);
                }
                is_kept
            }
        };
        if !is_kept {
            context.drop_record();
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        self.segments.prepare_scan(scan.times_ms);
        let mut segments = self.segments.between(scan.times_ms, scan.direction);
        let Some((_, first)) = segments.next() else {
            return Ok(Box::new(std::iter::empty()));
        };
        let first = first.scan(&scan.bounds, scan.direction);
        let others: Vec<Rows<'_>> = segments
            .map(|(_, map)| map.scan(&scan.bounds, scan.direction))
            .collect();
        Ok(match others.is_empty() {
            true => first,
            false => Box::new(first.chain(others.into_iter().flatten())),
        })
    }

    fn approximate_count(&self) -> u64 {
        self.segments
            .maps()
            .map(|map| map.approximate_count())
            .sum()
    }

    fn is_persistent(&self) -> bool {
        self.segments.backend().is_persistent()
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let key = &record.key;
        let mut scratch = std::mem::take(&mut self.scratch);
        let value = self.format.restore(record, &mut scratch);
        let time_ms = self.kind.time_ms(key);
        let restored = time_ms.and_then(|time_ms| self.segments.restore(time_ms, key, value));
        self.scratch = scratch;
        restored
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        self.segments.finish_restore()?;
        self.segments.backend_mut().commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.segments.backend().committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.segments.backend().was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.segments.finish_restore()?;
        self.segments.backend_mut().close()
    }
}
