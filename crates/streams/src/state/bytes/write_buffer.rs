//! Rows that are not on the disk yet. They wait in memory until there are enough of them for a table, or until what is
//! in the store is noted: a key that comes again and again is written once, sorted rows cost less to write than single
//! ones, and whoever asks for a row that came lately does not ask the disk.
//!
//! - A row that waits is lost with the process. Nothing has noted by then that it is in the store.
//! - A row that was written stays until room is needed, and hides an older one on the disk.

use super::budget::Budget;
use super::hashed_rows::HashedRows;
use super::{Bounds, ByteString, Direction, Hiding, Stored};
use crate::store_fault::StoreFault;
use std::sync::Arc;

/// So many bytes of rows are held for one map.
const HELD_BYTES: usize = 4 << 20;
/// So many at least, however much memory the stores of the thread have.
const LEAST_BYTES: usize = 256 << 10;
/// What stands beside key and value: a row, and its place in the index and among those that wait.
const BESIDE_BYTES: usize = size_of::<(ByteString, Written)>() + 3 * size_of::<u32>();

/// The newest value of a key; none if it is deleted.
#[derive(Debug)]
struct Written {
    value: Option<ByteString>,
    is_waiting: bool,
}

/// Rows as they were written last.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    rows: HashedRows<Written>,
    /// The places of the rows that wait, so that who writes them does not look at the others.
    waiting: Vec<u32>,
    /// Of all rows, and of those that wait.
    held_bytes: usize,
    waiting_bytes: usize,
    /// Of those that wait, how many the disk has no older row of that came from here.
    new_count: usize,
    budget: Arc<Budget>,
}

impl Default for WriteBuffer {
    fn default() -> Self {
        Self::within(Budget::of_thread())
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        self.budget.give_back(self.held_bytes);
    }
}

impl WriteBuffer {
    fn within(budget: Arc<Budget>) -> Self {
        Self {
            rows: HashedRows::default(),
            waiting: Vec::new(),
            held_bytes: 0,
            waiting_bytes: 0,
            new_count: 0,
            budget,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Rows that wait.
    pub(super) const fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Rows that wait whose keys came since rows were written last.
    pub(super) const fn new_count(&self) -> usize {
        self.new_count
    }

    /// What the rows that wait take.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether rows are to be written now.
    pub(super) fn is_full(&self) -> bool {
        let most_bytes = match self.budget.is_spent() {
            true => LEAST_BYTES,
            false => HELD_BYTES,
        };
        self.held_bytes >= most_bytes
    }

    /// The value that was written last for `key`, and none within if it was deleted.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&ByteString>> {
        self.rows.get(key).map(|written| written.value.as_ref())
    }

    /// Takes a row.
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreFault> {
        let row_bytes = key.len() + value.map_or(0, <[u8]>::len) + BESIDE_BYTES;
        let written = Written {
            value: value.map(ByteString::from),
            is_waiting: true,
        };
        let mut old_bytes = 0;
        if let Some(place) = self.rows.find(key) {
            let there = self.rows.value_mut(place);
            let old_value_bytes = there.value.as_ref().map_or(0, |value| value.len());
            old_bytes = key.len() + old_value_bytes + BESIDE_BYTES;
            match there.is_waiting {
                true => self.waiting_bytes -= old_bytes,
                false => self.waiting.push(place),
            }
            *there = written;
        } else {
            self.waiting.push(self.rows.add(key, written)?);
            self.new_count += 1;
        }
        self.waiting_bytes += row_bytes;
        self.held_bytes = self.held_bytes + row_bytes - old_bytes;
        self.budget.take(row_bytes);
        self.budget.give_back(old_bytes);
        Ok(())
    }

    /// The rows that wait, by key.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let rows = self.waiting.iter().map(|place| self.rows.row(*place));
        let mut rows: Vec<(&[u8], Option<&[u8]>)> = rows
            .map(|(key, written)| (&**key, written.value.as_deref()))
            .collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows.into_iter()
    }

    /// The rows that waited are on the disk.
    pub(super) fn note_written(&mut self) {
        for place in self.waiting.drain(..) {
            self.rows.value_mut(place).is_waiting = false;
        }
        (self.waiting_bytes, self.new_count) = (0, 0);
    }

    /// Forgets all rows. The memory is kept for those that come, unless other stores need it.
    pub(super) fn clear(&mut self) {
        if self.budget.is_spent() {
            (self.rows, self.waiting) = Default::default();
        }
        self.rows.clear();
        self.waiting.clear();
        self.budget.give_back(self.held_bytes);
        self.held_bytes = 0;
        (self.waiting_bytes, self.new_count) = (0, 0);
    }

    /// The same, and keeps nothing.
    pub(super) fn free(&mut self) {
        self.clear();
        (self.rows, self.waiting) = Default::default();
    }

