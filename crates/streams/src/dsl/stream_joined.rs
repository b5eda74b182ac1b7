//! `StreamJoined`: serdes, names and stores of a stream-stream join.

use super::DslStores;
use super::stores::MakeStore;
use super::{Builder, JoinWindows};
use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::{DslStoreFormat, StoreType, Stores, WindowSupplier};
use crate::topology::TopologyError;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How two streams are joined: by which serdes, under which names, and in which stores records wait for partners.
pub struct StreamJoined<K, V1, V2> {
    /// What the application has given.
    given: Serdes<K, V1, V2>,
    /// What is used where neither the application nor the streams have given one.
    usual: Serdes<K, V1, V2>,
    pub(crate) name: Option<String>,
    pub(crate) store_name: Option<String>,
    pub(crate) stores: JoinStores,
}

/// The stores of a join, as the application wants them.
#[derive(Debug, Clone)]
pub(crate) struct JoinStores {
    /// Configuration of the changelog topics; none when changes are not logged.
    pub(crate) logging: Option<BTreeMap<String, String>>,
    pub(crate) store_type: Option<StoreType>,
    pub(crate) this: Option<WindowSupplier>,
    pub(crate) other: Option<WindowSupplier>,
}

struct Serdes<K, V1, V2> {
    key: Option<SerdeRef<K>>,
    value: Option<SerdeRef<V1>>,
    other_value: Option<SerdeRef<V2>>,
}

impl<K, V1, V2> Serdes<K, V1, V2> {
    const fn none() -> Self {
        Self {
            key: None,
            value: None,
            other_value: None,
        }
    }
}

impl<K, V1, V2> Clone for Serdes<K, V1, V2> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            value: self.value.clone(),
            other_value: self.other_value.clone(),
        }
    }
}

impl<K, V1, V2> Clone for StreamJoined<K, V1, V2> {
    fn clone(&self) -> Self {
        Self {
            given: self.given.clone(),
            usual: self.usual.clone(),
            name: self.name.clone(),
            store_name: self.store_name.clone(),
            stores: self.stores.clone(),
        }
    }
}

impl<K, V1, V2> fmt::Debug for StreamJoined<K, V1, V2> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamJoined")
            .field("name", &self.name)
            .field("store_name", &self.store_name)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

impl<K, V1, V2> Default for StreamJoined<K, V1, V2>
where
    K: Data + DefaultSerde,
    V1: Data + DefaultSerde,
    V2: Data + DefaultSerde,
{
    fn default() -> Self {
        let usual = Serdes {
            key: Some(K::serde()),
            value: Some(V1::serde()),
            other_value: Some(V2::serde()),
        };
        Self::new(Serdes::none(), usual)
    }
}

impl<K, V1, V2> StreamJoined<K, V1, V2> {
    fn new(given: Serdes<K, V1, V2>, usual: Serdes<K, V1, V2>) -> Self {
        Self {
            given,
            usual,
            name: None,
            store_name: None,
            stores: JoinStores {
                logging: Some(BTreeMap::new()),
                store_type: None,
                this: None,
                other: None,
            },
        }
    }

