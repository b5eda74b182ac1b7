//! Joins of two streams: records of one key that are not too far apart in time.
//!
//! ```text
//!   this  ── [repartition] ── windowed ──> join ──┐
//!                             fills its store     ├──> merge
//!   other ── [repartition] ── windowed ──> join ──┘
//!                each join looks into the other side's store
//! ```
//!
//! In a left or outer join both also share a store of records that have found no partner yet. A stream that is joined
//! with itself needs no second store, if the application wants that (`single.store.self.join`).

mod join_node;
mod self_join;
mod waiting;
mod window_node;

use super::graph::{GraphTraits, WriteNode};
use super::stores::MakeStore;
use super::stream::SourceNames;
use super::stream_joined::StreamJoined;
use super::{Builder, GraphNode, JoinWindows, KStream, Written};
use crate::processor::{Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::outer_join::JoinSerdes;
use crate::topology::{NodeFactory, Topology, TopologyError, check_name, stateless_factory};
use join_node::{JoiningSide, LeftSide, RightSide};
use self_join::{SelfJoin, of_one_type};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use waiting::unmatched_store;
use window_node::window_node_factory;

/// The result of a key and the values of both sides, if the join has one of what there is.
pub(super) type JoinFunction<K, V1, V2, VR> =
    Arc<dyn Fn(&K, Option<&V1>, Option<&V2>) -> Option<VR> + Send + Sync>;

/// What a join makes of records without a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Outer,
}

/// The names of a join's nodes and stores.
struct JoinNames {
    this_windowed: Arc<str>,
    other_windowed: Arc<str>,
    this_join: Arc<str>,
    other_join: Arc<str>,
    merge: Arc<str>,
    this_store: Arc<str>,
    other_store: Arc<str>,
    /// None in an inner join.
    unmatched_store: Option<Arc<str>>,
}

