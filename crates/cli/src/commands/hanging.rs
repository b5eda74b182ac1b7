//! `riverrun transaction find-hanging`: transactions that nobody is going to end (KIP-664).
//!
//! A partition's leader remembers where a producer's open transaction begins; its coordinator knows
//! which transactions there are. One that only the leader knows hangs: it holds up whoever reads
//! committed records until it is aborted.

use super::places::partitions_of;
use crate::connect::{Failure, Stdout, succeeded};
use crate::output::Row;
use crate::time;
use model::TopicPartition;
use riverrun_client::admin::{ActiveProducer, Admin, TransactionDescription, TransactionFilter};
use std::collections::BTreeSet;

/// Finds the transactions that have been open for longer than `older_than_ms` in the partitions of
/// these topics, of all for none, and that no coordinator knows.
pub(super) async fn find(
    admin: &Admin,
    topics: &[String],
    partitions: &[i32],
    older_than_ms: i64,
    mut output: Stdout,
) -> Result<(), Failure> {
    let topics = match topics {
        [] => {
            let listed = admin.list_topics().await?;
            listed.into_iter().map(|topic| topic.name).collect()
        }
        topics => topics.to_vec(),
    };
    let mut chosen = Vec::new();
    for topic in &topics {
        chosen.extend(partitions_of(admin, topic, partitions).await?);
    }
    let (described, outcome) = succeeded(admin.describe_producers(&chosen).await);
    let since_ms = time::now_ms() - older_than_ms;
    let is_old = |producer: &ActiveProducer| {
        producer.transaction_start_offset.is_some()
            && producer
                .last_timestamp_ms
                .is_none_or(|last| last <= since_ms)
    };
    let open: Vec<(TopicPartition, ActiveProducer)> = described
        .into_iter()
        .flat_map(|(partition, producers)| {
            let old = producers.into_iter().filter(is_old);
            old.map(|producer| (partition.clone(), producer))
                .collect::<Vec<_>>()
        })
        .collect();
    let known = known(admin, &open).await?;
    let is_known = |(partition, producer): &(TopicPartition, ActiveProducer)| {
        known.iter().any(|transaction| {
            let has_it = transaction.partitions.contains(partition);
            has_it && transaction.producer_id == producer.producer_id
        })
    };
    let hanging: Vec<_> = open.iter().filter(|open| !is_known(open)).collect();
    let rows: Vec<Row> = hanging
        .iter()
        .map(|(partition, producer)| {
            Row::new()
                .with("topic", partition.topic.as_str())
                .with("partition", partition.partition)
                .with("producerId", producer.producer_id)
                .with("epoch", producer.producer_epoch)
                .with("startOffset", producer.transaction_start_offset)
                .with("lastTimestamp", producer.last_timestamp_ms.map(time::date))
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    if hanging.is_empty() {
        crate::tell("no transaction hangs");
    } else if !output.is_json() {
        crate::tell("`riverrun transaction abort TOPIC PARTITION --start-offset OFFSET` ends one");
    }
    outcome
}

/// What the coordinators know of the transactions of these producers.
async fn known(
    admin: &Admin,
    open: &[(TopicPartition, ActiveProducer)],
) -> Result<Vec<TransactionDescription>, Failure> {
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let ids: BTreeSet<i64> = open.iter().map(|(_, one)| one.producer_id).collect();
    let filter = TransactionFilter {
        producer_ids: ids.into_iter().collect(),
        ..TransactionFilter::default()
    };
    let listed = admin.list_transactions(&filter).await?;
    let ids: Vec<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
    let described = admin.describe_transactions(&ids).await;
    let described: Result<Vec<_>, _> = described.into_values().collect();
    Ok(described?)
}
