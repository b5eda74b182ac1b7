//! Produce: v3–13. Appends one record batch to each partition.
//!
//! - Records are validated and stamped in the frame that brought them, and go to the segment from
//!   there; only a topic that recompresses makes a copy.
//! - Version 7 and later may carry zstd; version 13 names topics by id (KIP-516).
//! - `acks=0` has no answer; an error then closes the connection, as Kafka does.
//! - A batch that `flush.messages` asks to flush is durable before it is acknowledged. Requests that
//!   wait for the same partition share one sync.
//! - Who sends to a broker that does not lead is told who does, from version 10 on (KIP-951).
//! - The first batch of a transaction in a partition is verified with the transaction's coordinator;
//!   from version 12 on it makes the partition a part of the transaction (KIP-890). Version 11 knows
//!   TRANSACTION_ABORTABLE. Errors that an older producer would not retry are NOT_ENOUGH_REPLICAS.
//! - A request has batches of one transaction: others are INVALID_PRODUCER_ID_MAPPING.
//! - A partition named twice has one answer and its last records; a topic without partitions none.
//! - A first batch that is no batch refuses the whole request.
//! - Ordinary requests are one piece. One with very many partitions is served piece by piece: what is
//!   kept of it meanwhile takes less than it has itself.
//! - The header of a batch is read once, with the request, and goes along to the log; of a request in
//!   several pieces it is read again with its piece.
//! - Ignored on purpose: `TimeoutMs` beyond the wait for the high watermark.

use self::append_thread::AppendThread;
use self::inspection::Inspection;
use self::lists::{LentLists, Lists};
use self::outline::Outline;
use self::parts::{AppendedBatch, PartitionPart, Parts, TopicPart};
use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::api::endpoints::{BrokerEndpoint, Endpoints};
use crate::coordinators::transaction_verification::{
    PartitionToVerify, TransactionSupport, TransactionalProducer, Verification,
};
use crate::logs::partitions::{HostedTopic, Unavailable};
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::scheduling::clock::now_ms;
use crate::scheduling::disk_watch::DiskUse;
use crate::scheduling::heavy_work::Lane;
use crate::scheduling::off_workers::off_workers;
use controller::internal_topics::is_internal;
use metadata::{Topic, TopicsImage};
use model::{
    BrokerId, DecodeError, ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Uuid,
};
use record::batch_layout::HEADER_SIZE_BYTES;
use record::{
    InvalidRecords, ParsedHeader, ProduceValidator, RecordBatch, ValidatedBatch, accept_produced,
};
use replication::{Acks, Partition, VerificationGuard};
use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wire::messages::ProduceRequest;
use wire::produce_request::read_produce_request;
use wire::produce_response::{ProduceResponsePartition, ProduceResponseWriter};

/// The one client that may write to internal topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";

thread_local! {
    /// Buffers and codec contexts of validation, kept for the life of the thread.
    static VALIDATOR: RefCell<ProduceValidator> = RefCell::new(ProduceValidator::new());
}

/// A request with more partitions is served off the workers, a few at a time.
const QUICK_PARTITIONS: usize = 256;
/// Of the elements that a request may have, one in so many may be a partition without a batch.
const ELEMENTS_PER_EMPTY: usize = 20;
/// Faulty records that an answer lists at most. A small request can expand to any number of them, in
/// each of its partitions.
const RECORD_ERRORS_MAX: usize = 10_000;

struct Outcome {
    error: ErrorCode,
    base_offset: Offset,
    log_append_time_ms: i64,
    log_start_offset: Offset,
    record_errors: Vec<(i32, Option<String>)>,
    error_message: Option<String>,
    /// The leader to send to instead, with its epoch.
    current_leader: Option<(BrokerId, LeaderEpoch)>,
}

impl Outcome {
    /// What an error alone says, or the lack of one.
    fn of(error: ErrorCode) -> Self {
        Self {
            error,
            base_offset: Offset::NONE,
            log_append_time_ms: -1,
            log_start_offset: Offset::NONE,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }

    /// How the answer says it.
    fn answer(&self, index: i32) -> ProduceResponsePartition<'_> {
        ProduceResponsePartition {
            index,
            error: self.error,
            base_offset: self.base_offset.0,
            log_append_time_ms: self.log_append_time_ms,
            log_start_offset: self.log_start_offset.0,
            record_errors: &self.record_errors,
            error_message: self.error_message.as_deref(),
            current_leader: self.current_leader,
        }
    }

