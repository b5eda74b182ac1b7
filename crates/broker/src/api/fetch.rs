//! Fetch: v4–18. Record batches of partitions, sent from their files.
//!
//! - Versions: 7 incremental sessions (KIP-227), 9 leader epochs, 12 diverging epochs (KIP-595),
//!   13 topic ids (KIP-516), 15 replica state, 16 node endpoints (KIP-951).
//! - The first partition with records returns one whole batch even beyond every limit (KIP-74).
//! - A request that finds fewer than `MinBytes` waits for any of its partitions until `MaxWaitMs`.
//! - A fetch in a session reads the partitions that have changed since they were read last, and
//!   costs nothing for the others; so does each wake of a request that waits.
//! - Partitions that do not exist stay in a session while they are few: a client that names many
//!   has none.
//! - Ignored on purpose: `RackId` (there is one replica), `ClusterId`, and the high watermark of
//!   version 18, which concerns followers.

use self::asked::{asked, asked_once, forgotten, has_session, limits, owned};
use super::weight::LIGHT_FETCH_BYTES;
use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::api::endpoints::{BrokerEndpoint, Endpoints};
use crate::logs::partitions::Unavailable;
use crate::net::{ConnectionContext, FileRange, ResponseBuffer};
use crate::scheduling::clock::{monotonic, random_bytes};
use crate::scheduling::disk_watch::{DiskUse, DiskWatch};
use metadata::NO_LEADER;
use model::{BrokerId, DecodeError, ErrorCode, LeaderEpoch, Uuid};
use replication::{
    Changes, FINAL_EPOCH, FetchContext, FetchPartition, FetchSession, INVALID_SESSION_ID,
    IncrementalFetch, Isolation, NewSession, Partition, PartitionSlot, ReadError, ReadOutcome,
    ReadRequest, ReadResult, Seen, SessionRequest, SessionTopic, Watches,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};
use wire::messages::FetchRequest;

const READ_COMMITTED: i8 = 1;
/// From this version on clients that are wrong about a leader are told who it is.
const LEADERS_VERSION: i16 = 16;
/// The replica id of a log that a broker makes in another of its directories.
const FUTURE_REPLICA: BrokerId = BrokerId(-3);
/// How many partitions of a session may be unknown. Those that exist are as many as somebody has
/// made, whatever clients ask for.
const SESSION_UNKNOWN_MAX: usize = 100;

/// A partition to read and what was found.
struct Part {
    topic: SessionTopic,
    index: i32,
    request: FetchPartition,
    /// Where the partition stands in its session, or in the request without one.
    slot: PartitionSlot,
    partition: Result<Arc<Partition>, Unavailable>,
    /// The partition's progress before it was read.
    seen: Seen,
    result: Result<ReadResult, ErrorCode>,
    /// The leader and its epoch when the client was found to be wrong about them.
    leader: (BrokerId, LeaderEpoch),
    /// Why there are no records.
    failure: Option<ReadError>,
}

/// What of the request holds for all partitions.
#[derive(Clone, Copy)]
struct Limits {
    max_bytes: usize,
    min_bytes: usize,
    max_wait: Duration,
    isolation: Isolation,
    /// The request is of a broker, hence of one that is no replica: the only replica is this one.
    is_follower: bool,
    /// The id of this broker.
    node_id: BrokerId,
}

