//! `CogroupedKStream`: several groups of records that make one aggregate of each key (KIP-150).
//!
//! ```text
//!   group ── [repartition] ── aggregate ──┐
//!                                 store   ├──> merge
//!   group ── [repartition] ── aggregate ──┘
//! ```

use super::aggregate::{
    Aggregation, Merger, SessionAggregate, SessionView, SlidingAggregate, StoreView,
    StreamAggregate, WindowedAggregate, WindowedView, WindowsOf,
};
use super::graph::GraphTraits;
use super::grouped::{Repartitioned, Windows};
use super::materialized::TableOf;
use super::stores::{MakeStore, key_value_store, session_store, window_store};
use super::stream::SourceNames;
use super::table::KeptStore;
use super::table_view::{TableSwitches, TableView};
use super::{
    Builder, EmitStrategy, GraphNode, GraphNodeId, KGroupedStream, KTable, Materialized,
    SessionWindows, SlidingWindows, TableSettings, TimeWindows, UnlimitedWindows, Written,
};
use crate::processor::{Outputs, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::{DefaultSerde, SerdeRef, Windowed, session_windowed, time_windowed};
use crate::state::TimeFirst;
use crate::topology::{NodeFactory, Topology, check_name, stateless_factory};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

const PREFIX: &str = "COGROUPKSTREAM-AGGREGATE-";

type AggregateFunction<K, V, A> = Arc<dyn Fn(&K, &V, A) -> A + Send + Sync>;
type Initializer<A> = Arc<dyn Fn() -> A + Send + Sync>;

/// Groups of records that make one aggregate of each key.
pub struct CogroupedKStream<K, A> {
    builder: Builder,
    key_serde: SerdeRef<K>,
    members: Vec<Rc<dyn Member<K, A>>>,
}

impl<K, A> Clone for CogroupedKStream<K, A> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            key_serde: Arc::clone(&self.key_serde),
            members: self.members.clone(),
        }
    }
}

impl<K, A> fmt::Debug for CogroupedKStream<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CogroupedKStream")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

/// The repartition of a group; none before the first aggregation, and where none is needed.
type SharedRepartition = Rc<Cell<Option<Repartitioned>>>;

/// One group, whatever the type of its values.
trait Member<K, A> {
    /// That of the group.
    fn identity(&self) -> *const ();

    /// The sources of the group, above its repartition.
    fn sources(&self) -> SourceNames;

    /// The repartition that all aggregations have.
    fn repartition(&self) -> SharedRepartition;

    fn repartitioned(&self, store: &Arc<str>) -> (GraphNodeId, SourceNames);

    fn factory(&self, kept: &Kept<K, A>) -> NodeFactory;
}

/// What all groups of an aggregation share.
struct Kept<K, A> {
    store: Arc<str>,
    aggregate_serde: SerdeRef<A>,
    switches: Arc<TableSwitches>,
    initializer: Initializer<A>,
    spans: Spans<K, A>,
}

/// The spans of time that an aggregate is of.
enum Spans<K, A> {
    All(KeptStore),
    Windows(Windows),
    Sessions(SessionWindows, Merger<K, A>),
}

struct Group<K, V, A> {
    group: KGroupedStream<K, V>,
    aggregator: AggregateFunction<K, V, A>,
    repartition: SharedRepartition,
}

impl<K: Data, V: Data, A: Data> Member<K, A> for Group<K, V, A> {
    fn identity(&self) -> *const () {
        self.group.identity()
    }

    fn sources(&self) -> SourceNames {
        Arc::clone(&self.group.sources)
    }

    fn repartition(&self) -> SharedRepartition {
        Rc::clone(&self.repartition)
    }

    fn repartitioned(&self, store: &Arc<str>) -> (GraphNodeId, SourceNames) {
        self.group.repartitioned_once(store, &self.repartition)
    }

