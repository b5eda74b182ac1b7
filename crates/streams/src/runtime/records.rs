//! Records as consumers give them, made ready for tasks; and what is committed of them.

use super::output::topic_partition;
use crate::formats::commit_metadata::CommitMetadata;
use crate::headers::{Header, Headers};
use crate::task::CommittableOffset;
use crate::topology::RawRecord;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{CommittedOffset, OwnedRecord};
use std::sync::Arc;

/// Records of one partition each, in the order in which they came.
pub(super) fn batches(records: Vec<OwnedRecord>) -> Vec<(Arc<TopicPartition>, Vec<OwnedRecord>)> {
    let mut batches: Vec<(Arc<TopicPartition>, Vec<OwnedRecord>)> = Vec::new();
    for record in records {
        match batches.last_mut() {
            Some((partition, batch)) if Arc::ptr_eq(partition, &record.partition) => {
                batch.push(record);
            }
            _ => batches.push((Arc::clone(&record.partition), vec![record])),
        }
    }
    batches
}

/// The headers of a record that was read.
pub(super) fn headers(headers: Vec<(String, Option<bytes::Bytes>)>) -> Headers {
    headers
        .into_iter()
        .map(|(key, value)| Header {
            key: key.into_boxed_str(),
            value,
        })
        .collect()
}

/// Records of a partition as sources take them.
pub(super) fn raw(
    partition: &TopicPartition,
    records: Vec<OwnedRecord>,
) -> impl Iterator<Item = RawRecord> {
    let topic: Arc<str> = Arc::from(partition.topic.as_str());
    let index = partition.partition;
    records.into_iter().map(move |record| RawRecord {
        topic: Arc::clone(&topic),
        partition: index,
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key,
        value: record.value,
        headers: headers(record.headers),
    })
}

/// What is committed of an input.
pub(super) fn committed(committable: &CommittableOffset) -> (TopicPartition, CommittedOffset) {
    let metadata = CommitMetadata {
        partition_time_ms: committable.partition_time_ms,
        emitted_close_times_ms: committable
            .emitted_close_times_ms
            .iter()
            .map(|(store, time_ms)| (store.to_string(), *time_ms))
            .collect(),
    };
    let mut offset = CommittedOffset::new(committable.offset);
    offset.metadata = metadata.to_text();
    (
        topic_partition(&committable.topic, committable.partition),
        offset,
    )
}
