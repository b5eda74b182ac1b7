//! `KGroupedTable`: the values of a table under other keys, to be counted, reduced or aggregated.
//!
//! A change takes the old value out of the aggregate of its key and puts the new one in, so each aggregation has two
//! functions.

use super::change_serde::change_serde;
use super::grouped_aggregate::{TableAggregate, TableAggregation};
use super::kept::Kept;
use super::source::SourceView;
use super::{KTable, TableSettings};
use crate::dsl::graph::GraphTraits;
use crate::dsl::repartition::topic_configs;
use crate::dsl::{Builder, GraphNode, GraphNodeId, Grouped, Written};
use crate::record::{Change, Data};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::{
    Consumed, InternalTopic, Produced, SinkTopic, SourceTopics, TimestampExtractor, Topology,
    check_name,
};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

const PREFIX: &str = "KTABLE-AGGREGATE-";

/// The values of a table under other keys.
pub struct KGroupedTable<K, V> {
    builder: Builder,
    node: GraphNodeId,
    grouped: Grouped<K, V>,
    /// The repartition that all aggregations of a named group share.
    shared_repartition: Rc<RefCell<Option<Repartitioned>>>,
}

/// Where the changes come from.
#[derive(Clone)]
struct Repartitioned {
    node: GraphNodeId,
    source: Arc<str>,
}

impl<K, V> Clone for KGroupedTable<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            node: self.node,
            grouped: self.grouped.clone(),
            shared_repartition: Rc::clone(&self.shared_repartition),
        }
    }
}

