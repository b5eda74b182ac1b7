//! Joins of two tables where a value of the left one names a key of the right one.
//!
//! ```text
//!   left table ──> send ──> registration topic, by foreign key ──> receive ──> join foreign ─┐
//!                                                     │ store of subscriptions               │
//!   right table ────────────────────────────────> foreign join ──────────────────────────────┤
//!   result <── resolver <── response topic, by the left key and its partition  <─────────────┘
//! ```
//!
//! A left record subscribes to a foreign key; the right side answers it, now and whenever the right value changes. An
//! answer to a left value that is no longer there is known by its hash, and dropped.

mod messages;
mod receive;
mod resolve;
mod respond;
mod send;
mod table_joined;

use super::{both_parents, same_builder};
use crate::dsl::graph::GraphTraits;
use crate::dsl::repartition::topic_configs;
use crate::dsl::stream::SourceNames;
use crate::dsl::table::{KTable, Kept, SourceView, table_source};
use crate::dsl::table_view::TableGetter;
use crate::dsl::{Builder, GraphNode, Materialized, Nullable, Written};
use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef, nullable};
use crate::state::{KeyValueSupplier, Stores};
use crate::topology::{
    Consumed, InternalTopic, NodeFactory, Produced, SinkTopic, SourceTopics, Topology,
    TopologyError, check_name,
};
use bytes::Bytes;
use messages::{Response, Subscription, response_serde, subscription_serde};
use std::rc::Rc;
use std::sync::Arc;
pub use table_joined::TableJoined;

/// The foreign key of a left record; none when it has none.
type Extractor<K, V, KO> = Arc<dyn Fn(&K, &V) -> Option<KO> + Send + Sync>;

/// The joined value of a left value and a right one; none where that joins to nothing.
type Joiner<V, VO, VR> = Arc<dyn Fn(&V, Option<&VO>) -> Option<VR> + Send + Sync>;

impl<K: Data, V: Data> KTable<K, V> {
    /// The keys of this table whose foreign key, which `extractor` makes of key and value, `other` has, with
    /// the value that `joiner` makes of both values. Where a joiner gives `None` the key has no value; then
    /// the type of the values must be named, as with `map_values`. Both tables need serdes.
    pub fn join_foreign_key<KO, FK, VO, VR, N>(
        &self,
        other: &KTable<KO, VO>,
        extractor: impl Fn(&K, &V) -> FK + Send + Sync + 'static,
        joiner: impl Fn(&V, &VO) -> N + Send + Sync + 'static,
    ) -> KTable<K, VR>
    where
        KO: Data,
        FK: Nullable<KO>,
        VO: Data,
        VR: Data + DefaultSerde,
        N: Nullable<VR>,
    {
        let kept = Materialized::default().with_value_serde(VR::serde());
        self.join_foreign_key_with(other, extractor, joiner, TableJoined::default(), kept)
    }

    /// As `join_foreign_key`, named as `joined` and kept as `materialized` says.
    pub fn join_foreign_key_with<KO, FK, VO, VR, N>(
        &self,
        other: &KTable<KO, VO>,
        extractor: impl Fn(&K, &V) -> FK + Send + Sync + 'static,
        joiner: impl Fn(&V, &VO) -> N + Send + Sync + 'static,
        joined: TableJoined<K, KO>,
        materialized: Materialized<K, VR>,
    ) -> KTable<K, VR>
    where
        KO: Data,
        FK: Nullable<KO>,
        VO: Data,
        VR: Data,
        N: Nullable<VR>,
    {
        let foreign = Foreign {
            is_left: false,
            extractor: Arc::new(move |key: &K, value: &V| extractor(key, value).into_option()),
            joiner: Arc::new(move |left: &V, right: Option<&VO>| {
                joiner(left, right?).into_option()
            }),
        };
        self.joined_by_foreign_key(other, foreign, joined, materialized)
    }

    /// The keys of this table, with the value that `joiner` makes of its value and of the value that `other` has for
    /// the foreign key, which `extractor` makes of key and value, if there is one. Both tables need serdes.
    pub fn left_join_foreign_key<KO, FK, VO, VR, N>(
        &self,
        other: &KTable<KO, VO>,
        extractor: impl Fn(&K, &V) -> FK + Send + Sync + 'static,
        joiner: impl Fn(&V, Option<&VO>) -> N + Send + Sync + 'static,
    ) -> KTable<K, VR>
    where
        KO: Data,
        FK: Nullable<KO>,
        VO: Data,
        VR: Data + DefaultSerde,
        N: Nullable<VR>,
    {
        let kept = Materialized::default().with_value_serde(VR::serde());
        self.left_join_foreign_key_with(other, extractor, joiner, TableJoined::default(), kept)
    }

