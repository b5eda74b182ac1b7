//! Where and how stores keep their rows: the name, place and format of each.

use crate::formats::segments::{segment_interval_ms, versioned_segment_interval_ms};
use std::sync::Arc;

/// Where a store keeps its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreType {
    /// In the memory of the process; restored from the changelog at the start.
    InMemory,
    /// On disk, in the state directory.
    Persistent,
}

/// What stands in rows beside values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DslStoreFormat {
    /// Nothing.
    Plain,
    /// A timestamp; in sessions nothing.
    Timestamped,
    /// Headers and a timestamp (KIP-1271); in sessions headers.
    Headers,
}

/// A key-value store's name, place and format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValueSupplier {
    /// The store's name.
    pub name: Arc<str>,
    /// Where rows are.
    pub store_type: StoreType,
    /// What stands beside values.
    pub format: DslStoreFormat,
    /// Only so many rows are kept, in memory: those that were used last.
    pub max_entries: Option<usize>,
}

/// A window store's name, place and format, and how long it keeps windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSupplier {
    /// The store's name.
    pub name: Arc<str>,
    /// Where rows are.
    pub store_type: StoreType,
    /// What stands beside values.
    pub format: DslStoreFormat,
    /// How long windows are kept, from their start.
    pub retention_ms: i64,
    /// The size of the windows.
    pub window_size_ms: i64,
    /// The time of one segment.
    pub segment_interval_ms: i64,
    /// Every value of a key and window is kept, not only the last: for joins.
    pub retain_duplicates: bool,
    /// Rows are in the order of time, for results that are emitted when windows close.
    pub time_first: TimeFirst,
}

/// Whether rows are in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeFirst {
    /// They are in the order of keys.
    No,
    /// They are, and only single windows of a key are asked for.
    WithoutIndex,
    /// They are, and an index finds the windows of a key.
    WithIndex,
}

/// A session store's name, place and format, and how long it keeps sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSupplier {
    /// The store's name.
    pub name: Arc<str>,
    /// Where rows are.
    pub store_type: StoreType,
    /// What stands beside values.
    pub format: DslStoreFormat,
    /// How long sessions are kept, from their end.
    pub retention_ms: i64,
    /// Rows are in the order of time, for results that are emitted when sessions close.
    pub is_time_first: bool,
}

/// A versioned store's name and how long it keeps versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedSupplier {
    /// The store's name.
    pub name: Arc<str>,
    /// Where rows are.
    pub store_type: StoreType,
    /// How long versions can be asked for.
    pub history_retention_ms: i64,
    /// The time of one segment.
    pub segment_interval_ms: i64,
}

/// The supplier of any store that a table can be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreSupplier {
    /// Of keys and values.
    KeyValue(KeyValueSupplier),
    /// Of windows.
    Window(WindowSupplier),
    /// Of sessions.
    Session(SessionSupplier),
    /// Of keys and values by time.
    Versioned(VersionedSupplier),
}

macro_rules! store_suppliers {
    ($($Kind:ident($Supplier:ident);)*) => {
        impl StoreSupplier {
            /// The store's name.
            pub const fn name(&self) -> &Arc<str> {
                match self {
                    $(Self::$Kind(supplier) => &supplier.name,)*
                }
            }
        }

        $(impl From<$Supplier> for StoreSupplier {
            fn from(supplier: $Supplier) -> Self {
                Self::$Kind(supplier)
            }
        })*
    };
}

store_suppliers! {
    KeyValue(KeyValueSupplier);
    Window(WindowSupplier);
    Session(SessionSupplier);
    Versioned(VersionedSupplier);
}

impl KeyValueSupplier {
    /// A key-value store.
    pub fn new(name: &str, store_type: StoreType, format: DslStoreFormat) -> Self {
        Self {
            name: Arc::from(name),
            store_type,
            format,
            max_entries: None,
        }
    }
}

impl WindowSupplier {
    /// A store of one value a key and window, keys first.
    pub fn new(
        name: &str,
        store_type: StoreType,
        format: DslStoreFormat,
        retention_ms: i64,
        window_size_ms: i64,
    ) -> Self {
        Self {
            name: Arc::from(name),
            store_type,
            format,
            retention_ms,
            window_size_ms,
            segment_interval_ms: segment_interval_ms(retention_ms),
            retain_duplicates: false,
            time_first: TimeFirst::No,
        }
    }

    /// Every value of a key and window is kept.
    #[must_use]
    pub const fn retaining_duplicates(mut self) -> Self {
        self.retain_duplicates = true;
        self
    }

    /// Rows are in the order of time.
    #[must_use]
    pub const fn with_time_first(mut self, time_first: TimeFirst) -> Self {
        self.time_first = time_first;
        self
    }
}

impl SessionSupplier {
    /// A session store, keys first.
    pub fn new(
        name: &str,
        store_type: StoreType,
        format: DslStoreFormat,
        retention_ms: i64,
    ) -> Self {
        Self {
            name: Arc::from(name),
            store_type,
            format,
            retention_ms,
            is_time_first: false,
        }
    }

    /// Rows are in the order of time.
    #[must_use]
    pub const fn with_time_first(mut self) -> Self {
        self.is_time_first = true;
        self
    }
}

impl VersionedSupplier {
    /// A versioned store.
    pub fn new(name: &str, store_type: StoreType, history_retention_ms: i64) -> Self {
        Self {
            name: Arc::from(name),
            store_type,
            history_retention_ms,
            segment_interval_ms: versioned_segment_interval_ms(history_retention_ms),
        }
    }
}