    /// Makes scans quick that come now.
    pub(super) fn prepare_scan(&mut self) {
        self.rows.prepare_scan();
    }

    /// What hides rows of the disk.
    pub(super) fn scan<'a>(
        &'a self,
        bounds: &Bounds<'_>,
        direction: Direction,
    ) -> impl Iterator<Item = Result<Hiding<'a>, StoreFault>> + use<'a> {
        let rows = self.rows.scan(bounds, direction);
        rows.map(|(key, written)| {
            let value = written.value.as_ref().map(Stored::Borrowed);
            Ok((Stored::Borrowed(key), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::bytes::ALL;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, Option<Vec<u8>>),
        Write,
        Sort,
        Clear,
        Free,
    }

    fn step() -> impl Strategy<Value = Step> {
        let value = proptest::option::weighted(0.7, proptest::collection::vec(any::<u8>(), 0..30));
        prop_oneof![
            20 => (0..12_u8, value).prop_map(|(key, value)| Step::Put(key, value)),
            2 => Just(Step::Write),
            2 => Just(Step::Sort),
            1 => Just(Step::Clear),
            1 => Just(Step::Free),
        ]
    }

    proptest! {
        #![proptest_config(trials::property(128))]

        #[test]
        fn it_has_the_newest_rows_and_those_that_wait(
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let budget = Arc::new(Budget::new(1 << 20));
            let mut buffer = WriteBuffer::within(Arc::clone(&budget));
            let mut model: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            let mut waiting: BTreeSet<Vec<u8>> = BTreeSet::new();
            let bytes = |key: &[u8], value: &Option<Vec<u8>>| {
                key.len() + value.as_ref().map_or(0, Vec::len) + BESIDE_BYTES
            };
            for step in steps {
                match step {
                    Step::Put(key, value) => {
                        buffer.put(&[key], value.as_deref()).expect("there is room");
                        model.insert(vec![key], value);
                        waiting.insert(vec![key]);
                    }
                    Step::Write => {
                        buffer.note_written();
                        waiting.clear();
                    }
                    Step::Sort => buffer.prepare_scan(),
                    Step::Clear | Step::Free => {
                        match step {
                            Step::Clear => buffer.clear(),
                            _ => buffer.free(),
                        }
                        model.clear();
                        waiting.clear();
                    }
                }
                for key in 0..12 {
                    let found = buffer.get(&[key]).map(|value| value.map(|value| value.to_vec()));
                    prop_assert_eq!(found.as_ref(), model.get(&[key][..]));
                }
                let found: Vec<_> = buffer
                    .waiting()
                    .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                    .collect();
                let expected = waiting.iter().map(|key| (key.clone(), model[key].clone()));
                prop_assert!(found.into_iter().eq(expected));
                let of_waiting = waiting.iter().map(|key| bytes(key, &model[key]));
                prop_assert_eq!(buffer.waiting_bytes(), of_waiting.sum::<usize>());
                prop_assert_eq!(buffer.waiting_count(), waiting.len());
                let held_bytes: usize = model.iter().map(|(key, value)| bytes(key, value)).sum();
                prop_assert_eq!(budget.held_bytes(), held_bytes);
                for direction in [Direction::Forward, Direction::Backward] {
                    let mut found: Vec<_> = buffer
                        .scan(&ALL, direction)
                        .map(|row| row.expect("a row"))
                        .map(|(key, value)| (key.to_vec(), value.map(|value| value.to_vec())))
                        .collect();
                    if direction == Direction::Backward {
                        found.reverse();
                    }
                    prop_assert!(found.into_iter().eq(model.clone()));
                }
            }
            drop(buffer);
            prop_assert_eq!(budget.held_bytes(), 0);
        }
    }

    /// A store that is alone has room for many rows. Where many have spent what the thread has, each has some.
    #[test]
    fn it_is_full_sooner_where_others_have_the_memory() {
        let budget = Arc::new(Budget::new(LEAST_BYTES * 3 / 2));
        let value = vec![0; LEAST_BYTES / 4];
        let mut alone = WriteBuffer::within(Arc::new(Budget::new(usize::MAX)));
        let mut buffers = [0, 1].map(|_| WriteBuffer::within(Arc::clone(&budget)));
        for key in 0..4 {
            for buffer in buffers.iter_mut().chain([&mut alone]) {
                assert!(!buffer.is_full());
                buffer.put(&[key], Some(&value)).expect("there is room");
            }
        }
        assert_eq!(buffers.each_ref().map(WriteBuffer::is_full), [true; 2]);
        assert!(!alone.is_full());
        alone
            .put(&[9], Some(&vec![0; HELD_BYTES]))
            .expect("there is room");
        assert!(alone.is_full());
    }
}