    fn factory(&self, kept: &Kept<K, A>) -> NodeFactory {
        let (aggregator, initializer) =
            (Arc::clone(&self.aggregator), Arc::clone(&kept.initializer));
        let aggregation = Aggregation::new(
            move || initializer(),
            move |key: &K, value: V, aggregate: A| aggregator(key, &value, aggregate),
        );
        let store = Arc::clone(&kept.store);
        let key_serde = Arc::clone(&self.group.key_serde);
        let aggregate_serde = Arc::clone(&kept.aggregate_serde);
        let switches = Arc::clone(&kept.switches);
        match &kept.spans {
            Spans::All(store) => StreamAggregate {
                store: store.clone(),
                key_serde,
                value_serde: Arc::clone(&self.group.value_serde),
                aggregate_serde,
                aggregation,
            }
            .factory(),
            Spans::Windows(Windows::Aligned(windows)) => WindowedAggregate {
                store,
                windows: *windows,
                key_serde,
                aggregate_serde,
                switches,
                aggregation,
                strategy: EmitStrategy::on_window_update(),
            }
            .factory(),
            Spans::Windows(Windows::Sliding(windows)) => SlidingAggregate {
                store,
                windows: *windows,
                key_serde,
                value_serde: Arc::clone(&self.group.value_serde),
                aggregate_serde,
                switches,
                aggregation,
                strategy: EmitStrategy::on_window_update(),
            }
            .factory(),
            Spans::Sessions(windows, merger) => SessionAggregate {
                store,
                windows: *windows,
                key_serde,
                aggregate_serde,
                switches,
                aggregation,
                merger: merger.clone(),
                strategy: EmitStrategy::on_window_update(),
            }
            .factory(),
        }
    }
}

impl<K: Data, V: Data> KGroupedStream<K, V> {
    /// An aggregate that other groups take part in too: `aggregator` makes the next of key, value and the one before.
    pub fn cogroup<A: Data>(
        &self,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
    ) -> CogroupedKStream<K, A> {
        let empty = CogroupedKStream {
            builder: self.builder.clone(),
            key_serde: Arc::clone(&self.key_serde),
            members: Vec::new(),
        };
        empty.cogroup(self, aggregator)
    }
}

impl<K: Data, A: Data> CogroupedKStream<K, A> {
    /// Another group takes part, by an aggregator of its own. One that takes part already gets another aggregator.
    #[must_use]
    pub fn cogroup<V: Data>(
        mut self,
        group: &KGroupedStream<K, V>,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
    ) -> Self {
        let identity = group.identity();
        let mut members = self.members.iter();
        let index = members.position(|member| member.identity() == identity);
        let member = Rc::new(Group {
            group: group.clone(),
            aggregator: Arc::new(aggregator),
            repartition: index.map_or_else(Rc::default, |index| self.members[index].repartition()),
        });
        match index {
            Some(index) => self.members[index] = member,
            None => self.members.push(member),
        }
        self
    }

