//! Suppliers and builders of stores of given types: Kafka Streams' `Stores`.

use super::store_builders::{
    KeyValueStoreBuilder, SessionStoreBuilder, VersionedStoreBuilder, WindowStoreBuilder,
};
use super::suppliers::{
    DslStoreFormat, KeyValueSupplier, SessionSupplier, StoreType, VersionedSupplier, WindowSupplier,
};
use crate::serde::SerdeRef;

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