    /// As `left_join_foreign_key`, named as `joined` and kept as `materialized` says.
    pub fn left_join_foreign_key_with<KO, FK, VO, VR, N>(
        &self,
        other: &KTable<KO, VO>,
        extractor: impl Fn(&K, &V) -> FK + Send + Sync + 'static,
        joiner: impl Fn(&V, Option<&VO>) -> N + Send + Sync + 'static,
        joined: TableJoined<K, KO>,
        materialized: Materialized<K, VR>,
    ) -> KTable<K, VR>
    where
        KO: Data,
        FK: Nullable<KO>,
        VO: Data,
        VR: Data,
        N: Nullable<VR>,
    {
        let foreign = Foreign {
            is_left: true,
            extractor: Arc::new(move |key: &K, value: &V| extractor(key, value).into_option()),
            joiner: Arc::new(move |left: &V, right: Option<&VO>| joiner(left, right).into_option()),
        };
        self.joined_by_foreign_key(other, foreign, joined, materialized)
    }

    fn joined_by_foreign_key<KO: Data, VO: Data, VR: Data>(
        &self,
        other: &KTable<KO, VO>,
        foreign: Foreign<K, V, KO, VO, VR>,
        joined: TableJoined<K, KO>,
        mut materialized: Materialized<K, VR>,
    ) -> KTable<K, VR> {
        other.view.send_old_values(true);
        self.view.send_old_values(true);
        let names = Names::draw(&self.builder, joined.name.as_deref());
        same_builder(&self.builder, &other.builder, &names.result);
        let queryable_store: Option<Arc<str>> = materialized.name.as_deref().map(Arc::from);
        let store = match &queryable_store {
            Some(store) => {
                self.builder.check(check_name(store));
                Arc::clone(store)
            }
            None => self.builder.new_store_name("KTABLE-FK-JOIN-OUTPUT-"),
        };
        let required = |serde: &Option<_>| self.builder.required(&names.result, serde.clone());
        let serdes = Serdes {
            key: required(&self.key_serde),
            value: self
                .builder
                .required(&names.result, self.value_serde.clone()),
            foreign_key: self
                .builder
                .required(&names.result, other.key_serde.clone()),
            foreign_value: self
                .builder
                .required(&names.result, other.value_serde.clone()),
        };
        let key_serde = materialized
            .key_serde
            .get_or_insert_with(|| Arc::clone(&serdes.key))
            .clone();
        let value_serde = materialized.value_serde.clone();
        let kept = Kept::new(&store, materialized, queryable_store.is_some());
        let view = SourceView(kept.clone());
        let mut sources = (*self.sources).clone();
        sources.insert(Arc::clone(&names.response_source));
        let sources: SourceNames = Arc::new(sources);
        let name = Arc::clone(&names.result);
        let written = ForeignKeyJoin {
            result: table_source::<K, Option<VR>, K, VR>(
                &kept.store,
                (Some(Arc::clone(&key_serde)), value_serde.clone()),
            ),
            factories: Factories::new(&names, &serdes, foreign, (self, other)),
            getters: (self.view.getter(), other.view.getter()),
            sources: (Arc::clone(&sources), Arc::clone(&other.sources)),
            names,
            serdes,
            kept,
            joined,
        };
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, graph: &Written<'_>| written.write(topology, graph),
        );
        KTable {
            builder: self.builder.clone(),
            name,
            node: self.builder.add(node, &[self.node, other.node]),
            sources,
            key_serde: Some(key_serde),
            value_serde,
            queryable_store,
            view: Rc::new(view),
        }
    }
}

/// What the application says of a join.
struct Foreign<K, V, KO, VO, VR> {
    is_left: bool,
    extractor: Extractor<K, V, KO>,
    joiner: Joiner<V, VO, VR>,
}

struct Serdes<K, V, KO, VO> {
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    foreign_key: SerdeRef<KO>,
    foreign_value: SerdeRef<VO>,
}

/// The names of the join's nodes, topics and store.
struct Names {
    registration_topic: Arc<str>,
    send: Arc<str>,
    registration_sink: Arc<str>,
    registration_source: Arc<str>,
    store: Arc<str>,
    receive: Arc<str>,
    join_foreign: Arc<str>,
    foreign_join: Arc<str>,
    response_topic: Arc<str>,
    response_sink: Arc<str>,
    response_source: Arc<str>,
    resolver: Arc<str>,
    result: Arc<str>,
}

