//! The rows of one format in one map on disk.
//!
//! fjall has no rows without a key, and none whose key is longer than 65,535 bytes. A store may have a row whose key
//! is empty, such as that of an empty text: it has a keyspace of its own, which is made when such a row comes.

use super::task_database::{TaskDatabase, guarded};
use super::{Bounds, ByteString, Direction, Row, Rows, Stored, contains};
use crate::store_fault::StoreFault;
use fjall::Keyspace;
use std::cell::OnceCell;
use std::io;
use std::path::Path;

/// What the name of the keyspace adds that has the row with the empty key.
const EMPTY: &str = "/empty";
const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Whether there is room for a key.
pub(super) fn check_key(key: &[u8]) -> Result<(), StoreFault> {
    match key.len() <= MAX_KEY_BYTES {
        true => Ok(()),
        false => Err(StoreFault::Misuse(format!(
            "a key has {} bytes, and a store on disk has room for {MAX_KEY_BYTES}; keep this one in memory",
            key.len()
        ))),
    }
}

/// The rows of one format.
pub(super) struct Family {
    name: String,
    database: TaskDatabase,
    rows: Keyspace,
    /// Not there before the first row with an empty key.
    empty: OnceCell<Keyspace>,
}

impl Family {
    /// The rows of this name, which may have none yet.
    pub(super) fn open(database: &TaskDatabase, name: String) -> Result<Self, StoreFault> {
        let empty = OnceCell::new();
        if let Some(existing) = database.existing(&format!("{name}{EMPTY}"))? {
            empty.get_or_init(|| existing);
        }
        Ok(Self {
            rows: database.keyspace(&name)?,
            empty,
            database: database.clone(),
            name,
        })
    }

    /// The rows of this name, if it has some. What is there without rows goes.
    pub(super) fn with_rows(
        database: &TaskDatabase,
        name: String,
    ) -> Result<Option<Self>, StoreFault> {
        if database.existing(&name)?.is_none() {
            return Ok(None);
        }
        let family = Self::open(database, name)?;
        if !family.is_empty()? {
            return Ok(Some(family));
        }
        family.remove_all()?;
        Ok(None)
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<ByteString>, StoreFault> {
        match (key, self.empty.get()) {
            ([], None) => Ok(None),
            ([], Some(empty)) => guarded(|| empty.get(EMPTY)),
            _ => guarded(|| self.rows.get(key)),
        }
    }

    pub(super) fn insert(
        &self,
        key: &[u8],
        value: impl Into<ByteString>,
    ) -> Result<(), StoreFault> {
        check_key(key)?;
        if !key.is_empty() {
            return guarded(|| self.rows.insert(key, value));
        }
        let empty = match self.empty.get() {
            Some(empty) => empty,
            None => {
                let made = self.database.keyspace(&format!("{}{EMPTY}", self.name))?;
                self.empty.get_or_init(|| made)
            }
        };
        guarded(|| empty.insert(EMPTY, value))
    }

    pub(super) fn remove(&self, key: &[u8]) -> Result<(), StoreFault> {
        match (key, self.empty.get()) {
            ([], None) => Ok(()),
            ([], Some(empty)) => guarded(|| empty.remove(EMPTY)),
            // There is no such row, and fjall panics.
            _ if check_key(key).is_err() => Ok(()),
            _ => guarded(|| self.rows.remove(key)),
        }
    }

    /// Writes rows that are sorted by their keys as a table of their own; those without a value are deleted.
    pub(super) fn ingest<B: AsRef<[u8]> + Into<ByteString>>(
        &self,
        rows: impl Iterator<Item = io::Result<(B, Option<B>)>>,
    ) -> Result<(), StoreFault> {
        let is_first_of_all =
            |row: &io::Result<(B, _)>| row.as_ref().is_ok_and(|(key, _)| key.as_ref().is_empty());
        let mut rows = rows.peekable();
        if let Some((_, value)) = rows.next_if(is_first_of_all).transpose()? {
            match value {
                Some(value) => self.insert(&[], value)?,
                None => self.remove(&[])?,
            }
        }
        if rows.peek().is_none() {
            return Ok(());
        }
        self.database.sync_notes()?;
        guarded(|| {
            let mut table = self.rows.start_ingestion()?;
            for row in rows {
                match row? {
                    (key, Some(value)) => table.write(key, value)?,
                    (key, None) => table.write_tombstone(key)?,
                }
            }
            table.finish()
        })
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> Result<bool, StoreFault> {
        Ok(guarded(|| self.rows.is_empty())? && self.get(&[])?.is_none())
    }

    /// Where files of the task are.
    pub(super) fn directory(&self) -> &Path {
        self.database.directory()
    }

    /// Deletes everything.
    pub(super) fn remove_all(self) -> Result<(), StoreFault> {
        self.database.remove(self.rows)?;
        match self.empty.into_inner() {
            Some(empty) => self.database.remove(empty),
            None => Ok(()),
        }
    }

    /// The rows within `bounds`, of whose values `convert` makes others.
    pub(super) fn scan<'a>(
        &self,
        bounds: &Bounds<'_>,
        direction: Direction,
        convert: impl Fn(ByteString) -> ByteString + 'a,
    ) -> Rows<'a> {
        let mut guards = match guarded(|| Ok(self.rows.range::<&[u8], _>(*bounds))) {
            Ok(guards) => guards,
            Err(fault) => return Box::new(std::iter::once(Err(fault))),
        };
        let first = match contains(bounds, &[]) {
            true => self.get(&[]).transpose(),
            false => None,
        };
        let first = first.map(|value| {
            let key = Stored::Shared(ByteString::from(&[][..]));
            value.map(|value| (key, Stored::Shared(convert(value))))
        });
        let mut has_failed = false;
        let next = move || -> Option<Result<Row<'a>, StoreFault>> {
            if has_failed {
                return None;
            }
            let row = guarded(|| {
                let guard = match direction {
                    Direction::Forward => guards.next(),
                    Direction::Backward => guards.next_back(),
                };
                guard.map(fjall::Guard::into_inner).transpose()
            });
            has_failed = row.is_err();
            let row = row.transpose()?;
            Some(row.map(|(key, value)| (Stored::Shared(key), Stored::Shared(convert(value)))))
        };
        let rows = std::iter::from_fn(next);
        match (first, direction) {
            (None, _) => Box::new(rows),
            (Some(first), Direction::Forward) => Box::new(std::iter::once(first).chain(rows)),
            (Some(first), Direction::Backward) => Box::new(rows.chain(std::iter::once(first))),
        }
    }

    pub(super) fn approximate_count(&self) -> u64 {
        let keyspaces = std::iter::once(&self.rows).chain(self.empty.get());
        keyspaces
            .map(|keyspace| keyspace.approximate_len() as u64)
            .sum()
    }

    /// Waits for a disk that is too slow for what was written.
    pub(super) fn wait_for_tables(&self) -> Result<(), StoreFault> {
        self.database.wait_for_tables(&self.rows)
    }
}
