//! Maps in memory: rows are found by a hash of their key, and sorted while somebody asks for ranges. Short keys and
//! values need no memory of their own.

use super::{
    Backend, Bounds, ByteMap, ByteString, Direction, Offsets, Row, Rows, Stored, contains, is_empty,
};
use crate::state::fault::StoreFault;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A sorted view is dropped when so many keys came or went since somebody used it, and twice as many as it has.
const UNUSED_CHANGES: usize = 1024;

#[derive(Default)]
pub(crate) struct MemoryMap {
    rows: Vec<(ByteString, ByteString)>,
    /// Where in `rows` a key is.
    index: HashTable<u32>,
    /// The same by key.
    sorted: Option<BTreeMap<ByteString, u32>>,
    changes_since_scan: usize,
}

impl MemoryMap {
    fn find(&self, key: &[u8]) -> Option<usize> {
        let place = self
            .index
            .find(xxh3_64(key), |place| *self.rows[*place as usize].0 == *key)?;
        Some(*place as usize)
    }

    fn count_change(&mut self) {
        self.changes_since_scan += 1;
        if self.changes_since_scan > UNUSED_CHANGES + 2 * self.rows.len() {
            self.sorted = None;
        }
    }

    fn row(&self, place: u32) -> Row<'_> {
        let (key, value) = &self.rows[place as usize];
        (Stored::Borrowed(key), Stored::Borrowed(value))
    }

    /// Notes that the row of `from` is at `to` now.
    fn relocate(&mut self, from: usize, to: u32) {
        let key = &self.rows[to as usize].0;
        let from = u32::try_from(from).expect("places are below 2^32");
        if let Some(place) = self.index.find_mut(xxh3_64(key), |place| *place == from) {
            *place = to;
        }
        if let Some(sorted) = &mut self.sorted
            && let Some(place) = sorted.get_mut(key)
        {
            *place = to;
        }
    }
}

impl ByteMap for MemoryMap {
    fn get(&self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let place = self.find(key);
        Ok(place.map(|place| Stored::Borrowed(&self.rows[place].1)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreFault> {
        if let Some(place) = self.find(key) {
            self.rows[place].1 = value.into();
            return Ok(());
        }
        let place = u32::try_from(self.rows.len()).map_err(|_| {
            StoreFault::Misuse("a map in memory holds 2^32 rows at most".to_owned())
        })?;
        let key = ByteString::from(key);
        let hash = xxh3_64(&key);
        if let Some(sorted) = &mut self.sorted {
            sorted.insert(key.clone(), place);
        }
        self.rows.push((key, value.into()));
        let rows = &self.rows;
        let rehash = |place: &u32| xxh3_64(&rows[*place as usize].0);
        self.index.insert_unique(hash, place, rehash);
        self.count_change();
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreFault> {
        let rows = &self.rows;
        let entry = self
            .index
            .find_entry(xxh3_64(key), |place| *rows[*place as usize].0 == *key);
        let Ok(entry) = entry else {
            return Ok(());
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
        Ok(())
    }

    fn prepare_scan(&mut self) {
        self.changes_since_scan = 0;
        if self.sorted.is_none() {
            let rows = self.rows.iter().zip(0..);
            self.sorted = Some(rows.map(|((key, _), place)| (key.clone(), place)).collect());
        }
    }

    fn scan(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_> {
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        let Some(sorted) = &self.sorted else {
            return self.scan_unsorted(bounds, direction);
        };
        let rows = sorted
            .range::<[u8], _>(*bounds)
            .map(|(_, place)| Ok(self.row(*place)));
        match direction {
            Direction::Forward => Box::new(rows),
            Direction::Backward => Box::new(rows.rev()),
        }
    }

    fn approximate_count(&self) -> u64 {
        self.rows.len() as u64
    }
}

impl MemoryMap {
    /// For who scans once.
    fn scan_unsorted(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_> {
        let mut places: Vec<u32> = (0..)
            .zip(&self.rows)
            .filter(|(_, (key, _))| contains(bounds, key))
            .map(|(place, _)| place)
            .collect();
        places.sort_unstable_by(|left, right| {
            self.rows[*left as usize]
                .0
                .cmp(&self.rows[*right as usize].0)
        });
        if direction == Direction::Backward {
            places.reverse();
        }
        Box::new(places.into_iter().map(|place| Ok(self.row(place))))
    }
}

/// Keeps nothing: a store in memory is restored as a whole.
#[derive(Debug, Default)]
pub(crate) struct MemoryBackend;

impl Backend for MemoryBackend {
    type Map = MemoryMap;

    fn open(&mut self, _: Option<i64>) -> Result<MemoryMap, StoreFault> {
        Ok(MemoryMap::default())
    }

    fn segments(&self) -> Vec<i64> {
        Vec::new()
    }

    fn remove(&mut self, _: i64, _: MemoryMap) -> Result<(), StoreFault> {
        Ok(())
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn commit(&mut self, _: &Offsets) -> Result<(), StoreFault> {
        Ok(())
    }

    fn committed_offset(&self, _: &str, _: i32) -> Result<Option<i64>, StoreFault> {
        Ok(None)
    }

    fn was_left_open(&self) -> bool {
        false
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Bound;

    proptest! {
        #![proptest_config(trials::property(128))]

        #[test]
        fn a_map_with_and_without_order_is_a_map(
            steps in proptest::collection::vec((0..40_u8, proptest::option::weighted(0.6, any::<u8>())), 0..120),
            sorts_at in proptest::collection::vec(0..120_usize, 0..3),
            forgets_at in 0..120_usize,
            (from, to) in (0..40_u8, 0..40_u8),
        ) {
            let (mut map, mut model) = (MemoryMap::default(), BTreeMap::new());
            for (index, (key, value)) in steps.iter().enumerate() {
                if sorts_at.contains(&index) {
                    map.prepare_scan();
                }
                if forgets_at == index {
                    map.sorted = None;
                }
                match value {
                    Some(value) => {
                        map.put(&[*key], &[*value]).expect("put");
                        model.insert(*key, *value);
                    }
                    None => {
                        map.delete(&[*key]).expect("deleted");
                        model.remove(key);
                    }
                }
                let got = map.get(&[*key]).expect("got").map(|value| value[0]);
                prop_assert_eq!(got, model.get(key).copied());
            }
            let bounds: Bounds<'_> = (Bound::Included(&[from]), Bound::Excluded(&[to]));
            let mut expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| (from..to).contains(key))
                .map(|(key, value)| (*key, *value))
                .collect();
            for direction in [Direction::Forward, Direction::Backward] {
                for sorts in [false, true] {
                    if sorts {
                        map.prepare_scan();
                    }
                    let found: Vec<_> = map
                        .scan(&bounds, direction)
                        .map(|row| row.expect("row"))
                        .map(|(key, value)| (key[0], value[0]))
                        .collect();
                    prop_assert_eq!(&found, &expected);
                }
                expected.reverse();
                map.sorted = None;
            }
            prop_assert_eq!(map.approximate_count(), model.len() as u64);
        }
    }
}
