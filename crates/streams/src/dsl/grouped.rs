//! `KGroupedStream`: records by key, to be counted, reduced or aggregated.

mod sessions;
mod windowed;

use super::aggregate::{Aggregation, StreamAggregate};
use super::graph::GraphTraits;
use super::materialized::TableOf;
use super::stores::{MakeStore, key_value_store};
use super::stream::SourceNames;
use super::table::{KeptStore, TableSettings};
use super::{
    Builder, GraphNode, GraphNodeId, Grouped, KStream, KTable, Materialized, Repartition, Written,
};
use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::{NodeFactory, Topology};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub use sessions::SessionWindowedKStream;
pub use windowed::TimeWindowedKStream;
pub(crate) use windowed::Windows;

/// Records by key.
pub struct KGroupedStream<K, V> {
    pub(crate) builder: Builder,
    pub(crate) name: Arc<str>,
    pub(crate) node: GraphNodeId,
    pub(crate) sources: SourceNames,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    repartition_required: bool,
    /// The name of the repartition topic that the application has given.
    grouped_name: Option<Arc<str>>,
    /// The repartition that all aggregations of a named group share.
    shared_repartition: Rc<Cell<Option<Repartitioned>>>,
}

/// Where the records of a group come from when they are repartitioned.
#[derive(Clone)]
pub(crate) struct Repartitioned {
    node: GraphNodeId,
    source: Arc<str>,
}

impl<K, V> Clone for KGroupedStream<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            name: Arc::clone(&self.name),
            node: self.node,
            sources: Arc::clone(&self.sources),
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            repartition_required: self.repartition_required,
            grouped_name: self.grouped_name.clone(),
            shared_repartition: Rc::clone(&self.shared_repartition),
        }
    }
}

impl<K, V> fmt::Debug for KGroupedStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KGroupedStream")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> KStream<K, V> {
    /// The records by their keys.
    pub fn group_by_key(&self) -> KGroupedStream<K, V>
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.group_by_key_with(Grouped::with(self.keys(), self.values()))
    }

    /// The records by their keys, with these serdes and this name.
    pub fn group_by_key_with(&self, grouped: Grouped<K, V>) -> KGroupedStream<K, V> {
        KGroupedStream {
            builder: self.builder.clone(),
            name: Arc::clone(&self.name),
            node: self.node,
            sources: Arc::clone(&self.sources),
            key_serde: grouped.key_serde,
            value_serde: grouped.value_serde,
            repartition_required: self.repartition_required,
            grouped_name: grouped.name.map(Arc::from),
            shared_repartition: Rc::default(),
        }
    }

    /// The records by a key that `mapper` makes of each.
    pub fn group_by<K2: Data + DefaultSerde>(
        &self,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KGroupedStream<K2, V>
    where
        V: DefaultSerde,
    {
        self.group_by_with(mapper, Grouped::with(K2::serde(), self.values()))
    }

    /// The records by a key that `mapper` makes of each, with these serdes and this name.
    pub fn group_by_with<K2: Data>(
        &self,
        mapper: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
        grouped: Grouped<K2, V>,
    ) -> KGroupedStream<K2, V> {
        let node = super::stream::Stateless {
            prefix: "KSTREAM-KEY-SELECT-",
            name: grouped.name.as_deref(),
            traits: GraphTraits {
                changes_keys: true,
                ..GraphTraits::default()
            },
        };
        let keyed = self.keyed(node, mapper);
        keyed.group_by_key_with(grouped)
    }
}

impl<K: Data, V: Data> KGroupedStream<K, V> {
    /// How many records each key has.
    pub fn count(&self) -> KTable<K, i64> {
        self.counted(TableSettings::default())
    }

    /// How many records each key has, named and kept as `settings` say.
    pub fn count_with(&self, settings: impl Into<TableSettings<K, i64>>) -> KTable<K, i64> {
        let settings = settings.into();
        let kept = settings.materialized.as_ref();
        if kept.is_some_and(|kept| kept.name.is_none()) {
            // Kafka Streams draws a number here that it does not use.
            self.builder.new_store_name("KSTREAM-AGGREGATE-");
        }
        self.counted(settings)
    }

    fn counted(&self, settings: TableSettings<K, i64>) -> KTable<K, i64> {
        let (name, materialized) = settings.name_and_kept();
        let value_serde = materialized.values();
        self.aggregated(
            (name, "KSTREAM-AGGREGATE-"),
            materialized.with_value_serde(value_serde),
            Aggregation::new(|| 0, |_: &K, _: V, count: i64| count + 1),
        )
    }

    /// The values of each key, made one by `reducer`, which takes what it made before and the next value.
    pub fn reduce(&self, reducer: impl Fn(&V, &V) -> V + Send + Sync + 'static) -> KTable<K, V> {
        self.reduce_with(reducer, TableSettings::default())
    }