    /// The aggregate of each key, the first of which `initializer` makes.
    pub fn aggregate(&self, initializer: impl Fn() -> A + Send + Sync + 'static) -> KTable<K, A>
    where
        A: DefaultSerde,
    {
        self.aggregate_with(
            initializer,
            Materialized::default().with_value_serde(A::serde()),
        )
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<K, A> {
        let cogroup = Cogroup::new(self, settings.into(), TableOf::Keys);
        let make_store = key_value_store(
            &cogroup.store,
            &cogroup.materialized,
            &cogroup.key_serde,
            &cogroup.aggregate_serde,
        );
        let kept = KeptStore::of_table(&cogroup.store, &cogroup.materialized);
        let view = StoreView(kept.clone());
        let key_serde = Arc::clone(&cogroup.key_serde);
        cogroup.table(
            Arc::new(initializer),
            Spans::All(kept),
            make_store,
            (key_serde, Rc::new(view)),
        )
    }

    /// The records by windows that follow one another, or overlap.
    pub fn windowed_by(&self, windows: TimeWindows) -> TimeWindowedCogroupedKStream<K, A> {
        self.builder.check(windows.check("windows after cogroup"));
        self.windowed(Windows::Aligned(WindowsOf::Time(windows)))
    }

    /// The records by windows that slide with them.
    pub fn windowed_by_sliding(
        &self,
        windows: SlidingWindows,
    ) -> TimeWindowedCogroupedKStream<K, A> {
        self.builder.check(windows.check("windows after cogroup"));
        self.windowed(Windows::Sliding(windows))
    }

    /// The records in one window without an end.
    pub fn windowed_by_unlimited(
        &self,
        windows: UnlimitedWindows,
    ) -> TimeWindowedCogroupedKStream<K, A> {
        self.windowed(Windows::Aligned(WindowsOf::Unlimited(windows)))
    }

    fn windowed(&self, windows: Windows) -> TimeWindowedCogroupedKStream<K, A> {
        TimeWindowedCogroupedKStream {
            cogrouped: self.clone(),
            windows,
        }
    }

    /// The records by sessions: spans with gaps of at most the inactivity gap.
    pub fn windowed_by_sessions(
        &self,
        windows: SessionWindows,
    ) -> SessionWindowedCogroupedKStream<K, A> {
        self.builder.check(windows.check("windows after cogroup"));
        SessionWindowedCogroupedKStream {
            cogrouped: self.clone(),
            windows,
        }
    }
}

/// Groups of records that make one aggregate of each key and window of time.
pub struct TimeWindowedCogroupedKStream<K, A> {
    cogrouped: CogroupedKStream<K, A>,
    windows: Windows,
}

impl<K, A> fmt::Debug for TimeWindowedCogroupedKStream<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeWindowedCogroupedKStream")
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

impl<K: Data, A: Data> TimeWindowedCogroupedKStream<K, A> {
    /// The aggregate of each key and window, the first of which `initializer` makes.
    pub fn aggregate(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
    ) -> KTable<Windowed<K>, A>
    where
        A: DefaultSerde,
    {
        self.aggregate_with(
            initializer,
            Materialized::default().with_value_serde(A::serde()),
        )
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<Windowed<K>, A> {
        let cogroup = Cogroup::new(&self.cogrouped, settings.into(), TableOf::Windows);
        let windows = self.windows;
        let retention_ms = cogroup.materialized.retention_ms;
        let builder = cogroup.builder.clone();
        builder.check(windows.check_retention(&cogroup.store, retention_ms));
        let make_store = window_store(
            &cogroup.store,
            &cogroup.materialized,
            &cogroup.key_serde,
            &cogroup.aggregate_serde,
            (windows.size_ms(), windows.retention_ms(), TimeFirst::No),
        );
        let view = WindowedView::new(&cogroup.store, Arc::clone(&cogroup.switches));
        let key_serde = time_windowed(Arc::clone(&cogroup.key_serde), windows.size_ms());
        let table = cogroup.table(
            Arc::new(initializer),
            Spans::Windows(windows),
            make_store,
            (key_serde, Rc::new(view)),
        );
        builder.set_window_grace_ms(table.node, windows.grace_ms());
        table
    }
}

/// Groups of records that make one aggregate of each key and session.
pub struct SessionWindowedCogroupedKStream<K, A> {
    cogrouped: CogroupedKStream<K, A>,
    windows: SessionWindows,
}

impl<K, A> fmt::Debug for SessionWindowedCogroupedKStream<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionWindowedCogroupedKStream")
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

impl<K: Data, A: Data> SessionWindowedCogroupedKStream<K, A> {
    /// The aggregate of each key and session, the first of which `initializer` makes; `merger` makes one of two
    /// sessions that a record connects.
    pub fn aggregate(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
    ) -> KTable<Windowed<K>, A>
    where
        A: DefaultSerde,
    {
        let materialized = Materialized::default().with_value_serde(A::serde());
        self.aggregate_with(initializer, merger, materialized)
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<Windowed<K>, A> {
        let cogroup = Cogroup::new(&self.cogrouped, settings.into(), TableOf::Sessions);
        let builder = cogroup.builder.clone();
        let retention_ms = self.windows.gap_ms.saturating_add(self.windows.grace_ms);
        let make_store = session_store(
            &cogroup.store,
            &cogroup.materialized,
            &cogroup.key_serde,
            &cogroup.aggregate_serde,
            (retention_ms, EmitStrategy::on_window_update()),
        );
        let view = SessionView::new(&cogroup.store, Arc::clone(&cogroup.switches));
        let key_serde = session_windowed(Arc::clone(&cogroup.key_serde));
        let initializer: Initializer<A> = Arc::new(initializer);
        let first = Arc::clone(&initializer);
        let merger = Merger::new(move |key: &K, left: Option<A>, right: A| {
            merger(key, left.unwrap_or_else(|| first()), right)
        });
        let table = cogroup.table(
            initializer,
            Spans::Sessions(self.windows, merger),
            make_store,
            (key_serde, Rc::new(view)),
        );
        builder.set_window_grace_ms(table.node, retention_ms);
        table
    }
}

/// An aggregation that is put together.
struct Cogroup<'a, K, A> {
    builder: &'a Builder,
    members: &'a [Rc<dyn Member<K, A>>],
    name: Option<String>,
    materialized: Materialized<K, A>,
    store: Arc<str>,
    key_serde: SerdeRef<K>,
    aggregate_serde: SerdeRef<A>,
    switches: Arc<TableSwitches>,
}

impl<'a, K: Data, A: Data> Cogroup<'a, K, A> {
    fn new(
        cogrouped: &'a CogroupedKStream<K, A>,
        settings: TableSettings<K, A>,
        table_of: TableOf,
    ) -> Self {
        let builder = &cogrouped.builder;
        let materialized = settings.materialized.unwrap_or_default();
        let store = match &materialized.name {
            Some(name) => {
                builder.check(check_name(name));
                Arc::from(name.as_str())
            }
            None => builder.new_store_name(PREFIX),
        };
        builder.check(materialized.check(&store, table_of));
        let key_serde = materialized.key_serde.clone();
        Self {
            builder,
            members: &cogrouped.members,
            name: settings.name,
            key_serde: key_serde.unwrap_or_else(|| Arc::clone(&cogrouped.key_serde)),
            aggregate_serde: builder.required(&store, materialized.value_serde.clone()),
            store,
            materialized,
            switches: TableSwitches::new(true),
        }
    }

    /// Adds the nodes: the repartitions of all groups, then their aggregations, then what brings those together.
    fn table<KOut: Data>(
        self,
        initializer: Initializer<A>,
        spans: Spans<K, A>,
        make_store: MakeStore,
        (key_serde, view): (SerdeRef<KOut>, Rc<dyn TableView<KOut, A>>),
    ) -> KTable<KOut, A> {
        let builder = self.builder;
        let kept = Kept {
            store: Arc::clone(&self.store),
            aggregate_serde: Arc::clone(&self.aggregate_serde),
            switches: Arc::clone(&self.switches),
            initializer,
            spans,
        };
        let members = self.members.iter();
        let parents: Vec<_> = members
            .map(|member| member.repartitioned(&self.store))
            .collect();
        let suffixed = |suffix: &str| {
            let name = self.name.as_ref();
            name.map(|name| format!("{name}{suffix}"))
        };
        let mut names = Vec::new();
        let mut nodes = Vec::new();
        for (index, (member, (parent, _))) in self.members.iter().zip(&parents).enumerate() {
            let name = suffixed(&format!("-cogroup-agg-{index}"));
            let name = builder.node_name(name.as_deref(), PREFIX);
            nodes.push(builder.add(passing_node(&name, member.factory(&kept)), &[*parent]));
            names.push(name);
        }
        let merge = suffixed("-cogroup-merge");
        let merge = builder.node_name(merge.as_deref(), "COGROUPKSTREAM-MERGE-");
        let sources: BTreeSet<Arc<str>> = parents
            .iter()
            .flat_map(|(_, sources)| sources.iter().cloned())
            .collect();
        // As in Kafka Streams, what the groups are read from before they are repartitioned must have as many partitions
        // each, too.
        let mut copartitioned = sources.clone();
        for member in self.members {
            copartitioned.extend(member.sources().iter().cloned());
        }
        let node = merge_node::<KOut, A>(&merge, names, make_store, copartitioned);
        KTable {
            builder: builder.clone(),
            name: merge,
            node: builder.add(node, &nodes),
            sources: Arc::new(sources),
            key_serde: Some(key_serde),
            value_serde: Some(self.aggregate_serde),
            queryable_store: self.materialized.name.as_deref().map(Arc::from),
            view,
        }
    }
}

/// A node of the graph that is one of the topology.
fn passing_node(name: &Arc<str>, factory: NodeFactory) -> GraphNode {
    let written_name = Arc::clone(name);
    GraphNode::new(
        name,
        GraphTraits::default(),
        move |topology: &mut Topology, written: &Written<'_>| {
            topology
                .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                .map(|_| ())
        },
    )
}

/// The node that passes on what the aggregations of all groups, which are `users` of one store, give.
fn merge_node<K: Data, A: Data>(
    name: &Arc<str>,
    users: Vec<Arc<str>>,
    make_store: MakeStore,
    sources: BTreeSet<Arc<str>>,
) -> GraphNode {
    let factory = stateless_factory(
        |context: &mut TaskContext,
         record: Record<K, Change<A>>,
         outputs: &Outputs<K, Change<A>>| outputs.forward(context, record),
    );
    let written_name = Arc::clone(name);
    let traits = GraphTraits {
        is_merge: true,
        ..GraphTraits::default()
    };
    let sources: Vec<Arc<str>> = sources.into_iter().collect();
    GraphNode::new(
        name,
        traits,
        move |topology: &mut Topology, written: &Written<'_>| {
            topology.add_processor_node(&written_name, written.parents, Arc::clone(&factory))?;
            let users: Vec<&str> = users.iter().map(AsRef::as_ref).collect();
            topology.add_state_store(make_store(written.stores), &users)?;
            topology.copartition(&sources)
        },
    )
}