pub(crate) async fn serve(
    broker: &Broker,
    connection: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: FetchRequest<'_> = request.decode()?;
    let limits = limits(broker, request.version, &message);
    let session = SessionRequest {
        session_id: message.session_id,
        session_epoch: match has_session(&message) {
            true => message.session_epoch,
            false => FINAL_EPOCH,
        },
        uses_topic_ids: request.version >= 13,
    };
    let started = broker.fetch_sessions.with(session.session_id, |sessions| {
        sessions.start(
            session,
            asked(&message, request.version),
            forgotten(&message, request.version),
            monotonic().as_ms(),
        )
    });
    let context = match started {
        Ok(context) => context,
        Err(error) => {
            answer(
                request,
                &FetchOutcome::refusal(error, &broker.logs.disks),
                out,
            );
            return Ok(Served::Answered);
        }
    };
    // A large one is served off the workers, where it keeps its place until it has read.
    let mut turn = (request.body.len() <= LIGHT_FETCH_BYTES).then(Turn::begin);
    let mut parts = match &context {
        FetchContext::Incremental(fetch) => match take_changed(broker, fetch) {
            Ok(taken) => parts_of(broker, taken, &mut turn).await,
            Err(error) => {
                answer(
                    request,
                    &FetchOutcome::refusal(error, &broker.logs.disks),
                    out,
                );
                return Ok(Served::Answered);
            }
        },
        FetchContext::Sessionless | FetchContext::Full => asked_once(&message, request.version)
            .into_iter()
            .zip(0..)
            .map(|((topic, index, request), at)| {
                Part::new(broker, owned(topic), index, request, PartitionSlot(at))
            })
            .collect(),
    };
    read_or_wait(broker, &context, &mut parts, limits, turn).await;
    report_failures(broker, &parts);
    let (error, session_id, mut told) =
        conclude(broker, &message, request, &context, parts, limits);
    // As in Kafka's answers, what does not exist follows what could be read.
    told.sort_by_key(Part::is_unknown);
    // Others have been answered while this one has waited for records. Nothing is awaited from here on
    // until the answer is counted. A fetch of up to `LIGHT_FETCH_BYTES` waits for no room: those who do
    // not read would hold up consumers. A larger one has waited for it before it was served.
    out.set_copied_max(broker.sockets.answer_memory.copied_max_bytes());
    let told = FetchOutcome {
        error,
        session_id,
        parts: &told,
        leaders: match limits.is_follower {
            true => Vec::new(),
            false => leaders_of(broker, connection, request.version, &told),
        },
        disks: &broker.logs.disks,
    };
    answer(request, &told, out);
    Ok(Served::Answered)
}

impl Part {
    fn new(
        broker: &Broker,
        topic: SessionTopic,
        index: i32,
        request: FetchPartition,
        slot: PartitionSlot,
    ) -> Self {
        let partition = find(broker, &topic, index);
        let result = Err(ErrorCode::UnknownServerError);
        Self {
            topic,
            index,
            request,
            slot,
            partition,
            seen: Seen::default(),
            result,
            leader: (NO_LEADER, LeaderEpoch::NONE),
            failure: None,
        }
    }

    fn read(&mut self, left_bytes: usize, at_least_one_batch: bool, limits: Limits) -> usize {
        let request = ReadRequest {
            current_leader_epoch: self.request.current_leader_epoch,
            fetch_offset: self.request.fetch_offset,
            last_fetched_epoch: self.request.last_fetched_epoch,
            max_bytes: left_bytes.min(self.request.max_bytes.max(0) as usize),
            at_least_one_batch,
            isolation: limits.isolation,
        };
        self.failure = None;
        self.result = match &self.partition {
            Ok(partition) if limits.is_follower => Err(self.no_replica_error(partition)),
            Ok(partition) => {
                self.seen = partition.progress(limits.isolation).seen();
                let read = partition.read(&request);
                read.map_err(|error| self.failure.insert(error).code())
            }
            Err(absence) => Err(absence.code_for(self.request.current_leader_epoch)),
        };
        self.note_leader(limits);
        self.bytes()
    }

    /// Looks for the leader on behalf of a client that is wrong about it.
    fn note_leader(&mut self, limits: Limits) {
        if let (Err(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch), Ok(partition)) =
            (&self.result, &self.partition)
        {
            self.leader = partition.known_leader(limits.node_id);
        }
    }

    /// Answers without records, which the next fetch may have: the answer holds as many files as there
    /// may be open, until it has left.
    fn put_off(&mut self, limits: Limits) {
        let Ok(partition) = &self.partition else {
            return;
        };
        let is_committed = limits.isolation == Isolation::LastStableOffset;
        let checked = partition.check_leader(self.request.current_leader_epoch);
        self.result = checked.map(|()| ReadResult {
            offsets: partition.offsets(),
            records: None,
            aborted_transactions: is_committed.then(Vec::new),
            diverging_epoch: None,
        });
        self.note_leader(limits);
    }

