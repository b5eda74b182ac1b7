//! The layer that keeps rows in memory, so that many writes of a key become one.
//!
//! A row that is written stays here until the caches of the thread exceed their budget, then the one of this store
//! that was not used for longest goes; or until the next commit, then all are given on in the order of their last
//! write. Given on means: the store below has it, under the context of the record that wrote it last, and who
//! owns the store may take it (`take_flushed`) to forward it.
//!
//! A row stays when the store below has it, and is seen as long as it is here: rows of windows too that have expired
//! below.

use super::cache_budget::CacheBudget;
use super::cache_entries::{Entries, SegmentOrder};
use crate::processor::TaskContext;
use crate::state::CacheLookups;
use crate::state::ChangelogRecord;
use crate::state::byte_store::{ByteStore, FlushedRow, Forwarding, Scan};
use crate::state::bytes::{ByteString, Direction, Hiding, Offsets, Rows, Stored, is_empty, merge};
use crate::store_fault::StoreFault;
use std::cmp::Ordering;
use std::collections::VecDeque;

pub(crate) struct Cached<S> {
    inner: S,
    entries: Entries,
    segments: Option<SegmentOrder>,
    forwarding: Forwarding,
    flushed: VecDeque<FlushedRow>,
    lookups: CacheLookups,
}

impl<S: ByteStore> Cached<S> {
    pub(crate) fn new(inner: S, segments: Option<SegmentOrder>, budget: CacheBudget) -> Self {
        Self {
            inner,
            entries: Entries::new(segments, budget),
            segments,
            forwarding: Forwarding::Nothing,
            flushed: VecDeque::new(),
            lookups: CacheLookups::default(),
        }
    }

    /// Gives a row on that was written.
    fn give_on(&mut self, context: &mut TaskContext, slot: u32) -> Result<(), StoreFault> {
        let Some((key, new, written_by)) = self.entries.take_written(slot) else {
            return Ok(());
        };
        let needs_old = match self.forwarding {
            Forwarding::Nothing => false,
            Forwarding::NewValues => new.is_none(),
            Forwarding::OldAndNewValues => true,
        };
        let old = match needs_old {
            true => self.inner.get(&key)?.map(Stored::into_bytes),
            false => None,
        };
        if needs_old && new.is_none() && old.is_none() {
            // Nobody has seen the row that is deleted.
            return Ok(());
        }
        let enclosing = std::mem::replace(&mut context.record, written_by);
        let put = self.inner.put(context, &key, new.as_deref());
        let written_by = std::mem::replace(&mut context.record, enclosing);
        put?;
        if self.forwarding != Forwarding::Nothing {
            self.flushed.push_back(FlushedRow {
                key,
                new,
                old: old.filter(|_| self.forwarding == Forwarding::OldAndNewValues),
                context: written_by,
            });
        }
        Ok(())
    }

    fn evict(&mut self, context: &mut TaskContext) -> Result<(), StoreFault> {
        while self.entries.is_over_budget()
            && let Some(slot) = self.entries.least_used()
        {
            self.give_on(context, slot)?;
            self.entries.remove(slot);
        }
        Ok(())
    }
}

fn hiding<'a>(
    entries: &'a Entries,
    (key, slot): (&'a ByteString, &u32),
) -> Result<Hiding<'a>, StoreFault> {
    Ok((
        Stored::Borrowed(key),
        entries.value(*slot).map(Stored::Borrowed),
    ))
}

/// The order of a scan: by segment and then by key, or by time and then by key.
fn compare(
    segments: Option<SegmentOrder>,
    is_by_time: bool,
    left: &[u8],
    right: &[u8],
) -> Ordering {
    let Some(order) = segments else {
        return left.cmp(right);
    };
    if is_by_time {
        return order.kind.compare_times(left, right);
    }
    // Keys without times were refused when they were put.
    let segment = |key| order.segment(key).unwrap_or_default();
    segment(left)
        .cmp(&segment(right))
        .then_with(|| left.cmp(right))
}

impl<S: ByteStore> ByteStore for Cached<S> {
    fn cache_lookups(&self) -> Option<CacheLookups> {
        Some(self.lookups)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        self.lookups.count += 1;
        match self.entries.find(key) {
            Some(slot) => {
                self.lookups.hit_count += 1;
                self.entries.touch(slot);
                Ok(self.entries.value(slot).map(Stored::Borrowed))
            }
            // Of a store with segments only what was written is kept: it is seen even when it has expired.
            None if !self.inner.is_persistent() || self.segments.is_some() => self.inner.get(key),
            None => {
                let Some(value) = self.inner.get(key)?.map(Stored::into_bytes) else {
                    return Ok(None);
                };
                // Nothing is evicted for what is only read.
                if !self.entries.has_room(key.len() + value.len()) {
                    return Ok(Some(Stored::Shared(value)));
                }
                let slot = self.entries.set(key, Some(value), None)?;
                Ok(self.entries.value(slot).map(Stored::Borrowed))
            }
        }
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        if let Some(order) = self.segments {
            order.segment(key)?;
        }
        let value = value.map(ByteString::from);
        self.entries.set(key, value, Some(context.record.clone()))?;
        self.evict(context)
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        self.entries.sort()?;
        let rows = self.inner.scan(scan)?;
        let (entries, direction) = (&self.entries, scan.direction);
        let Some(sorted) = entries.sorted() else {
            return Ok(rows);
        };
        let (first, last) = match self.segments {
            Some(order) => (
                order.retention.segment(scan.times_ms.0),
                order.retention.segment(scan.times_ms.1),
            ),
            None => (0, 0),
        };
        if first > last || is_empty(&scan.bounds) {
            return Ok(rows);
        }
        let cached: Vec<_> = sorted
            .range(first..=last)
            .map(|(_, keys)| keys.range::<[u8], _>(scan.bounds))
            .collect();
        if cached.is_empty() {
            return Ok(rows);
        }
        let segments = self.segments;
        let is_by_time = segments.is_some_and(|order| order.is_by_time || scan.time_first);
        let compare = move |left: &[u8], right: &[u8]| compare(segments, is_by_time, left, right);
        let cached = cached.into_iter().flatten();
        if is_by_time {
            let is_wanted = |row: &(&ByteString, &u32)| {
                let time_ms = segments.map(|order| order.kind.time_ms(row.0));
                // Who reads the row hears of its damage.
                !matches!(time_ms, Some(Ok(time_ms)) if time_ms < scan.times_ms.0 || time_ms > scan.times_ms.1)
            };
            let mut cached: Vec<_> = cached.filter(is_wanted).collect();
            cached.sort_by(|left, right| compare(left.0, right.0));
            if direction == Direction::Backward {
                cached.reverse();
            }
            let cached = cached.into_iter().map(|row| hiding(entries, row));
            return Ok(merge(cached, rows, direction, compare));
        }
        Ok(match direction {
            Direction::Forward => merge(
                cached.map(|row| hiding(entries, row)),
                rows,
                direction,
                compare,
            ),
            Direction::Backward => merge(
                cached.rev().map(|row| hiding(entries, row)),
                rows,
                direction,
                compare,
            ),
        })
    }

    fn approximate_count(&self) -> u64 {
        self.inner.approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
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

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StoreFault> {
        while let Some(slot) = self.entries.first_written() {
            self.give_on(context, slot)?;
        }
        self.inner.flush(context)
    }

    fn take_flushed(&mut self) -> Option<FlushedRow> {
        self.flushed.pop_front()
    }

    fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.forwarding = forwarding;
        true
    }
}
