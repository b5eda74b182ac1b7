//! `KTable::map_values`: another value for each key.

use super::computed::Computing;
use super::{KTable, TableSettings};
use crate::error::{BoxError, Failure};
use crate::record::Data;
use std::sync::Arc;

impl<K: Data, V: Data> KTable<K, V> {
    /// Another value for each key.
    pub fn map_values<V2: Data>(
        &self,
        mapper: impl Fn(&V) -> V2 + Send + Sync + 'static,
    ) -> KTable<K, V2> {
        self.map_values_with(move |_, value| mapper(value), TableSettings::default())
    }

    /// Another value for each key, made of key and value, named and kept as `settings` say. A store needs a serde of
    /// the values.
    pub fn map_values_with<V2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> V2 + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V2>>,
    ) -> KTable<K, V2> {
        self.mapped_values(move |key, value| Ok(mapper(key, &value)), settings.into())
    }

    /// Another value for each key, or an error, which the processing handler is asked about.
    pub fn try_map_values<V2: Data, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<V2, E> + Send + Sync + 'static,
    ) -> KTable<K, V2> {
        let mapper = move |key: &K, value: V| mapper(key, &value).map_err(Failure::of);
        self.mapped_values(mapper, TableSettings::default())
    }

    fn mapped_values<V2: Data>(
        &self,
        mapper: impl Fn(&K, V) -> Result<V2, Failure> + Send + Sync + 'static,
        settings: TableSettings<K, V2>,
    ) -> KTable<K, V2> {
        self.computed(Computing {
            prefix: "KTABLE-MAPVALUES-",
            settings,
            value_serde: None,
            compute: Arc::new(move |key: &K, value: V| mapper(key, value).map(Some)),
            skips_nothing: false,
        })
    }
}