    /// As `reduce`, named and kept as `settings` say.
    pub fn reduce_with(
        &self,
        reducer: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V>>,
    ) -> KTable<K, V> {
        let (name, materialized) = settings.into().name_and_kept();
        let value_serde = materialized
            .value_serde
            .clone()
            .unwrap_or_else(|| Arc::clone(&self.value_serde));
        self.aggregated(
            (name, "KSTREAM-REDUCE-"),
            materialized.with_value_serde(value_serde),
            Aggregation::reducing(move |_: &K, value: V, reduced: Option<V>| match reduced {
                Some(reduced) => reducer(&reduced, &value),
                None => value,
            }),
        )
    }

    /// An aggregate of the values of each key: `initializer` makes the first, `aggregator` makes the next of key, value
    /// and the one before.
    pub fn aggregate<A: Data + DefaultSerde>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
    ) -> KTable<K, A> {
        let materialized = Materialized::default().with_value_serde(A::serde());
        self.aggregate_with(initializer, aggregator, materialized)
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with<A: Data>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<K, A> {
        let (name, materialized) = settings.into().name_and_kept();
        self.aggregated(
            (name, "KSTREAM-AGGREGATE-"),
            materialized,
            Aggregation::new(initializer, move |key: &K, value: V, aggregate: A| {
                aggregator(key, &value, aggregate)
            }),
        )
    }

    fn aggregated<A: Data>(
        &self,
        (name, prefix): (Option<String>, &str),
        mut materialized: Materialized<K, A>,
        aggregation: Aggregation<K, V, A>,
    ) -> KTable<K, A> {
        let queryable_store = materialized.name.as_deref().map(Arc::from);
        let store = self.store_name(materialized.name.as_deref(), prefix);
        let name = self.builder.node_name(name.as_deref(), prefix);
        let value_serde = self
            .builder
            .required(&name, materialized.value_serde.clone());
        let key_serde = materialized
            .key_serde
            .get_or_insert_with(|| Arc::clone(&self.key_serde))
            .clone();
        self.builder.check(materialized.check(&name, TableOf::Keys));
        let kept = KeptStore::of_table(&store, &materialized);
        let node = StreamAggregate {
            store: kept.clone(),
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            aggregate_serde: Arc::clone(&value_serde),
            aggregation,
        };
        let make_store = key_value_store(&store, &materialized, &key_serde, &value_serde);
        let (graph_node, sources) = self.add_aggregate(&name, &store, make_store, node.factory());
        KTable {
            builder: self.builder.clone(),
            name,
            node: graph_node,
            sources,
            key_serde: Some(key_serde),
            value_serde: Some(value_serde),
            queryable_store,
            view: Rc::new(super::aggregate::StoreView(kept)),
        }
    }

    /// The store's name: the application's, or one with the next number.
    pub(crate) fn store_name(&self, name: Option<&str>, prefix: &str) -> Arc<str> {
        match name {
            Some(name) => {
                self.builder.check(crate::topology::check_name(name));
                Arc::from(name)
            }
            None => self.builder.new_store_name(prefix),
        }
    }

    /// Adds a node that keeps `store`, below a repartition if the keys may have changed.
    pub(crate) fn add_aggregate(
        &self,
        name: &Arc<str>,
        store_name: &Arc<str>,
        make_store: MakeStore,
        factory: NodeFactory,
    ) -> (GraphNodeId, SourceNames) {
        let (parent, sources) = self.repartitioned(store_name);
        let written_name = Arc::clone(name);
        let node = GraphNode::new(
            name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_processor_node(
                    &written_name,
                    written.parents,
                    Arc::clone(&factory),
                )?;
                topology.add_state_store(make_store(written.stores), &[&written_name])
            },
        );
        (self.builder.add(node, &[parent]), sources)
    }

    /// The node that an aggregation stands below: the stream's, or a repartition of it. A group with a name has one
    /// repartition for all its aggregations.
    pub(crate) fn repartitioned(&self, store: &Arc<str>) -> (GraphNodeId, SourceNames) {
        self.repartitioned_once(store, &Cell::default())
    }

    /// As `repartitioned`; a group without a name has one repartition for all aggregations that come with `own`.
    pub(crate) fn repartitioned_once(
        &self,
        store: &Arc<str>,
        own: &Cell<Option<Repartitioned>>,
    ) -> (GraphNodeId, SourceNames) {
        if !self.repartition_required {
            return (self.node, Arc::clone(&self.sources));
        }
        let (base, shared) = match &self.grouped_name {
            Some(name) => (name, &*self.shared_repartition),
            None => (store, own),
        };
        let serdes = (Arc::clone(&self.key_serde), Arc::clone(&self.value_serde));
        // Its names are drawn even where there is one already.
        let repartition = Repartition::new(&self.builder, base, serdes);
        let used = shared.take().unwrap_or_else(|| {
            let source = Arc::clone(&repartition.source);
            let node = self
                .builder
                .add(repartition.into_graph_node(), &[self.node]);
            Repartitioned { node, source }
        });
        shared.set(Some(used.clone()));
        (used.node, Arc::new([used.source].into()))
    }

    /// Equal of those of one `group_by` or `group_by_key`.
    pub(crate) fn identity(&self) -> *const () {
        Rc::as_ptr(&self.shared_repartition).cast()
    }
}
