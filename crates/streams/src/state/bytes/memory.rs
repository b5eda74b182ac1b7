//! Maps in memory. Short keys and values live in the nodes of the tree.

use super::{Backend, Bounds, ByteMap, ByteString, Direction, Offsets, Rows, Stored, is_empty};
use crate::state::fault::StoreFault;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct MemoryMap {
    rows: BTreeMap<ByteString, ByteString>,
}

impl ByteMap for MemoryMap {
    fn get(&self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        Ok(self.rows.get(key).map(Stored::Borrowed))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreFault> {
        match self.rows.get_mut(key) {
            Some(old) => *old = value.into(),
            None => {
                self.rows.insert(key.into(), value.into());
            }
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreFault> {
        self.rows.remove(key);
        Ok(())
    }

    fn scan(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_> {
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        let rows = self
            .rows
            .range::<[u8], _>(*bounds)
            .map(|(key, value)| Ok((Stored::Borrowed(key), Stored::Borrowed(value))));
        match direction {
            Direction::Forward => Box::new(rows),
            Direction::Backward => Box::new(rows.rev()),
        }
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