    /// A partition that cannot be had.
    fn absent(absence: Unavailable) -> Self {
        Self {
            current_leader: absence.current_leader(),
            ..Self::of(absence.into())
        }
    }

    /// The same, with who leads the partition, if that is another broker by now.
    fn led_by(mut self, broker: &Broker, partition: &Partition) -> Self {
        if self.error == ErrorCode::NotLeaderOrFollower {
            self.current_leader = Some(partition.known_leader(broker.node.id));
        }
        self
    }

    /// A batch that the coordinator of its transaction does not vouch for. Codes that producers
    /// would not retry, or would answer with a search for the leader, become one that they retry.
    fn unverified(error: ErrorCode, version: i16) -> Self {
        let is_enrolled = TransactionSupport::of_produce(version) == TransactionSupport::Enrolled;
        let (error, message) = match error {
            ErrorCode::InvalidTxnState => (
                error,
                Some("Partition was not added to the transaction".to_owned()),
            ),
            ErrorCode::ConcurrentTransactions if is_enrolled => (error, None),
            ErrorCode::ConcurrentTransactions
            | ErrorCode::NetworkException
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator => {
                let message = format!(
                    "Unable to verify the partition has been added to the transaction. \
                     Underlying error: {}",
                    error.name()
                );
                (ErrorCode::NotEnoughReplicas, Some(message))
            }
            error => (error, None),
        };
        Self {
            error_message: message,
            ..Self::of(error)
        }
    }

    /// What the partition's log, or what it demands of records, has refused. The answer then says
    /// where the log starts, but for errors that leave that unsaid.
    fn refused_by(partition: &Partition, error: ErrorCode) -> Self {
        let log_start_offset = match error {
            ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::CorruptMessage
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::KafkaStorageError => Offset::NONE,
            _ => partition.offsets().log_start_offset,
        };
        Self {
            log_start_offset,
            ..Self::of(error)
        }
    }

    /// Records that are refused; only where single ones are at fault does the answer explain it.
    fn invalid(partition: &Partition, invalid: InvalidRecords) -> Self {
        let errors = invalid.record_errors.iter();
        let errors = errors.map(|e| (e.batch_index, Some(e.to_string())));
        Self {
            record_errors: errors.collect(),
            error_message: (!invalid.record_errors.is_empty())
                .then(|| invalid.message.into_owned()),
            ..Self::refused_by(partition, invalid.error)
        }
    }

    /// Lists faulty records only as far as the answer may still list some.
    fn keep_record_errors(&mut self, left: &mut usize) {
        if self.record_errors.len() > *left {
            self.record_errors.truncate(*left);
            self.record_errors.shrink_to_fit();
        }
        *left -= self.record_errors.len();
    }
}

pub(crate) async fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    frame: &mut [u8],
    body_start: usize,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let mut lists = LentLists::take();
    let outline = &mut lists.lists().outline;
    let quick = read(frame, body_start, request, outline, QUICK_PARTITIONS)?;
    if let Some(asked) = quick {
        return append_all(broker, context, request, frame, (asked, lists), out).await;
    }
    drop(lists);
    let many = pin!(async {
        let mut lists = LentLists::default();
        let outline = &mut lists.lists().outline;
        let asked = read(frame, body_start, request, outline, usize::MAX)?;
        let asked = asked.expect("there is no limit");
        append_all(broker, context, request, frame, (asked, lists), out).await
    });
    broker.heavy_work.serve(Lane::Large, many).await
}