impl<K, V> fmt::Debug for KGroupedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KGroupedTable").finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> KGroupedTable<K, V> {
    pub(crate) fn new(builder: &Builder, node: GraphNodeId, grouped: Grouped<K, V>) -> Self {
        Self {
            builder: builder.clone(),
            node,
            grouped,
            shared_repartition: Rc::default(),
        }
    }

    /// How many values each key has.
    pub fn count(&self) -> KTable<K, i64> {
        self.count_with(TableSettings::default())
    }

    /// As `count`, named and kept as `settings` say.
    pub fn count_with(&self, settings: impl Into<TableSettings<K, i64>>) -> KTable<K, i64> {
        let aggregation = TableAggregation {
            add: Arc::new(|_: &K, _: V, count: Option<i64>| count.unwrap_or(0) + 1),
            subtract: Arc::new(|_: &K, _: V, count| count - 1),
        };
        self.aggregated(PREFIX, settings.into(), Some(i64::serde()), aggregation)
    }

    /// The values of each key, made one: `adder` takes what there is and a value that comes, `subtractor` what there is
    /// and a value that goes.
    pub fn reduce(
        &self,
        adder: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        subtractor: impl Fn(&V, &V) -> V + Send + Sync + 'static,
    ) -> KTable<K, V> {
        self.reduce_with(adder, subtractor, TableSettings::default())
    }

    /// As `reduce`, named and kept as `settings` say.
    pub fn reduce_with(
        &self,
        adder: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        subtractor: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V>>,
    ) -> KTable<K, V> {
        let aggregation = TableAggregation {
            add: Arc::new(move |_: &K, value: V, reduced: Option<V>| match reduced {
                Some(reduced) => adder(&reduced, &value),
                None => value,
            }),
            subtract: Arc::new(move |_: &K, value: V, reduced| subtractor(&reduced, &value)),
        };
        let serde = Some(Arc::clone(&self.grouped.value_serde));
        self.aggregated("KTABLE-REDUCE-", settings.into(), serde, aggregation)
    }

    /// An aggregate of the values of each key: `initializer` makes the first, `adder` the next where a value comes,
    /// `subtractor` the next where a value goes.
    pub fn aggregate<A: Data + DefaultSerde>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        adder: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        subtractor: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
    ) -> KTable<K, A> {
        let materialized = crate::dsl::Materialized::default().with_value_serde(A::serde());
        self.aggregate_with(initializer, adder, subtractor, materialized)
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with<A: Data>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        adder: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        subtractor: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<K, A> {
        let aggregation = TableAggregation {
            add: Arc::new(move |key: &K, value: V, aggregate: Option<A>| {
                adder(key, &value, aggregate.unwrap_or_else(&initializer))
            }),
            subtract: Arc::new(move |key: &K, value: V, aggregate| {
                subtractor(key, &value, aggregate)
            }),
        };
        self.aggregated(PREFIX, settings.into(), None, aggregation)
    }

    fn aggregated<A: Data>(
        &self,
        prefix: &str,
        settings: TableSettings<K, A>,
        value_serde: Option<SerdeRef<A>>,
        aggregation: TableAggregation<K, V, A>,
    ) -> KTable<K, A> {
        let mut materialized = settings.materialized.unwrap_or_default();
        let queryable_store: Option<Arc<str>> = materialized.name.as_deref().map(Arc::from);
        let store = match &queryable_store {
            Some(store) => {
                self.builder.check(check_name(store));
                Arc::clone(store)
            }
            None => self.builder.new_store_name(PREFIX),
        };
        let name = settings.name.as_deref();
        let repartitioned = self.repartitioned(name, &store);
        let name = self.builder.node_name(name, prefix);
        let key_serde = materialized
            .key_serde
            .get_or_insert_with(|| Arc::clone(&self.grouped.key_serde))
            .clone();
        let value_serde = materialized.value_serde.or(value_serde);
        let value_serde = self.builder.required(&name, value_serde);
        materialized.value_serde = Some(Arc::clone(&value_serde));
        let kept = Kept::new(&store, materialized, true);
        let view = SourceView(kept.clone());
        let aggregate = TableAggregate {
            store: kept.store.clone(),
            key_serde: Arc::clone(&self.grouped.key_serde),
            aggregate_serde: Arc::clone(&value_serde),
            aggregation,
        };
        let factory = aggregate.factory();
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                let factory = Arc::clone(&factory);
                topology.add_processor_node(&written_name, written.parents, factory)?;
                kept.write(topology, written, &written_name)
            },
        );
        KTable {
            builder: self.builder.clone(),
            name,
            node: self.builder.add(node, &[repartitioned.node]),
            sources: Arc::new([repartitioned.source].into()),
            key_serde: Some(key_serde),
            value_serde: Some(value_serde),
            queryable_store,
            view: Rc::new(view),
        }
    }

    /// The repartition that an aggregation stands below. A group with a name has one for all its aggregations.
    fn repartitioned(&self, name: Option<&str>, store: &Arc<str>) -> Repartitioned {
        let suffixed = |suffix: &str| name.map(|name| format!("{name}{suffix}"));
        let sink = self
            .builder
            .node_name(suffixed("-sink").as_deref(), "KSTREAM-SINK-");
        let source = self
            .builder
            .node_name(suffixed("-source").as_deref(), "KSTREAM-SOURCE-");
        let is_named = self.grouped.name.is_some();
        if let Some(shared) = self
            .shared_repartition
            .borrow()
            .as_ref()
            .filter(|_| is_named)
        {
            return shared.clone();
        }
        let base = self.grouped.name.as_deref().unwrap_or(store);
        let topic: Arc<str> = Arc::from(format!("{base}-repartition"));
        self.builder.check(check_name(&topic));
        let node = GraphNode::new(
            &source,
            GraphTraits::default(),
            write_repartition((sink, Arc::clone(&source)), topic, &self.grouped),
        );
        let node = self.builder.add(node, &[self.node]);
        let repartitioned = Repartitioned { node, source };
        self.shared_repartition
            .borrow_mut()
            .replace(repartitioned.clone());
        repartitioned
    }
}

/// Writes the sink and the source of a repartition topic of changes.
fn write_repartition<K: Data, V: Data>(
    (sink, source): (Arc<str>, Arc<str>),
    topic: Arc<str>,
    grouped: &Grouped<K, V>,
) -> impl Fn(&mut Topology, &Written<'_>) -> Result<(), crate::topology::TopologyError> + use<K, V>
{
    let key_serde = Arc::clone(&grouped.key_serde);
    let value_serde: SerdeRef<Change<V>> = change_serde(Arc::clone(&grouped.value_serde));
    move |topology, written| {
        let internal = InternalTopic {
            partitions: None,
            configs: topic_configs(),
        };
        topology.add_internal_topic(&topic, internal);
        let serdes = || (Arc::clone(&key_serde), Arc::clone(&value_serde));
        let (keys, changes) = serdes();
        topology.add_sink_node(
            &sink,
            SinkTopic::Named(Arc::clone(&topic)),
            None,
            Produced::with(keys, changes),
            written.parents,
        )?;
        let (keys, changes) = serdes();
        topology
            .add_source(
                &source,
                SourceTopics::Named(vec![Arc::clone(&topic)]),
                Consumed::with(keys, changes)
                    .with_timestamp_extractor(TimestampExtractor::FailOnInvalidTimestamp),
            )
            .map(|_| ())
    }
}
