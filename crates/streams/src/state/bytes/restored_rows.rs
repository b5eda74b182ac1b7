//! Rows of a changelog on their way to the disk: collected, sorted, and written as a table of their own, or as a run
//! that waits for others. That costs less than to put one after the other into the journal and a sorted map, and what
//! was overwritten is not written.

use super::budget::Budget;
use super::restored_runs::{KeyRest, shared_bytes};
use std::cmp::Ordering;
use std::sync::Arc;

/// So many bytes of rows are collected.
pub(super) const COLLECTED_BYTES: usize = 8 << 20;
/// So many, however much memory the stores of the thread have.
const LEAST_BYTES: usize = 256 << 10;
/// What stands beside each of them.
const BESIDE_BYTES: usize = size_of::<Place>();

/// Rows in the order in which they came.
#[derive(Debug)]
pub(super) struct RestoredRows {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// How many bytes all keys begin with.
    shared_bytes: usize,
    budget: Arc<Budget>,
    /// What they have of it.
    held_bytes: usize,
}

impl Default for RestoredRows {
    fn default() -> Self {
        Self::within(Budget::of_thread())
    }
}

impl Drop for RestoredRows {
    fn drop(&mut self) {
        self.free();
    }
}

/// Where a row is: its key, and its value behind that, if it is not deleted.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// How the key goes on behind what all keys begin with, so that most are compared without a look at them. It is
    /// known when they are sorted.
    prefix: u64,
    /// How many rows came before.
    number: u32,
    start: u32,
    key_bytes: u16,
    /// `DELETED` when there is no value.
    value_bytes: u32,
}

const DELETED: u32 = u32::MAX;

impl RestoredRows {
    const fn within(budget: Arc<Budget>) -> Self {
        Self {
            bytes: Vec::new(),
            places: Vec::new(),
            shared_bytes: 0,
            budget,
            held_bytes: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What the rows take.
    pub(super) const fn size_bytes(&self) -> usize {
        self.bytes.len() + self.places.len() * BESIDE_BYTES
    }

    /// Whether a row of so many bytes is to be written with those that are here already, not before them.
    pub(super) fn has_room(&self, row_bytes: usize) -> bool {
        let size_bytes = self.size_bytes() + BESIDE_BYTES + row_bytes;
        let most_bytes = match self.budget.is_spent() {
            true => LEAST_BYTES,
            false => COLLECTED_BYTES,
        };
        self.is_empty() || size_bytes <= most_bytes
    }

    /// Adds a row, if its key is not too long and its value not too large for one here.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let number = u32::try_from(self.places.len());
        let start = u32::try_from(self.bytes.len());
        let key_bytes = u16::try_from(key.len());
        let value_bytes = u32::try_from(value.map_or(0, <[u8]>::len));
        let (Ok(number), Ok(start)) = (number, start) else {
            return false;
        };
        let (Ok(key_bytes), Ok(value_bytes)) = (key_bytes, value_bytes) else {
            return false;
        };
        if value_bytes == DELETED {
            return false;
        }
        self.shared_bytes = match self.places.first() {
            Some(first) => shared_bytes(&self.row(*first).0[..self.shared_bytes], key),
            None => key.len(),
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.places.push(Place {
            prefix: 0,
            number,
            start,
            key_bytes,
            value_bytes: if value.is_some() {
                value_bytes
            } else {
                DELETED
            },
        });
        self.note_held();
        true
    }

    fn note_held(&mut self) {
        let held_bytes = self.bytes.capacity() + self.places.capacity() * BESIDE_BYTES;
        if held_bytes != self.held_bytes {
            self.budget.take(held_bytes);
            self.budget.give_back(self.held_bytes);
            self.held_bytes = held_bytes;
        }
    }

    /// The memory that they share with others.
    pub(super) const fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Forgets the rows and keeps nothing.
    pub(super) fn free(&mut self) {
        self.bytes = Vec::new();
        self.places = Vec::new();
        self.note_held();
    }

    fn row(&self, place: Place) -> (&[u8], Option<&[u8]>) {
        let rest = &self.bytes[place.start as usize..];
        let (key, rest) = rest.split_at(usize::from(place.key_bytes));
        let is_there = place.value_bytes != DELETED;
        (key, is_there.then(|| &rest[..place.value_bytes as usize]))
    }

    fn rest(&self, place: Place) -> KeyRest {
        KeyRest {
            first: place.prefix,
            size_bytes: usize::from(place.key_bytes) - self.shared_bytes,
        }
    }

    /// How the keys of two rows are ordered.
    fn compare(&self, left: Place, right: Place) -> Ordering {
        match self.rest(left).compare(self.rest(right)) {
            Some(order) => order,
            None => self.row(left).0.cmp(self.row(right).0),
        }
    }

    /// The newest row of each key, by key.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let mut places = std::mem::take(&mut self.places);
        for place in &mut places {
            place.prefix = KeyRest::of(self.row(*place).0, self.shared_bytes).first;
        }
        places.sort_unstable_by(|left, right| {
            // Of the same key, the order in which they came stays.
            let order = self.compare(*left, *right);
            order.then(left.number.cmp(&right.number))
        });
        self.places = places;
        let rows = &*self;
        let newest = rows.places.iter().enumerate().filter(move |(at, place)| {
            let next = rows.places.get(at + 1);
            next.is_none_or(|next| rows.compare(*next, **place).is_ne())
        });
        newest.map(move |(_, place)| rows.row(*place))
    }

    /// Forgets the rows, and keeps the memory for others, unless other stores need it.
    pub(super) fn clear(&mut self) {
        if self.budget.is_spent() {
            self.free();
        }
        self.bytes.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(trials::property(128))]

        #[test]
        fn the_newest_row_of_each_key_is_written(
            rows in proptest::collection::vec(
                (proptest::collection::vec(0..3_u8, 0..3), proptest::option::of(any::<[u8; 2]>())),
                0..60,
            ),
            begin_bytes in 0..12_usize,
        ) {
            // Every other key is longer than what is compared as a number.
            let begin = |key: &[u8]| [vec![1; begin_bytes * (key.len() % 2)].as_slice(), key].concat();
            let rows: Vec<_> = rows.iter().map(|(key, value)| (begin(key), *value)).collect();
            let (mut restored, mut model) = (RestoredRows::default(), BTreeMap::new());
            for _ in 0..2 {
                for (key, value) in &rows {
                    let value = value.as_ref().map(<[u8; 2]>::as_slice);
                    prop_assert!(restored.has_room(key.len() + 2));
                    prop_assert!(restored.push(key, value));
                    model.insert(key.as_slice(), value);
                }
                prop_assert!(restored.sorted().eq(model.iter().map(|(key, value)| (*key, *value))));
                restored.clear();
                prop_assert!(restored.is_empty());
            }
        }
    }

