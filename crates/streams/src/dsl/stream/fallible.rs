//! The operators that look at one record at a time, with functions that may fail: the processing handler is asked about
//! their errors.

use super::KStream;
use super::stateless::{FILTER, FLAT_MAP, FLAT_MAP_VALUES, FOR_EACH, MAP, MAP_VALUES, SELECT_KEY};
use crate::error::{BoxError, Failure};
use crate::record::Data;

impl<K: Data, V: Data> KStream<K, V> {
    /// As `filter`; `predicate` may fail.
    pub fn try_filter<E: Into<BoxError>>(
        &self,
        predicate: impl Fn(&K, &V) -> Result<bool, E> + Send + Sync + 'static,
    ) -> Self {
        self.filtered(FILTER, move |key, value| {
            predicate(key, value).map_err(Failure::of)
        })
    }

    /// As `map_values_with_key`; `mapper` may fail.
    pub fn try_map_values<V2: Data, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<V2, E> + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(MAP_VALUES, move |key, value| {
            mapper(key, value).map_err(Failure::of)
        })
    }

    /// As `map`; `mapper` may fail.
    pub fn try_map<K2: Data, V2: Data, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<(K2, V2), E> + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.mapped(MAP, move |key, value| {
            mapper(key, value).map_err(Failure::of)
        })
    }

    /// As `flat_map`; `mapper` may fail.
    pub fn try_flat_map<K2: Data, V2: Data, I, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<I, E> + Send + Sync + 'static,
    ) -> KStream<K2, V2>
    where
        I: IntoIterator<Item = (K2, V2)>,
    {
        self.flat_mapped(FLAT_MAP, move |key, value| {
            mapper(key, value).map_err(Failure::of)
        })
    }

    /// As `flat_map_values_with_key`; `mapper` may fail.
    pub fn try_flat_map_values<V2: Data, I, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<I, E> + Send + Sync + 'static,
    ) -> KStream<K, V2>
    where
        I: IntoIterator<Item = V2>,
    {
        self.flat_mapped_values(FLAT_MAP_VALUES, move |key, value| {
            mapper(key, value).map_err(Failure::of)
        })
    }

    /// As `select_key`; `mapper` may fail.
    pub fn try_select_key<K2: Data, E: Into<BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<K2, E> + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.selected_keys(SELECT_KEY, move |key, value| {
            mapper(key, value).map_err(Failure::of)
        })
    }

    /// As `for_each`; `action` may fail.
    pub fn try_for_each<E: Into<BoxError>>(
        &self,
        action: impl Fn(&K, &V) -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.done(FOR_EACH, move |key, value| {
            action(key, value).map_err(Failure::of)
        });
    }
}