/// Appends what a request asks for, piece by piece, and answers it.
async fn append_all(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    frame: &mut [u8],
    (mut asked, mut lists): (RequestContext, LentLists),
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let Lists { outline, parts } = lists.lists();
    let version = request.version;
    let look_up = |name: &[u8], id| look_up_topic(broker, version, name, id);
    // One for all pieces, or others would never have theirs.
    let mut turn = Turn::begin();
    // That every batch is of one producer is known before the first is appended.
    if asked.is_verified() && outline.is_split() {
        for piece in outline.pieces() {
            turn.share().await;
            outline.fill(piece, frame, parts, look_up);
            asked.look_for_producer(parts);
        }
    }
    let mut answer = (asked.acks != 0).then(|| {
        let start = request.begin_answer(&mut out.head);
        let writer = ProduceResponseWriter::new(version);
        writer.head(outline.topic_count(frame), &mut out.head);
        (start, writer)
    });
    let mut record_errors_left = RECORD_ERRORS_MAX;
    let mut failed = None;
    let mut leaders = Vec::new();
    let mut deadline = None;
    for piece in outline.pieces() {
        turn.share_if(outline.is_split()).await;
        outline.fill(piece, frame, parts, look_up);
        asked.look_for_producer(parts);
        verify(broker, version, &asked, parts).await;
        append_piece(
            broker,
            context,
            (&asked, version),
            frame,
            parts,
            (&mut record_errors_left, &mut turn),
        )
        .await;
        if parts.partitions.iter().any(PartitionPart::is_flush_due) {
            flush(broker, &mut parts.partitions).await;
        }
        if asked.acks == -1 {
            let timeout = (asked.timeout_ms, &mut deadline);
            wait_for_replicas(broker, &mut parts.partitions, timeout).await;
        }
        match &mut answer {
            Some((_, writer)) => {
                let told = parts.partitions.iter();
                leaders.extend(told.filter_map(|part| Some(part.outcome.current_leader?.0)));
                answer_piece(writer, frame, parts, out);
            }
            None => {
                let mut errors = parts.partitions.iter().map(|part| part.outcome.error);
                failed = failed.or_else(|| errors.find(|error| !error.is_none()));
            }
        }
    }
    if let Some((start, writer)) = answer {
        let leaders = match leaders.is_empty() {
            true => Vec::new(),
            false => Endpoints::new(broker, context).live_of(leaders),
        };
        let nodes: Vec<_> = leaders.iter().map(BrokerEndpoint::as_node).collect();
        writer.end(0, &nodes, &mut out.head);
        request.finish_answer(start, out);
    }
    Ok(match failed {
        Some(error) => Served::Close(format!("a batch without answer failed: {error}")),
        None => Served::Answered,
    })
}

/// Appends the batches of a piece, or notes why the whole request is refused.
async fn append_piece(
    broker: &Broker,
    context: &ConnectionContext,
    (asked, version): (&RequestContext, i16),
    frame: &mut [u8],
    parts: &mut Parts,
    (record_errors_left, turn): (&mut usize, &mut Turn),
) {
    let Parts {
        topics,
        partitions,
        batches,
    } = parts;
    let append = Append {
        broker,
        context,
        batches,
        version,
        acks: asked.acks,
    };
    // What a single one takes counts in the turn of its connection.
    let are_many = partitions.len() > 1;
    let mut at = 0;
    for topic in &*topics {
        for part in &mut partitions[at..at + topic.partition_count] {
            part.outcome = match &asked.refusal {
                Some((error, error_message)) => Outcome {
                    error_message: error_message.clone(),
                    ..Outcome::of(*error)
                },
                None => append.in_turn(topic, part, frame).await,
            };
            part.outcome.keep_record_errors(record_errors_left);
            turn.share_if(are_many).await;
        }
        at += topic.partition_count;
    }
}

/// What of the request holds for all partitions.
struct RequestContext {
    acks: i16,
    timeout_ms: i32,
    /// The transaction of the batches, if one of them is of a transaction.
    transactional_id: Option<String>,
    /// The producer of the transactional batches that were looked at, with its epoch.
    producer: Option<(ProducerId, ProducerEpoch)>,
    /// What refuses the whole request.
    refusal: Option<Refusal>,
}

impl RequestContext {
    /// Whether the coordinator of the request's transaction is asked about its batches.
    const fn is_verified(&self) -> bool {
        self.refusal.is_none() && self.transactional_id.is_some()
    }

    /// Notes the producer of a piece's transactional batches. A request may not have two.
    fn look_for_producer(&mut self, parts: &Parts) {
        if !self.is_verified() {
            return;
        }
        for (_, _, batch) in parts.transactional() {
            let of_batch = (batch.producer_id(), batch.producer_epoch());
            if *self.producer.get_or_insert(of_batch) != of_batch {
                let message = "Transactional records contained more than one producer ID";
                let error = ErrorCode::InvalidProducerIdMapping;
                self.refusal = Some((error, Some(message.to_owned())));
                return;
            }
        }
    }
}

/// A code for every partition, with its explanation.
type Refusal = (ErrorCode, Option<String>);

