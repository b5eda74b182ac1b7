//! The stores of the DSL's operators, by the application's wishes and its configuration.

use super::{EmitStrategy, Materialized};
use crate::record::Data;
use crate::serde::SerdeRef;
use crate::state::{
    DslStoreFormat, KeyValueSupplier, SessionSupplier, StoreBuilder, StoreSupplier, StoreType,
    Stores, TimeFirst, VersionedSupplier, WindowSupplier,
};
use std::sync::Arc;

/// What an application configures for the stores that its operators make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DslStores {
    /// `dsl.store.format`: whether rows have headers (KIP-1271).
    pub format: DslStoreFormat,
    /// `dsl.store.suppliers.class`: where rows are kept.
    pub store_type: StoreType,
}

impl Default for DslStores {
    fn default() -> Self {
        Self {
            format: DslStoreFormat::Timestamped,
            store_type: StoreType::Persistent,
        }
    }
}

impl DslStores {
    /// The format of the rows of a store of this type. As in Kafka Streams rows in memory have no headers.
    const fn format_of(&self, store_type: StoreType) -> DslStoreFormat {
        match (store_type, self.format) {
            (StoreType::InMemory, DslStoreFormat::Headers) => DslStoreFormat::Timestamped,
            (_, format) => format,
        }
    }
}

/// Makes the builder of a store once the configuration is known.
pub(crate) type MakeStore = Arc<dyn Fn(&DslStores) -> Arc<dyn StoreBuilder>>;

/// The key-value store of a table or an aggregation; a versioned one if the application says so.
pub(crate) fn key_value_store<K: Data, V: Data>(
    name: &Arc<str>,
    materialized: &Materialized<K, V>,
    key_serde: &SerdeRef<K>,
    value_serde: &SerdeRef<V>,
) -> MakeStore {
    if let Some(history_retention_ms) = materialized.history_retention_ms {
        let serdes = (key_serde, value_serde);
        return versioned_store(name, materialized, serdes, history_retention_ms);
    }
    let (name, materialized) = (Arc::clone(name), materialized.clone());
    let (key_serde, value_serde) = (Arc::clone(key_serde), Arc::clone(value_serde));
    Arc::new(move |stores| {
        let store_type = materialized.store_type.unwrap_or(stores.store_type);
        let supplier = match &materialized.supplier {
            Some(StoreSupplier::KeyValue(supplier)) => supplier.clone(),
            _ => KeyValueSupplier::new(&name, store_type, stores.format_of(store_type)),
        };
        let mut builder = Stores::timestamped_key_value_store_builder(
            supplier,
            Arc::clone(&key_serde),
            Arc::clone(&value_serde),
        );
        if materialized.is_cached {
            builder = builder.with_caching_enabled();
        }
        Arc::new(match &materialized.logging {
            Some(configs) => builder.with_logging_enabled(configs.clone()),
            None => builder.with_logging_disabled(),
        })
    })
}

/// The store of an aggregation by windows of `size_ms`, kept for `retention_ms` unless the application says otherwise.
pub(crate) fn window_store<K: Data, V: Data>(
    name: &Arc<str>,
    materialized: &Materialized<K, V>,
    key_serde: &SerdeRef<K>,
    value_serde: &SerdeRef<V>,
    (size_ms, retention_ms, time_first): (i64, i64, TimeFirst),
) -> MakeStore {
    let (name, materialized) = (Arc::clone(name), materialized.clone());
    let (key_serde, value_serde) = (Arc::clone(key_serde), Arc::clone(value_serde));
    Arc::new(move |stores| {
        let store_type = materialized.store_type.unwrap_or(stores.store_type);
        let retention_ms = materialized.retention_ms.unwrap_or(retention_ms);
        let format = stores.format_of(store_type);
        let supplier = match &materialized.supplier {
            Some(StoreSupplier::Window(supplier)) => supplier.clone(),
            _ => WindowSupplier::new(&name, store_type, format, retention_ms, size_ms)
                .with_time_first(time_first),
        };
        let mut builder = Stores::timestamped_window_store_builder(
            supplier,
            Arc::clone(&key_serde),
            Arc::clone(&value_serde),
        );
        // Sliding windows that emit when they close have no cache, whatever their store.
        if materialized.is_cached && time_first != TimeFirst::WithIndex {
            builder = builder.with_caching_enabled();
        }
        Arc::new(match &materialized.logging {
            Some(configs) => builder.with_logging_enabled(configs.clone()),
            None => builder.with_logging_disabled(),
        })
    })
}

/// The store of an aggregation by sessions, kept for `retention_ms` unless the application says otherwise.
pub(crate) fn session_store<K: Data, V: Data>(
    name: &Arc<str>,
    materialized: &Materialized<K, V>,
    key_serde: &SerdeRef<K>,
    value_serde: &SerdeRef<V>,
    (retention_ms, strategy): (i64, EmitStrategy),
) -> MakeStore {
    let (name, materialized) = (Arc::clone(name), materialized.clone());
    let (key_serde, value_serde) = (Arc::clone(key_serde), Arc::clone(value_serde));
    Arc::new(move |stores| {
        let store_type = materialized.store_type.unwrap_or(stores.store_type);
        let retention_ms = materialized.retention_ms.unwrap_or(retention_ms);
        // Rows of sessions have no timestamps: without headers they are plain.
        let format = match stores.format_of(store_type) {
            DslStoreFormat::Headers => DslStoreFormat::Headers,
            _ => DslStoreFormat::Plain,
        };
        let supplier = materialized.supplier.clone();
        let supplier = match supplier {
            Some(StoreSupplier::Session(supplier)) => supplier,
            _ => SessionSupplier {
                is_time_first: strategy.on_window_close,
                ..SessionSupplier::new(&name, store_type, format, retention_ms)
            },
        };
        let mut builder = Stores::session_store_builder(
            supplier,
            Arc::clone(&key_serde),
            Arc::clone(&value_serde),
        );
        if materialized.is_cached && !strategy.on_window_close {
            builder = builder.with_caching_enabled();
        }
        Arc::new(match &materialized.logging {
            Some(configs) => builder.with_logging_enabled(configs.clone()),
            None => builder.with_logging_disabled(),
        })
    })
}

/// The store of a table that keeps the values of its keys by time.
fn versioned_store<K: Data, V: Data>(
    name: &Arc<str>,
    materialized: &Materialized<K, V>,
    (key_serde, value_serde): (&SerdeRef<K>, &SerdeRef<V>),
    history_retention_ms: i64,
) -> MakeStore {
    let (name, materialized) = (Arc::clone(name), materialized.clone());
    let (key_serde, value_serde) = (Arc::clone(key_serde), Arc::clone(value_serde));
    Arc::new(move |stores| {
        let store_type = materialized.store_type.unwrap_or(stores.store_type);
        let supplier = match &materialized.supplier {
            Some(StoreSupplier::Versioned(supplier)) => supplier.clone(),
            _ => VersionedSupplier::new(&name, store_type, history_retention_ms),
        };
        let builder = Stores::versioned_key_value_store_builder(
            supplier,
            Arc::clone(&key_serde),
            Arc::clone(&value_serde),
        );
        Arc::new(match &materialized.logging {
            Some(configs) => builder.with_logging_enabled(configs.clone()),
            None => builder.with_logging_disabled(),
        })
    })
}
