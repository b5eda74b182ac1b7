//! Maps on disk: keyspaces of the task's database.
//!
//! Rows that an older version of the application left in an older format stay in the family of that format. They are
//! converted as they are read, move to the new family when they are read by key, and go when they are written.

use super::family::{Family, check_key};
use super::merge::{Hiding, merge};
use super::restored::Restored;
use super::task_database::{TaskDatabase, guarded};
use super::write_buffer::WriteBuffer;
use super::{Backend, Bounds, ByteMap, ByteString, Direction, Offsets, Rows, Stored, is_empty};
use crate::store_fault::StoreFault;
use fjall::Keyspace;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Key of the row that says whether the store is open.
const STATUS: &str = "status";
/// Key of the row that says how the rows of the store are arranged.
const LAYOUT: &str = "layout";
const OPEN: i64 = 1;
const CLOSED: i64 = 0;
/// Its rows are given up, and removed before the store is used again.
const GIVEN_UP: i64 = 2;

/// The column families of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Families {
    /// Where rows are written.
    pub(crate) newest: &'static str,
    /// Where older formats wrote them, the newest of these first.
    pub(crate) older: &'static [OlderFamily],
}

/// A family of an older format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OlderFamily {
    pub(crate) name: &'static str,
    /// What makes a value of the newest format when it is put before one of this.
    pub(crate) prefix: &'static [u8],
}

/// The keyspaces of one store.
pub(crate) struct DiskBackend {
    database: TaskDatabase,
    store: Arc<str>,
    families: Families,
    offsets: Keyspace,
    was_left_open: bool,
    is_given_up: bool,
}

impl DiskBackend {
    /// Opens the store, and notes that it is open.
    ///
    /// # Errors
    /// The disk fails, or has a store of another layout.
    pub(crate) fn open(
        database: TaskDatabase,
        store: &Arc<str>,
        families: Families,
        layout: &str,
    ) -> Result<Self, StoreFault> {
        let offsets = database.keyspace(&format!("{store}/{OFFSETS}"))?;
        let status = read_offset(&offsets, STATUS)?;
        if status == Some(GIVEN_UP) {
            remove_rows(&database, store)?;
        }
        check_layout(&offsets, layout)?;
        check_families(&database, store, families)?;
        guarded(|| offsets.insert(STATUS, OPEN.to_be_bytes()))?;
        // Rows that are not committed must not be found in a store that seems closed.
        database.hand_over_notes()?;
        Ok(Self {
            database,
            store: Arc::clone(store),
            families,
            offsets,
            was_left_open: status == Some(OPEN),
            is_given_up: false,
        })
    }

    /// Forgets the offsets, and has whoever opens the store next remove its rows. On the disk before rows go: no
    /// offsets promise those that are gone.
    fn give_up(&mut self) -> Result<(), StoreFault> {
        self.is_given_up = true;
        guarded(|| self.offsets.insert(STATUS, GIVEN_UP.to_be_bytes()))?;
        let keys = guarded(|| {
            let keys = self.offsets.iter().map(fjall::Guard::key);
            keys.collect::<Result<Vec<_>, _>>()
        })?;
        let is_offset = |key: &[u8]| ![STATUS, LAYOUT].map(str::as_bytes).contains(&key);
        for key in keys.into_iter().filter(|key| is_offset(key)) {
            guarded(|| self.offsets.remove(key))?;
        }
        self.database.sync()
    }

    fn name(&self, family: &str, segment: Option<i64>) -> String {
        match segment {
            Some(segment) => format!("{}/{family}/{segment}", self.store),
            None => format!("{}/{family}", self.store),
        }
    }
}

/// Family of the offsets, and of what else is noted of a store.
const OFFSETS: &str = "offsets";

/// The rest of a name of a keyspace that is a store's.
fn of_store<'a>(name: &'a str, store: &str) -> Option<&'a str> {
    name.strip_prefix(store)?.strip_prefix('/')
}

/// Removes the rows of a store; what is noted of it stays.
fn remove_rows(database: &TaskDatabase, store: &str) -> Result<(), StoreFault> {
    let is_of_rows = |name: &String| of_store(name, store).is_some_and(|rest| rest != OFFSETS);
    let names: Vec<String> = database.names().filter(is_of_rows).collect();
    for name in names {
        if let Some(rows) = database.existing(&name)? {
            database.remove(rows)?;
        }
    }
    Ok(())
}

/// Compares how rows are arranged with how they were when the store was made.
fn check_layout(offsets: &Keyspace, layout: &str) -> Result<(), StoreFault> {
    let found = guarded(|| offsets.get(LAYOUT))?;
    match found {
        None => guarded(|| offsets.insert(LAYOUT, layout)),
        Some(found) if *found == *layout.as_bytes() => Ok(()),
        Some(found) => Err(StoreFault::OtherLayout {
            found: String::from_utf8_lossy(&found).into_owned(),
            wanted: layout.to_owned(),
        }),
    }
}