/// Reads the request into ranges of the frame, so that the frame can then be written to; `None`
/// where it names more than `partitions_max` partitions.
fn read(
    frame: &[u8],
    body_start: usize,
    request: &Request<'_>,
    outline: &mut Outline,
    partitions_max: usize,
) -> Result<Option<RequestContext>, DecodeError> {
    let (body, version) = (&frame[body_start..], request.version);
    let elements_max = request.elements_max;
    // Every producer sends a batch for each partition that it names. What is kept of one while it is
    // served is in proportion to a batch, and would not be to what has been sent.
    let mut empty_left = elements_max / ELEMENTS_PER_EMPTY;
    let mut are_more = false;
    let mut inspection = Inspection::default();
    let head = read_produce_request(body, version, elements_max, |topic, part| {
        if outline.partition_count() == partitions_max {
            are_more = true;
            return Err(DecodeError::TooManyElements);
        }
        let records = part.records.unwrap_or_default();
        if records.len() < HEADER_SIZE_BYTES {
            let left = empty_left.checked_sub(1);
            empty_left = left.ok_or(DecodeError::TooManyElements)?;
        }
        let parsed = RecordBatch::parse(records);
        inspection.look_at(&parsed);
        let batch = accept_produced(parsed, version).map_err(|invalid| invalid.error);
        outline.push(frame, topic, (part.index, records), batch);
        Ok(())
    });
    let head = match head {
        Err(_) if are_more => return Ok(None),
        Err(DecodeError::InvalidUtf8) => {
            request.note_invalid_strings::<ProduceRequest<'_>>(body)?;
            return Err(DecodeError::InvalidUtf8);
        }
        head => head?,
    };
    let (is_transactional, refusal) = inspection.verdict(head.transactional_id);
    let transactional_id = head.transactional_id.filter(|_| is_transactional);
    outline.join_repetitions(frame);
    Ok(Some(RequestContext {
        acks: head.acks,
        timeout_ms: head.timeout_ms,
        transactional_id: transactional_id.map(str::to_owned),
        producer: None,
        refusal,
    }))
}

/// What is hosted of a topic.
fn look_up_topic(broker: &Broker, version: i16, name: &[u8], id: Uuid) -> Option<Arc<HostedTopic>> {
    let topics = &broker.logs.partitions;
    match version {
        13.. => topics.topic_by_id(id),
        _ => topics.topic(std::str::from_utf8(name).ok()?),
    }
}

/// Asks the coordinator of the request's transaction about the batches of a piece.
async fn verify(broker: &Broker, version: i16, asked: &RequestContext, parts: &mut Parts) {
    if !asked.is_verified() {
        return;
    }
    let (Some(transactional_id), Some((producer_id, producer_epoch))) =
        (&asked.transactional_id, asked.producer)
    else {
        return;
    };
    // Where in the list the part of each is.
    let mut places = Vec::new();
    let mut enrolments = Vec::new();
    for (at, partition, batch) in parts.transactional() {
        places.push(at);
        enrolments.push(PartitionToVerify {
            partition,
            base_sequence: batch.base_sequence(),
        });
    }
    let producer = TransactionalProducer {
        transactional_id,
        producer_id,
        producer_epoch,
    };
    let support = TransactionSupport::of_produce(version);
    let verified = broker
        .coordinators
        .verify_produced(&producer, &enrolments, support);
    for (at, verification) in places.into_iter().zip(verified.await) {
        parts.partitions[at].verification = verification;
    }
}

/// What became of a partition's records.
enum Appending {
    Ended(Outcome),
    /// There is more to do than a worker has time for.
    TooLarge,
    /// The log directory of this place is slow.
    SlowDisk(usize),
}

impl Appending {
    /// The outcome where there was no limit.
    fn outcome(self) -> Outcome {
        match self {
            Self::Ended(outcome) => outcome,
            Self::TooLarge | Self::SlowDisk(_) => Outcome::of(ErrorCode::MessageTooLarge),
        }
    }
}

/// Who appends, and under which terms.
#[derive(Clone, Copy)]
struct Append<'a> {
    broker: &'a Broker,
    context: &'a ConnectionContext,
    /// What the headers of the request's batches say.
    batches: &'a [ParsedHeader],
    version: i16,
    acks: i16,
}

