//! The node of one side of a stream-stream join: it looks for the partners of its records in the other side's store.

use super::JoinFunction;
use super::waiting::Waiting;
use crate::dsl::JoinWindows;
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::state::WindowStore;
use crate::state::outer_join::{JoinSide, LeftOrRight};
use crate::topology::NodeFactory;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// Which side of a join a node is.
pub(super) trait Side<V1, V2>: 'static {
    /// The values of this side.
    type This: Data;
    /// The values of the other one.
    type Other: Data;
    const OTHER_SIDE: JoinSide;

    /// A value of this side that waits for a partner.
    fn unmatched(value: Self::This) -> LeftOrRight<V1, V2>;

    /// The left value and the right one.
    fn ordered<'a>(
        this: &'a Self::This,
        other: Option<&'a Self::Other>,
    ) -> (Option<&'a V1>, Option<&'a V2>);

    /// How much earlier and how much later than its own records this side's partners may be.
    fn reach_ms(windows: &JoinWindows) -> (i64, i64);
}

/// The stream that `join` was called on.
pub(super) struct LeftSide;

impl<V1: Data, V2: Data> Side<V1, V2> for LeftSide {
    type This = V1;
    type Other = V2;
    const OTHER_SIDE: JoinSide = JoinSide::Right;

    fn unmatched(value: V1) -> LeftOrRight<V1, V2> {
        LeftOrRight::Left(value)
    }

    fn ordered<'a>(this: &'a V1, other: Option<&'a V2>) -> (Option<&'a V1>, Option<&'a V2>) {
        (Some(this), other)
    }

    fn reach_ms(windows: &JoinWindows) -> (i64, i64) {
        (windows.before_ms, windows.after_ms)
    }
}

/// The stream that was given to `join`.
pub(super) struct RightSide;

impl<V1: Data, V2: Data> Side<V1, V2> for RightSide {
    type This = V2;
    type Other = V1;
    const OTHER_SIDE: JoinSide = JoinSide::Left;

    fn unmatched(value: V2) -> LeftOrRight<V1, V2> {
        LeftOrRight::Right(value)
    }

    fn ordered<'a>(this: &'a V2, other: Option<&'a V1>) -> (Option<&'a V1>, Option<&'a V2>) {
        (other, Some(this))
    }

    fn reach_ms(windows: &JoinWindows) -> (i64, i64) {
        (windows.after_ms, windows.before_ms)
    }
}

/// A side of a join, as the graph describes it.
pub(super) struct JoiningSide<S: Side<V1, V2>, K, V1, V2, VR> {
    /// Where the records of the other side are.
    pub(super) other_store: Arc<str>,
    /// Where records without a partner wait; none in an inner join.
    pub(super) unmatched_store: Option<Arc<str>>,
    /// A record of this side has a result without a partner.
    pub(super) is_outer: bool,
    /// A record of the other side has a result without a partner.
    pub(super) other_is_outer: bool,
    pub(super) windows: JoinWindows,
    pub(super) key_serde: SerdeRef<K>,
    pub(super) value_serde: SerdeRef<S::This>,
    pub(super) function: JoinFunction<K, V1, V2, VR>,
}

impl<S, K, V1, V2, VR> JoiningSide<S, K, V1, V2, VR>
where
    S: Side<V1, V2>,
    K: Data,
    V1: Data,
    V2: Data,
    VR: Data,
{
    pub(super) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let unmatched = self.unmatched_store.as_ref();
            let node = JoinNode::<S, K, V1, V2, VR> {
                other_store: instantiation.store(&self.other_store)?,
                unmatched: unmatched
                    .map(|store| instantiation.store(store))
                    .transpose()?,
                is_outer: self.is_outer,
                other_is_outer: self.other_is_outer,
                windows: self.windows,
                key_serde: Arc::clone(&self.key_serde),
                value_serde: Arc::clone(&self.value_serde),
                function: Arc::clone(&self.function),
                outputs: instantiation.outputs()?,
                side: PhantomData,
            };
            Ok(instantiation.node::<K, S::This>(node))
        })
    }
}

struct JoinNode<S: Side<V1, V2>, K, V1, V2, VR> {
    other_store: Rc<RefCell<WindowStore<K, S::Other>>>,
    unmatched: Option<Rc<RefCell<Waiting<K, V1, V2>>>>,
    is_outer: bool,
    other_is_outer: bool,
    windows: JoinWindows,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<S::This>,
    function: JoinFunction<K, V1, V2, VR>,
    outputs: Outputs<K, VR>,
    side: PhantomData<S>,
}