impl<K: Data, V: Data> KStream<K, V> {
    /// The result of each record of this stream with each one of `other` that has its key and is within `windows` of
    /// it.
    pub fn join<V2: Data + DefaultSerde, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&V, &V2) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
    ) -> KStream<K, VR>
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.join_with(other, joiner, windows, StreamJoined::default())
    }

    /// As `join`, with these serdes, names and stores.
    pub fn join_with<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&V, &V2) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let joiner = move |_: &K, value: &V, other: &V2| joiner(value, other);
        self.join_with_key(other, joiner, windows, joined)
    }

    /// As `join_with`; the result is made of the key too.
    pub fn join_with_key<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&K, &V, &V2) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let function =
            move |key: &K, value: Option<&V>, other: Option<&V2>| Some(joiner(key, value?, other?));
        self.joined(
            other,
            Arc::new(function),
            (windows, JoinKind::Inner),
            joined,
        )
    }

    /// As `join`, and a result without a partner for each record of this stream that has none when its window closes.
    pub fn left_join<V2: Data + DefaultSerde, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&V, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
    ) -> KStream<K, VR>
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.left_join_with(other, joiner, windows, StreamJoined::default())
    }

    /// As `left_join`, with these serdes, names and stores.
    pub fn left_join_with<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&V, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let joiner = move |_: &K, value: &V, other: Option<&V2>| joiner(value, other);
        self.left_join_with_key(other, joiner, windows, joined)
    }

    /// As `left_join_with`; the result is made of the key too.
    pub fn left_join_with_key<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&K, &V, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let function =
            move |key: &K, value: Option<&V>, other: Option<&V2>| Some(joiner(key, value?, other));
        self.joined(other, Arc::new(function), (windows, JoinKind::Left), joined)
    }

    /// As `left_join`, and a result for each record of `other` that has no partner when its window closes.
    pub fn outer_join<V2: Data + DefaultSerde, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(Option<&V>, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
    ) -> KStream<K, VR>
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.outer_join_with(other, joiner, windows, StreamJoined::default())
    }

    /// As `outer_join`, with these serdes, names and stores.
    pub fn outer_join_with<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(Option<&V>, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let joiner = move |_: &K, value: Option<&V>, other: Option<&V2>| joiner(value, other);
        self.outer_join_with_key(other, joiner, windows, joined)
    }

    /// As `outer_join_with`; the result is made of the key too.
    pub fn outer_join_with_key<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        joiner: impl Fn(&K, Option<&V>, Option<&V2>) -> VR + Send + Sync + 'static,
        windows: JoinWindows,
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let function =
            move |key: &K, value: Option<&V>, other: Option<&V2>| Some(joiner(key, value, other));
        self.joined(
            other,
            Arc::new(function),
            (windows, JoinKind::Outer),
            joined,
        )
    }

    fn joined<V2: Data, VR: Data>(
        &self,
        other: &KStream<K, V2>,
        function: JoinFunction<K, V, V2, VR>,
        (windows, kind): (JoinWindows, JoinKind),
        joined: StreamJoined<K, V, V2>,
    ) -> KStream<K, VR> {
        let builder = &self.builder;
        let operator = joined.name.as_deref().unwrap_or(&self.name);
        if !builder.is(&other.builder) {
            builder.check::<()>(Err(TopologyError::OtherBuilder {
                operator: operator.to_owned(),
            }));
        }
        builder.check(windows.check(operator));
        joined.stores.check(builder, operator, &windows);
        let of_streams = self.key_serde.clone().or_else(|| other.key_serde.clone());
        let key_serde = builder.required(operator, joined.key_serde(of_streams));
        let left_serde = builder.required(operator, joined.value_serde(self.value_serde.clone()));
        let of_right = joined.other_value_serde(other.value_serde.clone());
        let right_serde = builder.required(operator, of_right);
        let suffixed = |suffix: &str| {
            let name = joined.name.as_ref();
            name.map(|name| format!("{name}{suffix}"))
        };
        let serdes = (Arc::clone(&key_serde), Arc::clone(&left_serde));
        let left = self.repartitioned_for_join(suffixed("-left"), serdes);
        let serdes = (Arc::clone(&key_serde), Arc::clone(&right_serde));
        let right = other.repartitioned_for_join(suffixed("-right"), serdes);
        let names = JoinNames::new(builder, kind, &joined);
        let this_window = names.window(&names.this_windowed, &names.this_store, &key_serde);
        let this_window = builder.add(window_graph_node::<K, V>(this_window), &[left.node]);
        let other_window = names.window(&names.other_windowed, &names.other_store, &key_serde);
        let other_window = builder.add(window_graph_node::<K, V2>(other_window), &[right.node]);
        let sources: BTreeSet<Arc<str>> = left.sources.union(&right.sources).cloned().collect();
        let join = Join {
            kind,
            windows,
            key_serde: Arc::clone(&key_serde),
            left_serde,
            right_serde,
            function,
        };
        let graph_node = join.into_graph_node(names, &joined, Arc::new(sources.clone()));
        let name = Arc::clone(&graph_node.name);
        let node = builder.add(graph_node, &[this_window, other_window]);
        KStream::new(builder, &name, node, sources, (Some(key_serde), None))
    }
}