impl Names {
    fn draw(builder: &Builder, name: Option<&str>) -> Self {
        let next = |suffix: &str, prefix: &str| {
            let name = name.map(|name| format!("{name}{suffix}"));
            builder.node_name(name.as_deref(), prefix)
        };
        let topic = |suffix: &str, prefix: &str| -> Arc<str> {
            Arc::from(format!("{}-topic", next(suffix, prefix)))
        };
        const REGISTRATION: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-";
        const PROCESSOR: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-";
        Self {
            registration_topic: topic("-subscription-registration", REGISTRATION),
            send: next("-subscription-registration-processor", REGISTRATION),
            registration_sink: next("-subscription-registration-sink", "KTABLE-SINK-"),
            registration_source: next("-subscription-registration-source", "KTABLE-SOURCE-"),
            store: next(
                "-subscription-store",
                "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-",
            ),
            receive: next("-subscription-receive", PROCESSOR),
            join_foreign: next("-subscription-join-foreign", PROCESSOR),
            foreign_join: next("-foreign-join-subscription", PROCESSOR),
            response_topic: topic(
                "-subscription-response",
                "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-",
            ),
            response_sink: next("-subscription-response-sink", "KTABLE-SINK-"),
            response_source: next("-subscription-response-source", "KTABLE-SOURCE-"),
            resolver: next(
                "-subscription-response-resolver",
                "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-",
            ),
            result: next("-result", "KTABLE-FK-JOIN-OUTPUT-"),
        }
    }
}

/// What makes the nodes of the join.
struct Factories {
    send: NodeFactory,
    receive: NodeFactory,
    join_foreign: NodeFactory,
    foreign_join: NodeFactory,
    resolver: NodeFactory,
}

impl Factories {
    fn new<K: Data, V: Data, KO: Data, VO: Data, VR: Data>(
        names: &Names,
        serdes: &Serdes<K, V, KO, VO>,
        foreign: Foreign<K, V, KO, VO, VR>,
        (left, right): (&KTable<K, V>, &KTable<KO, VO>),
    ) -> Self {
        let key = Arc::clone(&serdes.key);
        let value = Arc::clone(&serdes.value);
        let foreign_key = Arc::clone(&serdes.foreign_key);
        let registration = &names.registration_topic;
        let left_getter = left.view.getter();
        let right_getter = right.view.getter();
        let send = send::Send {
            extractor: foreign.extractor,
            is_left: foreign.is_left,
            is_versioned: left.view.is_versioned(),
            value_serde: Arc::clone(&value),
            foreign_key_serde: Arc::clone(&foreign_key),
            topic: Arc::clone(registration),
        };
        let subscriptions = receive::Subscriptions {
            store: Arc::clone(&names.store),
            key_serde: key,
            foreign_key_serde: foreign_key,
            topic: Arc::clone(registration),
        };
        let resolve = resolve::Resolve {
            getter: left_getter.make,
            value_serde: value,
            topic: Arc::clone(registration),
            joiner: foreign.joiner,
        };
        Self {
            send: send.factory(),
            receive: receive::factory(subscriptions.clone()),
            join_foreign: respond::join_foreign::<K, KO, VO>(right_getter.make),
            foreign_join: respond::foreign_join::<K, KO, VO>(
                subscriptions,
                right.view.is_versioned(),
            ),
            resolver: resolve.factory(),
        }
    }
}

/// A foreign-key join that is about to be written.
struct ForeignKeyJoin<K, V, KO, VO, VR> {
    names: Names,
    serdes: Serdes<K, V, KO, VO>,
    factories: Factories,
    result: NodeFactory,
    getters: (TableGetter<K, V>, TableGetter<KO, VO>),
    /// Of the result, and of the right table.
    sources: (SourceNames, SourceNames),
    kept: Kept<K, VR>,
    joined: TableJoined<K, KO>,
}

impl<K: Data, V: Data, KO: Data, VO: Data, VR: Data> ForeignKeyJoin<K, V, KO, VO, VR> {
    fn write(&self, topology: &mut Topology, written: &Written<'_>) -> Result<(), TopologyError> {
        let (left, right) = both_parents(written);
        self.write_registration(topology, left)?;
        self.write_responses(topology, written, right)?;
        self.write_result(topology, written)
    }

