//! Segments: the rows of a span of time each, so that old rows are deleted as a whole.

use super::StoreType;
use super::byte_store::Scan;
use super::bytes::{Backend, ByteMap, Direction};
use crate::formats::segments::{
    first_live_segment_id, first_visible_time_ms, segment_id, segment_interval_ms,
};
use crate::store_fault::StoreFault;
use std::collections::BTreeMap;

/// How long rows are kept, and in how large pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// A row is kept as long as the newest one is no more than this later.
    pub(crate) retention_ms: i64,
    /// A row is seen as long as the newest one is less than this later.
    visible_ms: i64,
    /// The time of a segment. It must not change over rows that are there.
    pub(crate) interval_ms: i64,
    /// A row that would not be seen is not taken, although its segment lives: so are stores in memory.
    is_exact: bool,
}

impl Retention {
    pub(crate) fn of(retention_ms: i64, store_type: StoreType) -> Self {
        Self::with_interval(retention_ms, segment_interval_ms(retention_ms), store_type)
    }

    pub(crate) const fn with_interval(
        retention_ms: i64,
        interval_ms: i64,
        store_type: StoreType,
    ) -> Self {
        Self {
            retention_ms,
            visible_ms: retention_ms,
            interval_ms,
            is_exact: matches!(store_type, StoreType::InMemory),
        }
    }

    /// The same, of windows whose results are emitted when they close: as in Kafka Streams a row is seen for one
    /// millisecond more.
    pub(crate) const fn of_closing_windows(mut self) -> Self {
        self.visible_ms = self.retention_ms.saturating_add(1);
        self
    }

    pub(crate) const fn segment(&self, time_ms: i64) -> i64 {
        segment_id(time_ms, self.interval_ms)
    }
}

/// The segments of a store that has seen times until `observed_ms`.
pub(crate) struct Segments<B: Backend> {
    backend: B,
    retention: Retention,
    open: BTreeMap<i64, B::Map>,
    /// -1 before the first. It is not kept on disk: who restores the store learns it again.
    observed_ms: i64,
    /// What was restored since all segments have taken it out of memory.
    restored_bytes: usize,
}

/// So many bytes of restored rows wait in all segments together.
const RESTORED_BYTES: usize = 16 << 20;

impl<B: Backend> Segments<B> {
    pub(crate) fn open(mut backend: B, retention: Retention) -> Result<Self, StoreFault> {
        let mut open = BTreeMap::new();
        for segment in backend.segments() {
            open.insert(segment, backend.open(Some(segment))?);
        }
        Ok(Self {
            backend,
            retention,
            open,
            observed_ms: -1,
            restored_bytes: 0,
        })
    }

    pub(crate) const fn backend(&self) -> &B {
        &self.backend
    }

    pub(crate) const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    pub(crate) const fn segment(&self, time_ms: i64) -> i64 {
        self.retention.segment(time_ms)
    }

    pub(crate) const fn is_exact(&self) -> bool {
        self.retention.is_exact
    }

    /// The earliest time of a row that has not expired.
    pub(crate) fn first_visible_ms(&self) -> i64 {
        first_visible_time_ms(self.observed_ms, self.retention.visible_ms)
    }

    /// The times of `scan` without those that have expired.
    pub(crate) fn shown(&self, scan: &Scan<'_>) -> (i64, i64) {
        let (first_ms, last_ms) = scan.times_ms;
        match scan.shows_expired {
            true => scan.times_ms,
            false => (first_ms.max(self.first_visible_ms()), last_ms),
        }
    }

    /// Whether a segment may have rows before the first that is shown, which `scan` would have.
    pub(crate) const fn is_cut(&self, segment: i64, first_ms: i64, scan: &Scan<'_>) -> bool {
        first_ms > scan.times_ms.0 && segment == self.segment(first_ms)
    }

