//! The right side answers: a subscription when it comes, and all subscribers of a key when its value changes.

use super::messages::{Response, Subscription};
use super::receive::{SubscriptionStore, Subscriptions};
use crate::dsl::table_view::{MakeGetter, ValueGetter};
use crate::error::Failure;
use crate::formats::subscription::Instruction;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Change, Data, Record};
use crate::topology::NodeFactory;
use std::sync::Arc;

/// Makes the node that answers a subscription with what the right table has.
pub(super) fn join_foreign<K: Data, KO: Data, VO: Data>(getter: MakeGetter<KO, VO>) -> NodeFactory {
    Arc::new(move |instantiation| {
        let node = JoinForeignNode {
            getter: getter(instantiation)?,
            outputs: instantiation.outputs()?,
        };
        Ok(instantiation.node::<Option<KO>, Subscription<K>>(node))
    })
}

struct JoinForeignNode<K, KO, VO> {
    getter: Box<dyn ValueGetter<KO, VO>>,
    outputs: Outputs<K, Response<VO>>,
}

impl<K, KO, VO> NodeLife for JoinForeignNode<K, KO, VO> {}

impl<K: Data, KO: Data, VO: Data> Node<Option<KO>, Subscription<K>> for JoinForeignNode<K, KO, VO> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<Option<KO>, Subscription<K>>,
    ) -> Result<(), Failure> {
        let found = match &record.key {
            Some(foreign_key) => self.getter.get(context, foreign_key)?,
            None => None,
        };
        let timestamp_ms = found.as_ref().map_or(record.timestamp_ms, |found| {
            found.timestamp_ms.max(record.timestamp_ms)
        });
        let foreign_value = match record.value.instruction {
            Instruction::DeleteKeyNoPropagate => return Ok(()),
            Instruction::PropagateOnlyIfForeignKey if found.is_none() => return Ok(()),
            Instruction::DeleteKeyAndPropagate => None,
            Instruction::PropagateOnlyIfForeignKey | Instruction::PropagateNullIfNoForeignKey => {
                found.map(|found| found.value)
            }
        };
        let response = Record {
            key: record.value.primary_key,
            value: Response {
                hash: record.value.hash,
                foreign_value,
                primary_partition: record.value.primary_partition,
            },
            timestamp_ms,
            headers: record.headers,
        };
        self.outputs.forward(context, response)
    }
}

/// Makes the node that answers all subscribers of a key whose value has changed.
pub(super) fn foreign_join<K: Data, KO: Data, VO: Data>(
    subscriptions: Subscriptions<K, KO>,
    is_versioned: bool,
) -> NodeFactory {
    Arc::new(move |instantiation| {
        let node = ForeignJoinNode {
            is_versioned,
            store: subscriptions.open(instantiation)?,
            outputs: instantiation.outputs()?,
        };
        Ok(instantiation.node::<KO, Change<VO>>(node))
    })
}

struct ForeignJoinNode<K, KO, VO> {
    /// Whether the right table tells of older versions.
    is_versioned: bool,
    store: SubscriptionStore<K, KO>,
    outputs: Outputs<K, Response<VO>>,
}

impl<K, KO, VO> NodeLife for ForeignJoinNode<K, KO, VO> {}

impl<K: Data, KO: Data, VO: Data> Node<KO, Change<VO>> for ForeignJoinNode<K, KO, VO> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<KO, Change<VO>>,
    ) -> Result<(), Failure> {
        if self.is_versioned && !record.value.is_latest {
            context.drop_record();
            return Ok(());
        }
        for subscriber in self.store.subscribers(&record.key)? {
            let response = Record {
                key: subscriber.key,
                value: Response {
                    hash: subscriber.hash,
                    foreign_value: record.value.new.clone(),
                    primary_partition: subscriber.partition,
                },
                timestamp_ms: record.timestamp_ms,
                headers: record.headers.clone(),
            };
            self.outputs.forward(context, response)?;
        }
        Ok(())
    }
}
