//! The node of a join of a stream with itself that needs one store only (`single.store.self.join`).
//!
//! It gives what a join of two equal streams gives: each record is first a left one, with what is stored, then a right
//! one, with what is stored and with itself.

use super::JoinFunction;
use super::join_node::{LeftSide, RightSide, Side};
use crate::dsl::JoinWindows;
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::state::WindowStore;
use crate::topology::NodeFactory;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A join of a stream with itself, as the graph describes it.
pub(super) struct SelfJoin<K, V, VR> {
    pub(super) store: Arc<str>,
    pub(super) windows: JoinWindows,
    pub(super) key_serde: SerdeRef<K>,
    pub(super) value_serde: SerdeRef<V>,
    pub(super) function: JoinFunction<K, V, V, VR>,
}

/// The function of a join whose sides have values of one type.
pub(super) fn of_one_type<K: 'static, V1: 'static, V2: 'static, VR: 'static>(
    function: &JoinFunction<K, V1, V2, VR>,
) -> Option<JoinFunction<K, V1, V1, VR>> {
    let function: &dyn Any = function;
    function
        .downcast_ref::<JoinFunction<K, V1, V1, VR>>()
        .cloned()
}

impl<K: Data, V: Data, VR: Data> SelfJoin<K, V, VR> {
    pub(super) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let node = SelfJoinNode {
                store: instantiation.store(&self.store)?,
                windows: self.windows,
                key_serde: Arc::clone(&self.key_serde),
                value_serde: Arc::clone(&self.value_serde),
                function: Arc::clone(&self.function),
                outputs: instantiation.outputs()?,
                stream_time_ms: i64::MIN,
            };
            Ok(instantiation.node::<K, V>(node))
        })
    }
}

struct SelfJoinNode<K, V, VR> {
    store: Rc<RefCell<WindowStore<K, V>>>,
    windows: JoinWindows,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<V>,
    function: JoinFunction<K, V, V, VR>,
    outputs: Outputs<K, VR>,
    /// The largest timestamp that has been seen.
    stream_time_ms: i64,
}

impl<K: Data, V: Data, VR: Data> NodeLife for SelfJoinNode<K, V, VR> {}

impl<K: Data, V: Data, VR: Data> Node<K, V> for SelfJoinNode<K, V, VR> {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        if self.key_serde.is_null(&record.key) || self.value_serde.is_null(&record.value) {
            context.drop_record();
            return Ok(());
        }
        let time_ms = record.timestamp_ms;
        self.stream_time_ms = self.stream_time_ms.max(time_ms);
        for (partner_ms, partner) in self.partners::<LeftSide>(&record)? {
            let result_ms = time_ms.max(partner_ms);
            self.forward(context, &record, (&record.value, &partner), result_ms)?;
        }
        // What has expired is no partner of its own. As in Kafka Streams, that is one millisecond before the store
        // forgets it.
        let kept_ms = self
            .windows
            .size_ms()
            .saturating_add(self.windows.grace_ms());
        let mut meets_itself = time_ms > self.stream_time_ms.saturating_sub(kept_ms) + 1;
        for (partner_ms, partner) in self.partners::<RightSide>(&record)? {
            if partner_ms > time_ms && meets_itself {
                meets_itself = false;
                self.forward(context, &record, (&record.value, &record.value), time_ms)?;
            }
            let result_ms = time_ms.max(partner_ms);
            self.forward(context, &record, (&partner, &record.value), result_ms)?;
        }
        match meets_itself {
            true => self.forward(context, &record, (&record.value, &record.value), time_ms),
            false => Ok(()),
        }
    }
}

impl<K: Data, V: Data, VR: Data> SelfJoinNode<K, V, VR> {
    /// What is stored that `record` meets as one of this side.
    fn partners<S: Side<V, V>>(&self, record: &Record<K, V>) -> Result<Vec<(i64, V)>, Failure> {
        let (before_ms, after_ms) = S::reach_ms(&self.windows);
        let from_ms = record.timestamp_ms.saturating_sub(before_ms).max(0);
        let to_ms = record.timestamp_ms.saturating_add(after_ms).max(0);
        let mut store = self.store.borrow_mut();
        let partners = store.fetch(&record.key, from_ms..=to_ms)?;
        Ok(partners.collect::<Result<_, _>>()?)
    }

    fn forward(
        &self,
        context: &mut TaskContext,
        record: &Record<K, V>,
        (left, right): (&V, &V),
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        match (self.function)(&record.key, Some(left), Some(right)) {
            Some(value) => self.outputs.forward(
                context,
                Record {
                    key: record.key.clone(),
                    value,
                    timestamp_ms,
                    headers: record.headers.clone(),
                },
            ),
            None => Ok(()),
        }
    }
}
