//! Where and how stores keep their rows, and the builders of stores of given types: Kafka Streams' `Stores`.

use super::store_builders::{
    KeyValueStoreBuilder, SessionStoreBuilder, VersionedStoreBuilder, WindowStoreBuilder,
};
use crate::formats::segments::{segment_interval_ms, versioned_segment_interval_ms};
use crate::serde::SerdeRef;
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

/// Suppliers and builders of stores for the Processor API.
///
/// ```
/// use riverrun_streams::serde::DefaultSerde;
/// use riverrun_streams::state::Stores;
///
/// let counts = Stores::timestamped_key_value_store_builder(
///     Stores::persistent_timestamped_key_value_store("counts"),
///     String::serde(),
///     i64::serde(),
/// )
/// .with_caching_enabled();
/// # let _ = counts;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Stores;

impl Stores {
    /// A key-value store on disk, of values alone.
    pub fn persistent_key_value_store(name: &str) -> KeyValueSupplier {
        KeyValueSupplier::new(name, StoreType::Persistent, DslStoreFormat::Plain)
    }

    /// A key-value store on disk, of values with timestamps.
    pub fn persistent_timestamped_key_value_store(name: &str) -> KeyValueSupplier {
        KeyValueSupplier::new(name, StoreType::Persistent, DslStoreFormat::Timestamped)
    }

    /// A key-value store on disk, of values with timestamps and headers.
    pub fn persistent_timestamped_key_value_store_with_headers(name: &str) -> KeyValueSupplier {
        KeyValueSupplier::new(name, StoreType::Persistent, DslStoreFormat::Headers)
    }

    /// A key-value store in memory; its builder says what stands beside values.
    pub fn in_memory_key_value_store(name: &str) -> KeyValueSupplier {
        KeyValueSupplier::new(name, StoreType::InMemory, DslStoreFormat::Plain)
    }

    /// A key-value store in memory that keeps the `max_entries` rows that were used last; the others are deleted. It is
    /// not to be cached.
    pub fn lru_map(name: &str, max_entries: usize) -> KeyValueSupplier {
        KeyValueSupplier {
            max_entries: Some(max_entries),
            ..Self::in_memory_key_value_store(name)
        }
    }

    /// A versioned store on disk.
    pub fn persistent_versioned_key_value_store(
        name: &str,
        history_retention_ms: i64,
    ) -> VersionedSupplier {
        VersionedSupplier::new(name, StoreType::Persistent, history_retention_ms)
    }

    /// A window store on disk, of values alone.
    pub fn persistent_window_store(
        name: &str,
        retention_ms: i64,
        window_size_ms: i64,
    ) -> WindowSupplier {
        let format = DslStoreFormat::Plain;
        WindowSupplier::new(
            name,
            StoreType::Persistent,
            format,
            retention_ms,
            window_size_ms,
        )
    }

    /// A window store on disk, of values with timestamps.
    pub fn persistent_timestamped_window_store(
        name: &str,
        retention_ms: i64,
        window_size_ms: i64,
    ) -> WindowSupplier {
        let format = DslStoreFormat::Timestamped;
        WindowSupplier::new(
            name,
            StoreType::Persistent,
            format,
            retention_ms,
            window_size_ms,
        )
    }

    /// A window store on disk, of values with timestamps and headers.
    pub fn persistent_timestamped_window_store_with_headers(
        name: &str,
        retention_ms: i64,
        window_size_ms: i64,
    ) -> WindowSupplier {
        let format = DslStoreFormat::Headers;
        WindowSupplier::new(
            name,
            StoreType::Persistent,
            format,
            retention_ms,
            window_size_ms,
        )
    }

    /// A window store in memory; its builder says what stands beside values.
    pub fn in_memory_window_store(
        name: &str,
        retention_ms: i64,
        window_size_ms: i64,
    ) -> WindowSupplier {
        let format = DslStoreFormat::Plain;
        WindowSupplier::new(
            name,
            StoreType::InMemory,
            format,
            retention_ms,
            window_size_ms,
        )
    }