    /// What a broker hears that is no replica of the partition.
    fn no_replica_error(&self, partition: &Partition) -> ErrorCode {
        let epoch = self.request.current_leader_epoch;
        match partition.check_leader(epoch) {
            Err(error) => error,
            Ok(()) if epoch == LeaderEpoch::NONE => ErrorCode::NotLeaderOrFollower,
            Ok(()) => ErrorCode::UnknownLeaderEpoch,
        }
    }

    /// Whether there is no such partition.
    fn is_unknown(&self) -> bool {
        let absence = self.partition.as_ref().err();
        absence.is_some_and(|absence| absence.is_unknown())
    }

    /// The leader and its epoch, for a client that is wrong about them (KIP-951).
    fn current_leader(&self) -> Option<(BrokerId, LeaderEpoch)> {
        match self.result {
            Err(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) => {}
            _ => return None,
        }
        match &self.partition {
            Ok(_) => Some(self.leader),
            Err(absence) => absence.current_leader(),
        }
    }

    fn bytes(&self) -> usize {
        let records = self
            .result
            .as_ref()
            .ok()
            .and_then(|result| result.records.as_ref());
        records.map_or(0, |records| records.length)
    }

    /// Why there are no records, if that is a lack of file descriptors.
    fn shortage(&self) -> Option<&ReadError> {
        self.failure
            .as_ref()
            .filter(|error| error.is_out_of_files())
    }

    /// Whether the client must hear of this partition without waiting.
    fn is_urgent(&self) -> bool {
        self.result
            .as_ref()
            .map_or(true, |result| result.diverging_epoch.is_some())
            || self.shortage().is_some()
    }

    /// Whether there are records that the limits have kept from the answer.
    fn is_left_out(&self, isolation: Isolation) -> bool {
        self.result.as_ref().is_ok_and(|result| {
            let end = match isolation {
                Isolation::LogEnd => result.offsets.log_end_offset,
                Isolation::HighWatermark => result.offsets.high_watermark,
                Isolation::LastStableOffset => result.offsets.last_stable_offset,
            };
            result.records.is_none() && self.request.fetch_offset < end
        })
    }

    fn outcome(&self) -> ReadOutcome {
        match &self.result {
            Ok(result) => ReadOutcome {
                error: ErrorCode::None,
                high_watermark: result.offsets.high_watermark,
                log_start_offset: result.offsets.log_start_offset,
                has_records: self.bytes() > 0,
                has_diverging_epoch: result.diverging_epoch.is_some(),
                has_preferred_read_replica: false,
            },
            Err(error) => ReadOutcome::error(*error),
        }
    }
}

/// The partition as it is hosted at the moment.
fn find(broker: &Broker, topic: &SessionTopic, index: i32) -> Result<Arc<Partition>, Unavailable> {
    match topic {
        SessionTopic::Id(id) => broker.logs.find_by_id(*id, index),
        SessionTopic::Name(name) => broker.logs.find(name, index),
    }
}

/// A partition of a session that is to be read.
struct SessionPartition {
    topic: SessionTopic,
    index: i32,
    request: FetchPartition,
    slot: PartitionSlot,
}

impl SessionPartition {
    fn part(self, broker: &Broker) -> Part {
        Part::new(broker, self.topic, self.index, self.request, self.slot)
    }
}

/// The partitions of a session that may have something new.
fn take_changed(
    broker: &Broker,
    fetch: &IncrementalFetch,
) -> Result<Vec<SessionPartition>, ErrorCode> {
    broker.fetch_sessions.with(fetch.session_id, |sessions| {
        let taken = sessions.session(fetch)?.take_changed();
        let taken = taken.map(|(slot, one)| SessionPartition {
            topic: one.topic.clone(),
            index: one.partition,
            request: one.request,
            slot,
        });
        Ok(taken.collect())
    })
}

/// Looks the partitions up.
async fn parts_of(
    broker: &Broker,
    taken: Vec<SessionPartition>,
    turn: &mut Option<Turn>,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(taken.len());
    for one in taken {
        parts.push(one.part(broker));
        if let Some(turn) = turn {
            turn.share().await;
        }
    }
    parts
}

