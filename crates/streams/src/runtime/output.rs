//! What tasks write: given to the producer, in a transaction under exactly-once.

use super::failure::client_error;
use super::note::Sources;
use crate::error::{Advice, BoxError, Place, StreamsError};
use crate::processor::{
    ErrorContext, HandlerResponse, Handlers, Origin, Partitioning, ProducedRecord,
    ProductionResponse, TaskId, may_pass,
};
use crate::task::Task;
use parking_lot::Mutex;
use riverrun_client::consumer::{GroupMetadata, Offsets};
use riverrun_client::producer::{
    DeliveryObserver, FailedRecord, Header, Producer, ProducerConfig, ProducerRecord,
    WrittenRecords, partition_of_key,
};
use riverrun_client::{Error, ErrorCode, TopicPartition};
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
    acknowledged: Arc<Acknowledged>,
    /// What is noted beside the record that is sent.
    note: Vec<u8>,
    /// What the transaction may have to be given up for: a record that a handler would go on without.
    refused: Option<StreamsError>,
}

/// A record that the producer could not write.
pub(super) struct Unsent {
    pub(super) task_id: TaskId,
    pub(super) record: ProducedRecord,
    pub(super) error: Error,
}

/// What the producer has told since the last commit.
#[derive(Default)]
struct Acknowledged {
    told: Mutex<Told>,
    /// Of the records that were sent.
    sources: Mutex<Sources>,
}

#[derive(Default)]
struct Told {
    unsent: Vec<Unsent>,
    /// A record could not be written, and nobody knows which.
    has_lost_track: bool,
    /// The last offset of each partition that was written.
    offsets: BTreeMap<(Arc<str>, i32), i64>,
}

impl DeliveryObserver for Acknowledged {
    fn handle_written(&self, written: &WrittenRecords<'_>) {
        if let Some(offset) = written.last_offset {
            let partition = (Arc::clone(written.topic), written.partition);
            self.told.lock().offsets.insert(partition, offset);
        }
    }

    fn handle_failed(&self, failed: FailedRecord<'_>) {
        let read = self.sources.lock().read(&failed.record, failed.note);
        let mut told = self.told.lock();
        match read {
            Ok((task_id, record)) => told.unsent.push(Unsent {
                task_id,
                record,
                error: failed.error,
            }),
            Err(error) => {
                tracing::error!(%error, cause = %failed.error, "a record could not be written, and what was noted of it cannot be read");
                told.has_lost_track = true;
            }
        }
    }
}

impl Output {
    /// Must be called within a runtime.
    pub(super) fn open(
        config: ProducerConfig,
        is_transactional: bool,
    ) -> Result<Self, StreamsError> {
        let acknowledged = Arc::<Acknowledged>::default();
        let observer = Arc::clone(&acknowledged);
        Ok(Self {
            producer: Producer::with_observer(config, observer).map_err(client_error)?,
            is_transactional,
            has_transaction: false,
            partition_counts: BTreeMap::new(),
            acknowledged,
            note: Vec::new(),
            refused: None,
        })
    }

    /// The producer, for what comes before records.
    pub(super) const fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Sends a record of a task. If it cannot be written, `take_unsent` tells.
    pub(super) async fn send(
        &mut self,
        task_id: TaskId,
        record: ProducedRecord,
    ) -> Result<(), StreamsError> {
        if let Some(unsent) = self.try_send(task_id, record).await? {
            self.acknowledged.told.lock().unsent.push(unsent);
        }
        Ok(())
    }

    /// The same, but gives a record back that the producer does not take. Waits only while the producer's memory is
    /// full, or for a topic that it does not know.
    async fn try_send(
        &mut self,
        task_id: TaskId,
        record: ProducedRecord,
    ) -> Result<Option<Unsent>, StreamsError> {
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
        let note = &mut self.note;
        self.acknowledged
            .sources
            .lock()
            .write(task_id, &record, note);
        let sent = self.producer.send_observed(produced, note).await;
        Ok(sent.err().map(|error| Unsent {
            task_id,
            record,
            error,
        }))
    }