/// Rows of a newer format would neither be read nor restored.
fn check_families(
    database: &TaskDatabase,
    store: &str,
    families: Families,
) -> Result<(), StoreFault> {
    for name in database.names() {
        let family = of_store(&name, store).and_then(|rest| rest.split('/').next());
        let Some(family) = family else { continue };
        let is_known = [families.newest, OFFSETS].contains(&family)
            || families.older.iter().any(|older| older.name == family);
        if !is_known {
            return Err(StoreFault::OtherLayout {
                found: format!("rows in format `{family}`"),
                wanted: format!("rows in format `{}`", families.newest),
            });
        }
    }
    Ok(())
}

fn read_offset(offsets: &Keyspace, key: &str) -> Result<Option<i64>, StoreFault> {
    let Some(value) = guarded(|| offsets.get(key))? else {
        return Ok(None);
    };
    let bytes = <[u8; 8]>::try_from(&*value).map_err(|_| {
        StoreFault::Damaged(format!("the offset `{key}` has {} bytes", value.len()))
    })?;
    Ok(Some(i64::from_be_bytes(bytes)))
}

impl Backend for DiskBackend {
    type Map = DiskMap;

    fn open(&mut self, segment: Option<i64>) -> Result<DiskMap, StoreFault> {
        let newest = self.name(self.families.newest, segment);
        let mut older = Vec::new();
        for family in self.families.older {
            let name = self.name(family.name, segment);
            if let Some(rows) = Family::with_rows(&self.database, name)? {
                older.push((rows, family.prefix));
            }
        }
        Ok(DiskMap {
            newest: Family::open(&self.database, newest)?,
            older,
            restored: RefCell::default(),
            buffer: WriteBuffer::default(),
            unpaced_bytes: 0,
        })
    }

    fn segments(&self) -> Vec<i64> {
        let families: Vec<String> = std::iter::once(self.families.newest)
            .chain(self.families.older.iter().map(|family| family.name))
            .map(|family| format!("{}/{family}/", self.store))
            .collect();
        let segments: BTreeSet<i64> = self
            .database
            .names()
            .filter_map(|name| {
                let segment = families
                    .iter()
                    .find_map(|family| name.strip_prefix(family))?;
                segment.parse().ok()
            })
            .collect();
        segments.into_iter().collect()
    }

    fn remove(&mut self, _: i64, map: DiskMap) -> Result<(), StoreFault> {
        map.newest.remove_all()?;
        for (older, _) in map.older {
            older.remove_all()?;
        }
        Ok(())
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        if offsets.is_empty() {
            return self.give_up();
        }
        for ((topic, partition), offset) in offsets {
            let key = format!("{topic}-{partition}");
            guarded(|| self.offsets.insert(key, offset.to_be_bytes()))?;
        }
        self.database.hand_over()
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        read_offset(&self.offsets, &format!("{topic}-{partition}"))
    }

    fn was_left_open(&self) -> bool {
        self.was_left_open
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        if self.is_given_up {
            return Ok(());
        }
        guarded(|| self.offsets.insert(STATUS, CLOSED.to_be_bytes()))?;
        self.database.hand_over()
    }
}

/// How many bytes are written between two looks at the disk's pace.
const PACED_BYTES: usize = 1 << 20;

pub(crate) struct DiskMap {
    newest: Family,
    /// Families of older formats that have rows, with what makes their values new ones.
    older: Vec<(Family, &'static [u8])>,
    /// What came of the changelog and is not in `newest` yet.
    restored: RefCell<Restored>,
    /// What was put later than that, if there are no rows of older formats.
    buffer: WriteBuffer,
    unpaced_bytes: usize,
}

/// Fewer bytes of rows are not worth a table of their own.
const TABLE_BYTES: usize = 256 << 10;

impl DiskMap {
    /// Writes what was restored.
    fn write_restored(&self) -> Result<(), StoreFault> {
        let restored = &mut *self.restored.borrow_mut();
        if restored.is_empty() {
            return Ok(());
        }
        let Some(rows) = restored.only_rows() else {
            return restored.settle_all(&self.newest);
        };
        self.write_all(rows.size_bytes(), rows.sorted())?;
        rows.clear();
        Ok(())
    }

    /// Makes room in memory.
    fn spill(&mut self) -> Result<(), StoreFault> {
        match self.older.is_empty() {
            true => self.restored.get_mut().spill(&self.newest),
            false => self.write_restored(),
        }
    }

