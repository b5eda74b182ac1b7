//! The node of an aggregation of a grouped table.

use super::kept::{KeptStore, KeptTable};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::SerdeRef;
use crate::topology::NodeFactory;
use std::sync::Arc;

/// The aggregate with a value that comes, of the one before if there is one.
pub(crate) type Add<K, V, A> = Arc<dyn Fn(&K, V, Option<A>) -> A + Send + Sync>;

/// The aggregate without a value that goes.
pub(crate) type Subtract<K, V, A> = Arc<dyn Fn(&K, V, A) -> A + Send + Sync>;

/// What an aggregation does where a value comes, and where one goes.
pub(crate) struct TableAggregation<K, V, A> {
    pub(crate) add: Add<K, V, A>,
    pub(crate) subtract: Subtract<K, V, A>,
}

impl<K, V, A> Clone for TableAggregation<K, V, A> {
    fn clone(&self) -> Self {
        Self {
            add: Arc::clone(&self.add),
            subtract: Arc::clone(&self.subtract),
        }
    }
}

/// An aggregation of a grouped table, as the graph describes it.
pub(crate) struct TableAggregate<K, V, A> {
    pub(crate) store: KeptStore,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) aggregate_serde: SerdeRef<A>,
    pub(crate) aggregation: TableAggregation<K, V, A>,
}

impl<K: Data, V: Data, A: Data> TableAggregate<K, V, A> {
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            Ok(instantiation.node::<K, Change<V>>(AggregateNode {
                table: self.store.table(instantiation)?,
                key_serde: Arc::clone(&self.key_serde),
                aggregate_serde: Arc::clone(&self.aggregate_serde),
                aggregation: self.aggregation.clone(),
            }))
        })
    }
}

struct AggregateNode<K: Data, V, A: Data> {
    table: KeptTable<K, A>,
    key_serde: SerdeRef<K>,
    aggregate_serde: SerdeRef<A>,
    aggregation: TableAggregation<K, V, A>,
}

impl<K: Data, V, A: Data> AggregateNode<K, V, A> {
    fn present(&self, aggregate: A) -> Option<A> {
        (!self.aggregate_serde.is_null(&aggregate)).then_some(aggregate)
    }
}

impl<K: Data, V: Data, A: Data> NodeLife for AggregateNode<K, V, A> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }
}

impl<K: Data, V: Data, A: Data> Node<K, Change<V>> for AggregateNode<K, V, A> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        let Record {
            key,
            value: change,
            timestamp_ms,
            headers,
        } = record;
        if self.key_serde.is_null(&key) {
            return Err(Failure::of("a change of a grouped table has no key"));
        }
        let stored = self.table.stored(&key)?;
        let timestamp_ms = stored
            .as_ref()
            .map_or(timestamp_ms, |stored| timestamp_ms.max(stored.timestamp_ms));
        let before = stored.map(|stored| stored.value);
        let old = match self.table.sends_old_values() {
            true => before.clone(),
            false => None,
        };
        let without = match (change.old, before) {
            (Some(value), Some(before)) => {
                self.present((self.aggregation.subtract)(&key, value, before))
            }
            (_, before) => before,
        };
        let new = match change.new {
            Some(value) => self.present((self.aggregation.add)(&key, value, without)),
            None => without,
        };
        let record = Record {
            key,
            value: Change::new(new, old),
            timestamp_ms,
            headers,
        };
        self.table.change(context, record)
    }
}