    /// Sends what a task writes. The production handler is asked at once about a record that the producer does not
    /// take: the next one would be waited for as long.
    pub(super) async fn send_all(
        &mut self,
        task: &mut Task,
        handlers: &Handlers,
    ) -> Result<(), StreamsError> {
        let task_id = task.id();
        for topic in task.undecided_topics() {
            self.partition_count(&topic).await?;
        }
        let counts = &self.partition_counts;
        task.decide_partitions(|topic| {
            let count = counts.get(topic).copied().unwrap_or(1);
            i32::try_from(count).unwrap_or(i32::MAX)
        });
        let (mut letters, mut left_out_count, mut sent) = (Vec::new(), 0, Ok(()));
        for record in task.drain_produced() {
            let Some(unsent) = self.try_send(task_id, record).await? else {
                continue;
            };
            let (dead_letters, outcome) = ask_about(unsent, handlers);
            letters.extend(dead_letters);
            match outcome {
                Ok(refused) => self.note_refused(refused),
                Err(error) => {
                    sent = Err(self.reason(error));
                    break;
                }
            }
            left_out_count += 1;
        }
        for letter in letters {
            self.send(task_id, letter).await?;
        }
        for _ in 0..left_out_count {
            task.context().drop_record();
        }
        sent
    }

    /// How many partitions a topic has, which is asked for once between two commits.
    async fn partition_count(&mut self, topic: &Arc<str>) -> Result<usize, StreamsError> {
        if let Some(count) = self.partition_counts.get(topic) {
            return Ok(*count);
        }
        let partitions = self.producer.partitions_for(topic).await;
        let partitions = partitions.map_err(|error| uncounted(topic, error))?;
        let count = partitions.len().max(1);
        self.partition_counts.insert(Arc::clone(topic), count);
        Ok(count)
    }

    /// Waits until everything that was sent is acknowledged or given up.
    ///
    /// # Errors
    /// It takes too long, or a record is missing and nobody knows which.
    pub(super) async fn flush(&mut self) -> Result<(), StreamsError> {
        self.partition_counts.clear();
        let flushed = self.producer.flush();
        if !self.is_transactional {
            flushed.await;
            return self.check_track();
        }
        // The producer of a transaction tries as long as it lives.
        match tokio::time::timeout(ACKNOWLEDGED_WITHIN, flushed).await {
            Ok(()) => self.check_track(),
            Err(_) => Err(StreamsError::TaskCorrupted(format!(
                "what was written is not acknowledged within {} s",
                ACKNOWLEDGED_WITHIN.as_secs()
            ))),
        }
    }

    /// Nothing is committed when a record is missing that nobody is asked about.
    fn check_track(&self) -> Result<(), StreamsError> {
        match self.acknowledged.told.lock().has_lost_track {
            false => Ok(()),
            true => Err(StreamsError::TaskCorrupted(
                "a record could not be written, and nobody knows which".to_owned(),
            )),
        }
    }

    /// Takes the records that could not be written, in the order in which that was found.
    pub(super) fn take_unsent(&self) -> Vec<Unsent> {
        std::mem::take(&mut self.acknowledged.told.lock().unsent)
    }

    /// A handler goes on without a record that could not be written. The transaction may not: then this says why.
    pub(super) fn note_refused(&mut self, refused: StreamsError) {
        if self.is_transactional {
            self.refused.get_or_insert(refused);
        }
    }

    /// Why the transaction has failed, if it has with `error`. A record that was refused would be so again.
    pub(super) fn reason(&mut self, error: StreamsError) -> StreamsError {
        self.refused.take().unwrap_or(error)
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
        if let Err(error) = self.commit_transaction(offsets, group).await {
            return Err(self.reason(unknown_outcome(error)));
        }
        self.has_transaction = false;
        self.refused = None;
        Ok(())
    }

