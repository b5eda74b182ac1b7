//! The layer over all others that counts and times what is asked of a store, where that is wanted.

use crate::processor::TaskContext;
use crate::state::CacheLookups;
use crate::state::ChangelogRecord;
use crate::state::byte_store::{ByteStore, FlushedRow, Forwarding, Scan};
use crate::state::bytes::{ByteString, Offsets, Rows, Stored};
use crate::store_fault::StoreFault;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What a store can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Put,
    Delete,
    Get,
    /// Of several rows: until the first can be read.
    Scan,
    Flush,
    Commit,
    Restore,
}

impl Operation {
    pub(crate) const ALL: [Self; 7] = [
        Self::Put,
        Self::Delete,
        Self::Get,
        Self::Scan,
        Self::Flush,
        Self::Commit,
        Self::Restore,
    ];
}

/// How often something was done, and how long it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    /// Since it was taken last.
    pub(crate) max_ns: u64,
}

/// What was measured of a store.
pub(crate) struct StoreMeter {
    pub(crate) store: Arc<str>,
    /// How Kafka Streams calls the kind of store.
    pub(crate) scope: &'static str,
    clock_ns: fn() -> u64,
    operations: [Cell<Timed>; Operation::ALL.len()],
    cache: Cell<Option<CacheLookups>>,
}

impl fmt::Debug for StoreMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMeter")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl StoreMeter {
    /// A meter with a clock of ns from any time on.
    pub(crate) fn new(store: &Arc<str>, scope: &'static str, clock_ns: fn() -> u64) -> Self {
        Self {
            store: Arc::clone(store),
            scope,
            clock_ns,
            operations: Default::default(),
            cache: Cell::new(None),
        }
    }

    /// What was measured of an operation.
    pub(crate) fn take(&self, operation: Operation) -> Timed {
        let cell = &self.operations[operation as usize];
        let timed = cell.get();
        cell.set(Timed { max_ns: 0, ..timed });
        timed
    }

    /// What the store's cache has counted, if there is one.
    pub(crate) const fn cache(&self) -> Option<CacheLookups> {
        self.cache.get()
    }

    fn note(&self, operation: Operation, since_ns: u64) {
        let took_ns = (self.clock_ns)().saturating_sub(since_ns);
        let cell = &self.operations[operation as usize];
        let Timed {
            count,
            sum_ns,
            max_ns,
        } = cell.get();
        cell.set(Timed {
            count: count + 1,
            sum_ns: sum_ns + took_ns,
            max_ns: max_ns.max(took_ns),
        });
    }
}

/// A store that is measured.
pub(crate) struct Metered {
    inner: Box<dyn ByteStore>,
    meter: Rc<StoreMeter>,
}

impl Metered {
    pub(crate) fn new(inner: Box<dyn ByteStore>, meter: Rc<StoreMeter>) -> Self {
        Self { inner, meter }
    }
}

impl ByteStore for Metered {
    fn get(&mut self, key: &[u8]) -> Result<Option<Stored<'_>>, StoreFault> {
        let began = (self.meter.clock_ns)();
        self.meter.cache.set(self.inner.cache_lookups());
        let got = self.inner.get(key);
        self.meter.note(Operation::Get, began);
        got
    }

    fn put(
        &mut self,
        context: &mut TaskContext,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        let began = (self.meter.clock_ns)();
        let put = self.inner.put(context, key, value);
        let operation = match value {
            Some(_) => Operation::Put,
            None => Operation::Delete,
        };
        self.meter.note(operation, began);
        put
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Rows<'_>, StoreFault> {
        let began = (self.meter.clock_ns)();
        let rows = self.inner.scan(scan);
        self.meter.note(Operation::Scan, began);
        rows
    }

    fn approximate_count(&self) -> u64 {
        self.inner.approximate_count()
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn restore(&mut self, record: &ChangelogRecord) -> Result<(), StoreFault> {
        let began = (self.meter.clock_ns)();
        let restored = self.inner.restore(record);
        self.meter.note(Operation::Restore, began);
        restored
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StoreFault> {
        self.inner.settle(most_bytes)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.inner.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StoreFault> {
        let began = (self.meter.clock_ns)();
        let committed = self.inner.commit(offsets);
        self.meter.note(Operation::Commit, began);
        committed
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StoreFault> {
        self.inner.committed_offset(topic, partition)
    }

    fn was_left_open(&self) -> bool {
        self.inner.was_left_open()
    }

    fn close(&mut self) -> Result<(), StoreFault> {
        self.inner.close()
    }

    fn take_evicted(&mut self) -> Option<ByteString> {
        self.inner.take_evicted()
    }

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StoreFault> {
        let began = (self.meter.clock_ns)();
        let flushed = self.inner.flush(context);
        self.meter.note(Operation::Flush, began);
        flushed
    }

    fn take_flushed(&mut self) -> Option<FlushedRow> {
        self.inner.take_flushed()
    }

    fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
        self.inner.forward_flushed(forwarding)
    }

    fn cache_lookups(&self) -> Option<CacheLookups> {
        self.inner.cache_lookups()
    }
}
