//! The right side takes subscriptions: its store has who subscribes to which foreign key.

use super::messages::{Hash, Subscription, bytes_of, primary_key_topic};
use crate::error::{BoxError, Failure, StreamsError};
use crate::formats::combined_key::CombinedKey;
use crate::formats::subscription::{self, Instruction};
use crate::headers::Headers;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::KeyValueStore;
use crate::topology::{Instantiation, NodeFactory};
use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The store of subscriptions, as the graph describes it.
pub(super) struct Subscriptions<K, KO> {
    pub(super) store: Arc<str>,
    pub(super) key_serde: SerdeRef<K>,
    pub(super) foreign_key_serde: SerdeRef<KO>,
    /// The registration topic.
    pub(super) topic: Arc<str>,
}

impl<K, KO> Clone for Subscriptions<K, KO> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            key_serde: Arc::clone(&self.key_serde),
            foreign_key_serde: Arc::clone(&self.foreign_key_serde),
            topic: Arc::clone(&self.topic),
        }
    }
}

impl<K: Data, KO: Data> Subscriptions<K, KO> {
    /// The store, for a node that is connected to it.
    pub(super) fn open(
        &self,
        instantiation: &Instantiation<'_>,
    ) -> Result<SubscriptionStore<K, KO>, StreamsError> {
        let topic = instantiation.full_topic(&self.topic);
        Ok(SubscriptionStore {
            store: instantiation.store(&self.store)?,
            key_serde: Arc::clone(&self.key_serde),
            key_topic: primary_key_topic(&topic),
            foreign_key_serde: Arc::clone(&self.foreign_key_serde),
            foreign_key_topic: format!("{topic}-fk"),
        })
    }
}

/// Who subscribes to which foreign key.
pub(super) struct SubscriptionStore<K, KO> {
    store: Rc<RefCell<KeyValueStore<Bytes, Bytes>>>,
    key_serde: SerdeRef<K>,
    key_topic: String,
    foreign_key_serde: SerdeRef<KO>,
    foreign_key_topic: String,
}

/// A left record that subscribes.
pub(super) struct Subscriber<K> {
    pub(super) key: K,
    pub(super) hash: Hash,
    pub(super) partition: Option<i32>,
}

impl<K: Data, KO: Data> SubscriptionStore<K, KO> {
    fn foreign_key_bytes(&self, foreign_key: &KO) -> Result<Vec<u8>, BoxError> {
        let (serde, topic) = (&self.foreign_key_serde, &self.foreign_key_topic);
        bytes_of(serde, topic, &mut Headers::new(), foreign_key)
    }

    /// Puts or deletes a subscription, as it says.
    fn take(
        &self,
        context: &mut TaskContext,
        foreign_key: &KO,
        record: &Record<Option<KO>, Subscription<K>>,
    ) -> Result<(), Failure> {
        let subscription = &record.value;
        let headers = &mut Headers::new();
        let primary_key = &subscription.primary_key;
        let primary_key = bytes_of(&self.key_serde, &self.key_topic, headers, primary_key)
            .map_err(Failure::of)?;
        let foreign_key = self.foreign_key_bytes(foreign_key).map_err(Failure::of)?;
        let key = CombinedKey {
            foreign_key: &foreign_key,
            primary_key: &primary_key,
        };
        let key = Bytes::from(key.to_bytes());
        let value = match subscription.instruction {
            Instruction::DeleteKeyAndPropagate | Instruction::DeleteKeyNoPropagate => None,
            Instruction::PropagateNullIfNoForeignKey | Instruction::PropagateOnlyIfForeignKey => {
                let value = subscription::Subscription {
                    hash: subscription.hash,
                    instruction: subscription.instruction,
                    primary_key: &primary_key,
                    primary_partition: subscription.primary_partition,
                };
                Some(Bytes::from(value.to_bytes()))
            }
        };
        let (value, headers) = (value.as_ref(), &record.headers);
        let timestamp_ms = record.timestamp_ms;
        let mut store = self.store.borrow_mut();
        Ok(store.put_with_headers(context, &key, value, timestamp_ms, headers)?)
    }

    /// Who subscribes to `foreign_key`.
    pub(super) fn subscribers(&self, foreign_key: &KO) -> Result<Vec<Subscriber<K>>, Failure> {
        let foreign_key = self.foreign_key_bytes(foreign_key).map_err(Failure::of)?;
        let prefix = CombinedKey {
            foreign_key: &foreign_key,
            primary_key: &[],
        };
        let prefix = Bytes::from(prefix.to_bytes());
        let mut store = self.store.borrow_mut();
        let serde = Bytes::serde();
        let rows = store.prefix_scan(&prefix, &*serde)?;
        rows.map(|row| {
            let (key, value) = row?;
            let key = CombinedKey::read(&key)?;
            let value = subscription::Subscription::read(&value)?;
            let key = Some(key.primary_key);
            let key = self
                .key_serde
                .deserialize(&self.key_topic, &Headers::EMPTY, key)
                .map_err(Failure::of)?;
            Ok(Subscriber {
                key,
                hash: value.hash,
                partition: value.primary_partition,
            })
        })
        .collect()
    }
}

/// Makes the node that takes subscriptions, and passes them on.
pub(super) fn factory<K: Data, KO: Data>(subscriptions: Subscriptions<K, KO>) -> NodeFactory {
    Arc::new(move |instantiation| {
        let node = ReceiveNode {
            store: subscriptions.open(instantiation)?,
            outputs: instantiation.outputs()?,
        };
        Ok(instantiation.node::<Option<KO>, Subscription<K>>(node))
    })
}

struct ReceiveNode<K, KO> {
    store: SubscriptionStore<K, KO>,
    outputs: Outputs<Option<KO>, Subscription<K>>,
}

impl<K, KO> NodeLife for ReceiveNode<K, KO> {}

impl<K: Data, KO: Data> Node<Option<KO>, Subscription<K>> for ReceiveNode<K, KO> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<Option<KO>, Subscription<K>>,
    ) -> Result<(), Failure> {
        match &record.key {
            Some(foreign_key) => self.store.take(context, foreign_key, &record)?,
            // A left join tells that a record has no foreign key, to be answered that there is no value.
            None => {
                if record.value.instruction != Instruction::PropagateNullIfNoForeignKey {
                    context.drop_record();
                    return Ok(());
                }
            }
        }
        self.outputs.forward(context, record)
    }
}