impl JoinNames {
    fn new<K, V1, V2>(builder: &Builder, kind: JoinKind, joined: &StreamJoined<K, V1, V2>) -> Self {
        let is_outer = kind == JoinKind::Outer;
        let (this_prefix, this_suffix) = match is_outer {
            true => ("KSTREAM-OUTERTHIS-", "-outer-this-join"),
            false => ("KSTREAM-JOINTHIS-", "-this-join"),
        };
        let (other_prefix, other_suffix) = match kind {
            JoinKind::Inner => ("KSTREAM-JOINOTHER-", "-other-join"),
            _ => ("KSTREAM-OUTEROTHER-", "-outer-other-join"),
        };
        let node_name = |suffix: &str, generated: &Arc<str>| match &joined.name {
            Some(name) => checked(builder, format!("{name}{suffix}")),
            None => Arc::clone(generated),
        };
        let store_name = |suffix: &str, generated: &str| match &joined.store_name {
            Some(name) => checked(builder, format!("{name}{suffix}-store")),
            None => checked(builder, format!("{generated}-store")),
        };
        let this_windowed = builder.new_name("KSTREAM-WINDOWED-");
        let other_windowed = builder.new_name("KSTREAM-WINDOWED-");
        let this_join = builder.new_name(this_prefix);
        let other_join = builder.new_name(other_prefix);
        let merge = builder.new_name("KSTREAM-MERGE-");
        let shared_suffix = match is_outer {
            true => "-outer-shared-join",
            false => "-left-shared-join",
        };
        let index = this_join.trim_start_matches(this_prefix);
        let shared = format!("KSTREAM-OUTERSHARED-{index}");
        let supplied = |supplier: &Option<crate::state::WindowSupplier>| {
            supplier.as_ref().map(|supplier| Arc::clone(&supplier.name))
        };
        Self {
            this_store: supplied(&joined.stores.this)
                .unwrap_or_else(|| store_name(this_suffix, &this_join)),
            other_store: supplied(&joined.stores.other)
                .unwrap_or_else(|| store_name(other_suffix, &other_join)),
            unmatched_store: (kind != JoinKind::Inner).then(|| match &joined.stores.this {
                // As in Kafka Streams, a supplied store gives it the name, whatever the stores are called.
                Some(supplier) => {
                    checked(builder, format!("{}{shared_suffix}-store", supplier.name))
                }
                None => store_name(shared_suffix, &shared),
            }),
            this_windowed: node_name("-this-windowed", &this_windowed),
            other_windowed: node_name("-other-windowed", &other_windowed),
            this_join: node_name(this_suffix, &this_join),
            other_join: node_name(other_suffix, &other_join),
            merge: node_name("-merge", &merge),
        }
    }

    fn window<K>(&self, node: &Arc<str>, store: &Arc<str>, key_serde: &SerdeRef<K>) -> Window<K> {
        Window {
            node: Arc::clone(node),
            store: Arc::clone(store),
            key_serde: Arc::clone(key_serde),
        }
    }
}

fn checked(builder: &Builder, name: String) -> Arc<str> {
    builder.check(check_name(&name));
    Arc::from(name)
}

/// The node that fills a store of one side.
struct Window<K> {
    node: Arc<str>,
    store: Arc<str>,
    key_serde: SerdeRef<K>,
}

fn window_graph_node<K: Data, V: Data>(window: Window<K>) -> GraphNode {
    let factory = window_node_factory::<K, V>(&window.store, &window.key_serde);
    let name = Arc::clone(&window.node);
    GraphNode::new(
        &name,
        GraphTraits::default(),
        move |topology: &mut Topology, written: &Written<'_>| {
            topology
                .add_processor_node(&window.node, written.parents, Arc::clone(&factory))
                .map(|_| ())
        },
    )
}

/// The two joining nodes and the one that brings their results together.
struct Join<K, V1, V2, VR> {
    kind: JoinKind,
    windows: JoinWindows,
    key_serde: SerdeRef<K>,
    left_serde: SerdeRef<V1>,
    right_serde: SerdeRef<V2>,
    function: JoinFunction<K, V1, V2, VR>,
}

/// The stores of a join and who uses them.
struct Stores {
    this: MakeStore,
    other: MakeStore,
    unmatched: Option<MakeStore>,
}

