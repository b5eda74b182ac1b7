//! `SessionWindowedKStream`: records by key and session.

use super::KGroupedStream;
use crate::dsl::aggregate::{Aggregation, Merger, SessionAggregate, SessionView};
use crate::dsl::materialized::TableOf;
use crate::dsl::stores::session_store;
use crate::dsl::table::TableSettings;
use crate::dsl::table_view::TableSwitches;
use crate::dsl::windows::windowed_after;
use crate::dsl::{EmitStrategy, KTable, Materialized, SessionWindows};
use crate::record::Data;
use crate::serde::{DefaultSerde, Windowed, session_windowed};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Records by key and session.
pub struct SessionWindowedKStream<K, V> {
    group: KGroupedStream<K, V>,
    windows: SessionWindows,
    strategy: EmitStrategy,
}

impl<K, V> fmt::Debug for SessionWindowedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionWindowedKStream")
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> KGroupedStream<K, V> {
    /// The records by sessions: spans with gaps of at most the inactivity gap.
    pub fn windowed_by_sessions(&self, windows: SessionWindows) -> SessionWindowedKStream<K, V> {
        self.builder
            .check(windows.check(&windowed_after(&self.name)));
        SessionWindowedKStream {
            group: self.clone(),
            windows,
            strategy: EmitStrategy::default(),
        }
    }
}

impl<K: Data, V: Data> SessionWindowedKStream<K, V> {
    /// When results are given.
    #[must_use]
    pub const fn emit_strategy(mut self, strategy: EmitStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// How many records each session has.
    pub fn count(&self) -> KTable<Windowed<K>, i64> {
        self.counted(TableSettings::default())
    }

    /// How many records each session has, named and kept as `settings` say.
    pub fn count_with(
        &self,
        settings: impl Into<TableSettings<K, i64>>,
    ) -> KTable<Windowed<K>, i64> {
        let settings = settings.into();
        let kept = settings.materialized.as_ref();
        if kept.is_some_and(|kept| kept.name.is_none()) {
            // Kafka Streams draws a number here that it does not use.
            self.group.builder.new_store_name("KSTREAM-AGGREGATE-");
        }
        self.counted(settings)
    }

    fn counted(&self, settings: TableSettings<K, i64>) -> KTable<Windowed<K>, i64> {
        let (name, materialized) = settings.name_and_kept();
        let value_serde = materialized.values();
        self.aggregated(
            (name, "KSTREAM-AGGREGATE-"),
            materialized.with_value_serde(value_serde),
            Aggregation::new(|| 0, |_: &K, _: V, count: i64| count + 1),
            Merger::new(|_: &K, left: Option<i64>, right: i64| left.unwrap_or(0) + right),
        )
    }

    /// The values of each session, made one by `reducer`.
    pub fn reduce(
        &self,
        reducer: impl Fn(&V, &V) -> V + Send + Sync + 'static,
    ) -> KTable<Windowed<K>, V> {
        self.reduce_with(reducer, TableSettings::default())
    }

    /// As `reduce`, named and kept as `settings` say.
    pub fn reduce_with(
        &self,
        reducer: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V>>,
    ) -> KTable<Windowed<K>, V> {
        let (name, materialized) = settings.into().name_and_kept();
        let value_serde = materialized
            .value_serde
            .clone()
            .unwrap_or_else(|| Arc::clone(&self.group.value_serde));
        let reducer = Arc::new(reducer);
        let merging = Arc::clone(&reducer);
        self.aggregated(
            (name, "KSTREAM-REDUCE-"),
            materialized.with_value_serde(value_serde),
            Aggregation::reducing(move |_: &K, value: V, reduced: Option<V>| match reduced {
                Some(reduced) => reducer(&reduced, &value),
                None => value,
            }),
            Merger::new(move |_: &K, left: Option<V>, right: V| match left {
                Some(left) => merging(&left, &right),
                None => right,
            }),
        )
    }

    /// An aggregate of the values of each session; `merger` makes one of two sessions that a record connects.
    pub fn aggregate<A: Data + DefaultSerde>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
    ) -> KTable<Windowed<K>, A> {
        let materialized = Materialized::default().with_value_serde(A::serde());
        self.aggregate_with(initializer, aggregator, merger, materialized)
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with<A: Data>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<Windowed<K>, A> {
        let (name, materialized) = settings.into().name_and_kept();
        let initializer = Arc::new(initializer);
        let first = Arc::clone(&initializer);
        self.aggregated(
            (name, "KSTREAM-AGGREGATE-"),
            materialized,
            Aggregation::new(
                move || initializer(),
                move |key: &K, value: V, aggregate: A| aggregator(key, &value, aggregate),
            ),
            Merger::new(move |key: &K, left: Option<A>, right: A| {
                merger(key, left.unwrap_or_else(|| first()), right)
            }),
        )
    }

    fn aggregated<A: Data>(
        &self,
        (name, prefix): (Option<String>, &str),
        mut materialized: Materialized<K, A>,
        aggregation: Aggregation<K, V, A>,
        merger: Merger<K, A>,
    ) -> KTable<Windowed<K>, A> {
        let builder = &self.group.builder;
        let queryable_store = materialized.name.as_deref().map(Arc::from);
        let store = self.group.store_name(materialized.name.as_deref(), prefix);
        let name = builder.node_name(name.as_deref(), prefix);
        let value_serde = builder.required(&name, materialized.value_serde.clone());
        let key_serde = materialized
            .key_serde
            .get_or_insert_with(|| Arc::clone(&self.group.key_serde))
            .clone();
        builder.check(materialized.check(&name, TableOf::Sessions));
        let switches = TableSwitches::new(true);
        let factory = SessionAggregate {
            store: Arc::clone(&store),
            windows: self.windows,
            key_serde: Arc::clone(&self.group.key_serde),
            aggregate_serde: Arc::clone(&value_serde),
            switches: Arc::clone(&switches),
            aggregation,
            merger,
            strategy: self.strategy,
        }
        .factory();
        let retention_ms = self.windows.gap_ms.saturating_add(self.windows.grace_ms);
        let make_store = session_store(
            &store,
            &materialized,
            &key_serde,
            &value_serde,
            (retention_ms, self.strategy),
        );
        let (node, sources) = self.group.add_aggregate(&name, &store, make_store, factory);
        // A session may grow until the gap after its end has passed.
        builder.set_window_grace_ms(node, retention_ms);
        KTable {
            builder: builder.clone(),
            name,
            node,
            sources,
            key_serde: Some(session_windowed(key_serde)),
            value_serde: Some(value_serde),
            queryable_store,
            view: Rc::new(SessionView::new(&store, switches)),
        }
    }
}
