//! How the values of a table are kept: the name of the store, its serdes, its cache and its changelog.

use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::{StoreSupplier, StoreType};
use crate::topology::TopologyError;
use std::collections::BTreeMap;
use std::fmt;

/// What a table is by, and so the kind of its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableOf {
    Keys,
    Windows,
    Sessions,
}

/// How the values of a table or an aggregation are kept.
pub struct Materialized<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
    pub(crate) is_cached: bool,
    /// Configuration of the changelog topic; none when changes are not logged.
    pub(crate) logging: Option<BTreeMap<String, String>>,
    pub(crate) retention_ms: Option<i64>,
    pub(crate) store_type: Option<StoreType>,
    /// How long versions are kept; none when only the newest value is.
    pub(crate) history_retention_ms: Option<i64>,
    /// Makes the store, where the application has chosen one.
    pub(crate) supplier: Option<StoreSupplier>,
}

impl<K, V> Clone for Materialized<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            key_serde: self.key_serde.clone(),
            value_serde: self.value_serde.clone(),
            is_cached: self.is_cached,
            logging: self.logging.clone(),
            retention_ms: self.retention_ms,
            store_type: self.store_type,
            history_retention_ms: self.history_retention_ms,
            supplier: self.supplier.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Materialized<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Materialized")
            .field("name", &self.name)
            .field("is_cached", &self.is_cached)
            .field("logging", &self.logging)
            .field("retention_ms", &self.retention_ms)
            .field("store_type", &self.store_type)
            .field("history_retention_ms", &self.history_retention_ms)
            .field("supplier", &self.supplier)
            .finish_non_exhaustive()
    }
}

impl<K, V> Default for Materialized<K, V> {
    fn default() -> Self {
        Self {
            name: None,
            key_serde: None,
            value_serde: None,
            is_cached: true,
            logging: Some(BTreeMap::new()),
            retention_ms: None,
            store_type: None,
            history_retention_ms: None,
            supplier: None,
        }
    }
}

impl<K, V> Materialized<K, V> {
    /// A store of this name, which interactive queries can read.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// A store of this name that keeps what keys had within this time (KIP-889), so that a join finds the value of the
    /// time of its record.
    pub fn versioned(name: impl Into<String>, history_retention_ms: i64) -> Self {
        Self {
            name: Some(name.into()),
            history_retention_ms: Some(history_retention_ms),
            ..Self::default()
        }
    }

    /// The store that `supplier` makes, such as `Stores::lru_map` (Kafka Streams' `Materialized.as(supplier)`). Its
    /// name, its place, what its rows have and how long it keeps them are the supplier's.
    pub fn supplied(supplier: impl Into<StoreSupplier>) -> Self {
        let supplier = supplier.into();
        Self {
            name: Some(supplier.name().to_string()),
            history_retention_ms: match &supplier {
                StoreSupplier::Versioned(supplier) => Some(supplier.history_retention_ms),
                _ => None,
            },
            supplier: Some(supplier),
            ..Self::default()
        }
    }

    /// A store with these serdes, under a generated name.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde: Some(key_serde),
            value_serde: Some(value_serde),
            ..Self::default()
        }
    }

    /// Keys are written by this serde.
    #[must_use]
    pub fn with_key_serde(mut self, serde: SerdeRef<K>) -> Self {
        self.key_serde = Some(serde);
        self
    }

    /// Values are written by this serde.
    #[must_use]
    pub fn with_value_serde(mut self, serde: SerdeRef<V>) -> Self {
        self.value_serde = Some(serde);
        self
    }

    /// Many writes of a key become one, until the cache is full or a commit comes. This is the default.
    #[must_use]
    pub const fn with_caching_enabled(mut self) -> Self {
        self.is_cached = true;
        self
    }

    /// Every write goes to the store and on to the children.
    #[must_use]
    pub const fn with_caching_disabled(mut self) -> Self {
        self.is_cached = false;
        self
    }

    /// Changes are logged to a topic with this configuration. Logging is on by default.
    #[must_use]
    pub fn with_logging_enabled(mut self, configs: BTreeMap<String, String>) -> Self {
        self.logging = Some(configs);
        self
    }

    /// Changes are not logged: what the store has is lost with its disk or its process.
    #[must_use]
    pub fn with_logging_disabled(mut self) -> Self {
        self.logging = None;
        self
    }

    /// How long windows and sessions are kept, at least the window with its grace.
    #[must_use]
    pub const fn with_retention(mut self, retention_ms: i64) -> Self {
        self.retention_ms = Some(retention_ms);
        self
    }

    /// Where rows are kept.
    #[must_use]
    pub const fn with_store_type(mut self, store_type: StoreType) -> Self {
        self.store_type = Some(store_type);
        self
    }

    /// Whether the store is one of a table by `table_of`, which `operator` makes.
    pub(crate) fn check(&self, operator: &str, table_of: TableOf) -> Result<(), TopologyError> {
        let (is_wrong, needed) = match (table_of, &self.supplier) {
            (TableOf::Keys, Some(StoreSupplier::Window(_) | StoreSupplier::Session(_))) => {
                (true, "keys and values, versioned or not")
            }
            (TableOf::Windows, Some(StoreSupplier::Window(_)) | None) => {
                (self.history_retention_ms.is_some(), "windows")
            }
            (TableOf::Windows, Some(_)) => (true, "windows"),
            (TableOf::Sessions, Some(StoreSupplier::Session(_)) | None) => {
                (self.history_retention_ms.is_some(), "sessions")
            }
            (TableOf::Sessions, Some(_)) => (true, "sessions"),
            (TableOf::Keys, _) => (false, ""),
        };
        if !is_wrong {
            return Ok(());
        }
        Err(TopologyError::Operator {
            operator: operator.to_owned(),
            problem: format!(
                "its `Materialized` has another kind of store; give it one of {needed}"
            ),
        })
    }

    /// The serde of the values: the one that was given, or their type's.
    pub(crate) fn values(&self) -> SerdeRef<V>
    where
        V: DefaultSerde,
    {
        self.value_serde.clone().unwrap_or_else(V::serde)
    }
}