impl Append<'_> {
    /// Appends the records of a partition, on this worker if that takes little time.
    async fn in_turn(
        self,
        topic: &TopicPart,
        part: &mut PartitionPart,
        frame: &mut [u8],
    ) -> Outcome {
        let (heavy_work, disks) = (&self.broker.heavy_work, &self.broker.logs.disks);
        let mut appending = self.to(topic, part, frame, AppendThread::Quick, None);
        if matches!(appending, Appending::TooLarge) {
            let turn = Some(heavy_work.expanding_turn().await);
            let again = || self.to(topic, part, frame, AppendThread::OffWorkers, turn);
            appending = off_workers(again);
        }
        match appending {
            Appending::SlowDisk(directory_index) => {
                let again = || self.to(topic, part, frame, AppendThread::OffWorkers, None);
                disks
                    .run(directory_index, DiskUse::Write, again)
                    .await
                    .outcome()
            }
            appending => appending.outcome(),
        }
    }

    /// Appends the records of a partition unless that takes too long.
    fn to(
        self,
        topic: &TopicPart,
        part: &mut PartitionPart,
        frame: &mut [u8],
        pace: AppendThread,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Appending {
        let found = match &topic.hosted {
            Some(hosted) => hosted.find(part.index),
            None if self.version >= 13 => Err(Unavailable::UnknownTopicId),
            None => Err(Unavailable::Unknown),
        };
        let found = found.map_err(|absence| {
            let find = |topics: &TopicsImage| self.find_topic(topic, frame, topics).cloned();
            self.broker.logs.absence(absence, part.index, find)
        });
        let appending = match found {
            Err(absence) if absence.is_unknown() => {
                return Appending::Ended(Outcome::absent(absence));
            }
            found => self.records_to(topic, found, part, frame, pace, turn),
        };
        match (appending, part.repetition_error) {
            (Appending::Ended(_), Some(error)) => Appending::Ended(Outcome::of(error)),
            (appending, _) => appending,
        }
    }

    /// The topic in the metadata.
    fn find_topic<'t>(
        self,
        topic: &TopicPart,
        frame: &[u8],
        topics: &'t TopicsImage,
    ) -> Option<&'t Arc<Topic>> {
        match self.version {
            13.. => topics.by_id(topic.id),
            _ => topics.by_name(std::str::from_utf8(&frame[topic.name.clone()]).ok()?),
        }
    }

    /// Whether only the one client may write to a topic, which is here or elsewhere.
    fn is_internal(self, topic: &TopicPart, frame: &[u8]) -> bool {
        match &topic.hosted {
            Some(hosted) => is_internal(&hosted.name),
            None => self
                .find_topic(topic, frame, &self.broker.node.image().topics)
                .is_some_and(|topic| is_internal(&topic.name)),
        }
    }

    fn records_to(
        self,
        topic: &TopicPart,
        found: Result<Arc<Partition>, Unavailable>,
        part: &mut PartitionPart,
        frame: &mut [u8],
        pace: AppendThread,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Appending {
        let refused = |outcome| Appending::Ended(outcome);
        let batch = match part.batch_of(self.batches) {
            Ok(batch) => batch,
            Err(error) => return refused(Outcome::of(error)),
        };
        let verification = match part.verification {
            Ok(verification) => verification,
            Err(error) => {
                let outcome = Outcome::unverified(error, self.version);
                return refused(match &found {
                    Ok(partition) => outcome.led_by(self.broker, partition),
                    Err(_) => outcome,
                });
            }
        };
        if !(-1..=1).contains(&self.acks) {
            return refused(Outcome::of(ErrorCode::InvalidRequiredAcks));
        }
        if self.is_internal(topic, frame) && self.context.client_id() != ADMIN_CLIENT_ID {
            return refused(Outcome::of(ErrorCode::InvalidTopicException));
        }
        let (partition, hosted) = match (found, &topic.hosted) {
            (Ok(partition), Some(hosted)) => (partition, hosted),
            (Err(absence), _) => return refused(Outcome::absent(absence)),
            (Ok(_), None) => unreachable!("partitions are found in their topics"),
        };
        let (directory_index, disks) = (partition.directory_index(), &self.broker.logs.disks);
        if (pace == AppendThread::Quick || turn.is_some())
            && disks.is_slow(directory_index, DiskUse::Write)
        {
            return Appending::SlowDisk(directory_index);
        }
        let now_ms = now_ms();
        let mut rules = hosted.rules();
        if pace.is_too_long_for(&batch, &rules) {
            return Appending::TooLarge;
        }
        let is_less = pace.limit(&mut rules);
        let records = &mut frame[part.records.clone()];
        let validated = VALIDATOR
            .with_borrow_mut(|validator| validator.validate(batch, records, &rules, now_ms));
        let mut validated = match validated {
            Ok(validated) => validated,
            Err(invalid) if invalid.expands_beyond_limit && is_less => return Appending::TooLarge,
            Err(invalid) => {
                let explain = || Outcome::invalid(&partition, invalid);
                return refused(disks.call(directory_index, DiskUse::Write, explain));
            }
        };
        // The disk may be stuck, and others have something to expand as well.
        drop(turn);
        let outcome = disks.call(directory_index, DiskUse::Write, || {
            let batch = &mut validated;
            append_validated(self, part, partition, batch, verification, now_ms)
        });
        Appending::Ended(outcome)
    }
}

