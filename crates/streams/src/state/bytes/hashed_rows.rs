//! Rows that are found by a hash of their key, and sorted while somebody asks for ranges. Short keys and values need no
//! memory of their own.

use super::{Bounds, ByteString, Direction, contains, is_empty};
use crate::state::key_hash::key_hash;
use crate::store_fault::StoreFault;
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// A sorted view is dropped when so many keys came or went since somebody used it, and twice as many as it has.
const UNUSED_CHANGES: usize = 1024;

/// Rows of one map, with a `V` each.
#[derive(Debug)]
pub(super) struct HashedRows<V> {
    rows: Vec<(ByteString, V)>,
    /// Where in `rows` a key is.
    index: HashTable<u32>,
    /// The same by key.
    sorted: Option<BTreeMap<ByteString, u32>>,
    changes_since_scan: usize,
}

impl<V> Default for HashedRows<V> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            index: HashTable::new(),
            sorted: None,
            changes_since_scan: 0,
        }
    }
}

impl<V> HashedRows<V> {
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        self.find(key).map(|place| &self.rows[place as usize].1)
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.find(key).map(|place| self.value_mut(place))
    }

    /// Where the row of `key` is: there as long as no row is removed.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.index
            .find(key_hash(key), |place| *self.rows[*place as usize].0 == *key)
            .copied()
    }

    /// The row at a place.
    pub(super) fn row(&self, place: u32) -> (&ByteString, &V) {
        let (key, value) = &self.rows[place as usize];
        (key, value)
    }

    /// The value of the row at a place.
    pub(super) fn value_mut(&mut self, place: u32) -> &mut V {
        &mut self.rows[place as usize].1
    }

    fn count_change(&mut self) {
        self.changes_since_scan += 1;
        if self.changes_since_scan > UNUSED_CHANGES + 2 * self.rows.len() {
            self.sorted = None;
        }
    }

    /// Notes that the row of `from` is at `to` now.
    fn relocate(&mut self, from: usize, to: u32) {
        let key = &self.rows[to as usize].0;
        let from = u32::try_from(from).expect("places are below 2^32");
        if let Some(place) = self.index.find_mut(key_hash(key), |place| *place == from) {
            *place = to;
        }
        if let Some(sorted) = &mut self.sorted
            && let Some(place) = sorted.get_mut(key)
        {
            *place = to;
        }
    }

    /// Adds a row whose key is not there. Its place.
    pub(super) fn add(&mut self, key: &[u8], value: V) -> Result<u32, StoreFault> {
        let place = u32::try_from(self.rows.len()).map_err(|_| {
            StoreFault::Misuse("a map in memory holds 2^32 rows at most".to_owned())
        })?;
        let key = ByteString::from(key);
        let hash = key_hash(&key);
        if let Some(sorted) = &mut self.sorted {
            sorted.insert(key.clone(), place);
        }
        self.rows.push((key, value));
        let rows = &self.rows;
        let rehash = |place: &u32| key_hash(&rows[*place as usize].0);
        self.index.insert_unique(hash, place, rehash);
        self.count_change();
        Ok(place)
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        let rows = &self.rows;
        let entry = self
            .index
            .find_entry(key_hash(key), |place| *rows[*place as usize].0 == *key);
        let Ok(entry) = entry else {
            return;
        };
        let (place, _) = entry.remove();
        if let Some(sorted) = &mut self.sorted {
            sorted.remove(key);
        }
        // The last row takes the place of the one that goes.
        self.rows.swap_remove(place as usize);
        if (place as usize) < self.rows.len() {
            self.relocate(self.rows.len(), place);
        }
        self.count_change();
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
        self.sorted = None;
    }

    /// Makes scans quick that come now.
    pub(super) fn prepare_scan(&mut self) {
        self.changes_since_scan = 0;
        if self.sorted.is_none() {
            let rows = self.rows.iter().zip(0..);
            self.sorted = Some(rows.map(|((key, _), place)| (key.clone(), place)).collect());
        }
    }

    #[cfg(test)]
    pub(super) fn forget_order(&mut self) {
        self.sorted = None;
    }

    /// The rows within `bounds`, by key.
    pub(super) fn scan(
        &self,
        bounds: &Bounds<'_>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (&ByteString, &V)> + '_> {
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        let Some(sorted) = &self.sorted else {
            return self.scan_unsorted(bounds, direction);
        };
        let rows = sorted
            .range::<[u8], _>(*bounds)
            .map(|(_, place)| self.row(*place));
        match direction {
            Direction::Forward => Box::new(rows),
            Direction::Backward => Box::new(rows.rev()),
        }
    }

    /// For who scans once.
    fn scan_unsorted(
        &self,
        bounds: &Bounds<'_>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (&ByteString, &V)> + '_> {
        let mut places: Vec<u32> = (0..)
            .zip(&self.rows)
            .filter(|(_, (key, _))| contains(bounds, key))
            .map(|(place, _)| place)
            .collect();
        places.sort_unstable_by(|left, right| self.row(*left).0.cmp(self.row(*right).0));
        if direction == Direction::Backward {
            places.reverse();
        }
        Box::new(places.into_iter().map(|place| self.row(place)))
    }
}
