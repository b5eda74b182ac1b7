//! The operators that look at one record at a time, under names of the application's.

use super::KStream;
use super::stateless::{
    FILTER, FLAT_MAP, FLAT_MAP_VALUES, FOR_EACH, MAP, MAP_VALUES, PEEK, SELECT_KEY,
};
use crate::record::Data;

impl<K: Data, V: Data> KStream<K, V> {
    /// As `filter`; the node has this name.
    pub fn filter_named(
        &self,
        name: &str,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filtered(FILTER.named(name), move |key, value| {
            Ok(predicate(key, value))
        })
    }

    /// As `filter_not`; the node has this name.
    pub fn filter_not_named(
        &self,
        name: &str,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter_named(name, move |key, value| !predicate(key, value))
    }

    /// As `map_values_with_key`; the node has this name.
    pub fn map_values_named<V2: Data>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(MAP_VALUES.named(name), move |key, value| {
            Ok(mapper(key, value))
        })
    }

    /// As `map`; the node has this name.
    pub fn map_named<K2: Data, V2: Data>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.mapped(MAP.named(name), move |key, value| Ok(mapper(key, value)))
    }

    /// As `flat_map`; the node has this name.
    pub fn flat_map_named<K2: Data, V2: Data, I: IntoIterator<Item = (K2, V2)>>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.flat_mapped(FLAT_MAP.named(name), move |key, value| {
            Ok(mapper(key, value))
        })
    }

    /// As `flat_map_values_with_key`; the node has this name.
    pub fn flat_map_values_named<V2: Data, I: IntoIterator<Item = V2>>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.flat_mapped_values(FLAT_MAP_VALUES.named(name), move |key, value| {
            Ok(mapper(key, value))
        })
    }

    /// As `select_key`; the node has this name.
    pub fn select_key_named<K2: Data>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.keyed(SELECT_KEY.named(name), mapper)
    }

    /// As `peek`; the node has this name.
    pub fn peek_named(&self, name: &str, action: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        self.peeked(PEEK.named(name), action)
    }

    /// As `for_each`; the node has this name.
    pub fn for_each_named(&self, name: &str, action: impl Fn(&K, &V) + Send + Sync + 'static) {
        self.done(FOR_EACH.named(name), move |key, value| {
            action(key, value);
            Ok(())
        });
    }

    /// As `merge`; the node has this name.
    pub fn merge_named(&self, other: &Self, name: &str) -> Self {
        self.merged(other, Some(name))
    }
}
