//! Aggregations of streams by key: the node that keeps them, and how other nodes read them.

mod final_results;
mod session;
mod sliding;
mod windowed;

use super::table::{KeptStore, KeptTable};
use super::table_view::{TableGetter, TableView};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::SerdeRef;
use crate::topology::NodeFactory;
use std::sync::Arc;

pub(crate) use session::{Merger, SessionAggregate, SessionView};
pub(crate) use sliding::SlidingAggregate;
pub(crate) use windowed::{WindowedAggregate, WindowedView, WindowsOf};

/// What an aggregation makes of a key, a value and the aggregate before, if there is one.
pub(crate) struct Aggregation<K, V, A> {
    next: Arc<AggregateFunction<K, V, A>>,
    /// What the first aggregate is made of; none if it is the first value.
    initializer: Option<Arc<Initializer<A>>>,
}

type AggregateFunction<K, V, A> = dyn Fn(&K, V, Option<A>) -> Result<A, Failure> + Send + Sync;
type Initializer<A> = dyn Fn() -> A + Send + Sync;

impl<K, V, A> Clone for Aggregation<K, V, A> {
    fn clone(&self) -> Self {
        Self {
            next: Arc::clone(&self.next),
            initializer: self.initializer.clone(),
        }
    }
}

impl<K: 'static, V: 'static, A: 'static> Aggregation<K, V, A> {
    /// An aggregation that makes the next aggregate of what `initializer` makes and of each value.
    pub(crate) fn new(
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(&K, V, A) -> A + Send + Sync + 'static,
    ) -> Self {
        let initializer: Arc<Initializer<A>> = Arc::new(initializer);
        let first = Arc::clone(&initializer);
        Self {
            next: Arc::new(move |key, value, before| {
                Ok(aggregator(key, value, before.unwrap_or_else(|| first())))
            }),
            initializer: Some(initializer),
        }
    }

    /// An aggregation whose first aggregate is the first value.
    pub(crate) fn reducing(reduce: impl Fn(&K, V, Option<A>) -> A + Send + Sync + 'static) -> Self {
        Self {
            next: Arc::new(move |key, value, before| Ok(reduce(key, value, before))),
            initializer: None,
        }
    }

    pub(crate) fn next(&self, key: &K, value: V, before: Option<A>) -> Result<A, Failure> {
        (self.next)(key, value, before)
    }
}

impl<K, V, A: Clone> Aggregation<K, V, A> {
    /// What children are told that the aggregate was: without a cache, as in Kafka Streams, before the first one what
    /// that is made of.
    pub(crate) fn old_value(&self, before: Option<&A>) -> Option<A> {
        let initializer = self.initializer.as_ref();
        before
            .cloned()
            .or_else(|| initializer.map(|initializer| initializer()))
    }
}

/// An aggregation by key, without windows, as the graph describes it.
pub(crate) struct StreamAggregate<K, V, A> {
    pub(crate) store: KeptStore,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) aggregate_serde: SerdeRef<A>,
    pub(crate) aggregation: Aggregation<K, V, A>,
}

impl<K: Data, V: Data, A: Data> StreamAggregate<K, V, A> {
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            Ok(instantiation.node::<K, V>(AggregateNode {
                table: self.store.table(instantiation)?,
                key_serde: Arc::clone(&self.key_serde),
                value_serde: Arc::clone(&self.value_serde),
                aggregate_serde: Arc::clone(&self.aggregate_serde),
                aggregation: self.aggregation.clone(),
            }))
        })
    }
}

struct AggregateNode<K: Data, V, A: Data> {
    table: KeptTable<K, A>,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<V>,
    aggregate_serde: SerdeRef<A>,
    aggregation: Aggregation<K, V, A>,
}

impl<K: Data, V: Data, A: Data> NodeLife for AggregateNode<K, V, A> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }
}

impl<K: Data, V: Data, A: Data> Node<K, V> for AggregateNode<K, V, A> {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        let Record {
            key,
            value,
            timestamp_ms,
            headers,
        } = record;
        if self.key_serde.is_null(&key) || self.value_serde.is_null(&value) {
            context.drop_record();
            return Ok(());
        }
        let stored = self.table.stored(&key)?;
        let timestamp_ms = stored
            .as_ref()
            .map_or(timestamp_ms, |stored| timestamp_ms.max(stored.timestamp_ms));
        let before = stored.map(|stored| stored.value);
        let old = match self.table.sends_old_values() {
            true => self.aggregation.old_value(before.as_ref()),
            false => None,
        };
        let aggregate = self.aggregation.next(&key, value, before)?;
        let new = (!self.aggregate_serde.is_null(&aggregate)).then_some(aggregate);
        let record = Record {
            key,
            value: Change::new(new, old),
            timestamp_ms,
            headers,
        };
        self.table.change(context, record)
    }
}

/// A table that its node keeps in a store of keys and values.
pub(crate) struct StoreView(pub(crate) KeptStore);

impl<K: Data, V: Data> TableView<K, V> for StoreView {
    fn send_old_values(&self, _: bool) -> bool {
        self.0.switches.send_old_values();
        true
    }

    fn getter(&self) -> TableGetter<K, V> {
        self.0.getter()
    }

    fn is_versioned(&self) -> bool {
        self.0.is_versioned
    }
}
