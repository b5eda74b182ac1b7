//! Places in partitions, as they were typed, to offsets.

use crate::connect::Failure;
use crate::place::Place;
use crate::time;
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::admin::{Admin, IsolationLevel, OffsetSpec};
use std::collections::BTreeMap;

/// The partitions of a topic, or those of them that were asked for.
pub(crate) async fn partitions_of(
    admin: &Admin,
    topic: &str,
    wanted: &[i32],
) -> Result<Vec<TopicPartition>, Failure> {
    let mut answers = admin.describe_topics(&[topic]).await;
    let Some(described) = answers.remove(topic) else {
        return Err(Error::Invalid(format!("no broker tells of topic `{topic}`")).into());
    };
    let existing: Vec<i32> = described?.partitions.iter().map(|one| one.index).collect();
    if let Some(missing) = wanted.iter().find(|index| !existing.contains(index)) {
        return Err(Error::Invalid(format!(
            "topic `{topic}` has no partition {missing}; it has {}",
            existing.len()
        ))
        .into());
    }
    let chosen = if wanted.is_empty() { &existing } else { wanted };
    Ok(chosen
        .iter()
        .map(|index| TopicPartition::new(topic, *index))
        .collect())
}

/// The offset of `place` in each partition, within its log.
pub(crate) async fn resolve(
    admin: &Admin,
    partitions: &[TopicPartition],
    place: Place,
) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
    let list = async |spec| -> Result<BTreeMap<TopicPartition, i64>, Error> {
        let specs = partitions.iter().map(|partition| (partition.clone(), spec));
        let listed = admin
            .list_offsets(&specs.collect(), IsolationLevel::ReadUncommitted)
            .await;
        listed
            .into_iter()
            .map(|(partition, listed)| Ok((partition, listed?.offset)))
            .collect()
    };
    let starts = list(OffsetSpec::Earliest).await?;
    let ends = list(OffsetSpec::Latest).await?;
    let timestamp_ms = match place {
        Place::Timestamp { timestamp_ms } => Some(timestamp_ms),
        Place::Ago { duration_ms } => Some(time::now_ms() - duration_ms),
        _ => None,
    };
    let timed = match timestamp_ms {
        Some(timestamp_ms) => list(OffsetSpec::AtTimestamp(timestamp_ms)).await?,
        None => BTreeMap::new(),
    };
    // -1 stands for no such record.
    let known = |offsets: &BTreeMap<_, i64>, partition: &TopicPartition| {
        offsets
            .get(partition)
            .copied()
            .filter(|offset| *offset >= 0)
    };
    Ok(partitions
        .iter()
        .map(|partition| {
            let start = known(&starts, partition).unwrap_or(0);
            let end = known(&ends, partition).unwrap_or(start);
            let offset = match place {
                Place::Start => start,
                Place::End => end,
                Place::Offset(offset) => offset,
                Place::BeforeEnd(count) => end.saturating_sub(count),
                Place::AfterStart(count) => start.saturating_add(count),
                // No record is as young as that: the end.
                Place::Timestamp { .. } | Place::Ago { .. } => {
                    known(&timed, partition).unwrap_or(end)
                }
            };
            (partition.clone(), offset.clamp(start, end))
        })
        .collect())
}
