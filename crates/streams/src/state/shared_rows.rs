//! Rows that the threads of an instance share: those of global stores.
//!
//! One thread, the owner, opens them and writes; the others read the same rows behind a lock. So a global store is kept
//! once, however many threads join it, and a look-up costs a lock that is rarely waited for. Typed stores and their
//! serdes are each thread's own.

use super::ChangelogRecord;
use super::byte_store::{ByteStore, Scan};
use super::bytes::{ByteString, Offsets, Rows, Stored};
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The rows of global stores, by the names of these.
#[derive(Clone, Default)]
pub(crate) struct SharedRows(Arc<Mutex<BTreeMap<Arc<str>, Store>>>);

type Store = Arc<Mutex<dyn ByteStore + Send>>;

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl SharedRows {
    /// Shares the rows of `store`, which the caller writes.
    pub(super) fn add(&self, store: &Arc<str>, rows: impl ByteStore + Send) -> SharedStore {
        let rows: Store = Arc::new(Mutex::new(rows));
        self.0.lock().insert(Arc::clone(store), Arc::clone(&rows));
        SharedStore {
            rows,
            is_owner: true,
        }
    }

    /// The rows of `store`, to read.
    pub(super) fn reader(&self, store: &Arc<str>) -> Result<SharedStore, StoreFault> {
        match self.0.lock().get(store) {
            Some(rows) => Ok(SharedStore {
                rows: Arc::clone(rows),
                is_owner: false,
            }),
            None => Err(StoreFault::Misuse(
                "no thread fills this global store".to_owned(),
            )),
        }
    }

    /// The stores are closed: nobody reads them any more, and another process may open them.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Whether `store` is shared.
    pub(crate) fn contains(&self, store: &str) -> bool {
        self.0.lock().contains_key(store)
    }
}

/// Rows behind a lock, which is held for one call. A scan copies the rows that it finds, so that the owner can write
/// while somebody reads on.
pub(super) struct SharedStore {
    rows: Store,
    is_owner: bool,
}

impl ByteStore for SharedStore {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let mut rows = self.rows.lock();
        let found = rows.get(key)?.map(Stored::into_bytes);
        Ok(found.map(Stored::Shared))
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        match self.is_owner {
            true => self.rows.lock().put(context, key, value),
            false => Err(StoreFault::Misuse(
                "a global store is written by the processor that fills it only".to_owned(),
            )),
        }
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        let mut rows = self.rows.lock();
        let found: Vec<(ByteString, ByteString)> = rows
            .scan(scan)?
            .map(|row| row.map(|(key, value)| (key.into_bytes(), value.into_bytes())))
            .collect::<Result<_, _>>()?;
        let found = found
            .into_iter()
            .map(|(key, value)| Ok((Stored::Shared(key), Stored::Shared(value))));
        Ok(Box::new(found))
    }

    fn approximate_count(&self) -> u64 {
        self.rows.lock().approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.rows.lock().is_persistent()
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        self.rows.lock().restore(record)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.rows.lock().settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.rows.lock().unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        self.rows.lock().commit(offsets)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.rows.lock().committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.rows.lock().was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        match self.is_owner {
            true => self.rows.lock().close(),
            false => Ok(()),
        }
    }

    fn take_evicted(&mut self) -> Option<ByteString> {
        self.rows.lock().take_evicted()
    }
}
