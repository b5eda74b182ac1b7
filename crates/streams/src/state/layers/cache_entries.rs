//! The rows of a cache: found by a hash of their key, in order of use and of writing by two lists, and sorted while
//! somebody asks for ranges.

use super::CacheBudget;
use crate::record::RecordContext;
use crate::state::bytes::ByteString;
use crate::state::key_hash::key_hash;
use crate::state::segments::Retention;
use crate::state::window_key::KeyKind;
use crate::store_fault::StoreFault;
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// The number of a slot; there is none of this number.
const NONE: u32 = u32::MAX;
/// A sorted view is dropped when so many keys came or went since somebody used it, and twice as many as it has.
const UNUSED_CHANGES: usize = 1024;

/// Which of the lists of slots.
#[derive(Clone, Copy)]
enum Order {
    /// Of use, the one that was not used for longest first.
    Use = 0,
    /// Of the last write, of those that the store below does not have; the oldest first.
    Write = 1,
}

#[derive(Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
}

const UNLINKED: Links = Links {
    previous: NONE,
    next: NONE,
};

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const NO_ENDS: Ends = Ends {
    first: NONE,
    last: NONE,
};

struct Slot {
    key: ByteString,
    value: Option<ByteString>,
    /// Of the record that wrote it last, if the store below does not have that.
    written_by: Option<RecordContext>,
    links: [Links; 2],
}

impl Slot {
    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let written_by = self.written_by.as_ref();
        let headers = written_by.map_or(0, |context| {
            let headers = context.headers.iter();
            headers
                .map(|header| {
                    header.key.len() + header.value.as_ref().map_or(0, |value| value.len())
                })
                .sum()
        });
        size_of::<Self>()
            + self.key.len()
            + self.value.as_ref().map_or(0, |value| value.len())
            + headers
    }
}

/// In which order a store with segments is scanned: by segment and then by key, or by time and then by key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentOrder {
    pub(crate) kind: KeyKind,
    pub(crate) retention: Retention,
    /// Every scan goes by time and then by key.
    pub(crate) is_by_time: bool,
}

impl SegmentOrder {
    pub(crate) fn segment(self, key: &[u8]) -> Result<i64, StoreFault> {
        Ok(self.retention.segment(self.kind.time_ms(key)?))
    }
}

type Sorted = BTreeMap<i64, BTreeMap<ByteString, u32>>;