    /// Writes what waits in the buffer.
    fn write_buffered(&mut self) -> Result<(), StoreFault> {
        let waiting_bytes = self.buffer.waiting_bytes();
        if waiting_bytes > 0 {
            self.write_all(waiting_bytes, self.buffer.waiting())?;
            self.buffer.note_written();
            self.pace(waiting_bytes)?;
        }
        Ok(())
    }

    /// Writes rows, which come by key: many as a table.
    fn write_all<'a>(
        &self,
        size_bytes: usize,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), StoreFault> {
        if size_bytes >= TABLE_BYTES && self.older.is_empty() {
            self.newest.wait_for_tables()?;
            return self.newest.ingest(rows.map(Ok));
        }
        for (key, value) in rows {
            self.write(key, value)?;
        }
        Ok(())
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreFault> {
        match value {
            Some(value) => self.newest.insert(key, value)?,
            None => self.newest.remove(key)?,
        }
        for (older, _) in &self.older {
            older.remove(key)?;
        }
        Ok(())
    }

    /// Takes a row, which may wait.
    fn take(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreFault> {
        self.write_restored()?;
        if !self.older.is_empty() {
            self.write(key, value)?;
            return self.pace(key.len() + value.map_or(0, <[u8]>::len));
        }
        check_key(key)?;
        self.buffer.put(key, value)?;
        if self.buffer.is_full() {
            self.write_buffered()?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Waits for a disk that is too slow.
    fn pace(&mut self, bytes: usize) -> Result<(), StoreFault> {
        self.unpaced_bytes += bytes;
        if self.unpaced_bytes < PACED_BYTES {
            return Ok(());
        }
        self.unpaced_bytes = 0;
        self.newest.wait_for_tables()
    }
}

impl ByteMap for DiskMap {
    fn get(&self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        self.write_restored()?;
        if let Some(value) = self.buffer.get(key) {
            return Ok(value.map(Stored::Borrowed));
        }
        if let Some(value) = self.newest.get(key)? {
            return Ok(Some(Stored::Shared(value)));
        }
        for (older, prefix) in &self.older {
            if let Some(value) = older.get(key)? {
                let value = convert(prefix, &value);
                self.newest.insert(key, value.clone())?;
                older.remove(key)?;
                return Ok(Some(Stored::Shared(value)));
            }
        }
        Ok(None)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreFault> {
        self.take(key, Some(value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreFault> {
        self.take(key, None)
    }

    fn restore(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreFault> {
        if !self.buffer.is_empty() {
            self.write_buffered()?;
            self.buffer.free();
        }
        let row_bytes = key.len() + value.map_or(0, <[u8]>::len);
        if !self.restored.get_mut().rows().has_room(row_bytes) {
            self.spill()?;
        }
        if self.restored.get_mut().rows().push(key, value) {
            return Ok(());
        }
        self.write_restored()?;
        self.write(key, value)
    }

    fn relieve(&mut self) -> Result<(), StoreFault> {
        self.spill()?;
        self.restored.get_mut().rows().free();
        Ok(())
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.restored.get_mut().settle(most_bytes, &self.newest)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.restored.borrow().file_bytes()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        if self.restored.get_mut().file_bytes() > 0 {
            // Nothing was put later.
            return std::mem::take(self.restored.get_mut()).give_up();
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), StoreFault> {
        self.write_restored()?;
        self.restored = RefCell::default();
        if self.buffer.waiting_count() == 0 {
            // Nobody writes here any more.
            self.buffer.free();
        }
        self.write_buffered()
    }

    fn prepare_scan(&mut self) {
        self.buffer.prepare_scan();
    }

    fn scan(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_> {
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        if let Err(fault) = self.write_restored() {
            return Box::new(std::iter::once(Err(fault)));
        }
        let mut rows = self.newest.scan(bounds, direction, |value| value);
        if !self.buffer.is_empty() {
            rows = merge(
                self.buffer.scan(bounds, direction),
                rows,
                direction,
                <[u8]>::cmp,
            );
        }
        for (older, prefix) in &self.older {
            rows = merge(
                rows.map(|row| row.map(|(key, value)| -> Hiding<'_> { (key, Some(value)) })),
                older.scan(bounds, direction, |value| convert(prefix, &value)),
                direction,
                <[u8]>::cmp,
            );
        }
        rows
    }

    fn approximate_count(&self) -> u64 {
        let older = self.older.iter().map(|(older, _)| older);
        let written: u64 = std::iter::once(&self.newest)
            .chain(older)
            .map(Family::approximate_count)
            .sum();
        written + self.buffer.new_count() as u64
    }
}

fn convert(prefix: &[u8], value: &[u8]) -> ByteString {
    [prefix, value].concat().into()
}
