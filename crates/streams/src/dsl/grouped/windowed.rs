//! `TimeWindowedKStream`: records by key and window of time.

use super::KGroupedStream;
use crate::dsl::aggregate::{
    Aggregation, SlidingAggregate, WindowedAggregate, WindowedView, WindowsOf,
};
use crate::dsl::materialized::TableOf;
use crate::dsl::stores::window_store;
use crate::dsl::table::TableSettings;
use crate::dsl::table_view::TableSwitches;
use crate::dsl::windows::windowed_after;
use crate::dsl::{
    EmitStrategy, KTable, Materialized, SlidingWindows, TimeWindows, UnlimitedWindows,
};
use crate::record::Data;
use crate::serde::{DefaultSerde, Windowed, time_windowed};
use crate::state::TimeFirst;
use crate::topology::{NodeFactory, TopologyError};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Records by key and window of time.
pub struct TimeWindowedKStream<K, V> {
    group: KGroupedStream<K, V>,
    windows: Windows,
    strategy: EmitStrategy,
}

/// Windows that an aggregation can have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Windows {
    Aligned(WindowsOf),
    Sliding(SlidingWindows),
}

impl<K, V> fmt::Debug for TimeWindowedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeWindowedKStream")
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> KGroupedStream<K, V> {
    /// The records by windows that follow one another, or overlap.
    pub fn windowed_by(&self, windows: TimeWindows) -> TimeWindowedKStream<K, V> {
        self.builder
            .check(windows.check(&windowed_after(&self.name)));
        self.windowed(Windows::Aligned(WindowsOf::Time(windows)))
    }

    /// The records by windows that slide with them.
    pub fn windowed_by_sliding(&self, windows: SlidingWindows) -> TimeWindowedKStream<K, V> {
        self.builder
            .check(windows.check(&windowed_after(&self.name)));
        self.windowed(Windows::Sliding(windows))
    }

    /// The records in one window without an end.
    pub fn windowed_by_unlimited(&self, windows: UnlimitedWindows) -> TimeWindowedKStream<K, V> {
        self.windowed(Windows::Aligned(WindowsOf::Unlimited(windows)))
    }

    fn windowed(&self, windows: Windows) -> TimeWindowedKStream<K, V> {
        TimeWindowedKStream {
            group: self.clone(),
            windows,
            strategy: EmitStrategy::default(),
        }
    }
}

impl Windows {
    /// How long a window is, as keys of it say.
    pub(crate) const fn size_ms(self) -> i64 {
        match self {
            Self::Aligned(windows) => windows.size_ms(),
            Self::Sliding(windows) => windows.time_difference_ms,
        }
    }

    /// How long a window must be kept.
    pub(crate) const fn retention_ms(self) -> i64 {
        match self {
            Self::Aligned(windows) => windows.size_ms().saturating_add(windows.grace_ms()),
            Self::Sliding(windows) => windows
                .time_difference_ms
                .saturating_mul(2)
                .saturating_add(windows.grace_ms),
        }
    }

    pub(crate) const fn grace_ms(self) -> i64 {
        match self {
            Self::Aligned(windows) => windows.grace_ms(),
            Self::Sliding(windows) => windows.grace_ms,
        }
    }

    /// A store must keep windows until they close.
    pub(crate) fn check_retention(
        self,
        operator: &str,
        retention_ms: Option<i64>,
    ) -> Result<(), TopologyError> {
        let needed_ms = self.retention_ms();
        match retention_ms {
            Some(retention_ms) if retention_ms < needed_ms => Err(TopologyError::Operator {
                operator: operator.to_owned(),
                problem: format!(
                    "a retention of {retention_ms} ms is shorter than the windows with their grace; \
                     choose at least {needed_ms} ms"
                ),
            }),
            _ => Ok(()),
        }
    }
}