    /// Keys, values of this stream and values of the other one are written by these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V1>, other_value: SerdeRef<V2>) -> Self {
        let given = Serdes {
            key: Some(key),
            value: Some(value),
            other_value: Some(other_value),
        };
        Self::new(given, Serdes::none())
    }

    /// The streams' or the types' own serdes, and a name of the nodes and repartition topics.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: Data + DefaultSerde,
        V1: Data + DefaultSerde,
        V2: Data + DefaultSerde,
    {
        Self::default().with_name(name)
    }

    /// Names the nodes and the repartition topics.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Names the stores, and so their changelog topics.
    #[must_use]
    pub fn with_store_name(mut self, name: impl Into<String>) -> Self {
        self.store_name = Some(name.into());
        self
    }

    /// Where the stores keep records.
    #[must_use]
    pub const fn with_store_type(mut self, store_type: StoreType) -> Self {
        self.stores.store_type = Some(store_type);
        self
    }

    /// The store of this stream's records. It must keep duplicates, as long as the windows with their grace.
    #[must_use]
    pub fn with_this_store_supplier(mut self, supplier: WindowSupplier) -> Self {
        self.stores.this = Some(supplier);
        self
    }

    /// The store of the other stream's records. It must keep duplicates, as long as the windows with their grace.
    #[must_use]
    pub fn with_other_store_supplier(mut self, supplier: WindowSupplier) -> Self {
        self.stores.other = Some(supplier);
        self
    }

    /// Changes of the stores are logged to topics with this configuration. Logging is on by default. A store of a
    /// supplier is logged in any case, as in Kafka Streams, without this configuration.
    #[must_use]
    pub fn with_logging_enabled(mut self, configs: BTreeMap<String, String>) -> Self {
        self.stores.logging = Some(configs);
        self
    }

    /// Changes of the stores are not logged: what waits for partners is lost with its disk or its process. A store of a
    /// supplier is logged in any case, as in Kafka Streams.
    #[must_use]
    pub fn with_logging_disabled(mut self) -> Self {
        self.stores.logging = None;
        self
    }

    pub(crate) fn key_serde(&self, of_streams: Option<SerdeRef<K>>) -> Option<SerdeRef<K>> {
        let given = self.given.key.clone();
        given.or(of_streams).or_else(|| self.usual.key.clone())
    }

    pub(crate) fn value_serde(&self, of_stream: Option<SerdeRef<V1>>) -> Option<SerdeRef<V1>> {
        let given = self.given.value.clone();
        given.or(of_stream).or_else(|| self.usual.value.clone())
    }

    pub(crate) fn other_value_serde(
        &self,
        of_stream: Option<SerdeRef<V2>>,
    ) -> Option<SerdeRef<V2>> {
        let given = self.given.other_value.clone();
        given
            .or(of_stream)
            .or_else(|| self.usual.other_value.clone())
    }
}

impl JoinStores {
    /// Suppliers that do not fit the windows are refused.
    pub(crate) fn check(&self, builder: &Builder, operator: &str, windows: &JoinWindows) {
        let mut problem = None;
        for supplier in [&self.this, &self.other].into_iter().flatten() {
            if !supplier.retain_duplicates {
                problem = Some(format!(
                    "store `{}` must keep duplicates; make it by `retaining_duplicates`",
                    supplier.name
                ));
            } else if supplier.window_size_ms != windows.size_ms()
                || supplier.retention_ms != windows.retention_ms()
            {
                problem = Some(format!(
                    "store `{}` must be of windows of {} ms that are kept for {} ms, as the join's are",
                    supplier.name,
                    windows.size_ms(),
                    windows.retention_ms()
                ));
            }
        }
        if let (Some(this), Some(other)) = (&self.this, &self.other)
            && this.name == other.name
        {
            problem = Some(format!(
                "both stores have the name `{}`; give one another",
                this.name
            ));
        }
        if let Some(problem) = problem {
            builder.check::<()>(Err(TopologyError::Operator {
                operator: operator.to_owned(),
                problem,
            }));
        }
    }

    /// The store of one side's records: by `supplier`, or under `name`.
    pub(crate) fn window_store<K: Data, V: Data>(
        &self,
        supplier: Option<&WindowSupplier>,
        name: &Arc<str>,
        windows: &JoinWindows,
        (key_serde, value_serde): (SerdeRef<K>, SerdeRef<V>),
    ) -> MakeStore {
        let (stores, supplier) = (self.clone(), supplier.cloned());
        // As in Kafka Streams, a store of a supplier is always logged.
        let logging = match supplier {
            Some(_) => Some(BTreeMap::new()),
            None => stores.logging,
        };
        let (name, windows, store_type) = (Arc::clone(name), *windows, stores.store_type);
        Arc::new(move |defaults: &DslStores| {
            let supplier = supplier.clone().unwrap_or_else(|| {
                let store_type = store_type.unwrap_or(defaults.store_type);
                // A record's time is the start of its window: only headers are left to stand beside the value.
                let format = match defaults.format {
                    DslStoreFormat::Headers => DslStoreFormat::Headers,
                    _ => DslStoreFormat::Plain,
                };
                let (retention_ms, size_ms) = (windows.retention_ms(), windows.size_ms());
                WindowSupplier::new(&name, store_type, format, retention_ms, size_ms)
                    .retaining_duplicates()
            });
            let serdes = (Arc::clone(&key_serde), Arc::clone(&value_serde));
            let builder =
                Stores::window_store_builder(supplier, serdes.0, serdes.1).logging_record_headers();
            Arc::new(match &logging {
                Some(configs) => builder.with_logging_enabled(configs.clone()),
                None => builder.with_logging_disabled(),
            })
        })
    }
}
