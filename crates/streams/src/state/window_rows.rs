//! The rows of a window or session store: a map for each segment, keys first. Rows that have expired are not shown,
//! although their segment may be there.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{Backend, ByteMap, Direction, Offsets, Rows, Stored};
use super::format::RowFormat;
use super::segments::Segments;
use super::sequence::Sequence;
use super::window_key::KeyKind;
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;

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

/// The rows of a segment, not before a time if there is one.
fn scan_segment<'a, M: ByteMap>(
    map: &'a M,
    kind: KeyKind,
    scan: &Scan<'_>,
    first_ms: Option<i64>,
) -> Rows<'a> {
    let rows = map.scan(&scan.bounds, scan.direction);
    let rows = match first_ms {
        Some(first_ms) => since(rows, kind, first_ms),
        None => rows,
    };
    match scan.time_first {
        true => by_time(rows, kind, scan.direction),
        false => rows,
    }
}

/// Those of `rows` that are not earlier.
pub(super) fn since(rows: Rows<'_>, kind: KeyKind, first_ms: i64) -> Rows<'_> {
    Box::new(rows.filter(move |row| {
        let time_ms = row.as_ref().map(|(key, _)| kind.time_ms(key));
        // Who reads the row hears of its damage.
        !matches!(time_ms, Ok(Ok(time_ms)) if time_ms < first_ms)
    }))
}

/// The rows by time and then by key.
fn by_time(rows: Rows<'_>, kind: KeyKind, direction: Direction) -> Rows<'_> {
    let sorted = move || {
        let mut sorted = match rows.collect::<Result<Vec<_>, _>>() {
            Ok(sorted) => sorted,
            Err(fault) => return vec![Err(fault)],
        };
        sorted.sort_by(|(left, _), (right, _)| {
            let order = kind.compare_times(left, right);
            match direction {
                Direction::Forward => order,
                Direction::Backward => order.reverse(),
            }
        });
        sorted.into_iter().map(Ok).collect()
    };
    Box::new(std::iter::once_with(sorted).flatten())
}

impl<B: Backend> ByteStore for WindowRows<B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let time_ms = self.kind.time_ms(key)?;
        if time_ms < self.segments.first_visible_ms() {
            return Ok(None);
        }
        let Some(map) = self.segments.for_read(time_ms) else {
            return Ok(None);
        };
        match &mut self.sequence {
            None => map.get(key),
            // Of the rows of a key and time the one that was put last, as long as no other row of the store was.
            Some(sequence) => {
                let numbered = sequence.with_last_number(key);
                let found = map.get(&numbered);
                sequence.give_back(numbered);
                found
            }
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
                // A row of duplicates is never deleted one by one. In memory its time is noted, and it has a number.
                if value.is_none() {
                    let time_ms = self.kind.time_ms(key)?;
                    if self.segments.is_exact() {
                        sequence.next_number();
                        if self.segments.for_write(time_ms)?.is_none() {
                            context.drop_record();
                        }
                    }
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
        let times_ms = self.segments.shown(scan);
        let first_ms = times_ms.0;
        self.segments.prepare_scan(times_ms);
        let scan_one = |(segment, map)| {
            let cut = self.segments.is_cut(segment, first_ms, scan);
            scan_segment(map, self.kind, scan, cut.then_some(first_ms))
        };
        let mut segments = self.segments.between(times_ms, scan.direction);
        let Some(first) = segments.next() else {
            return Ok(Box::new(std::iter::empty()));
        };
        let first = scan_one(first);
        let others: Vec<Rows<'_>> = segments.map(scan_one).collect();
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

    fn note_logged(&mut self, offset: i64) {
        if let Some(sequence) = &mut self.sequence {
            sequence.go_on_behind(offset);
        }
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        self.note_logged(record.offset);
        let key = &record.key;
        let mut scratch = std::mem::take(&mut self.scratch);
        let value = self.format.restore(record, &mut scratch);
        let time_ms = self.kind.time_ms(key);
        let restored = time_ms.and_then(|time_ms| self.segments.restore(time_ms, key, value));
        self.scratch = scratch;
        restored
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.segments.settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.segments.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        if !offsets.is_empty() {
            self.segments.flush()?;
        }
        self.segments.backend_mut().commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.segments.backend().committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.segments.backend().was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.segments.close()?;
        self.segments.backend_mut().close()
    }
}
