//! The left side: subscribes to foreign keys, and unsubscribes from those that are not wanted any more.

use super::Extractor;
use super::messages::{Hash, Subscription, bytes_of};
use crate::error::Failure;
use crate::formats::murmur3::murmur3_128;
use crate::formats::subscription::Instruction;
use crate::headers::Headers;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::SerdeRef;
use crate::topology::NodeFactory;
use std::sync::Arc;

/// The left side, as the graph describes it.
pub(super) struct Send<K, V, KO> {
    pub(super) extractor: Extractor<K, V, KO>,
    pub(super) is_left: bool,
    /// Whether the left table tells of older versions.
    pub(super) is_versioned: bool,
    pub(super) value_serde: SerdeRef<V>,
    pub(super) foreign_key_serde: SerdeRef<KO>,
    /// The registration topic.
    pub(super) topic: Arc<str>,
}

/// The hash of a left value, by which a response tells which value it answers.
pub(super) fn hash_of<V>(
    serde: &SerdeRef<V>,
    topic: &str,
    value: Option<&V>,
) -> Result<Hash, Failure> {
    let Some(value) = value else { return Ok(None) };
    let bytes = bytes_of(serde, topic, &mut Headers::new(), value).map_err(Failure::of)?;
    Ok(Some(murmur3_128(&bytes)))
}

/// The name under which the serde of the left values sees what is hashed.
pub(super) fn hash_topic(registration_topic: &str) -> String {
    format!("{registration_topic}-vh")
}

impl<K: Data, V: Data, KO: Data> Send<K, V, KO> {
    pub(super) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let topic = instantiation.full_topic(&self.topic);
            Ok(instantiation.node::<K, Change<V>>(SendNode {
                extractor: Arc::clone(&self.extractor),
                is_left: self.is_left,
                is_versioned: self.is_versioned,
                value_serde: Arc::clone(&self.value_serde),
                foreign_key_serde: Arc::clone(&self.foreign_key_serde),
                hash_topic: hash_topic(&topic),
                foreign_key_topic: format!("{topic}-fk"),
                outputs: instantiation.outputs()?,
            }))
        })
    }
}

struct SendNode<K, V, KO> {
    extractor: Extractor<K, V, KO>,
    is_left: bool,
    is_versioned: bool,
    value_serde: SerdeRef<V>,
    foreign_key_serde: SerdeRef<KO>,
    hash_topic: String,
    foreign_key_topic: String,
    outputs: Outputs<Option<KO>, Subscription<K>>,
}

impl<K: Data, V: Data, KO: Data> SendNode<K, V, KO> {
    fn foreign_key(&self, key: &K, value: Option<&V>) -> Option<KO> {
        value
            .and_then(|value| (self.extractor)(key, value))
            .filter(|foreign_key| !self.foreign_key_serde.is_null(foreign_key))
    }

    fn is_same(&self, old: &KO, new: Option<&KO>) -> Result<bool, Failure> {
        let Some(new) = new else { return Ok(false) };
        let bytes = |key| {
            let headers = &mut Headers::new();
            bytes_of(
                &self.foreign_key_serde,
                &self.foreign_key_topic,
                headers,
                key,
            )
            .map_err(Failure::of)
        };
        Ok(bytes(old)? == bytes(new)?)
    }
}

impl<K: Data, V: Data, KO: Data> NodeLife for SendNode<K, V, KO> {}

impl<K: Data, V: Data, KO: Data> Node<K, Change<V>> for SendNode<K, V, KO> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        let change = &record.value;
        if self.is_versioned && !change.is_latest {
            context.drop_record();
            return Ok(());
        }
        let hash = hash_of(&self.value_serde, &self.hash_topic, change.new.as_ref())?;
        let is_told = context
            .upgrade_from
            .is_none_or(|from| !from.omits_primary_partition());
        let primary_partition = is_told.then_some(context.task_id.partition);
        let send = |context: &mut TaskContext, foreign_key, instruction| {
            let subscription = Subscription {
                hash,
                instruction,
                primary_key: record.key.clone(),
                primary_partition,
            };
            let subscription = Record {
                key: foreign_key,
                value: subscription,
                timestamp_ms: record.timestamp_ms,
                headers: record.headers.clone(),
            };
            self.outputs.forward(context, subscription)
        };
        let old = self.foreign_key(&record.key, change.old.as_ref());
        let new = self.foreign_key(&record.key, change.new.as_ref());
        let had_key = old.is_some();
        let left_key = match old {
            Some(old) if !self.is_same(&old, new.as_ref())? => Some(old),
            _ => None,
        };
        if self.is_left {
            if change.new.is_none() && change.old.is_none() {
                return Ok(());
            }
            if left_key.is_some() {
                send(context, left_key, Instruction::DeleteKeyNoPropagate)?;
            }
            return send(context, new, Instruction::PropagateNullIfNoForeignKey);
        }
        match (left_key, new) {
            (left_key @ Some(_), new @ Some(_)) => {
                send(context, left_key, Instruction::DeleteKeyNoPropagate)?;
                send(context, new, Instruction::PropagateNullIfNoForeignKey)
            }
            (None, new @ Some(_)) => send(context, new, Instruction::PropagateOnlyIfForeignKey),
            (left_key, None) => {
                debug_assert_eq!(had_key, left_key.is_some(), "a key that is left is told");
                if change.new.is_some() {
                    context.drop_record();
                }
                match left_key {
                    Some(_) => send(context, left_key, Instruction::DeleteKeyAndPropagate),
                    None => Ok(()),
                }
            }
        }
    }
}
