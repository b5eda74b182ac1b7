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
//! - A follower says by its fetch how far it is, of the partitions of its session that it does not name as well
//!   (`replication::FollowerFetch`); that of a fetch that has waited is known already. It hears of a high
//!   watermark with the next answer, which does not leave earlier for it.
//! - Consumers of version 11 and later may read from a follower, and are told of one in their rack (KIP-392).
//! - Ignored on purpose: `ClusterId`, and the high watermark of version 18, which concerns the metadata log.

use self::asked::{OwnedTopics, asked, asked_once, forgotten, has_session, limits};
use self::outcome::{FetchOutcome, answer, leaders_of};
use self::part::Part;
use self::waiting::{Waiting, places};
use super::weight::LIGHT_FETCH_BYTES;
use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::logs::partitions::Unavailable;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::scheduling::clock::{monotonic, random_bytes};
use crate::scheduling::disk_watch::{DiskUse, DiskWatch};
use crate::settings::replication_throttle::ReplicationThrottle;
use model::{BrokerEpoch, BrokerId, DecodeError, ErrorCode, MonotonicTime};
use replication::{
    FINAL_EPOCH, FetchContext, FetchPartition, FetchSession, INVALID_SESSION_ID, IncrementalFetch,
    Isolation, NewSession, Partition, PartitionSlot, SessionRequest, SessionTime, SessionTopic,
    Watches,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::messages::FetchRequest;

const READ_COMMITTED: i8 = 1;
/// From this version on clients that are wrong about a leader are told who it is.
const LEADERS_VERSION: i16 = 16;
/// From this version on a follower may answer consumers.
const FOLLOWERS_VERSION: i16 = 11;
/// The replica id of a log that a broker makes in another of its directories.
const FUTURE_REPLICA: BrokerId = BrokerId(-3);
/// How many partitions of a session may be unknown. Those that exist are as many as somebody has
/// made, whatever clients ask for.
const SESSION_UNKNOWN_MAX: usize = 100;

/// What of the request holds for all partitions.
struct Limits {
    max_bytes: usize,
    min_bytes: usize,
    max_wait: Duration,
    isolation: Isolation,
    /// The replica that fetches, if it is no consumer.
    follower: Option<Follower>,
    /// Whether the leader is asked, and no follower may answer.
    is_leader_asked: bool,
    /// The rack of a consumer that had better read from a replica close by.
    rack: Option<String>,
    /// The id of this broker.
    node_id: BrokerId,
}

/// A replica that fetches.
struct Follower {
    /// Its broker, with the epoch of the registration.
    replica: (BrokerId, BrokerEpoch),
    /// When it came.
    now: MonotonicTime,
    /// That of its session.
    session: Option<Arc<SessionTime>>,
    /// Whether what it says of itself is noted.
    has_waited: bool,
    /// Which replicas are held while more goes to them than may.
    throttle: Arc<ReplicationThrottle>,
}

impl Follower {
    /// Whether it gets no records of a partition unless it is in sync.
    fn is_throttled(&self, partition: &Partition) -> bool {
        let throttle = &self.throttle;
        throttle.has(partition.topic(), partition.index()) && throttle.is_over_quota(monotonic())
    }

    /// Counts what an answer has of throttled partitions.
    fn count_throttled(&self, told: &[Part]) {
        let is_throttled = |part: &&Part| {
            let partition = part.partition.as_ref();
            part.bytes() > 0
                && partition.is_ok_and(|one| self.throttle.has(one.topic(), one.index()))
        };
        let bytes = told.iter().filter(is_throttled).map(Part::bytes);
        let bytes: usize = bytes.sum();
        self.throttle.record(bytes as u64, monotonic());
    }
}

pub(crate) async fn serve(
    broker: &Broker,
    connection: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: FetchRequest<'_> = request.decode()?;
    let mut limits = limits(broker, request.version, &message);
    let session = SessionRequest {
        session_id: message.session_id,
        session_epoch: match has_session(&message) {
            true => message.session_epoch,
            false => FINAL_EPOCH,
        },
        uses_topic_ids: request.version >= 13,
        replica: limits.follower.as_ref().map(|one| one.replica),
    };
    let started = broker.fetch_sessions.with(session.session_id, |sessions| {
        sessions.start(
            session,
            asked(&message, request.version),
            forgotten(&message, request.version),
            monotonic().as_ms(),
        )
    });
    let refuse = |error, out: &mut ResponseBuffer| {
        let refusal = FetchOutcome::refusal(error, &broker.logs.disks);
        answer(request, &refusal, out);
        Ok(Served::Answered)
    };
    let context = match started {
        Ok(context) => context,
        Err(error) => return refuse(error, out),
    };
    // A large one is served off the workers, where it keeps its place until it has read.
    let mut turn = (request.body.len() <= LIGHT_FETCH_BYTES).then(Turn::begin);
    let mut parts = match &context {
        FetchContext::Incremental(fetch) => match take_changed(broker, fetch) {
            Ok((taken, time)) => {
                if let Some(follower) = &mut limits.follower {
                    follower.session = time;
                    leave_forgotten(broker, fetch, follower).await;
                }
                parts_of(broker, taken, &mut turn).await
            }
            Err(error) => return refuse(error, out),
        },
        FetchContext::Sessionless | FetchContext::Full => {
            asked_parts(broker, &message, request.version)
        }
    };
    read_or_wait(broker, &context, &mut parts, &mut limits, turn).await;
    report_failures(broker, &parts);
    let (error, session_id, mut told) = conclude(broker, request, &context, parts, &limits);
    let follower = limits.follower.as_ref();
    follower.inspect(|one| one.count_throttled(&told));
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
        leaders: match limits.follower {
            Some(_) => Vec::new(),
            None => leaders_of(broker, connection, request.version, &told),
        },
        disks: &broker.logs.disks,
    };
    answer(request, &told, out);
    Ok(Served::Answered)
}

