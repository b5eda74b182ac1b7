//! The bytes that members of a classic group send each other through the coordinator: the
//! subscription and the assignment of protocol type `consumer`, versions 0 to 3.
//!
//! ```text
//!   subscription: i16 version | topics | user data | owned partitions (1+) | i32 generation (2+)
//!                 | rack (3+)
//!   assignment:   i16 version | partitions by topic | user data
//! ```
//!
//! A version above 3 is read as version 3: what follows its fields is passed over.

use super::{Assignment, Subscription};
use model::{DecodeError, Reader, TopicPartition, Writer};
use std::collections::BTreeMap;

/// The version that is written.
const VERSION: i16 = 3;
/// The longest name of a topic.
const TOPIC_BYTES_MAX: usize = 249;

/// What a member joins with.
pub(crate) fn encode_subscription(subscription: &Subscription) -> Vec<u8> {
    let mut out = VERSION.to_be_bytes().to_vec();
    let mut topics: Vec<&str> = subscription.topics.iter().map(String::as_str).collect();
    topics.sort_unstable();
    Writer::length(Some(topics.len()), false, &mut out);
    for topic in topics {
        Writer::string(Some(topic), false, &mut out);
    }
    Writer::bytes(subscription.user_data.as_deref(), false, &mut out);
    encode_partitions(&subscription.owned_partitions, &mut out);
    out.extend_from_slice(&subscription.generation_id.to_be_bytes());
    Writer::string(subscription.rack_id.as_deref(), false, &mut out);
    out
}

/// Reads what a member joined with.
///
/// # Errors
/// A [`DecodeError`] when the bytes are no subscription.
pub(crate) fn decode_subscription(bytes: &[u8]) -> Result<Subscription, DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = read_version(&mut reader)?;
    let mut subscription = Subscription {
        generation_id: -1,
        ..Subscription::default()
    };
    for _ in 0..reader.length(false)?.ok_or(DecodeError::UnexpectedNull)? {
        subscription.topics.push(reader.string(false)?.to_owned());
    }
    subscription.user_data = reader.nullable_bytes(false)?.map(<[u8]>::to_vec);
    if version >= 1 {
        subscription.owned_partitions = decode_partitions(&mut reader)?;
    }
    if version >= 2 {
        subscription.generation_id = reader.i32()?;
    }
    if version >= 3 {
        subscription.rack_id = reader.nullable_string(false)?.map(str::to_owned);
    }
    Ok(subscription)
}

/// What the leader gives to a member.
pub(crate) fn encode_assignment(assignment: &Assignment) -> Vec<u8> {
    let mut out = VERSION.to_be_bytes().to_vec();
    encode_partitions(&assignment.partitions, &mut out);
    Writer::bytes(assignment.user_data.as_deref(), false, &mut out);
    out
}

/// Reads what the leader gave; no bytes at all are no partitions.
///
/// # Errors
/// A [`DecodeError`] when the bytes are no assignment.
pub(crate) fn decode_assignment(bytes: &[u8]) -> Result<Assignment, DecodeError> {
    if bytes.is_empty() {
        return Ok(Assignment::default());
    }
    let mut reader = Reader::new(bytes);
    read_version(&mut reader)?;
    Ok(Assignment {
        partitions: decode_partitions(&mut reader)?,
        // Members of old may leave it out.
        user_data: reader
            .nullable_bytes(false)
            .ok()
            .flatten()
            .map(<[u8]>::to_vec),
    })
}

/// What a sticky member remembers: its partitions, and the generation that gave them.
pub(super) fn encode_sticky_user_data(partitions: &[TopicPartition], generation: i32) -> Vec<u8> {
    let mut out = Vec::new();
    encode_partitions(partitions, &mut out);
    out.extend_from_slice(&generation.to_be_bytes());
    out
}

/// Reads what a sticky member remembers; members of old leave out the generation.
pub(super) fn decode_sticky_user_data(
    bytes: &[u8],
) -> Result<(Vec<TopicPartition>, Option<i32>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let partitions = decode_partitions(&mut reader)?;
    Ok((partitions, reader.i32().ok()))
}

fn read_version(reader: &mut Reader<'_>) -> Result<i16, DecodeError> {
    match reader.i16()? {
        ..0 => Err(DecodeError::UnsupportedVersion),
        version => Ok(version.min(VERSION)),
    }
}

fn encode_partitions(partitions: &[TopicPartition], out: &mut Vec<u8>) {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        let numbers = topics.entry(&partition.topic).or_default();
        numbers.push(partition.partition);
    }
    Writer::length(Some(topics.len()), false, out);
    for (topic, numbers) in topics {
        Writer::string(Some(topic), false, out);
        Writer::length(Some(numbers.len()), false, out);
        for number in numbers {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn decode_partitions(reader: &mut Reader<'_>) -> Result<Vec<TopicPartition>, DecodeError> {
    let mut partitions = Vec::new();
    for _ in 0..reader.length(false)?.ok_or(DecodeError::UnexpectedNull)? {
        let topic = reader.string(false)?;
        // Each partition owns a copy of the name: a long one would multiply what a peer sent.
        if topic.len() > TOPIC_BYTES_MAX {
            return Err(DecodeError::InvalidLength);
        }
        for _ in 0..reader.length(false)?.ok_or(DecodeError::UnexpectedNull)? {
            partitions.push(TopicPartition::new(topic, reader.i32()?));
        }
    }
    Ok(partitions)
}
