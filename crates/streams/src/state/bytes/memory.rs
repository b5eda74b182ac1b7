//! Maps in memory.

use super::hashed_rows::HashedRows;
use super::{Backend, Bounds, ByteMap, ByteString, Direction, Offsets, Rows, Stored};
use crate::store_fault::StoreFault;

#[derive(Default)]
pub(crate) struct MemoryMap {
    rows: HashedRows<ByteString>,
}

impl ByteMap for MemoryMap {
    fn get(&self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        Ok(self.rows.get(key).map(Stored::Borrowed))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreFault> {
        match self.rows.get_mut(key) {
            Some(there) => {
                *there = value.into();
                Ok(())
            }
            None => self.rows.add(key, value.into()).map(|_| ()),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreFault> {
        self.rows.remove(key);
        Ok(())
    }

    fn prepare_scan(&mut self) {
        self.rows.prepare_scan();
    }

    fn settle(&mut self, _: u64) -> Result<bool, StoreFault> {
        Ok(true)
    }

    fn unsettled_bytes(&self) -> u64 {
        0
    }

    fn scan(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_> {
        let rows = self.rows.scan(bounds, direction);
        Box::new(rows.map(|(key, value)| Ok((Stored::Borrowed(key), Stored::Borrowed(value)))))
    }

    fn approximate_count(&self) -> u64 {
        self.rows.len() as u64
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
    use std::collections::BTreeMap;
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
                    map.rows.forget_order();
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
                map.rows.forget_order();
            }
            prop_assert_eq!(map.approximate_count(), model.len() as u64);
        }
    }
}