/// Reads the partitions; waits and reads again what has changed while there is too little to
/// answer.
async fn read_or_wait(
    broker: &Broker,
    context: &FetchContext,
    parts: &mut Vec<Part>,
    limits: Limits,
    mut turn: Option<Turn>,
) {
    let mut found = read(&broker.logs.disks, parts, 0.., 0, limits, &mut turn).await;
    let is_enough = |found: usize, parts: &[Part]| {
        found >= limits.min_bytes || parts.iter().any(Part::is_urgent)
    };
    if limits.max_wait.is_zero() || is_enough(found, parts) {
        return;
    }
    let mut waiting = match context {
        FetchContext::Incremental(fetch) => Waiting::Session(fetch, places(parts)),
        FetchContext::Full | FetchContext::Sessionless if parts.is_empty() => return,
        FetchContext::Full | FetchContext::Sessionless => Waiting::Request(Watches::default()),
    };
    let deadline = Instant::now() + limits.max_wait;
    let mut last_read: Vec<usize> = (0..parts.len()).collect();
    loop {
        let Some(changes) = waiting.watch(broker, parts, &last_read, limits.isolation) else {
            return;
        };
        if tokio::time::timeout_at(deadline, changes.any())
            .await
            .is_err()
        {
            return;
        }
        turn = turn.map(|_| Turn::begin());
        last_read = waiting.take_changed(broker, parts);
        let before: usize = last_read.iter().map(|at| parts[*at].bytes()).sum();
        let places = last_read.iter().copied();
        found = read(
            &broker.logs.disks,
            parts,
            places,
            found - before,
            limits,
            &mut turn,
        )
        .await;
        let is_urgent = last_read.iter().any(|at| parts[*at].is_urgent());
        if is_urgent || found >= limits.min_bytes {
            return;
        }
    }
}

/// Reads some of the parts in order until the response, of which `found` bytes are taken, is full;
/// one batch comes whole whatever its size. Returns how many bytes are taken then.
///
/// A partition that nobody has used for a while opens its files first, so others have their turn in
/// between.
async fn read(
    disks: &DiskWatch,
    parts: &mut [Part],
    places: impl IntoIterator<Item = usize>,
    mut found: usize,
    limits: Limits,
    turn: &mut Option<Turn>,
) -> usize {
    let mut is_short = false;
    for at in places {
        let Some(part) = parts.get_mut(at) else { break };
        let left = limits.max_bytes.saturating_sub(found);
        // What is not there is on no disk.
        let directory_index = part
            .partition
            .as_ref()
            .map_or(usize::MAX, |one| one.directory_index());
        let disk = disks.turn(directory_index, DiskUse::Read).await;
        found += disk.run(|| {
            let bytes = match is_short {
                true => 0,
                false => part.read(left, found == 0, limits),
            };
            is_short |= part.shortage().is_some() && found > 0;
            if is_short {
                part.put_off(limits);
            }
            bytes
        });
        if let Some(turn) = turn {
            turn.share().await;
        }
    }
    found
}

/// Tells of logs that cannot be read, and of what is left out of the answer since there is no file
/// descriptor for it.
fn report_failures(broker: &Broker, parts: &[Part]) {
    let mut is_short = false;
    for part in parts {
        let (Ok(partition), Some(error)) = (&part.partition, &part.failure) else {
            continue;
        };
        if !error.is_out_of_files() {
            broker.logs.report_read_error(partition, error);
        } else if !std::mem::replace(&mut is_short, true) {
            broker
                .logs
                .note_shortage("records are left out of an answer", partition, error);
        }
    }
}

/// Where each slot is among the parts.
fn places(parts: &[Part]) -> HashMap<PartitionSlot, usize> {
    parts.iter().map(|part| part.slot).zip(0..).collect()
}

/// What a fetch waits for.
enum Waiting<'f> {
    /// Any partition of the session; those that were not read are watched already.
    Session(&'f IncrementalFetch, HashMap<PartitionSlot, usize>),
    /// Any partition of the request, watched by its place.
    Request(Watches),
}

