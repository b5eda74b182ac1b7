//! Operators that look at one record at a time.

use super::{KStream, Printed, Stateless};
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, Written};
use crate::error::Failure;
use crate::record::{Data, Record};
use crate::topology::{Topology, TopologyError};
use std::sync::Arc;

pub(super) const KEEPS_ALL: GraphTraits = GraphTraits {
    changes_keys: false,
    changes_values: false,
    is_merge: false,
    is_repartition: false,
    takes_null_keys: false,
};
pub(super) const CHANGES_KEYS: GraphTraits = GraphTraits {
    changes_keys: true,
    ..KEEPS_ALL
};
pub(super) const CHANGES_VALUES: GraphTraits = GraphTraits {
    changes_values: true,
    ..KEEPS_ALL
};

/// An operator under the name that Kafka Streams draws for it.
const fn unnamed(prefix: &str, traits: GraphTraits) -> Stateless<'_> {
    Stateless {
        prefix,
        name: None,
        traits,
    }
}

pub(super) const FILTER: Stateless<'_> = unnamed("KSTREAM-FILTER-", KEEPS_ALL);
pub(super) const MAP_VALUES: Stateless<'_> = unnamed("KSTREAM-MAPVALUES-", CHANGES_VALUES);
pub(super) const MAP: Stateless<'_> = unnamed("KSTREAM-MAP-", CHANGES_KEYS);
pub(super) const FLAT_MAP: Stateless<'_> = unnamed("KSTREAM-FLATMAP-", CHANGES_KEYS);
pub(super) const FLAT_MAP_VALUES: Stateless<'_> = unnamed("KSTREAM-FLATMAPVALUES-", CHANGES_VALUES);
pub(super) const SELECT_KEY: Stateless<'_> = unnamed("KSTREAM-KEY-SELECT-", CHANGES_KEYS);
pub(super) const PEEK: Stateless<'_> = unnamed("KSTREAM-PEEK-", KEEPS_ALL);
pub(super) const FOR_EACH: Stateless<'_> = unnamed("KSTREAM-FOREACH-", KEEPS_ALL);

impl<K: Data, V: Data> KStream<K, V> {
    /// The records that `predicate` is true of.
    pub fn filter(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(FILTER, move |key, value| Ok(predicate(key, value)))
    }

    /// The records that `predicate` is false of.
    pub fn filter_not(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(FILTER, move |key, value| Ok(!predicate(key, value)))
    }

    /// Another value for each record.
    pub fn map_values<V2: Data>(
        &self,
        mapper: impl Fn(&V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(MAP_VALUES, move |_, value| Ok(mapper(value)))
    }

    /// Another value for each record, made of key and value.
    pub fn map_values_with_key<V2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(MAP_VALUES, move |key, value| Ok(mapper(key, value)))
    }