impl<K: Data, V: Data> TimeWindowedKStream<K, V> {
    /// When results are given. One window without an end never closes.
    #[must_use]
    pub fn emit_strategy(mut self, strategy: EmitStrategy) -> Self {
        let never_closes = matches!(self.windows, Windows::Aligned(WindowsOf::Unlimited(_)));
        if never_closes && strategy.on_window_close {
            self.group.builder.check::<()>(Err(TopologyError::Operator {
                operator: self.group.name.to_string(),
                problem: "a window without an end never closes; emit on window update".to_owned(),
            }));
        }
        self.strategy = strategy;
        self
    }

    /// How many records each key has in each window.
    pub fn count(&self) -> KTable<Windowed<K>, i64> {
        self.counted(TableSettings::default())
    }

    /// How many records each key has in each window, named and kept as `settings` say.
    pub fn count_with(
        &self,
        settings: impl Into<TableSettings<K, i64>>,
    ) -> KTable<Windowed<K>, i64> {
        let settings = settings.into();
        let kept = settings.materialized.as_ref();
        let is_aligned = matches!(self.windows, Windows::Aligned(_));
        if is_aligned && kept.is_some_and(|kept| kept.name.is_none()) {
            // Kafka Streams draws a number here that it does not use; of sliding windows it does not.
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
        )
    }

    /// The values of each key and window, made one by `reducer`.
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
        self.aggregated(
            (name, "KSTREAM-REDUCE-"),
            materialized.with_value_serde(value_serde),
            Aggregation::reducing(move |_: &K, value: V, reduced: Option<V>| match reduced {
                Some(reduced) => reducer(&reduced, &value),
                None => value,
            }),
        )
    }

    /// An aggregate of the values of each key and window.
    pub fn aggregate<A: Data + DefaultSerde>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
    ) -> KTable<Windowed<K>, A> {
        let materialized = Materialized::default().with_value_serde(A::serde());
        self.aggregate_with(initializer, aggregator, materialized)
    }

    /// As `aggregate`, named and kept as `settings` say, which must have a serde for the aggregate.
    pub fn aggregate_with<A: Data>(
        &self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, &V, A) -> A + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, A>>,
    ) -> KTable<Windowed<K>, A> {
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
        builder.check(
            self.windows
                .check_retention(&name, materialized.retention_ms),
        );
        builder.check(materialized.check(&name, TableOf::Windows));
        let switches = TableSwitches::new(true);
        let factory: NodeFactory = match self.windows {
            Windows::Aligned(windows) => WindowedAggregate {
                store: Arc::clone(&store),
                windows,
                key_serde: Arc::clone(&self.group.key_serde),
                aggregate_serde: Arc::clone(&value_serde),
                switches: Arc::clone(&switches),
                aggregation,
                strategy: self.strategy,
            }
            .factory(),
            Windows::Sliding(windows) => SlidingAggregate {
                store: Arc::clone(&store),
                windows,
                key_serde: Arc::clone(&self.group.key_serde),
                value_serde: Arc::clone(&self.group.value_serde),
                aggregate_serde: Arc::clone(&value_serde),
                switches: Arc::clone(&switches),
                aggregation,
                strategy: self.strategy,
            }
            .factory(),
        };
        let time_first = match (self.strategy.on_window_close, self.windows) {
            (false, _) => TimeFirst::No,
            (true, Windows::Aligned(_)) => TimeFirst::WithoutIndex,
            (true, Windows::Sliding(_)) => TimeFirst::WithIndex,
        };
        let windows = self.windows;
        let times = (windows.size_ms(), windows.retention_ms(), time_first);
        let make_store = window_store(&store, &materialized, &key_serde, &value_serde, times);
        let (node, sources) = self.group.add_aggregate(&name, &store, make_store, factory);
        builder.set_window_grace_ms(node, self.windows.grace_ms());
        KTable {
            builder: builder.clone(),
            name,
            node,
            sources,
            key_serde: Some(time_windowed(key_serde, self.windows.size_ms())),
            value_serde: Some(value_serde),
            queryable_store,
            view: Rc::new(WindowedView::new(&store, switches)),
        }
    }
}
