//! What tasks write: given to the producer, in a transaction under exactly-once.

use super::kafka_streams::client_error;
use crate::error::StreamsError;
use crate::processor::{Origin, Partitioning, ProducedRecord};
use parking_lot::Mutex;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{GroupMetadata, Offsets};
use riverrun_client::producer::{Header, Producer, ProducerRecord, partition_of_key};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long what is written in a transaction may take: as the calls of the producer (`max.block.ms`).
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(60);

/// The producer of a thread.
pub(super) struct Output {
    producer: Producer,
    is_transactional: bool,
    has_transaction: bool,
    partition_counts: BTreeMap<Arc<str>, usize>,
    acknowledged: Arc<Mutex<Acknowledged>>,
}

/// What the producer has told since the last commit.
#[derive(Default)]
struct Acknowledged {
    first_error: Option<StreamsError>,
    /// The last offset of each changelog's partition.
    changelogs: BTreeMap<(Arc<str>, i32), i64>,
}

impl Output {
    pub(super) fn new(producer: Producer, is_transactional: bool) -> Self {
        Self {
            producer,
            is_transactional,
            has_transaction: false,
            partition_counts: BTreeMap::new(),
            acknowledged: Arc::default(),
        }
    }

    /// Sends a record; waits only while the producer's memory is full.
    pub(super) async fn send(&mut self, record: ProducedRecord) -> Result<(), StreamsError> {
        if self.is_transactional && !self.has_transaction {
            self.producer.begin_transaction().map_err(client_error)?;
            self.has_transaction = true;
        }
        let partition = match &record.partitioning {
            Partitioning::ByKey => None,
            Partitioning::Exact(partition) => Some(*partition),
            Partitioning::ByBytes(bytes) => {
                let count = self.partition_count(&record.topic).await?;
                Some(i32::try_from(partition_of_key(bytes, count)).unwrap_or(0))
            }
        };
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|header| Header {
                key: header.key.as_bytes(),
                value: header.value.as_deref(),
            })
            .collect();
        let produced = ProducerRecord {
            topic: &record.topic,
            partition,
            timestamp: record.timestamp_ms,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let acknowledged = Arc::clone(&self.acknowledged);
        let topic = Arc::clone(&record.topic);
        let is_changelog = matches!(record.origin, Origin::Changelog(_));
        let told = move |result: Result<riverrun_client::producer::RecordMetadata, _>| {
            let mut acknowledged = acknowledged.lock();
            match result {
                Ok(written) => {
                    if let (true, Some(offset)) = (is_changelog, written.offset) {
                        acknowledged
                            .changelogs
                            .insert((Arc::clone(&topic), written.partition), offset);
                    }
                }
                Err(error) => {
                    let error: riverrun_client::Error = error;
                    acknowledged
                        .first_error
                        .get_or_insert_with(|| cannot_write(&topic, client_error(error)));
                }
            }
        };
        match self.producer.send_with(produced, told).await {
            Ok(()) => Ok(()),
            // What has failed before says more than that the transaction takes no more.
            Err(error) => self
                .check()
                .and(Err(cannot_write(&record.topic, client_error(error)))),
        }
    }

    async fn partition_count(&mut self, topic: &Arc<str>) -> Result<usize, StreamsError> {
        if let Some(count) = self.partition_counts.get(topic) {
            return Ok(*count);
        }
        let partitions = self
            .producer
            .partitions_for(topic)
            .await
            .map_err(client_error)?;
        let count = partitions.len().max(1);
        self.partition_counts.insert(Arc::clone(topic), count);
        Ok(count)
    }

    /// Waits until everything that was sent is acknowledged.
    ///
    /// # Errors
    /// Something of it is not.
    pub(super) async fn flush(&mut self) -> Result<(), StreamsError> {
        let flushed = self.producer.flush();
        if !self.is_transactional {
            flushed.await;
            return self.check();
        }
        // The producer of a transaction tries as long as it lives.
        match tokio::time::timeout(ACKNOWLEDGED_WITHIN, flushed).await {
            Ok(()) => self.check(),
            Err(_) => Err(StreamsError::TaskCorrupted(format!(
                "what was written is not acknowledged within {} s",
                ACKNOWLEDGED_WITHIN.as_secs()
            ))),
        }
    }

    /// Whether everything that was answered so far is acknowledged.
    pub(super) fn check(&self) -> Result<(), StreamsError> {
        match self.acknowledged.lock().first_error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Ends the transaction with these offsets in it; there may be none yet.
    pub(super) async fn commit(
        &mut self,
        offsets: Offsets,
        group: &GroupMetadata,
    ) -> Result<(), StreamsError> {
        if !self.has_transaction {
            if offsets.is_empty() {
                return Ok(());
            }
            self.producer.begin_transaction().map_err(client_error)?;
            self.has_transaction = true;
        }
        self.producer
            .send_offsets_to_transaction(offsets, group)
            .await
            .map_err(unknown_outcome)?;
        self.producer
            .commit_transaction()
            .await
            .map_err(unknown_outcome)?;
        self.has_transaction = false;
        self.check()
    }

    /// Gives the transaction up.
    pub(super) async fn abort(&mut self) {
        if self.has_transaction
            && let Err(error) = self.producer.abort_transaction().await
        {
            tracing::warn!(%error, "a transaction could not be aborted; its coordinator will");
        }
        self.has_transaction = false;
    }

    pub(super) const fn is_transactional(&self) -> bool {
        self.is_transactional
    }

    /// Takes the last offsets that changelogs were written to.
    pub(super) fn take_changelog_offsets(&self) -> BTreeMap<(Arc<str>, i32), i64> {
        std::mem::take(&mut self.acknowledged.lock().changelogs)
    }

    pub(super) async fn close(self, timeout: Duration) {
        if let Err(error) = self.producer.close(timeout).await {
            tracing::warn!(%error, "the producer could not be closed in time");
        }
    }
}

/// The error with the topic that it is about; but not who has lost its tasks, and begins again.
fn cannot_write(topic: &Arc<str>, error: StreamsError) -> StreamsError {
    match error {
        StreamsError::Other(error) => {
            StreamsError::Other(format!("cannot write to topic `{topic}`: {error}"))
        }
        error => error,
    }
}

/// The error of a commit. One that took too long may have been made or not: what was committed is asked for again.
fn unknown_outcome(error: riverrun_client::Error) -> StreamsError {
    match error.is_retriable() {
        true => StreamsError::TaskCorrupted(error.to_string()),
        false => client_error(error),
    }
}

/// A partition of a topic, as clients name it.
pub(super) fn topic_partition(topic: &Arc<str>, partition: i32) -> TopicPartition {
    TopicPartition::new(topic.to_string(), partition)
}
