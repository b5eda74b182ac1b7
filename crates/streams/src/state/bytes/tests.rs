//! A map on disk that follows a changelog, and whose process or whose machine ends: whenever that happens, what is left
//! becomes what the changelog has when it is restored from the offset that is found.

use super::budget::Budget;
use super::disk::DiskMap;
use super::{ALL, Backend as _, ByteMap as _, Direction, DiskBackend, Families, TaskDatabase};
use crate::state::tests::world::copy_of;
use crate::store_fault::StoreFault;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The changelog: a record of any offset.
fn record(offset: i64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mixed = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let number = mixed.unsigned_abs() >> 32;
    let key = match number % 61 {
        0 => Vec::new(),
        key => format!("key {key}").into_bytes(),
    };
    let is_there = !number.is_multiple_of(4);
    let value_bytes = 10 + usize::try_from(number % 17).expect("it is small") * 1000;
    let value = [&offset.to_be_bytes()[..], &vec![7; value_bytes]].concat();
    (key, is_there.then_some(value))
}

/// What the changelog comes to before an offset.
fn rows(end_offset: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for (key, value) in (0..end_offset).map(record) {
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        };
    }
    rows
}

/// The map, as one process has it.
struct Life {
    backend: DiskBackend,
    map: DiskMap,
    /// The next record that it takes.
    next_offset: i64,
    /// Rows were put since, which no changelog has as long as they are not committed.
    has_put: bool,
    database: TaskDatabase,
    /// What the journal had when it was opened.
    journal: Vec<u8>,
}

const FAMILIES: Families = Families {
    newest: "rows",
    older: &[],
};

impl Life {
    fn open(directory: &Path) -> Self {
        let journal = std::fs::read(directory.join("stores/0.jnl")).unwrap_or_default();
        let database = TaskDatabase::open(&directory.join("stores")).expect("opened");
        let store = Arc::from("s");
        let opened = DiskBackend::open(database.clone(), &store, FAMILIES, "rows");
        let mut backend = opened.expect("opened");
        let noted = backend.committed_offset("t", 0).expect("read");
        Self {
            map: backend.open(None).expect("opened"),
            backend,
            next_offset: noted.map_or(0, |last| last + 1),
            has_put: false,
            database,
            journal,
        }
    }

    fn take(&mut self, offset: i64) {
        let (key, value) = record(offset);
        let taken = self.map.restore(&key, value.as_deref());
        taken.expect("restored");
    }

    fn restore(&mut self, end_offset: i64) {
        (self.next_offset..end_offset).for_each(|offset| self.take(offset));
        self.next_offset = end_offset;
    }

    /// The same, of a changelog that has only the newest record of each key.
    fn restore_compacted(&mut self, end_offset: i64) {
        let offsets = self.next_offset..end_offset;
        let newest: BTreeMap<_, _> = offsets.map(|offset| (record(offset).0, offset)).collect();
        newest.into_values().for_each(|offset| self.take(offset));
        self.next_offset = end_offset;
    }

    /// A task that processes puts so many rows.
    fn put(&mut self, count: i64) {
        self.has_put = true;
        for offset in -count..0 {
            let (key, value) = record(offset);
            let put = match value {
                Some(value) => self.map.put(&key, &value),
                None => self.map.delete(&key),
            };
            put.expect("put");
        }
    }

    fn note(&mut self) {
        if self.next_offset > 0 {
            self.map.flush().expect("written");
            let offsets = BTreeMap::from([((Arc::from("t"), 0), self.next_offset - 1)]);
            self.backend.commit(&offsets).expect("noted");
        }
    }

    fn close(mut self) {
        self.map.close().expect("closed");
        self.backend.close().expect("closed");
    }

    /// What has come of the changelog is there, and nothing else.
    fn check(&self) {
        let found = self.map.scan(&ALL, Direction::Forward);
        let found = found.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
        let found: Result<BTreeMap<_, _>, _> = found.collect();
        assert!(found.expect("rows") == rows(self.next_offset));
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// So many records come.
    Restore(i64),
    /// What waits in files is worked on.
    Settle,
    Relieve,
    Note,
    /// It is closed, whatever waits, and opened again.
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..160_i64).prop_map(Step::Restore),
        4 => Just(Step::Settle),
        1 => Just(Step::Relieve),
        1 => Just(Step::Note),
        1 => Just(Step::Close),
    ]
}

/// Of all that is left at a moment, or of what was synced.
fn check_left(life: &Life, directory: &Path, end_offset: i64) {
    for loses_power in [false, true] {
        let left = copy_of(directory);
        if loses_power {
            let synced = life.database.synced();
            let journal = match synced.is_empty() {
                true => &life.journal,
                false => &synced,
            };
            std::fs::write(left.path().join("stores/0.jnl"), journal).expect("written");
        }
        let mut next = Life::open(left.path());
        let was_left_open = next.backend.was_left_open();
        assert!(loses_power || was_left_open);
        if life.has_put && was_left_open {
            // Under exactly-once the files are wiped then.
            continue;
        }
        match end_offset % 2 {
            0 => next.restore(end_offset),
            _ => next.restore_compacted(end_offset),
        }
        next.check();
    }
}

proptest! {
    #![proptest_config(trials::property(6))]

    #[test]
    fn what_is_left_of_a_restore_becomes_what_the_changelog_has(
        steps in proptest::collection::vec(step(), 1..10),
    ) {
        let budget = Budget::of_thread();
        // Others have all of it, so that little waits in memory.
        budget.take(1 << 30);
        let directory = trials::directory();
        let mut life = Life::open(directory.path());
        let mut end_offset = 0;
        for step in steps {
            match step {
                Step::Restore(count) => life.restore(life.next_offset + count),
                Step::Settle => {
                    life.map.settle(0).expect("a step");
                }
                Step::Relieve => life.map.relieve().expect("written"),
                Step::Note => life.note(),
                Step::Close => {
                    life.close();
                    life = Life::open(directory.path());
                }
            }
            end_offset = life.next_offset.max(end_offset);
            check_left(&life, directory.path(), end_offset + 1);
        }
        life.restore(end_offset);
        life.check();
        for count in [1, 300] {
            life.put(count);
            check_left(&life, directory.path(), end_offset);
        }
        budget.give_back(1 << 30);
    }
}

/// As an application that keeps its store elsewhere may write it.
#[test]
fn a_key_that_is_too_long_is_told_unless_it_is_deleted() {
    let directory = trials::directory();
    let mut life = Life::open(directory.path());
    let key = vec![7; 70_000];
    life.map.restore(&key, None).expect("there is no such row");
    let told = life.map.restore(&key, Some(b"value"));
    assert!(matches!(told, Err(StoreFault::Misuse(_))), "{told:?}");
    life.map.restore(&key, None).expect("there is no such row");
    life.restore(9);
    life.note();
    life.check();
}