/// Appends a batch that may be appended.
fn append_validated(
    append: Append<'_>,
    part: &mut PartitionPart,
    partition: Arc<Partition>,
    batch: &mut ValidatedBatch<'_>,
    verification: Option<VerificationGuard>,
    now_ms: i64,
) -> Outcome {
    let leadership = partition.leadership();
    let acks = match append.acks {
        -1 => Acks::All,
        _ => Acks::Leader,
    };
    match partition.append_as_leader(batch, verification, acks, now_ms) {
        Ok(appended) => {
            part.appended = Some(AppendedBatch {
                partition,
                leadership,
                end_offset: appended.last_offset + 1,
                is_flush_due: appended.is_flush_due,
            });
            Outcome {
                base_offset: appended.base_offset,
                log_append_time_ms: appended.log_append_time_ms,
                log_start_offset: appended.log_start_offset,
                ..Outcome::of(ErrorCode::None)
            }
        }
        Err(error) => {
            let broker = append.broker;
            broker.logs.report_append_error(&partition, &error);
            Outcome::refused_by(&partition, error.code()).led_by(broker, &partition)
        }
    }
}

/// Makes the batches durable whose topics ask for it, all partitions at the same time.
async fn flush(broker: &Broker, partitions: &mut [PartitionPart]) {
    let flushes: Vec<_> = partitions
        .iter()
        .map(|part| {
            let batch = part.appended.as_ref().filter(|batch| batch.is_flush_due)?;
            Some(broker.logs.flush(batch.partition.clone(), batch.end_offset))
        })
        .collect();
    for (part, flush) in partitions.iter_mut().zip(flushes) {
        let Some(flush) = flush else { continue };
        if let Err(error) = flush.await {
            part.outcome = Outcome::of(error);
        }
    }
}

/// Waits until every batch is below its partition's high watermark, or the time is over.
///
/// The time begins with the first wait of the request.
async fn wait_for_replicas(
    broker: &Broker,
    partitions: &mut [PartitionPart],
    (timeout_ms, deadline): (i32, &mut Option<Instant>),
) {
    let timeout = Duration::from_millis(timeout_ms.max(0) as u64);
    for part in partitions {
        // A batch whose flush has failed has its answer.
        let appended = part.appended.as_ref();
        let Some(batch) = appended.filter(|_| part.outcome.error.is_none()) else {
            continue;
        };
        if batch.is_replicated() {
            continue;
        }
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + timeout);
        let AppendedBatch {
            partition,
            leadership,
            end_offset,
            ..
        } = batch;
        let wait = partition.wait_until_replicated(*leadership, *end_offset);
        match tokio::time::timeout_at(deadline, wait).await {
            Ok(Ok(())) => {}
            // What is said of the batch stands: it is in the log.
            Ok(Err(error)) => {
                let appended = std::mem::replace(&mut part.outcome, Outcome::of(error));
                part.outcome = Outcome { error, ..appended }.led_by(broker, partition);
            }
            Err(_) => part.outcome.error = ErrorCode::RequestTimedOut,
        }
    }
}

/// Appends what became of a piece. A topic may have begun in the piece before it, and may go on in the
/// next one.
fn answer_piece(
    writer: &ProduceResponseWriter,
    frame: &[u8],
    parts: &Parts,
    out: &mut ResponseBuffer,
) {
    let mut at = 0;
    for topic in &parts.topics {
        if let Some(count) = topic.begins_with {
            let name = match &topic.hosted {
                // It was found by this name, or the answer has none.
                Some(hosted) => &*hosted.name,
                None => std::str::from_utf8(&frame[topic.name.clone()]).unwrap_or_default(),
            };
            writer.topic(name, topic.id, count, &mut out.head);
        }
        for part in &parts.partitions[at..at + topic.partition_count] {
            writer.partition(&part.outcome.answer(part.index), &mut out.head);
        }
        if topic.ends {
            writer.end_topic(&mut out.head);
        }
        at += topic.partition_count;
    }
}

mod append_thread;
mod inspection;
mod lists;
mod outline;
mod parts;

#[cfg(test)]
mod tests;