    /// Another key and value for each record.
    pub fn map<K2: Data, V2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.mapped(MAP, move |key, value| Ok(mapper(key, value)))
    }

    /// Any number of records for each record.
    pub fn flat_map<K2: Data, V2: Data, I: IntoIterator<Item = (K2, V2)>>(
        &self,
        mapper: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.flat_mapped(FLAT_MAP, move |key, value| Ok(mapper(key, value)))
    }

    /// Any number of values for each record, under its key.
    pub fn flat_map_values<V2: Data, I: IntoIterator<Item = V2>>(
        &self,
        mapper: impl Fn(&V) -> I + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.flat_mapped_values(FLAT_MAP_VALUES, move |_, value| Ok(mapper(value)))
    }

    /// Any number of values for each record, made of key and value, under its key.
    pub fn flat_map_values_with_key<V2: Data, I: IntoIterator<Item = V2>>(
        &self,
        mapper: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.flat_mapped_values(FLAT_MAP_VALUES, move |key, value| Ok(mapper(key, value)))
    }

    /// Another key for each record.
    pub fn select_key<K2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.keyed(SELECT_KEY, mapper)
    }

    /// As `select_key`, for a node of this name.
    pub(crate) fn keyed<K2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.selected_keys(node, move |key, value| Ok(mapper(key, value)))
    }

    /// Looks at each record, and passes it on.
    pub fn peek(&self, action: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        self.peeked(PEEK, action)
    }

    /// Does something with each record; nothing comes after it.
    pub fn for_each(&self, action: impl Fn(&K, &V) + Send + Sync + 'static) {
        self.done(FOR_EACH, move |key, value| {
            action(key, value);
            Ok(())
        });
    }

    /// Writes each record as a line of text, for people to read; nothing comes after it.
    pub fn print(&self, printed: Printed<K, V>) {
        let label = printed.label.unwrap_or_else(|| self.name.to_string());
        let node = Stateless {
            name: printed.name.as_deref(),
            ..unnamed("KSTREAM-PRINTER-", KEEPS_ALL)
        };
        let (show, write) = (printed.show, printed.write);
        self.done(node, move |key, value| {
            write(&format!("[{label}]: {}", show(key, value)));
            Ok(())
        });
    }

    /// The records of both streams; those of each keep their order.
    pub fn merge(&self, other: &Self) -> Self {
        self.merged(other, None)
    }

    pub(super) fn filtered(
        &self,
        node: Stateless<'_>,
        predicate: impl Fn(&K, &V) -> Result<bool, Failure> + Send + Sync + 'static,
    ) -> Self {
        let serdes = (self.key_serde.clone(), self.value_serde.clone());
        self.stateless(
            node,
            serdes,
            move |context, record, outputs| match predicate(&record.key, &record.value)? {
                true => outputs.forward(context, record),
                false => Ok(()),
            },
        )
    }

    pub(super) fn mapped_values<V2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<V2, Failure> + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        let serdes = (self.key_serde.clone(), None);
        self.stateless(node, serdes, move |context, record, outputs| {
            let value = mapper(&record.key, &record.value)?;
            outputs.forward(context, record.with_value(value))
        })
    }

    pub(super) fn mapped<K2: Data, V2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<(K2, V2), Failure> + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.stateless(node, (None, None), move |context, record, outputs| {
            let (key, value) = mapper(&record.key, &record.value)?;
            outputs.forward(context, record.with_key(key).with_value(value))
        })
    }

    pub(super) fn flat_mapped<K2: Data, V2: Data, I: IntoIterator<Item = (K2, V2)>>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<I, Failure> + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.stateless(node, (None, None), move |context, record, outputs| {
            for (key, value) in mapper(&record.key, &record.value)? {
                let forwarded = Record {
                    key,
                    value,
                    timestamp_ms: record.timestamp_ms,
                    headers: record.headers.clone(),
                };
                outputs.forward(context, forwarded)?;
            }
            Ok(())
        })
    }

    pub(super) fn flat_mapped_values<V2: Data, I: IntoIterator<Item = V2>>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<I, Failure> + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        let serdes = (self.key_serde.clone(), None);
        self.stateless(node, serdes, move |context, record, outputs| {
            for value in mapper(&record.key, &record.value)? {
                let forwarded = Record {
                    key: record.key.clone(),
                    value,
                    timestamp_ms: record.timestamp_ms,
                    headers: record.headers.clone(),
                };
                outputs.forward(context, forwarded)?;
            }
            Ok(())
        })
    }

    pub(super) fn selected_keys<K2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<K2, Failure> + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        let serdes = (None, self.value_serde.clone());
        self.stateless(node, serdes, move |context, record, outputs| {
            let key = mapper(&record.key, &record.value)?;
            outputs.forward(context, record.with_key(key))
        })
    }

    pub(super) fn peeked(
        &self,
        node: Stateless<'_>,
        action: impl Fn(&K, &V) + Send + Sync + 'static,
    ) -> Self {
        let serdes = (self.key_serde.clone(), self.value_serde.clone());
        self.stateless(node, serdes, move |context, record, outputs| {
            action(&record.key, &record.value);
            outputs.forward(context, record)
        })
    }

    pub(super) fn done(
        &self,
        node: Stateless<'_>,
        action: impl Fn(&K, &V) -> Result<(), Failure> + Send + Sync + 'static,
    ) {
        self.stateless::<K, V>(node, (None, None), move |_, record, _| {
            action(&record.key, &record.value)
        });
    }

    pub(super) fn merged(&self, other: &Self, name: Option<&str>) -> Self {
        let name = self.builder.node_name(name, "KSTREAM-MERGE-");
        if !self.builder.is(&other.builder) {
            self.builder.check::<()>(Err(TopologyError::OtherBuilder {
                operator: name.to_string(),
            }));
            return self.clone();
        }
        let factory = crate::topology::stateless_factory(
            |context: &mut _, record: Record<K, V>, outputs: &crate::processor::Outputs<K, V>| {
                outputs.forward(context, record)
            },
        );
        let written_name = Arc::clone(&name);
        let traits = GraphTraits {
            is_merge: true,
            ..KEEPS_ALL
        };
        let node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        let node = self
            .builder
            .add(node.giving::<K, V>(), &[self.node, other.node]);
        let sources = self.sources.union(&other.sources).cloned().collect();
        let mut merged = Self::new(&self.builder, &name, node, sources, (None, None));
        merged.repartition_required = self.repartition_required || other.repartition_required;
        merged
    }
}

impl<'a> Stateless<'a> {
    /// Under this name instead.
    pub(crate) const fn named(self, name: &'a str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }
}