impl Waiting<'_> {
    /// Watches the parts that were just read. `None` when the session has gone on without this
    /// fetch.
    fn watch(
        &mut self,
        broker: &Broker,
        parts: &[Part],
        read: &[usize],
        isolation: Isolation,
    ) -> Option<Arc<Changes>> {
        let read = read.iter().map(|at| &parts[*at]);
        let found = read.filter_map(|part| Some((part, part.partition.as_ref().ok()?)));
        match self {
            Self::Session(fetch, _) => broker.fetch_sessions.with(fetch.session_id, |sessions| {
                let session = sessions.session(fetch).ok()?;
                for (part, partition) in found {
                    session.watch(part.slot, partition.progress(isolation), part.seen);
                }
                Some(session.changes().clone())
            }),
            Self::Request(watches) => {
                for (part, partition) in found {
                    watches.watch(part.slot.0, partition.progress(isolation), part.seen);
                }
                Some(watches.changes().clone())
            }
        }
    }

    /// The places of the parts that have changed, as they are hosted now: what has changed may be
    /// that a topic is deleted. Those that the session had not read before are added.
    fn take_changed(&mut self, broker: &Broker, parts: &mut Vec<Part>) -> Vec<usize> {
        let mut changed = Vec::new();
        match self {
            Self::Session(fetch, places) => {
                for taken in take_changed(broker, fetch).unwrap_or_default() {
                    let part = taken.part(broker);
                    let at = *places.entry(part.slot).or_insert(parts.len());
                    changed.push(at);
                    match parts.get_mut(at) {
                        Some(known) => known.partition = part.partition,
                        None => parts.push(part),
                    }
                }
            }
            Self::Request(watches) => watches.take_changed(|place| {
                let at = place as usize;
                let part = &mut parts[at];
                part.partition = find(broker, &part.topic, part.index);
                changed.push(at);
            }),
        }
        changed
    }
}

/// Tells the session what was found; what is left are the partitions that the client hears of.
fn conclude(
    broker: &Broker,
    message: &FetchRequest<'_>,
    request: &Request<'_>,
    context: &FetchContext,
    mut parts: Vec<Part>,
    limits: Limits,
) -> (ErrorCode, i32, Vec<Part>) {
    let unknown = parts.iter().filter(|part| part.is_unknown());
    let are_too_many_unknown = unknown.count() > SESSION_UNKNOWN_MAX;
    match context {
        FetchContext::Sessionless => (ErrorCode::None, INVALID_SESSION_ID, parts),
        FetchContext::Full => {
            let is_wanted = request.version >= 7 && !message.topics.is_empty();
            let session_id = match is_wanted && !are_too_many_unknown {
                true => create_session(broker, request, &parts, limits),
                false => INVALID_SESSION_ID,
            };
            (ErrorCode::None, session_id, parts)
        }
        FetchContext::Incremental(fetch) => {
            broker.fetch_sessions.with(fetch.session_id, |sessions| {
                let session = match sessions.session(fetch) {
                    Ok(session) => session,
                    Err(error) => return (error, INVALID_SESSION_ID, Vec::new()),
                };
                parts.retain(|part| {
                    let is_told = session.answer(part.slot, &part.outcome());
                    match &part.partition {
                        _ if part.is_left_out(limits.isolation) => session.mark_changed(part.slot),
                        Ok(partition) if part.bytes() == 0 => {
                            let progress = partition.progress(limits.isolation);
                            session.watch(part.slot, progress, part.seen);
                        }
                        // Read again by the next fetch whatever happens.
                        _ => {}
                    }
                    is_told
                });
                // Unknown partitions are told each time, so they are all among the parts.
                if are_too_many_unknown {
                    sessions.remove(fetch.session_id);
                    return (ErrorCode::None, INVALID_SESSION_ID, parts);
                }
                (ErrorCode::None, fetch.session_id, parts)
            })
        }
    }
}

/// Makes a session of a full fetch, and gives its id; others wait only while it gets its place.
fn create_session(broker: &Broker, request: &Request<'_>, parts: &[Part], limits: Limits) -> i32 {
    let answered = parts.iter().map(|part| {
        (
            part.topic.as_ref(),
            part.index,
            part.request,
            part.outcome(),
        )
    });
    let session = FetchSession::answered(request.version >= 13, answered);
    let new = NewSession {
        is_privileged: limits.is_follower,
        random: u32::from_be_bytes(random_bytes()),
    };
    broker
        .fetch_sessions
        .create(new, session, monotonic().as_ms())
}

