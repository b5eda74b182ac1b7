//! Restoring: the changelogs of a new task's stores are read from where the stores stand to where the logs ended.

use super::kafka_streams::client_error;
use super::output::topic_partition;
use crate::error::StreamsError;
use crate::headers::{Header, Headers};
use crate::state::{ChangelogRecord, StateStore};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Consumer, OwnedRecord};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A store with the topic and partition of its changelog.
pub(super) type LoggedStore = (Arc<str>, i32, Rc<RefCell<dyn StateStore>>);

/// A store that is being restored.
struct Restoring {
    store: Rc<RefCell<dyn StateStore>>,
    topic: Arc<str>,
    /// Where the changelog ended when the restore began.
    end_offset: i64,
}

/// Restores stores from their changelogs: topic and partition, and the store.
pub(super) async fn restore(
    consumer: &mut Consumer,
    ends: &Consumer,
    stores: Vec<LoggedStore>,
    should_stop: impl Fn() -> bool,
) -> Result<(), StreamsError> {
    let mut waiting = begin(consumer, ends, stores).await?;
    while !waiting.is_empty() && !should_stop() {
        let records = consumer
            .poll(Duration::from_millis(100))
            .await
            .map_err(client_error)?
            .into_owned()
            .map_err(client_error)?;
        let mut batches: BTreeMap<Arc<TopicPartition>, Vec<ChangelogRecord>> = BTreeMap::new();
        for record in records {
            let partition = Arc::clone(&record.partition);
            if let Some(record) = changelog_record(record) {
                batches.entry(partition).or_default().push(record);
            }
        }
        for (partition, records) in &batches {
            if let Some(restoring) = waiting.get(&**partition) {
                restoring.store.borrow_mut().restore(records)?;
                tracing::debug!(changelog = %restoring.topic, records = records.len(), "restored");
            }
        }
        let done: Vec<TopicPartition> = waiting
            .iter()
            .filter(|(partition, restoring)| {
                consumer
                    .position(partition)
                    .is_some_and(|position| position >= restoring.end_offset)
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        for partition in done {
            let Some(restoring) = waiting.remove(&partition) else {
                continue;
            };
            let last = restoring.end_offset - 1;
            let key = (Arc::clone(&restoring.topic), partition.partition);
            restoring
                .store
                .borrow_mut()
                .commit(&BTreeMap::from([(key, last)]))?;
            consumer.pause(&partition).map_err(client_error)?;
            tracing::info!(changelog = %restoring.topic, partition = partition.partition, "restored up to its end");
        }
    }
    Ok(())
}

/// Finds out what is missing, and makes the consumer read it.
async fn begin(
    consumer: &mut Consumer,
    ends: &Consumer,
    stores: Vec<LoggedStore>,
) -> Result<BTreeMap<TopicPartition, Restoring>, StreamsError> {
    let partitions: Vec<TopicPartition> = stores
        .iter()
        .map(|(topic, partition, _)| topic_partition(topic, *partition))
        .collect();
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    // `ends` reads what is not committed, too: a transaction that is being committed may have its marker still to come
    // in a changelog, and its input offsets count already. Reading to this end waits for the marker.
    let ends = ends.end_offsets(&partitions).await.map_err(client_error)?;
    let begins = consumer
        .beginning_offsets(&partitions)
        .await
        .map_err(client_error)?;
    let mut waiting = BTreeMap::new();
    let mut from = Vec::new();
    for ((topic, index, store), partition) in stores.into_iter().zip(partitions) {
        let end_offset = ends.get(&partition).copied().unwrap_or(0);
        let begin_offset = begins.get(&partition).copied().unwrap_or(0);
        let committed = store.borrow().committed_offset(&topic, index)?;
        let start = committed
            .map_or(begin_offset, |last| last + 1)
            .max(begin_offset);
        if start > end_offset {
            return Err(StreamsError::Store {
                store: Arc::clone(store.borrow().name()),
                source: format!(
                    "it has records up to offset {} of `{topic}`, partition {index}, which ends at {end_offset}: the \
                     topic was deleted or cut; remove the application's state directory",
                    start - 1
                )
                .into(),
            });
        }
        if start < end_offset {
            from.push((partition.clone(), start));
            waiting.insert(
                partition,
                Restoring {
                    store,
                    topic,
                    end_offset,
                },
            );
        }
    }
    consumer
        .assign(waiting.keys().cloned())
        .map_err(client_error)?;
    for (partition, start) in from {
        consumer.seek(&partition, start).map_err(client_error)?;
    }
    Ok(waiting)
}

/// A record of a changelog; none without a key, which no store writes.
fn changelog_record(record: OwnedRecord) -> Option<ChangelogRecord> {
    Some(ChangelogRecord {
        key: record.key?,
        value: record.value,
        timestamp_ms: record.timestamp_ms,
        headers: headers(record.headers),
        offset: record.offset,
    })
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
