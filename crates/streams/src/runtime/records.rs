//! Records as consumers give them, made ready for tasks.

use super::restore::headers;
use crate::topology::RawRecord;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::OwnedRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records by partition.
pub(super) fn batches(
    records: Vec<OwnedRecord>,
) -> BTreeMap<Arc<TopicPartition>, Vec<OwnedRecord>> {
    let mut batches: BTreeMap<Arc<TopicPartition>, Vec<OwnedRecord>> = BTreeMap::new();
    for record in records {
        batches
            .entry(Arc::clone(&record.partition))
            .or_default()
            .push(record);
    }
    batches
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