/// The partitions that a request names.
fn asked_parts(broker: &Broker, message: &FetchRequest<'_>, version: i16) -> Vec<Part> {
    let mut topics = OwnedTopics::default();
    let asked = asked_once(message, version).into_iter().zip(0..);
    let parts = asked.map(|((topic, index, request), at)| {
        let topic = topics.owned(topic);
        Part::new(broker, topic, index, request, PartitionSlot(at))
    });
    parts.collect()
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

/// What a session has for a fetch: its partitions that may have something new, and the time of its follower.
type Taken = (Vec<SessionPartition>, Option<Arc<SessionTime>>);

fn take_changed(broker: &Broker, fetch: &IncrementalFetch) -> Result<Taken, ErrorCode> {
    broker.fetch_sessions.with(fetch.session_id, |sessions| {
        let session = sessions.session(fetch)?;
        let time = session.follower().map(|one| one.time.clone());
        let taken = session.take_changed();
        let taken = taken.map(|(slot, one)| SessionPartition {
            topic: one.topic.clone(),
            index: one.partition,
            request: one.request,
            slot,
        });
        Ok((taken.collect(), time))
    })
}

/// What the session of a follower leaves unsaid is not about the partitions any more that it has let go of.
async fn leave_forgotten(broker: &Broker, fetch: &IncrementalFetch, follower: &Follower) {
    let Some(session) = &follower.session else {
        return;
    };
    for (_, topic, index) in &fetch.update.removed {
        let Ok(partition) = find(broker, topic, *index) else {
            continue;
        };
        let disks = &broker.logs.disks;
        let disk = disks.turn(partition.directory_index(), DiskUse::Read).await;
        disk.run(|| partition.leave_session(follower.replica.0, session));
    }
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
    limits: &mut Limits,
    mut turn: Option<Turn>,
) {
    let mut found = read(&broker.logs.disks, parts, 0.., 0, limits, &mut turn).await;
    if let Some(follower) = &mut limits.follower {
        // What it says of the partitions that it names is noted.
        follower
            .session
            .iter()
            .for_each(|session| session.note(follower.now));
        follower.has_waited = true;
    }
    let is_enough = found >= limits.min_bytes || parts.iter().any(Part::is_urgent);
    if limits.max_wait.is_zero() || is_enough {
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
        let waited = tokio::time::timeout_at(deadline, changes.any()).await;
        // A follower hears of what is replicated meanwhile.
        if waited.is_err() && limits.follower.is_none() {
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
        if is_urgent || found >= limits.min_bytes || waited.is_err() {
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
    limits: &Limits,
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

/// Tells the session what was found; what is left are the partitions that the client hears of.
fn conclude(
    broker: &Broker,
    request: &Request<'_>,
    context: &FetchContext,
    mut parts: Vec<Part>,
    limits: &Limits,
) -> (ErrorCode, i32, Vec<Part>) {
    let unknown = parts.iter().filter(|part| part.is_unknown());
    let are_too_many_unknown = unknown.count() > SESSION_UNKNOWN_MAX;
    match context {
        FetchContext::Sessionless => (ErrorCode::None, INVALID_SESSION_ID, parts),
        FetchContext::Full => {
            let session_id = match request.version >= 7 && !are_too_many_unknown {
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
                        _ if part.is_read_again(limits.isolation) => {
                            session.mark_changed(part.slot);
                        }
                        Ok(partition) if part.bytes() == 0 => {
                            part.watch(session, partition, limits.isolation);
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
fn create_session(broker: &Broker, request: &Request<'_>, parts: &[Part], limits: &Limits) -> i32 {
    let answered = parts.iter().map(|part| {
        (
            part.topic.as_ref(),
            part.index,
            part.request,
            part.outcome(),
        )
    });
    let session = FetchSession::answered(request.version >= 13, answered);
    let session = match &limits.follower {
        Some(follower) => session.of_follower(follower.replica),
        None => session,
    };
    let new = NewSession {
        is_privileged: limits.follower.is_some(),
        random: u32::from_be_bytes(random_bytes()),
    };
    broker
        .fetch_sessions
        .create(new, session, monotonic().as_ms())
}

mod asked;
mod outcome;
mod part;
#[cfg(test)]
mod tests;
mod waiting;