    /// The segment of a row of `time_ms`, made if it is not there; none if the row is too old.
    pub(crate) fn for_write(&mut self, time_ms: i64) -> Result<Option<&mut B::Map>, StoreFault> {
        self.observed_ms = self.observed_ms.max(time_ms);
        let oldest_live = first_live_segment_id(
            self.observed_ms,
            self.retention.retention_ms,
            self.retention.interval_ms,
        );
        let segment = self.segment(time_ms);
        let is_too_old = match self.retention.is_exact {
            true => time_ms < self.first_visible_ms(),
            false => segment < oldest_live,
        };
        if is_too_old {
            return Ok(None);
        }
        if !self.open.contains_key(&segment) {
            let map = self.backend.open(Some(segment))?;
            self.open.insert(segment, map);
            self.expire(oldest_live)?;
        }
        Ok(self.open.get_mut(&segment))
    }

    fn expire(&mut self, oldest_live: i64) -> Result<(), StoreFault> {
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < oldest_live
        {
            let (segment, map) = entry.remove_entry();
            self.backend.remove(segment, map)?;
        }
        Ok(())
    }

    /// The segment that has the rows of `time_ms`.
    pub(crate) fn for_read(&self, time_ms: i64) -> Option<&B::Map> {
        self.open.get(&self.segment(time_ms))
    }

    /// Makes scans quick that come now, of segments of these times.
    pub(crate) fn prepare_scan(&mut self, times_ms: (i64, i64)) {
        let (first, last) = (self.segment(times_ms.0), self.segment(times_ms.1));
        if first <= last {
            for (_, map) in self.open.range_mut(first..=last) {
                map.prepare_scan();
            }
        }
    }

    /// Segments of times from the first to the last, with their numbers.
    pub(crate) fn between(
        &self,
        times_ms: (i64, i64),
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (i64, &B::Map)> + '_> {
        let (first, last) = (self.segment(times_ms.0), self.segment(times_ms.1));
        if first > last {
            return Box::new(std::iter::empty());
        }
        let segments = self
            .open
            .range(first..=last)
            .map(|(segment, map)| (*segment, map));
        match direction {
            Direction::Forward => Box::new(segments),
            Direction::Backward => Box::new(segments.rev()),
        }
    }

    /// Takes a row of the changelog, of `time_ms`, unless it is too old.
    pub(crate) fn restore(
        &mut self,
        time_ms: i64,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        let Some(map) = self.for_write(time_ms)? else {
            return Ok(());
        };
        map.restore(key, value)?;
        self.restored_bytes += key.len() + value.map_or(0, <[u8]>::len);
        match self.restored_bytes > RESTORED_BYTES {
            true => self.relieve(),
            false => Ok(()),
        }
    }

    /// Every segment takes restored rows out of memory.
    fn relieve(&mut self) -> Result<(), StoreFault> {
        self.restored_bytes = 0;
        let mut maps = self.open.values_mut();
        maps.try_for_each(ByteMap::relieve)
    }

    /// See `ByteMap::settle`: one segment does a step.
    pub(crate) fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        for map in self.open.values_mut() {
            let waiting_bytes = map.unsettled_bytes();
            if !map.settle(most_bytes)? {
                return Ok(false);
            }
            if map.unsettled_bytes() < waiting_bytes {
                return Ok(self.unsettled_bytes() == 0);
            }
        }
        Ok(true)
    }

    /// How many bytes of restored rows wait in files.
    pub(crate) fn unsettled_bytes(&self) -> u64 {
        self.maps().map(ByteMap::unsettled_bytes).sum()
    }

    /// See `ByteMap::close`.
    pub(crate) fn close(&mut self) -> Result<(), StoreFault> {
        let mut maps = self.open.values_mut();
        maps.try_for_each(ByteMap::close)
    }

    /// Every segment writes the rows that wait.
    pub(crate) fn flush(&mut self) -> Result<(), StoreFault> {
        self.restored_bytes = 0;
        let mut maps = self.open.values_mut();
        maps.try_for_each(ByteMap::flush)
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = &B::Map> {
        self.open.values()
    }
}
