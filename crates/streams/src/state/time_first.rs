//! The rows of a window or session store whose results are emitted when windows close: times first, so that what
//! closes stands together. An index finds the rows of a key, if the store needs to. Rows that have expired are not
//! shown, although their segment may be there.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{Backend, Bounds, ByteMap as _, Offsets, Row, Rows, Stored, contains};
use super::format::RowFormat;
use super::segments::Segments;
use super::window_key::{KeyKind, bounds};
use super::window_rows::since;
use crate::formats::window_key::KEY_FIRST;
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;
use std::ops::Bound;

pub(crate) struct TimeFirstRows<B: Backend> {
    segments: Segments<B>,
    kind: KeyKind,
    format: RowFormat,
    has_index: bool,
}

/// Where a scan in one segment goes, in keys as they are stored there.
struct Stretch {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl Stretch {
    fn bounds(&self) -> Bounds<'_> {
        (
            self.from.as_ref().map(Vec::as_slice),
            self.to.as_ref().map(Vec::as_slice),
        )
    }
}

impl<B: Backend> TimeFirstRows<B> {
    pub(crate) const fn new(
        segments: Segments<B>,
        kind: KeyKind,
        format: RowFormat,
        has_index: bool,
    ) -> Self {
        Self {
            segments,
            kind,
            format,
            has_index,
        }
    }

    /// Whether the row is not too old.
    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<bool, StoreFault> {
        let time_ms = self.kind.time_ms(key)?;
        let Some(map) = self.segments.for_write(time_ms)? else {
            return Ok(false);
        };
        let time_first = self.kind.time_first(key)?;
        match value {
            Some(value) => map.put(&time_first, value)?,
            None => map.delete(&time_first)?,
        }
        if self.has_index {
            let key_first = self.kind.key_first(key)?;
            match value {
                Some(_) => map.put(&key_first, &[])?,
                None => map.delete(&key_first)?,
            }
        }
        Ok(true)
    }

    /// The rows of `scan` in time's order.
    fn scan_by_time(&self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        let times_ms = self.segments.shown(scan);
        if times_ms.0 > times_ms.1 {
            return Ok(Box::new(std::iter::empty()));
        }
        let range = self.kind.time_first_range(times_ms);
        let bounds = bounds(&range);
        let mut all: Vec<Rows<'_>> = Vec::new();
        for (_, map) in self.segments.between(times_ms, scan.direction) {
            all.push(map.scan(&bounds, scan.direction));
        }
        let kind = self.kind;
        let rows = all.into_iter().flatten().map(move |row| {
            let (key, value) = row?;
            Ok((Stored::Shared(kind.of_time_first(&key)?.into()), value))
        });
        if scan.time_first {
            return Ok(Box::new(rows));
        }
        let wanted = own(scan.bounds);
        Ok(Box::new(rows.filter(move |row| {
            row.as_ref()
                .map_or(true, |(key, _)| is_within(key, &wanted))
        })))
    }

    /// The rows of `scan` by segment and key, through the index.
    fn scan_by_key(&self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        let mut all: Vec<Rows<'_>> = Vec::new();
        let stretch = of_index(scan.bounds);
        let kind = self.kind;
        let times_ms = self.segments.shown(scan);
        for (segment, map) in self.segments.between(times_ms, scan.direction) {
            let rows = map
                .scan(&stretch.bounds(), scan.direction)
                .filter_map(move |row| indexed_row(map, kind, row).transpose());
            all.push(match self.segments.is_cut(segment, times_ms.0, scan) {
                true => since(Box::new(rows), kind, times_ms.0),
                false => Box::new(rows),
            });
        }
        Ok(Box::new(all.into_iter().flatten()))
    }
}

/// The row that a row of the index tells of; none if a process that was ended has deleted only the first.
fn indexed_row<'a, M: super::bytes::ByteMap>(
    map: &'a M,
    kind: KeyKind,
    row: Result<Row<'a>, StoreFault>,
) -> Result<Option<Row<'a>>, StoreFault> {
    let (index_key, _) = row?;
    let key = index_key.get(1..).unwrap_or_default();
    let value = map.get(&kind.time_first(key)?)?;
    Ok(value.map(|value| (Stored::Shared(key.into()), value)))
}

/// The keys of the index for keys within `bounds`.
fn of_index(bounds: Bounds<'_>) -> Stretch {
    let key_first = |key: &[u8]| [&[KEY_FIRST], key].concat();
    Stretch {
        from: match bounds.0 {
            Bound::Unbounded => Bound::Included(vec![KEY_FIRST]),
            from => from.map(key_first),
        },
        to: match bounds.1 {
            Bound::Unbounded => Bound::Excluded(vec![KEY_FIRST + 1]),
            to => to.map(key_first),
        },
    }
}

fn own(bounds: Bounds<'_>) -> Stretch {
    Stretch {
        from: bounds.0.map(<[u8]>::to_vec),
        to: bounds.1.map(<[u8]>::to_vec),
    }
}

fn is_within(key: &[u8], wanted: &Stretch) -> bool {
    contains(&wanted.bounds(), key)
}

impl<B: Backend> ByteStore for TimeFirstRows<B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let time_ms = self.kind.time_ms(key)?;
        if time_ms < self.segments.first_visible_ms() {
            return Ok(None);
        }
        match self.segments.for_read(time_ms) {
            Some(map) => map.get(&self.kind.time_first(key)?),
            None => Ok(None),
        }
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        if !self.write(key, value)? {
            context.drop_record();
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        self.segments.prepare_scan(scan.times_ms);
        match scan.time_first || !self.has_index {
            true => self.scan_by_time(scan),
            false => self.scan_by_key(scan),
        }
    }

    fn approximate_count(&self) -> u64 {
        let rows: u64 = self
            .segments
            .maps()
            .map(|map| map.approximate_count())
            .sum();
        rows / (1 + u64::from(self.has_index))
    }

    fn is_persistent(&self) -> bool {
        self.segments.backend().is_persistent()
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let key = &record.key;
        let mut scratch = Vec::new();
        let value = self.format.restore(record, &mut scratch);
        self.write(key, value).map(|_| ())
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