impl<K: Data, V1: Data, V2: Data, VR: Data> Join<K, V1, V2, VR> {
    fn into_graph_node(
        self,
        names: JoinNames,
        joined: &StreamJoined<K, V1, V2>,
        sources: SourceNames,
    ) -> GraphNode {
        let traits = GraphTraits {
            takes_null_keys: self.kind != JoinKind::Inner,
            ..GraphTraits::default()
        };
        let stores = self.stores(&names, joined);
        let this_factory = self.left_factory(&names);
        let other_factory = self.right_factory(&names);
        let merge_factory = stateless_factory(
            |context: &mut TaskContext, record: Record<K, VR>, outputs: &Outputs<K, VR>| {
                outputs.forward(context, record)
            },
        );
        let of_itself = self.self_join(&names, &stores);
        let name = Arc::clone(&names.merge);
        let node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                let [this_windowed, other_windowed] = written.parents else {
                    unreachable!("a join stands below both of its windowed nodes");
                };
                let join = |topology: &mut Topology, name, parent: &Arc<str>, factory| {
                    topology.add_processor_node(name, std::slice::from_ref(parent), factory)
                };
                let this = join(
                    topology,
                    &names.this_join,
                    this_windowed,
                    Arc::clone(&this_factory),
                )?;
                let other = join(
                    topology,
                    &names.other_join,
                    other_windowed,
                    Arc::clone(&other_factory),
                )?;
                let parents = [Arc::clone(&this), Arc::clone(&other)];
                topology.add_processor_node(&names.merge, &parents, Arc::clone(&merge_factory))?;
                let store = (stores.this)(written.stores);
                topology.add_state_store(store, &[this_windowed, &other])?;
                let store = (stores.other)(written.stores);
                topology.add_state_store(store, &[other_windowed, &this])?;
                if let Some(unmatched) = &stores.unmatched {
                    topology.add_state_store(unmatched(written.stores), &[&this, &other])?;
                }
                let sources: Vec<Arc<str>> = sources.iter().cloned().collect();
                topology.copartition(&sources)
            },
        );
        match of_itself {
            Some(write) => node.with_self_join(write),
            None => node,
        }
    }

    /// How the join is written if both sides are one stream.
    fn self_join(&self, names: &JoinNames, stores: &Stores) -> Option<WriteNode> {
        let factory = SelfJoin {
            store: Arc::clone(&names.this_store),
            windows: self.windows,
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.left_serde),
            function: of_one_type(&self.function)?,
        }
        .factory();
        let (name, make_store) = (Arc::clone(&names.merge), Arc::clone(&stores.this));
        Some(Rc::new(move |topology, written| {
            let [windowed] = written.parents else {
                unreachable!("a join of a stream with itself stands below one windowed node");
            };
            topology.add_processor_node(&name, written.parents, Arc::clone(&factory))?;
            topology.add_state_store(make_store(written.stores), &[windowed, &name])
        }))
    }

    fn stores(&self, names: &JoinNames, joined: &StreamJoined<K, V1, V2>) -> Stores {
        let key_serde = || Arc::clone(&self.key_serde);
        let stores = &joined.stores;
        let unmatched = names.unmatched_store.as_ref().map(|name| {
            let values = (Arc::clone(&self.left_serde), Arc::clone(&self.right_serde));
            let serdes = JoinSerdes {
                key: key_serde(),
                left: values.0,
                right: values.1,
            };
            unmatched_store(name, stores, serdes)
        });
        Stores {
            this: stores.window_store(
                stores.this.as_ref(),
                &names.this_store,
                &self.windows,
                (key_serde(), Arc::clone(&self.left_serde)),
            ),
            other: stores.window_store(
                stores.other.as_ref(),
                &names.other_store,
                &self.windows,
                (key_serde(), Arc::clone(&self.right_serde)),
            ),
            unmatched,
        }
    }

    fn left_factory(&self, names: &JoinNames) -> NodeFactory {
        JoiningSide::<LeftSide, K, V1, V2, VR> {
            other_store: Arc::clone(&names.other_store),
            unmatched_store: names.unmatched_store.clone(),
            is_outer: self.kind != JoinKind::Inner,
            other_is_outer: self.kind == JoinKind::Outer,
            windows: self.windows,
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.left_serde),
            function: Arc::clone(&self.function),
        }
        .factory()
    }

    fn right_factory(&self, names: &JoinNames) -> NodeFactory {
        JoiningSide::<RightSide, K, V1, V2, VR> {
            other_store: Arc::clone(&names.this_store),
            unmatched_store: names.unmatched_store.clone(),
            is_outer: self.kind == JoinKind::Outer,
            other_is_outer: self.kind != JoinKind::Inner,
            windows: self.windows,
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.right_serde),
            function: Arc::clone(&self.function),
        }
        .factory()
    }
}