impl<S, K, V1, V2, VR> NodeLife for JoinNode<S, K, V1, V2, VR> where S: Side<V1, V2> {}

impl<S, K, V1, V2, VR> Node<K, S::This> for JoinNode<S, K, V1, V2, VR>
where
    S: Side<V1, V2>,
    K: Data,
    V1: Data,
    V2: Data,
    VR: Data,
{
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, S::This>,
    ) -> Result<(), Failure> {
        let timestamp_ms = record.timestamp_ms;
        if let Some(unmatched) = &self.unmatched {
            unmatched.borrow_mut().observe(timestamp_ms);
        }
        let is_null_key = self.key_serde.is_null(&record.key);
        let is_null_value = self.value_serde.is_null(&record.value);
        if self.is_outer && is_null_key && !is_null_value {
            return self.forward(context, &record, None, timestamp_ms);
        }
        if is_null_key || is_null_value {
            context.drop_record();
            return Ok(());
        }
        self.emit_closed(context, &record)?;
        let (before_ms, after_ms) = S::reach_ms(&self.windows);
        let from_ms = timestamp_ms.saturating_sub(before_ms).max(0);
        let to_ms = timestamp_ms.saturating_add(after_ms).max(0);
        let partners: Vec<(i64, S::Other)> = self
            .other_store
            .borrow_mut()
            .fetch(&record.key, from_ms..=to_ms)?
            .collect::<Result<_, _>>()?;
        for (partner_ms, partner) in &partners {
            self.match_partner(context, &record.key, *partner_ms)?;
            let result_ms = timestamp_ms.max(*partner_ms);
            self.forward(context, &record, Some(partner), result_ms)?;
        }
        match self.is_outer && partners.is_empty() {
            true => self.leave_alone(context, record, to_ms),
            false => Ok(()),
        }
    }
}

impl<S, K, V1, V2, VR> JoinNode<S, K, V1, V2, VR>
where
    S: Side<V1, V2>,
    K: Data,
    V1: Data,
    V2: Data,
    VR: Data,
{
    /// The result of `record` and its partner, if this join has one of what there is.
    fn forward(
        &self,
        context: &mut TaskContext,
        record: &Record<K, S::This>,
        partner: Option<&S::Other>,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        let (left, right) = S::ordered(&record.value, partner);
        match (self.function)(&record.key, left, right) {
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

    /// A record of the other side has a partner now.
    fn match_partner(
        &self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        let Some(unmatched) = self.unmatched.as_ref().filter(|_| self.other_is_outer) else {
            return Ok(());
        };
        let unmatched = unmatched.borrow();
        Ok(unmatched.match_all(context, key, timestamp_ms, S::OTHER_SIDE)?)
    }

    /// `record` has no partner: it waits for one until `to_ms`, if that has not passed.
    fn leave_alone(
        &self,
        context: &mut TaskContext,
        record: Record<K, S::This>,
        to_ms: i64,
    ) -> Result<(), Failure> {
        let waiting = self
            .unmatched
            .as_ref()
            .filter(|unmatched| to_ms >= unmatched.borrow().stream_time_ms);
        let Some(unmatched) = waiting else {
            return self.forward(context, &record, None, record.timestamp_ms);
        };
        let value = S::unmatched(record.value);
        let mut unmatched = unmatched.borrow_mut();
        Ok(unmatched.add(context, &record.key, record.timestamp_ms, &value)?)
    }

    /// Emits what has found no partner in its window, if `record` moves the time on.
    fn emit_closed(
        &self,
        context: &mut TaskContext,
        record: &Record<K, S::This>,
    ) -> Result<(), Failure> {
        let Some(unmatched) = &self.unmatched else {
            return Ok(());
        };
        if record.timestamp_ms != unmatched.borrow().stream_time_ms {
            return Ok(());
        }
        let (_, after_ms) = S::reach_ms(&self.windows);
        let closed = unmatched
            .borrow_mut()
            .closed(context, &self.windows, after_ms)?;
        for entry in closed {
            for value in &entry.values {
                let (left, right) = match value {
                    LeftOrRight::Left(left) => (Some(left), None),
                    LeftOrRight::Right(right) => (None, Some(right)),
                };
                let Some(value) = (self.function)(&entry.key, left, right) else {
                    continue;
                };
                let result = Record {
                    key: entry.key.clone(),
                    value,
                    timestamp_ms: entry.timestamp_ms,
                    headers: record.headers.clone(),
                };
                self.outputs.forward(context, result)?;
            }
            unmatched.borrow().emitted(context, &entry)?;
        }
        Ok(())
    }
}