    #[test]
    fn what_is_collected_is_bounded() {
        let mut restored = RestoredRows::default();
        assert!(
            restored.has_room(2 * COLLECTED_BYTES),
            "the first always fits"
        );
        assert!(restored.push(b"key", Some(&vec![0; COLLECTED_BYTES / 2])));
        assert!(!restored.has_room(COLLECTED_BYTES / 2));
        assert!(!restored.push(&vec![0; 65_536], None), "no store has it");
    }

    /// A budget of a thread of few stores is never spent, one of many holds what its stores collect.
    #[test]
    fn the_stores_of_a_thread_share_a_budget() {
        const MOST_BYTES: usize = 4 * LEAST_BYTES;
        let budget = Arc::new(Budget::new(MOST_BYTES));
        let new = || RestoredRows::within(Arc::clone(&budget));
        let value = vec![0; LEAST_BYTES / 4];
        let mut stores: Vec<RestoredRows> = (0..16).map(|_| new()).collect();
        for round in 0..16 {
            for restored in &mut stores {
                if !restored.has_room(3 + value.len()) {
                    restored.clear();
                }
                assert!(restored.push(b"key", Some(&value)));
            }
            let held_bytes = budget.held_bytes();
            // Memory is taken in steps that double what a store has.
            let most_bytes = MOST_BYTES + 2 * LEAST_BYTES * (stores.len() + 1);
            assert!(held_bytes <= most_bytes, "round {round}: {held_bytes}");
        }
        assert!(budget.is_spent());
        drop(stores);
        assert_eq!(budget.held_bytes(), 0);
        let mut alone = new();
        for _ in 0..8 {
            assert!(alone.has_room(3 + value.len()));
            assert!(alone.push(b"key", Some(&value)));
        }
        assert!(alone.size_bytes() > LEAST_BYTES);
    }
}
