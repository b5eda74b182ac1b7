//! `KTable::filter`: the keys whose values a predicate is true of.

use super::computed::Computing;
use super::{KTable, TableSettings};
use crate::record::Data;
use std::sync::Arc;

impl<K: Data, V: Data> KTable<K, V> {
    /// The keys and values that `predicate` is true of; a key whose value it becomes false of is deleted.
    pub fn filter(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter_with(predicate, TableSettings::default())
    }

    /// As `filter`, named and kept as `settings` say.
    pub fn filter_with(
        &self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V>>,
    ) -> Self {
        self.computed(Computing {
            prefix: "KTABLE-FILTER-",
            settings: settings.into(),
            value_serde: self.value_serde.clone(),
            compute: Arc::new(move |key: &K, value: V| Ok(predicate(key, &value).then_some(value))),
            skips_nothing: true,
        })
    }

    /// The keys and values that `predicate` is false of.
    pub fn filter_not(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter_not_with(predicate, TableSettings::default())
    }

    /// As `filter_not`, named and kept as `settings` say.
    pub fn filter_not_with(
        &self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V>>,
    ) -> Self {
        self.filter_with(move |key, value| !predicate(key, value), settings)
    }
}