    /// A session store on disk, of aggregations alone.
    pub fn persistent_session_store(name: &str, retention_ms: i64) -> SessionSupplier {
        let format = DslStoreFormat::Plain;
        SessionSupplier::new(name, StoreType::Persistent, format, retention_ms)
    }

    /// A session store on disk, of aggregations with headers.
    pub fn persistent_session_store_with_headers(name: &str, retention_ms: i64) -> SessionSupplier {
        let format = DslStoreFormat::Headers;
        SessionSupplier::new(name, StoreType::Persistent, format, retention_ms)
    }

    /// A session store in memory; its builder says what stands beside aggregations.
    pub fn in_memory_session_store(name: &str, retention_ms: i64) -> SessionSupplier {
        let format = DslStoreFormat::Plain;
        SessionSupplier::new(name, StoreType::InMemory, format, retention_ms)
    }

    /// A builder of key-value stores in the supplier's format.
    pub fn key_value_store_builder<K: 'static, V: 'static>(
        supplier: KeyValueSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> KeyValueStoreBuilder<K, V> {
        KeyValueStoreBuilder::new(supplier, DslStoreFormat::Plain, key, value)
    }

    /// A builder of key-value stores of values with timestamps. A plain store on disk keeps none.
    pub fn timestamped_key_value_store_builder<K: 'static, V: 'static>(
        supplier: KeyValueSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> KeyValueStoreBuilder<K, V> {
        KeyValueStoreBuilder::new(supplier, DslStoreFormat::Timestamped, key, value)
    }

    /// A builder of key-value stores of values with timestamps and headers. A store on disk of another format keeps
    /// what that has.
    pub fn timestamped_key_value_store_with_headers_builder<K: 'static, V: 'static>(
        supplier: KeyValueSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> KeyValueStoreBuilder<K, V> {
        KeyValueStoreBuilder::new(supplier, DslStoreFormat::Headers, key, value)
    }

    /// A builder of versioned stores.
    pub fn versioned_key_value_store_builder<K: 'static, V: 'static>(
        supplier: VersionedSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> VersionedStoreBuilder<K, V> {
        VersionedStoreBuilder::new(supplier, key, value)
    }

    /// A builder of window stores in the supplier's format.
    pub fn window_store_builder<K: 'static, V: 'static>(
        supplier: WindowSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> WindowStoreBuilder<K, V> {
        WindowStoreBuilder::new(supplier, DslStoreFormat::Plain, key, value)
    }

    /// A builder of window stores of values with timestamps.
    pub fn timestamped_window_store_builder<K: 'static, V: 'static>(
        supplier: WindowSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> WindowStoreBuilder<K, V> {
        WindowStoreBuilder::new(supplier, DslStoreFormat::Timestamped, key, value)
    }

    /// A builder of window stores of values with timestamps and headers.
    pub fn timestamped_window_store_with_headers_builder<K: 'static, V: 'static>(
        supplier: WindowSupplier,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> WindowStoreBuilder<K, V> {
        WindowStoreBuilder::new(supplier, DslStoreFormat::Headers, key, value)
    }

    /// A builder of session stores in the supplier's format.
    pub fn session_store_builder<K: 'static, A: 'static>(
        supplier: SessionSupplier,
        key: SerdeRef<K>,
        aggregation: SerdeRef<A>,
    ) -> SessionStoreBuilder<K, A> {
        SessionStoreBuilder::new(supplier, DslStoreFormat::Plain, key, aggregation)
    }

    /// A builder of session stores of aggregations with headers.
    pub fn session_store_with_headers_builder<K: 'static, A: 'static>(
        supplier: SessionSupplier,
        key: SerdeRef<K>,
        aggregation: SerdeRef<A>,
    ) -> SessionStoreBuilder<K, A> {
        SessionStoreBuilder::new(supplier, DslStoreFormat::Headers, key, aggregation)
    }
}
