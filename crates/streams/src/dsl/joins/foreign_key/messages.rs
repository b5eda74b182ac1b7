//! What the two sides of a foreign-key join send each other, with the types of keys and values.

use crate::formats::subscription::{self, Instruction, SubscriptionResponse};
use crate::headers::Headers;
use crate::serde::{BoxError, Serde, SerdeRef};
use std::sync::Arc;

/// The hash of a serialized left value; none where there is no value.
pub(super) type Hash = Option<[u8; 16]>;

/// A left record asks for the right value of its foreign key, which is the record's key.
#[derive(Clone)]
pub(crate) struct Subscription<K> {
    pub(super) hash: Hash,
    pub(super) instruction: Instruction,
    pub(super) primary_key: K,
    /// The partition of the left record; older senders do not say it.
    pub(super) primary_partition: Option<i32>,
}

/// The right value for a left record, whose key is the record's key.
#[derive(Clone)]
pub(crate) struct Response<VO> {
    pub(super) hash: Hash,
    pub(super) foreign_value: Option<VO>,
    /// The partition of the left record, which the response goes to; it is not written.
    pub(super) primary_partition: Option<i32>,
}

/// The serde of subscriptions, whose primary keys `keys` writes.
pub(super) fn subscription_serde<K: 'static>(keys: SerdeRef<K>) -> SerdeRef<Subscription<K>> {
    Arc::new(SubscriptionSerde(keys))
}

/// The serde of responses, whose values `values` writes.
pub(super) fn response_serde<VO: 'static>(values: SerdeRef<VO>) -> SerdeRef<Response<VO>> {
    Arc::new(ResponseSerde(values))
}

/// The name under which the serde of the left keys sees the keys in values of the registration topic.
pub(super) fn primary_key_topic(registration_topic: &str) -> String {
    format!("{registration_topic}-pk")
}

/// Writes a value for which there is no null.
pub(super) fn bytes_of<T>(
    serde: &SerdeRef<T>,
    topic: &str,
    headers: &mut Headers,
    value: &T,
) -> Result<Vec<u8>, BoxError> {
    let mut bytes = Vec::new();
    match serde.serialize(topic, headers, value, &mut bytes)? {
        true => Ok(bytes),
        false => Err(format!("a key or value of `{topic}` is null").into()),
    }
}

struct SubscriptionSerde<K>(SerdeRef<K>);

impl<K> Serde<Subscription<K>> for SubscriptionSerde<K> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &Subscription<K>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let topic = primary_key_topic(topic);
        let primary_key = bytes_of(&self.0, &topic, headers, &value.primary_key)?;
        let bytes = subscription::Subscription {
            hash: value.hash,
            instruction: value.instruction,
            primary_key: &primary_key,
            primary_partition: value.primary_partition,
        }
        .to_bytes();
        out.extend_from_slice(&bytes);
        Ok(true)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Subscription<K>, BoxError> {
        let read = subscription::Subscription::read(bytes.ok_or("a subscription is null")?)?;
        let topic = primary_key_topic(topic);
        Ok(Subscription {
            hash: read.hash,
            instruction: read.instruction,
            primary_key: self
                .0
                .deserialize(&topic, headers, Some(read.primary_key))?,
            primary_partition: read.primary_partition,
        })
    }
}

struct ResponseSerde<VO>(SerdeRef<VO>);

impl<VO> Serde<Response<VO>> for ResponseSerde<VO> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &Response<VO>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let mut foreign_value = Vec::new();
        let is_value = match &value.foreign_value {
            Some(value) => self
                .0
                .serialize(topic, headers, value, &mut foreign_value)?,
            None => false,
        };
        let bytes = SubscriptionResponse {
            hash: value.hash,
            foreign_value: is_value.then_some(foreign_value.as_slice()),
        }
        .to_bytes();
        out.extend_from_slice(&bytes);
        Ok(true)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Response<VO>, BoxError> {
        let read = SubscriptionResponse::read(bytes.ok_or("a response is null")?)?;
        let foreign_value = read
            .foreign_value
            .map(|value| self.0.deserialize(topic, headers, Some(value)))
            .transpose()?;
        Ok(Response {
            hash: read.hash,
            foreign_value,
            primary_partition: None,
        })
    }
}
