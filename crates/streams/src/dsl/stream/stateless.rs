//! Operators that look at one record at a time.

use super::{KStream, Stateless};
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, Written};
use crate::error::Failure;
use crate::processor::Processor;
use crate::record::{Data, Record};
use crate::topology::{Topology, TopologyError, check_name, processor_factory};
use std::sync::Arc;

const KEEPS_ALL: GraphTraits = GraphTraits {
    changes_keys: false,
    changes_values: false,
    is_merge: false,
    is_repartition: false,
    takes_null_keys: false,
};
const CHANGES_KEYS: GraphTraits = GraphTraits {
    changes_keys: true,
    ..KEEPS_ALL
};
const CHANGES_VALUES: GraphTraits = GraphTraits {
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

impl<K: Data, V: Data> KStream<K, V> {
    /// The records that `predicate` is true of.
    pub fn filter(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(unnamed("KSTREAM-FILTER-", KEEPS_ALL), predicate)
    }

    /// As `filter`; the node has this name.
    pub fn filter_named(
        &self,
        name: &str,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filtered(unnamed("KSTREAM-FILTER-", KEEPS_ALL).named(name), predicate)
    }

    /// The records that `predicate` is false of.
    pub fn filter_not(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter(move |key, value| !predicate(key, value))
    }

    fn filtered(
        &self,
        node: Stateless<'_>,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        let serdes = (self.key_serde.clone(), self.value_serde.clone());
        self.stateless(
            node,
            serdes,
            move |context, record, outputs| match predicate(&record.key, &record.value) {
                true => outputs.forward(context, record),
                false => Ok(()),
            },
        )
    }

    /// Another value for each record.
    pub fn map_values<V2: Data>(
        &self,
        mapper: impl Fn(&V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.map_values_with_key(move |_, value| mapper(value))
    }

    /// Another value for each record, made of key and value.
    pub fn map_values_with_key<V2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(
            unnamed("KSTREAM-MAPVALUES-", CHANGES_VALUES),
            move |key, value| Ok(mapper(key, value)),
        )
    }

    /// As `map_values_with_key`; the node has this name.
    pub fn map_values_named<V2: Data>(
        &self,
        name: &str,
        mapper: impl Fn(&K, &V) -> V2 + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        let node = unnamed("KSTREAM-MAPVALUES-", CHANGES_VALUES).named(name);
        self.mapped_values(node, move |key, value| Ok(mapper(key, value)))
    }

    /// Another value for each record, or an error, which the processing handler is asked about.
    pub fn try_map_values<V2: Data, E: Into<crate::error::BoxError>>(
        &self,
        mapper: impl Fn(&K, &V) -> Result<V2, E> + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.mapped_values(
            unnamed("KSTREAM-MAPVALUES-", CHANGES_VALUES),
            move |key, value| mapper(key, value).map_err(Failure::of),
        )
    }

    fn mapped_values<V2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> Result<V2, Failure> + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.stateless(
            node,
            (self.key_serde.clone(), None),
            move |context, record, outputs| {
                let value = mapper(&record.key, &record.value)?;
                outputs.forward(context, record.with_value(value))
            },
        )
    }

    /// Another key and value for each record.
    pub fn map<K2: Data, V2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.stateless(
            unnamed("KSTREAM-MAP-", CHANGES_KEYS),
            (None, None),
            move |context, record, outputs| {
                let (key, value) = mapper(&record.key, &record.value);
                outputs.forward(context, record.with_key(key).with_value(value))
            },
        )
    }

    /// Any number of records for each record.
    pub fn flat_map<K2: Data, V2: Data, I: IntoIterator<Item = (K2, V2)>>(
        &self,
        mapper: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K2, V2> {
        self.stateless(
            unnamed("KSTREAM-FLATMAP-", CHANGES_KEYS),
            (None, None),
            move |context, record, outputs| {
                for (key, value) in mapper(&record.key, &record.value) {
                    let (timestamp_ms, headers) = (record.timestamp_ms, record.headers.clone());
                    outputs.forward(
                        context,
                        Record {
                            key,
                            value,
                            timestamp_ms,
                            headers,
                        },
                    )?;
                }
                Ok(())
            },
        )
    }

    /// Any number of values for each record, under its key.
    pub fn flat_map_values<V2: Data, I: IntoIterator<Item = V2>>(
        &self,
        mapper: impl Fn(&V) -> I + Send + Sync + 'static,
    ) -> KStream<K, V2> {
        self.stateless(
            unnamed("KSTREAM-FLATMAPVALUES-", CHANGES_VALUES),
            (self.key_serde.clone(), None),
            move |context, record, outputs| {
                for value in mapper(&record.value) {
                    let forwarded = Record {
                        key: record.key.clone(),
                        value,
                        timestamp_ms: record.timestamp_ms,
                        headers: record.headers.clone(),
                    };
                    outputs.forward(context, forwarded)?;
                }
                Ok(())
            },
        )
    }

    /// Another key for each record.
    pub fn select_key<K2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.keyed(unnamed("KSTREAM-KEY-SELECT-", CHANGES_KEYS), mapper)
    }

    /// As `select_key`, for a node of this name.
    pub(crate) fn keyed<K2: Data>(
        &self,
        node: Stateless<'_>,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V> {
        self.stateless(
            node,
            (None, self.value_serde.clone()),
            move |context, record, outputs| {
                let key = mapper(&record.key, &record.value);
                outputs.forward(context, record.with_key(key))
            },
        )
    }

    /// Looks at each record, and passes it on.
    pub fn peek(&self, action: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        let serdes = (self.key_serde.clone(), self.value_serde.clone());
        self.stateless(
            unnamed("KSTREAM-PEEK-", KEEPS_ALL),
            serdes,
            move |context, record, outputs| {
                action(&record.key, &record.value);
                outputs.forward(context, record)
            },
        )
    }

    /// Does something with each record; nothing comes after it.
    pub fn for_each(&self, action: impl Fn(&K, &V) + Send + Sync + 'static) {
        self.stateless::<K, V>(
            unnamed("KSTREAM-FOREACH-", KEEPS_ALL),
            (None, None),
            move |_, record, _| {
                action(&record.key, &record.value);
                Ok(())
            },
        );
    }

    /// The records of both streams; those of each keep their order.
    pub fn merge(&self, other: &Self) -> Self {
        self.merged(other, None)
    }

    /// As `merge`; the node has this name.
    pub fn merge_named(&self, other: &Self, name: &str) -> Self {
        self.merged(other, Some(name))
    }

    fn merged(&self, other: &Self, name: Option<&str>) -> Self {
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

    /// Gives each record to a processor of the application, which is connected to these stores.
    pub fn process<K2: Data, V2: Data, P>(
        &self,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K2, V2>
    where
        P: Processor<K, V, K2, V2> + 'static,
    {
        let name = self.builder.node_name(None, "KSTREAM-PROCESSOR-");
        self.processed(name, supplier, stores)
    }

    /// As `process`; the node has this name.
    pub fn process_named<K2: Data, V2: Data, P>(
        &self,
        name: &str,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K2, V2>
    where
        P: Processor<K, V, K2, V2> + 'static,
    {
        self.builder.check(check_name(name));
        self.processed(Arc::from(name), supplier, stores)
    }

    fn processed<K2: Data, V2: Data, P>(
        &self,
        name: Arc<str>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K2, V2>
    where
        P: Processor<K, V, K2, V2> + 'static,
    {
        let factory = processor_factory(supplier);
        let stores: Vec<String> = stores.iter().map(|&store| store.to_owned()).collect();
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            CHANGES_KEYS,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_processor_node(
                    &written_name,
                    written.parents,
                    Arc::clone(&factory),
                )?;
                stores
                    .iter()
                    .try_for_each(|store| topology.connect(&written_name, store))
            },
        );
        let node = self.builder.add(node.giving::<K2, V2>(), &[self.node]);
        KStream {
            builder: self.builder.clone(),
            name,
            node,
            sources: Arc::clone(&self.sources),
            repartition_required: true,
            key_serde: None,
            value_serde: None,
        }
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
