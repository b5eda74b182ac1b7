//! Ordered maps of bytes, in memory and on disk: what every state store stands on.
//!
//! A store asks its [`Backend`] for one [`ByteMap`], or for one a segment. Values are borrowed from where they are:
//! nothing is copied to be read. On disk rows wait in memory until offsets of the changelog are to be noted. Then a few
//! go through one journal with the offsets, in order, and many into a table that is on the disk before them; so offsets
//! that are found after a crash never promise rows that are not there. Rows that are restored go the same way, but
//! those that memory has no room for wait in files until the changelog is read (`restored`).

mod budget;
mod disk;
mod family;
mod hashed_rows;
mod memory;
mod merge;
mod restored;
mod restored_rows;
mod restored_runs;
mod span_file;
mod task_database;
#[cfg(test)]
mod tests;
mod write_buffer;

pub(crate) use disk::{DiskBackend, Families, OlderFamily};
pub(crate) use memory::MemoryBackend;
pub(crate) use merge::{Hiding, merge};
pub(crate) use task_database::TaskDatabase;

use crate::store_fault::StoreFault;
use std::collections::BTreeMap;
use std::ops::{Bound, Deref, RangeBounds};

/// Bytes that are cheap to clone. Up to 20 of them need no memory of their own.
pub(crate) type ByteString = fjall::Slice;

/// Bytes of a store, borrowed where that can be.
#[derive(Debug, Clone)]
pub(crate) enum Stored<'a> {
    Borrowed(&'a ByteString),
    Shared(ByteString),
}

impl Deref for Stored<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Stored<'_> {
    pub(crate) fn into_bytes(self) -> ByteString {
        match self {
            Self::Borrowed(bytes) => bytes.clone(),
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A row: key and value.
pub(crate) type Row<'a> = (Stored<'a>, Stored<'a>);

/// Rows in the order of a scan.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = Result<Row<'a>, StoreFault>> + 'a>;

/// Which way a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first key, or the earliest time, on.
    Forward,
    /// The other way round.
    Backward,
}

/// Which keys a scan covers.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Every key.
#[cfg(test)]
pub(crate) const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Whether no key can be within `bounds`.
pub(crate) fn is_empty(bounds: &Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

/// Whether `key` is within `bounds`.
pub(crate) fn contains(bounds: &Bounds<'_>, key: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(bounds, key)
}

/// An ordered map of bytes.
pub(crate) trait ByteMap: Send + 'static {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault>;

    /// Sets the value of `key`. It may be written later.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreFault>;

    /// Removes `key`, as `put`.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreFault>;

    /// Takes a row of a changelog: as `put` or `delete`.
    fn restore(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreFault> {
        match value {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
    }

    /// Takes what was restored out of memory.
    fn relieve(&mut self) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Does a step of what `flush` would do, if more than so many bytes of restored rows wait in files, or such a step
    /// was done before. Whether no more than these are left.
    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault>;

    /// How many bytes of restored rows wait in files.
    fn unsettled_bytes(&self) -> u64;

    /// Nothing is called after this. Writes the rows that wait, but for those that `settle` has left: no offset was
    /// noted behind them, so that they are restored again.
    fn close(&mut self) -> Result<(), StoreFault> {
        self.flush()
    }

    /// Writes the rows that wait: before it is noted that they are there.
    fn flush(&mut self) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Makes scans quick that come now.
    fn prepare_scan(&mut self) {}

    /// The rows within `bounds`, as they are now.
    fn scan(&self, bounds: &Bounds<'_>, direction: Direction) -> Rows<'_>;

    /// About how many rows there are.
    fn approximate_count(&self) -> u64;
}

/// Offsets of changelogs, by topic and partition: of the last record that a store has.
pub type Offsets = BTreeMap<(std::sync::Arc<str>, i32), i64>;

/// Where the maps of one store are.
pub(crate) trait Backend: Send + 'static {
    type Map: ByteMap;

    /// Opens a map: of a segment, or the only one of the store.
    fn open(&mut self, segment: Option<i64>) -> Result<Self::Map, StoreFault>;

    /// The segments that are there already, in order.
    fn segments(&self) -> Vec<i64>;

    /// Deletes a segment with all of its rows.
    fn remove(&mut self, segment: i64, map: Self::Map) -> Result<(), StoreFault>;

    /// Whether rows outlive the process.
    fn is_persistent(&self) -> bool;

    /// Notes what is in the store: every row that was flushed before is there whenever these offsets are. No offsets
    /// forget those that were noted, and give the rows up: who opens the store next finds none.
    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault>;

    /// The offset that was noted last for a partition of a changelog.
    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault>;

    /// Whether the store was open when the process before ended, so that rows after the noted offsets may be there.
    fn was_left_open(&self) -> bool;

    /// Notes that the store was closed in order.
    fn close(&mut self) -> Result<(), StoreFault>;
}
