//! The commits of groups as the coordinator has stored them, in their order: the records of the
//! internal topic that keeps them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use model::TopicPartition;

use crate::lab::{Lab, POLL};

/// Kafka's name of the topic.
const TOPIC: &str = "__consumer_offsets";
/// Up to which version a key is that of an offset; those of groups come after it.
const OFFSET_KEY_VERSION_MAX: i16 = 1;

/// The offsets that each partition of each group was given, in order; `None` where one was removed.
pub(super) type Stored = BTreeMap<(String, TopicPartition), Vec<Option<i64>>>;

/// Reads what is stored by now.
pub(super) async fn read(lab: &Lab) -> Result<Stored> {
    let producer = lab.producer(&[])?;
    let places = producer.partitions_for(TOPIC).await?;
    let places = places
        .iter()
        .map(|one| TopicPartition::new(TOPIC, one.index));
    let places: Vec<TopicPartition> = places.collect();
    let settings = [
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
        ("max.poll.records", "5000"),
    ];
    let mut consumer = lab.consumer(&settings)?;
    consumer.assign(places.clone())?;
    let ends = consumer.end_offsets(&places).await?;
    for place in &places {
        consumer.seek(place, 0)?;
    }
    let mut stored = Stored::new();
    while ends
        .iter()
        .any(|(place, end)| consumer.position(place) < Some(*end))
    {
        for record in consumer.poll(POLL).await?.into_owned()? {
            let key = record.key.as_deref().context("a record without a key")?;
            if let Some(place) = read_key(key) {
                let offset = record.value.as_deref().map(read_offset).transpose()?;
                stored.entry(place).or_default().push(offset);
            }
        }
    }
    Ok(stored)
}

/// The group and the partition of an offset's key; `None` for other keys.
fn read_key(key: &[u8]) -> Option<(String, TopicPartition)> {
    let (version, rest) = read_i16(key)?;
    if version > OFFSET_KEY_VERSION_MAX {
        return None;
    }
    let (group, rest) = read_string(rest)?;
    let (topic, rest) = read_string(rest)?;
    let partition = i32::from_be_bytes(*rest.first_chunk()?);
    Some((group.to_owned(), TopicPartition::new(topic, partition)))
}

/// The offset of a value, which follows its version.
fn read_offset(value: &[u8]) -> Result<i64> {
    let offset = value.get(2..).and_then(|rest| rest.first_chunk());
    Ok(i64::from_be_bytes(
        *offset.context("a value without an offset")?,
    ))
}

fn read_i16(bytes: &[u8]) -> Option<(i16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i16::from_be_bytes(*number), rest))
}

fn read_string(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = read_i16(bytes)?;
    let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}