    async fn commit_transaction(
        &self,
        offsets: Offsets,
        group: &GroupMetadata,
    ) -> Result<(), Error> {
        let producer = &self.producer;
        producer.send_offsets_to_transaction(offsets, group).await?;
        producer.commit_transaction().await
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

    /// Takes the last offsets that were written, in changelogs as elsewhere.
    pub(super) fn take_offsets(&self) -> BTreeMap<(Arc<str>, i32), i64> {
        std::mem::take(&mut self.acknowledged.told.lock().offsets)
    }

    pub(super) async fn close(self, timeout: Duration) {
        if let Err(error) = self.producer.close(timeout).await {
            tracing::warn!(%error, "the producer could not be closed in time");
        }
    }
}

/// What comes of a record that could not be written: dead letters, and whether the thread goes on without it. If it
/// does, the error is for `note_refused`.
pub(super) fn ask_about(
    unsent: Unsent,
    handlers: &Handlers,
) -> (Vec<ProducedRecord>, Result<StreamsError, StreamsError>) {
    let Unsent {
        task_id,
        record,
        error,
    } = unsent;
    let node = match &record.origin {
        Origin::Node(node) => Arc::clone(node),
        Origin::Changelog(_) | Origin::DeadLetter => Arc::from(""),
    };
    let cause = &record.cause;
    let place = Place {
        node,
        topic: Arc::clone(&cause.topic),
        partition: cause.partition,
        offset: cause.offset,
    };
    let refused = |source: BoxError, advice| StreamsError::Production {
        topic: Arc::clone(&record.topic),
        place: place.clone(),
        source,
        advice,
    };
    if record.origin == Origin::DeadLetter || is_fatal(&error) {
        let error = match client_error(error) {
            StreamsError::Other(reason) => refused(reason.into(), Advice::None),
            // Who has lost its tasks begins again.
            error => error,
        };
        return (Vec::new(), Err(error));
    }
    let context = ErrorContext {
        task_id,
        node: &place.node,
        record: cause,
        raw_key: None,
        raw_value: None,
    };
    let response = match handlers.production.handle(&context, &record, &error) {
        ProductionResponse::Respond(response) => response,
        ProductionResponse::Retry if error.is_retriable() => {
            let text = format!("cannot write to topic `{}`: {error}", record.topic);
            return (Vec::new(), Err(StreamsError::TaskCorrupted(text)));
        }
        ProductionResponse::Retry => HandlerResponse::fail(),
    };
    let error = Box::new(error);
    let outcome = match response.resume {
        true => Ok(refused(error, Advice::ExactlyOnce)),
        false => Err(refused(error, Advice::Handler)),
    };
    (response.dead_letters, outcome)
}

/// Whether no handler is asked: every other record would meet the same, or the tasks are another member's.
fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Refused { code, .. } => matches!(
            code,
            ErrorCode::TopicAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::SaslAuthenticationFailed
                | ErrorCode::SecurityDisabled
                | ErrorCode::InvalidTopicException
                | ErrorCode::UnknownServerError
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
        ),
        Error::Configuration { .. }
        | Error::Unsupported { .. }
        | Error::Closed(_)
        | Error::TransactionFailed(_)
        | Error::TransactionAborted
        | Error::ProducerFailed(_) => true,
        _ => false,
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

/// Nobody knows which partition a record of `topic` goes to. Brokers that do not answer may do so when what was not
/// committed is processed again.
fn uncounted(topic: &Arc<str>, error: Error) -> StreamsError {
    match may_pass(&error) {
        true => StreamsError::TaskCorrupted(format!("cannot write to topic `{topic}`: {error}")),
        false => cannot_write(topic, client_error(error)),
    }
}

/// The error of a commit. One that took too long may have been made or not: what was committed is asked for again.
fn unknown_outcome(error: Error) -> StreamsError {
    match error.is_retriable() {
        true => StreamsError::TaskCorrupted(error.to_string()),
        false => client_error(error),
    }
}

/// A partition of a topic, as clients name it.
pub(super) fn topic_partition(topic: &Arc<str>, partition: i32) -> TopicPartition {
    TopicPartition::new(topic.to_string(), partition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::{DeadLetterTopic, ProductionHandler};
    use crate::record::RecordContext;

    fn refused(code: ErrorCode) -> Error {
        Error::Refused {
            subject: "the topic".to_owned(),
            code,
            message: None,
        }
    }

    fn unsent(origin: Origin, error: Error) -> Unsent {
        let cause = RecordContext {
            topic: Arc::from("in"),
            partition: 3,
            offset: 7,
            ..RecordContext::of_no_record(0)
        };
        Unsent {
            task_id: TaskId {
                subtopology: 0,
                partition: 3,
            },
            record: ProducedRecord {
                topic: Arc::from("out"),
                partitioning: Partitioning::ByKey,
                key: None,
                value: None,
                timestamp_ms: None,
                headers: crate::headers::Headers::EMPTY,
                origin,
                cause,
            },
            error,
        }
    }

    fn of_node() -> Origin {
        Origin::Node(Arc::from("sink"))
    }

    fn letters() -> DeadLetterTopic {
        DeadLetterTopic(Some(Arc::from("letters")))
    }

    #[test]
    fn a_handler_lets_a_record_pass_or_ends_the_thread_with_its_place() {
        let too_large = || unsent(of_node(), refused(ErrorCode::MessageTooLarge));
        let handlers = Handlers::log_and_continue(letters());
        let (dead_letters, outcome) = ask_about(too_large(), &handlers);
        assert!(outcome.is_ok());
        assert_eq!(dead_letters.len(), 1);

        let (dead_letters, outcome) = ask_about(too_large(), &Handlers::log_and_fail(letters()));
        assert_eq!(dead_letters.len(), 1);
        let error = outcome.expect_err("it fails").to_string();
        let place = "topic `out` (node `sink`, topic `in`, partition 3, offset 7)";
        assert!(error.contains(place), "{error}");
    }

    #[test]
    fn what_every_record_would_meet_is_asked_of_no_handler() {
        let handlers = Handlers::log_and_continue(letters());
        let check = |unsent| {
            let (dead_letters, outcome) = ask_about(unsent, &handlers);
            assert!(dead_letters.is_empty());
            outcome.expect_err("it ends the thread")
        };
        let error = check(unsent(
            of_node(),
            refused(ErrorCode::TopicAuthorizationFailed),
        ));
        let place = "topic `out` (node `sink`, topic `in`, partition 3, offset 7): the topic";
        assert!(error.to_string().contains(place), "{error}");
        let hints_at_handlers = |error: &StreamsError| error.to_string().contains("Handlers::");
        assert!(!hints_at_handlers(&error), "{error}");
        // Or it would write another one about that.
        let too_large = refused(ErrorCode::MessageTooLarge);
        let error = check(unsent(Origin::DeadLetter, too_large));
        assert!(
            error
                .to_string()
                .starts_with("cannot write to topic `out` ("),
            "{error}"
        );
        assert!(!hints_at_handlers(&error), "{error}");
        let error = check(unsent(of_node(), refused(ErrorCode::ProducerFenced)));
        assert!(matches!(error, StreamsError::TaskMigrated(_)), "{error}");
    }

    /// Asks for another attempt, whatever has happened.
    struct Again;

    impl ProductionHandler for Again {
        fn handle(
            &self,
            _: &ErrorContext<'_>,
            _: &ProducedRecord,
            _: &(dyn std::error::Error + 'static),
        ) -> ProductionResponse {
            ProductionResponse::Retry
        }

        fn handle_serialization(
            &self,
            _: &ErrorContext<'_>,
            _: &str,
            _: &(dyn std::error::Error + 'static),
        ) -> HandlerResponse {
            HandlerResponse::fail()
        }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let handlers = Handlers {
            production: Arc::new(Again),
            ..Handlers::default()
        };
        let of = |code| {
            let (_, outcome) = ask_about(unsent(of_node(), refused(code)), &handlers);
            outcome.expect_err("there is no record without it")
        };
        let error = of(ErrorCode::NotLeaderOrFollower);
        assert!(matches!(error, StreamsError::TaskCorrupted(_)), "{error}");
        let error = of(ErrorCode::MessageTooLarge);
        assert!(matches!(error, StreamsError::Production { .. }), "{error}");
        // By default, too.
        let late = unsent(of_node(), refused(ErrorCode::NotLeaderOrFollower));
        let (_, outcome) = ask_about(late, &Handlers::default());
        let is_corrupted = matches!(outcome, Err(StreamsError::TaskCorrupted(_)));
        assert!(is_corrupted);
    }

    #[test]
    fn who_does_not_know_what_was_committed_asks() {
        let late = Error::TimedOut {
            operation: "the end of a transaction".to_owned(),
            address: "broker".to_owned(),
            waited_ms: 60_000,
            setting: "max.block.ms",
        };
        let error = unknown_outcome(late);
        assert!(matches!(error, StreamsError::TaskCorrupted(_)), "{error}");
        let error = unknown_outcome(refused(ErrorCode::ProducerFenced));
        assert!(matches!(error, StreamsError::TaskMigrated(_)), "{error}");
    }

    #[test]
    fn nothing_is_committed_when_nobody_knows_what_is_missing() {
        let acknowledged = Acknowledged::default();
        let written = unsent(of_node(), refused(ErrorCode::MessageTooLarge));
        let failed = |note| FailedRecord {
            record: ProducerRecord {
                topic: &written.record.topic,
                partition: None,
                timestamp: None,
                key: None,
                value: None,
                headers: &[],
            },
            note,
            error: refused(ErrorCode::MessageTooLarge),
        };
        let mut note = Vec::new();
        let sources = &acknowledged.sources;
        sources
            .lock()
            .write(written.task_id, &written.record, &mut note);
        acknowledged.handle_failed(failed(&note));
        {
            let told = acknowledged.told.lock();
            assert!(!told.has_lost_track);
            assert_eq!(told.unsent[0].record, written.record);
        }
        acknowledged.handle_failed(failed(&[]));
        let told = acknowledged.told.lock();
        assert!(told.has_lost_track && told.unsent.len() == 1);
    }
}