    /// From the left table to the source of the registration topic.
    fn write_registration(
        &self,
        topology: &mut Topology,
        left: &Arc<str>,
    ) -> Result<(), TopologyError> {
        let (names, factories) = (&self.names, &self.factories);
        let keys: SerdeRef<Option<KO>> = nullable(Arc::clone(&self.serdes.foreign_key));
        let values: SerdeRef<Subscription<K>> = subscription_serde(Arc::clone(&self.serdes.key));
        let send = Arc::clone(&factories.send);
        let send = topology.add_processor_node(&names.send, &[Arc::clone(left)], send)?;
        let mut produced = Produced::with(Arc::clone(&keys), Arc::clone(&values));
        produced.partitioner = self.joined.of_subscriptions();
        add_topic(
            topology,
            (&names.registration_sink, &names.registration_source),
            &names.registration_topic,
            (produced, &[send]),
            Consumed::with(keys, values),
        )?;
        let copartitioned = copartitioned(&self.sources.1, &names.registration_source);
        topology.copartition(&copartitioned)
    }

    /// From the registration topic and the right table to the source of the response topic.
    fn write_responses(
        &self,
        topology: &mut Topology,
        written: &Written<'_>,
        right: &Arc<str>,
    ) -> Result<(), TopologyError> {
        let (names, factories) = (&self.names, &self.factories);
        let parents = [Arc::clone(&names.registration_source)];
        let receive = Arc::clone(&factories.receive);
        let receive = topology.add_processor_node(&names.receive, &parents, receive)?;
        let factory = Arc::clone(&factories.join_foreign);
        let join_foreign = topology.add_processor_node(&names.join_foreign, &[receive], factory)?;
        let factory = Arc::clone(&factories.foreign_join);
        let parents = [Arc::clone(right)];
        let foreign_join = topology.add_processor_node(&names.foreign_join, &parents, factory)?;
        let supplier = KeyValueSupplier::new(
            &names.store,
            written.stores.store_type,
            written.stores.format,
        );
        let store =
            Stores::timestamped_key_value_store_builder(supplier, Bytes::serde(), Bytes::serde());
        topology.add_state_store(
            Arc::new(store.logging_record_headers()),
            &[&names.receive, &names.foreign_join],
        )?;
        for store in &self.getters.1.stores {
            topology.connect(&names.join_foreign, store)?;
        }
        let keys = Arc::clone(&self.serdes.key);
        let values: SerdeRef<Response<VO>> = response_serde(Arc::clone(&self.serdes.foreign_value));
        let produced = Produced::with(Arc::clone(&keys), Arc::clone(&values))
            .with_stream_partitioner(self.joined.of_responses());
        add_topic(
            topology,
            (&names.response_sink, &names.response_source),
            &names.response_topic,
            (produced, &[join_foreign, foreign_join]),
            Consumed::with(keys, values),
        )
    }

    /// From the response topic to the result.
    fn write_result(
        &self,
        topology: &mut Topology,
        written: &Written<'_>,
    ) -> Result<(), TopologyError> {
        let names = &self.names;
        let parents = [Arc::clone(&names.response_source)];
        let resolver = Arc::clone(&self.factories.resolver);
        let resolver = topology.add_processor_node(&names.resolver, &parents, resolver)?;
        for store in &self.getters.0.stores {
            topology.connect(&names.resolver, store)?;
        }
        topology.add_processor_node(&names.result, &[resolver], Arc::clone(&self.result))?;
        let sources: Vec<Arc<str>> = self.sources.0.iter().cloned().collect();
        topology.copartition(&sources)?;
        self.kept.write(topology, written, &names.result)
    }
}

fn copartitioned(sources: &SourceNames, source: &Arc<str>) -> Vec<Arc<str>> {
    let mut sources: Vec<Arc<str>> = sources.iter().cloned().collect();
    sources.push(Arc::clone(source));
    sources
}

/// Adds a topic of the application's own: the sink that writes it, and the source that reads it.
fn add_topic<K: Data, V: Data>(
    topology: &mut Topology,
    (sink, source): (&str, &str),
    topic: &Arc<str>,
    (produced, parents): (Produced<K, V>, &[Arc<str>]),
    consumed: Consumed<K, V>,
) -> Result<(), TopologyError> {
    let internal = InternalTopic {
        partitions: None,
        configs: topic_configs(),
    };
    topology.add_internal_topic(topic, internal);
    topology.add_sink_node(
        sink,
        SinkTopic::Named(Arc::clone(topic)),
        None,
        produced,
        parents,
    )?;
    topology
        .add_source(
            source,
            SourceTopics::Named(vec![Arc::clone(topic)]),
            consumed,
        )
        .map(|_| ())
}