/// What the client is told.
struct FetchOutcome<'a> {
    error: ErrorCode,
    session_id: i32,
    parts: &'a [Part],
    /// The leaders of partitions that the client takes to be led by another broker. Brokers know each other's
    /// places.
    leaders: Vec<BrokerEndpoint>,
    disks: &'a Arc<DiskWatch>,
}

impl<'a> FetchOutcome<'a> {
    const fn refusal(error: ErrorCode, disks: &'a Arc<DiskWatch>) -> Self {
        Self {
            error,
            session_id: INVALID_SESSION_ID,
            parts: &[],
            leaders: Vec::new(),
            disks,
        }
    }
}

/// The leaders that the client is told, where it reaches them.
fn leaders_of(
    broker: &Broker,
    connection: &ConnectionContext,
    version: i16,
    told: &[Part],
) -> Vec<BrokerEndpoint> {
    let leaders = told.iter().filter_map(Part::current_leader);
    let leaders = leaders.filter(|_| version >= LEADERS_VERSION);
    let leaders: Vec<BrokerId> = leaders.map(|(id, _)| id).collect();
    match leaders.is_empty() {
        true => Vec::new(),
        false => Endpoints::new(broker, connection).live_of(leaders),
    }
}

fn answer(request: &Request<'_>, told: &FetchOutcome<'_>, out: &mut ResponseBuffer) {
    let parts = told.parts;
    let start = request.begin_answer(&mut out.head);
    let writer = FetchResponseWriter::new(request.version);
    // Partitions of a topic that stand together share one entry.
    let topics = || parts.chunk_by(|a, b| a.topic == b.topic);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: told.error,
        session_id: told.session_id,
        topic_count: topics().count(),
    };
    writer.head(&head, &mut out.head);
    let mut file_bytes = 0;
    for topic in topics() {
        let (name, id) = match &topic[0].topic {
            SessionTopic::Id(id) => ("", *id),
            SessionTopic::Name(name) => (&**name, Uuid::ZERO),
        };
        writer.topic(name, id, topic.len(), &mut out.head);
        for part in topic {
            let leader = (request.version >= LEADERS_VERSION)
                .then(|| part.current_leader())
                .flatten();
            file_bytes += answer_part(&writer, part, leader, told.disks, out);
        }
        writer.end_topic(&mut out.head);
    }
    let leaders: Vec<_> = told.leaders.iter().map(BrokerEndpoint::as_node).collect();
    writer.end(&leaders, &mut out.head);
    request.finish_answer_with_records(start, file_bytes, out);
}

/// Appends a partition; returns how many bytes of records are not in the buffer itself.
fn answer_part(
    writer: &FetchResponseWriter,
    part: &Part,
    current_leader: Option<(BrokerId, LeaderEpoch)>,
    disks: &Arc<DiskWatch>,
    out: &mut ResponseBuffer,
) -> usize {
    let bytes = part.bytes();
    let mut partition = FetchResponsePartition {
        index: part.index,
        error: ErrorCode::None,
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging_epoch: None,
        current_leader,
        aborted_transactions: None,
        preferred_read_replica: BrokerId::NONE,
        records_bytes: bytes,
    };
    match &part.result {
        Ok(result) => {
            partition.high_watermark = result.offsets.high_watermark;
            partition.last_stable_offset = result.offsets.last_stable_offset;
            partition.log_start_offset = result.offsets.log_start_offset;
            partition.diverging_epoch = result.diverging_epoch;
            partition.aborted_transactions = result.aborted_transactions.as_deref();
        }
        Err(error) => {
            partition.error = *error;
            // What was not read at all has an empty list where null means "not asked for".
            partition.aborted_transactions = part.is_unknown().then_some(&[]);
        }
    }
    let records = part.result.as_ref().ok();
    let Some(records) = records.and_then(|result| result.records.as_ref()) else {
        writer.partition_without_records(&partition, &mut out.head);
        return 0;
    };
    writer.partition(&partition, &mut out.head);
    let sent_apart = out.push_range(FileRange {
        file: records.file.clone(),
        position: records.position,
        length: records.length,
        directory_index: part
            .partition
            .as_ref()
            .map_or(usize::MAX, |one| one.directory_index()),
        disks: disks.clone(),
    });
    writer.end_partition(&partition, &mut out.head);
    sent_apart
}

mod asked;
#[cfg(test)]
mod tests;
