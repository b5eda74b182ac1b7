//! The left side joins the answers that are still wanted.

use super::Joiner;
use super::messages::Response;
use super::send::{hash_of, hash_topic};
use crate::dsl::table_view::{MakeGetter, ValueGetter};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::topology::NodeFactory;
use std::sync::Arc;

/// The node that joins answers, as the graph describes it.
pub(super) struct Resolve<K, V, VO, VR> {
    pub(super) getter: MakeGetter<K, V>,
    pub(super) value_serde: SerdeRef<V>,
    /// The registration topic.
    pub(super) topic: Arc<str>,
    pub(super) joiner: Joiner<V, VO, VR>,
}

impl<K: Data, V: Data, VO: Data, VR: Data> Resolve<K, V, VO, VR> {
    pub(super) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let topic = instantiation.full_topic(&self.topic);
            let node = ResolveNode {
                getter: (self.getter)(instantiation)?,
                value_serde: Arc::clone(&self.value_serde),
                hash_topic: hash_topic(&topic),
                joiner: Arc::clone(&self.joiner),
                outputs: instantiation.outputs()?,
            };
            Ok(instantiation.node::<K, Response<VO>>(node))
        })
    }
}

struct ResolveNode<K, V, VO, VR> {
    getter: Box<dyn ValueGetter<K, V>>,
    value_serde: SerdeRef<V>,
    hash_topic: String,
    joiner: Joiner<V, VO, VR>,
    outputs: Outputs<K, Option<VR>>,
}

impl<K, V, VO, VR> NodeLife for ResolveNode<K, V, VO, VR> {}

impl<K: Data, V: Data, VO: Data, VR: Data> Node<K, Response<VO>> for ResolveNode<K, V, VO, VR> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Response<VO>>,
    ) -> Result<(), Failure> {
        let left = self.getter.get(context, &record.key)?;
        let left = left.map(|left| left.value);
        let hash = hash_of(&self.value_serde, &self.hash_topic, left.as_ref())?;
        if hash != record.value.hash {
            context.drop_record();
            return Ok(());
        }
        let right = record.value.foreign_value.as_ref();
        let joined = left.and_then(|left| (self.joiner)(&left, right));
        let result = Record {
            key: record.key,
            value: joined,
            timestamp_ms: record.timestamp_ms,
            headers: record.headers,
        };
        self.outputs.forward(context, result)
    }
}
