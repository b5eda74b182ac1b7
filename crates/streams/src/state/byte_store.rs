//! A store of bytes, as layers see it: rows whose keys have the times of windows in them, whatever the
//! kind of the store.
//!
//! ```text
//!   typed stores          KeyValueStore, WindowStore, SessionStore: keys and values of types, read-only views
//!     Cached              keeps rows in memory, gives the newest of each key on
//!     Changelogged        writes each row to the changelog
//!     Adapted             where the rows' format has less than the builder's
//!     KeyValueRows, WindowRows, TimeFirstRows      rows in one map, or in one a segment
//!       ByteMap           in memory, on disk
//! ```
//!
//! Each layer owns the next one, and any may be left out.

use super::CacheLookups;
use super::ChangelogRecord;
use super::bytes::{Bounds, ByteString, Direction, Offsets, Rows, Stored};
use crate::processor::TaskContext;
use crate::record::RecordContext;
use crate::store_fault::StoreFault;

/// Rows to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    /// Of keys within these.
    pub(crate) bounds: Bounds<'a>,
    /// Of segments from the first time's to the last one's. A store without segments has all.
    pub(crate) times_ms: (i64, i64),
    /// Which way.
    pub(crate) direction: Direction,
    /// By time and then by key if the store has this order; else by segment and then by key.
    pub(crate) time_first: bool,
    /// With rows that have expired, as long as their segment is there.
    pub(crate) shows_expired: bool,
}

/// What a cache has given on: a row's newest value.
#[derive(Debug, Clone)]
pub(crate) struct FlushedRow {
    pub(crate) key: ByteString,
    pub(crate) new: Option<ByteString>,
    /// The value that the store had, if the cache was asked for it.
    pub(crate) old: Option<ByteString>,
    /// Of the record that has put it last.
    pub(crate) context: RecordContext,
}

/// What who forwards wants of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// Nothing: what is given on goes to the store below, and nobody takes it.
    Nothing,
    /// The new values.
    NewValues,
    /// The new values, and what the store had before.
    OldAndNewValues,
}

/// A store of rows.
pub(crate) trait ByteStore: 'static {
    /// The value of `key`.
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault>;

    /// Sets the value of `key`, or deletes the row.
    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault>;

    /// Rows in order.
    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault>;

    /// About how many rows there are.
    fn approximate_count(&self) -> u64;

    /// Whether rows outlive the process.
    fn is_persistent(&self) -> bool;

    /// Takes a row from the changelog. What the store would not keep any more is skipped.
    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault>;

    /// See `ByteMap::settle`.
    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault>;

    /// See `ByteMap::unsettled_bytes`.
    fn unsettled_bytes(&self) -> u64;

    /// See `Backend::commit`.
    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault>;

    /// See `Backend::committed_offset`.
    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault>;

    /// See `Backend::was_left_open`.
    fn was_left_open(&self) -> bool;

    /// Closes the store in order.
    fn close(&mut self) -> Result<(), StoreFault>;

    /// How often rows were looked for in a cache, if there is one.
    fn cache_lookups(&self) -> Option<CacheLookups> {
        None
    }

    /// The changelog has rows of the store up to this offset, which a process before has put: rows that are told apart
    /// by numbers get others.
    fn note_logged(&mut self, _offset: i64) {}

    /// The oldest row that the store has given up for room, and nobody has taken.
    fn take_evicted(&mut self) -> Option<ByteString> {
        None
    }

    /// Gives on what a cache holds.
    fn flush(&mut self, _context: &mut TaskContext) -> Result<(), StoreFault> {
        Ok(())
    }

    /// The oldest row that a cache has given on and nobody has taken.
    fn take_flushed(&mut self) -> Option<FlushedRow> {
        None
    }

    /// Whether there is a cache, which from now on keeps what it gives on for `take_flushed`.
    fn forward_flushed(&mut self, _forwarding: Forwarding) -> bool {
        false
    }
}
