//! `KTable::map_values`: another value for each key.

use super::computed::Computing;
use super::{KTable, TableSettings};
use crate::dsl::Nullable;
use crate::error::{BoxError, Failure};
use crate::record::Data;
use std::sync::Arc;

impl<K: Data, V: Data> KTable<K, V> {
    /// Another value for each key. Where the mapper gives `None` the key is deleted; then the type of the
    /// values must be named, for it could be the `Option` too.
    ///
    /// ```
    /// use riverrun_streams::dsl::{KTable, StreamsBuilder};
    ///
    /// let builder = StreamsBuilder::new();
    /// let lengths = builder.table::<String, String>("names").map_values(String::len);
    /// let long: KTable<String, usize> = lengths.map_values(|length| (*length > 3).then_some(*length));
    /// # let _ = long;
    /// ```
    pub fn map_values<V2: Data, N: Nullable<V2>>(
        &self,
        mapper: impl Fn(&V) -> N + Send + Sync + 'static,
    ) -> KTable<K, V2> {
        self.map_values_with(move |_, value| mapper(value), TableSettings::default())
    }

    /// As `map_values`, of a mapper of key and value; named and kept as `settings` say. A store needs a serde of the
    /// values.
    pub fn map_values_with<V2: Data, N: Nullable<V2>>(
        &self,
        mapper: impl Fn(&K, &V) -> N + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V2>>,
    ) -> KTable<K, V2> {
        self.mapped_values(move |key, value| Ok(mapper(key, &value)), settings.into())
    }

    /// As `map_values`, of a mapper that may give an error, which the processing handler is asked about.
    pub fn try_map_values<V2: Data, N: Nullable<V2>, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<N, E> + Send + Sync + 'static,
    ) -> KTable<K, V2> {
        let mapper = move |key: &K, value: V| mapper(key, &value).map_err(Failure::of);
        self.mapped_values(mapper, TableSettings::default())
    }

    fn mapped_values<V2: Data, N: Nullable<V2>>(
        &self,
        mapper: impl Fn(&K, V) -> Result<N, Failure> + Send + Sync + 'static,
        settings: TableSettings<K, V2>,
    ) -> KTable<K, V2> {
        self.computed(Computing {
            prefix: "KTABLE-MAPVALUES-",
            settings,
            value_serde: None,
            compute: Arc::new(move |key: &K, value: V| mapper(key, value).map(N::into_option)),
            skips_nothing: false,
        })
    }
}