pub(super) struct Entries {
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: HashTable<u32>,
    ends: [Ends; 2],
    sorted: Option<Sorted>,
    changes_since_sorted: usize,
    segments: Option<SegmentOrder>,
    budget: CacheBudget,
    /// What of the budget these rows have.
    bytes: usize,
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl Entries {
    pub(super) fn new(segments: Option<SegmentOrder>, budget: CacheBudget) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            ends: [NO_ENDS; 2],
            sorted: None,
            changes_since_sorted: 0,
            segments,
            budget,
            bytes: 0,
        }
    }

    fn weigh(&mut self, before: usize, after: usize) {
        self.budget.give_back(before);
        self.budget.take(after);
        self.bytes = self.bytes + after - before;
    }

    /// Whether another row of so many bytes of key and value has room in the budget.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.budget.used_bytes() + size_of::<Slot>() + bytes <= self.budget.max_bytes()
    }

    pub(super) fn is_over_budget(&self) -> bool {
        self.budget.is_exceeded()
    }

    pub(super) fn segment(&self, key: &[u8]) -> Result<i64, StoreFault> {
        self.segments.map_or(Ok(0), |order| order.segment(key))
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.index
            .find(key_hash(key), |slot| {
                *self.slots[*slot as usize].key == *key
            })
            .copied()
    }

    /// Notes that the row is used.
    pub(super) fn touch(&mut self, slot: u32) {
        if self.ends[Order::Use as usize].last != slot {
            self.unlink(slot, Order::Use);
            self.link_last(slot, Order::Use);
        }
    }

    pub(super) fn value(&self, slot: u32) -> Option<&ByteString> {
        self.slots[slot as usize].value.as_ref()
    }

    /// Sets a row that is there or not. Rows that the store below has are written by nobody.
    pub(super) fn set(
        &mut self,
        key: &[u8],
        value: Option<ByteString>,
        written_by: Option<RecordContext>,
    ) -> Result<u32, StoreFault> {
        let Some(number) = self.find(key) else {
            return self.insert(Slot {
                key: key.into(),
                value,
                written_by,
                links: [UNLINKED; 2],
            });
        };
        self.touch(number);
        let slot = &mut self.slots[number as usize];
        let before = slot.bytes();
        let was_written = slot.written_by.is_some();
        slot.value = value;
        slot.written_by = written_by;
        let after = slot.bytes();
        self.weigh(before, after);
        if was_written {
            self.unlink(number, Order::Write);
        }
        self.link_written(number);
        Ok(number)
    }

    fn insert(&mut self, slot: Slot) -> Result<u32, StoreFault> {
        let segment = match &self.sorted {
            Some(_) => self.segment(&slot.key)?,
            None => 0,
        };
        let key = slot.key.clone();
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("a cache holds fewer rows than 2^32")
            }
        };
        let slots = &self.slots;
        let hash = |slot: &u32| key_hash(&slots[*slot as usize].key);
        self.index.insert_unique(key_hash(&key), number, hash);
        self.link_last(number, Order::Use);
        self.link_written(number);
        if let Some(sorted) = &mut self.sorted {
            sorted.entry(segment).or_default().insert(key, number);
        }
        self.count_change();
        let bytes = self.slots[number as usize].bytes();
        self.weigh(0, bytes);
        Ok(number)
    }

    fn link_written(&mut self, slot: u32) {
        if self.slots[slot as usize].written_by.is_some() {
            self.link_last(slot, Order::Write);
        }
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, number: u32) {
        self.unlink(number, Order::Use);
        if self.slots[number as usize].written_by.is_some() {
            self.unlink(number, Order::Write);
        }
        let slot = &mut self.slots[number as usize];
        let bytes = slot.bytes();
        let key = std::mem::take(&mut slot.key);
        slot.value = None;
        slot.written_by = None;
        if let Ok(entry) = self
            .index
            .find_entry(key_hash(&key), |slot| *slot == number)
        {
            entry.remove();
        }
        if self.sorted.is_some()
            && let Ok(segment) = self.segment(&key)
            && let Some(sorted) = &mut self.sorted
            && let Some(keys) = sorted.get_mut(&segment)
        {
            keys.remove(&key);
            if keys.is_empty() {
                sorted.remove(&segment);
            }
        }
        self.count_change();
        self.free.push(number);
        self.weigh(bytes, 0);
    }

    /// The row that was not used for longest.
    pub(super) const fn least_used(&self) -> Option<u32> {
        some(self.ends[Order::Use as usize].first)
    }

    /// The row of the oldest last write that the store below does not have.
    pub(super) const fn first_written(&self) -> Option<u32> {
        some(self.ends[Order::Write as usize].first)
    }

    /// Takes what the store below is to have: from now on it has it.
    pub(super) fn take_written(
        &mut self,
        number: u32,
    ) -> Option<(ByteString, Option<ByteString>, RecordContext)> {
        let slot = &mut self.slots[number as usize];
        let before = slot.bytes();
        let context = slot.written_by.take()?;
        let after = slot.bytes();
        let row = (slot.key.clone(), slot.value.clone(), context);
        self.weigh(before, after);
        self.unlink(number, Order::Write);
        Some(row)
    }

    fn count_change(&mut self) {
        if self.sorted.is_none() {
            return;
        }
        self.changes_since_sorted += 1;
        if self.changes_since_sorted > UNUSED_CHANGES + 2 * self.index.len() {
            self.sorted = None;
        }
    }

    /// The rows by segment and key.
    pub(super) fn sort(&mut self) -> Result<(), StoreFault> {
        self.changes_since_sorted = 0;
        if self.sorted.is_some() {
            return Ok(());
        }
        let mut sorted = Sorted::new();
        for number in &self.index {
            let key = &self.slots[*number as usize].key;
            let segment = self.segment(key)?;
            sorted
                .entry(segment)
                .or_default()
                .insert(key.clone(), *number);
        }
        self.sorted = Some(sorted);
        Ok(())
    }

    /// The rows of `sort`, which was called.
    pub(super) const fn sorted(&self) -> Option<&Sorted> {
        self.sorted.as_ref()
    }

    fn link_last(&mut self, slot: u32, order: Order) {
        let ends = &mut self.ends[order as usize];
        let previous = std::mem::replace(&mut ends.last, slot);
        match some(previous) {
            Some(previous) => self.slots[previous as usize].links[order as usize].next = slot,
            None => self.ends[order as usize].first = slot,
        }
        self.slots[slot as usize].links[order as usize] = Links {
            previous,
            next: NONE,
        };
    }

    fn unlink(&mut self, slot: u32, order: Order) {
        let order = order as usize;
        let links = std::mem::replace(&mut self.slots[slot as usize].links[order], UNLINKED);
        match some(links.previous) {
            Some(previous) => self.slots[previous as usize].links[order].next = links.next,
            None => self.ends[order].first = links.next,
        }
        match some(links.next) {
            Some(next) => self.slots[next as usize].links[order].previous = links.previous,
            None => self.ends[order].last = links.previous,
        }
    }
}

const fn some(slot: u32) -> Option<u32> {
    if slot == NONE { None } else { Some(slot) }
}
