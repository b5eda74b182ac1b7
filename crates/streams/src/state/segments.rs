//! Segments: the rows of a span of time each, so that old rows are deleted as a whole.

use super::bytes::{Backend, ByteMap, Direction};
use super::fault::StoreFault;
use crate::formats::segments::{first_live_segment_id, segment_id, segment_interval_ms};
use std::collections::BTreeMap;

/// How long rows are kept, and in how large pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// A row is kept as long as the newest one is no more than this later.
    pub(crate) retention_ms: i64,
    /// The time of a segment. It must not change over rows that are there.
    pub(crate) interval_ms: i64,
}

impl Retention {
    pub(crate) fn of(retention_ms: i64) -> Self {
        Self {
            retention_ms,
            interval_ms: segment_interval_ms(retention_ms),
        }
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
    /// What was restored since all segments have written it.
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

    /// The segment of a row of `time_ms`, made if it is not there; none if the row is too old.
    pub(crate) fn for_write(&mut self, time_ms: i64) -> Result<Option<&mut B::Map>, StoreFault> {
        self.observed_ms = self.observed_ms.max(time_ms);
        let oldest_live = first_live_segment_id(
            self.observed_ms,
            self.retention.retention_ms,
            self.retention.interval_ms,
        );
        let segment = self.segment(time_ms);
        if segment < oldest_live {
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
            true => self.finish_restore(),
            false => Ok(()),
        }
    }

    /// Every segment has the rows that were restored.
    pub(crate) fn finish_restore(&mut self) -> Result<(), StoreFault> {
        self.restored_bytes = 0;
        let mut maps = self.open.values_mut();
        maps.try_for_each(ByteMap::finish_restore)
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = &B::Map> {
        self.open.values()
    }
}
