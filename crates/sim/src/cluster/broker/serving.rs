//! What a broker answers followers in their sessions, as the leader of partitions.

use super::{BrokerNode, SimPartition};
use crate::cluster::message::{Answer, Ask, Caller, Channel, Outbox};
use controller::alter_partition::WantedIsr;
use controller::{AlterPartition, ControllerResponse};
use metadata::LeaderRecoveryState;
use model::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Message as _, MonotonicTime, Now, Offset, Uuid,
};
use replication::{
    CommittedIsr, FetchContext, FetchPartition, FetchSession, FollowerFetch, IncrementalFetch,
    Isolation, IsrAnswer, NewSession, PartitionKey, PartitionSlot, ReadOutcome, ReadRequest,
    ReadResult, Seen, SessionRequest, SessionTime, TopicRef,
};
use std::sync::Arc;
use storage::sim::SimDisk;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{FetchRequest, ListOffsetsRequest, ListOffsetsResponse};

const FETCH_VERSION: i16 = 18;
const LIST_OFFSETS_VERSION: i16 = 11;
/// ListOffsets' timestamp that stands for the start of a log.
const EARLIEST: i64 = -2;
/// A follower's fetch that waits for records.
#[derive(Debug)]
pub(super) struct HeldFetch {
    caller: Caller,
    deadline: MonotonicTime,
    replica: (BrokerId, BrokerEpoch),
    session: HeldSession,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum HeldSession {
    /// Every partition that the request names; whether a session is to be made of them.
    Named {
        makes_session: bool,
    },
    Incremental(IncrementalFetch),
}

/// A partition that is read for a follower.
#[derive(Debug)]
struct Part {
    slot: Option<PartitionSlot>,
    key: PartitionKey,
    request: FetchPartition,
    partition: Option<Arc<SimPartition>>,
    seen: Option<Seen>,
    /// That of the high watermark.
    seen_high: Option<Seen>,
    result: Result<ReadResult<SimDisk>, ErrorCode>,
}

impl HeldFetch {
    pub(super) const fn deadline(&self) -> MonotonicTime {
        self.deadline
    }

    fn has_news(&self) -> bool {
        self.parts.iter().any(|part| match &part.result {
            Err(_) => true,
            Ok(read) => read.records.is_some() || read.diverging_epoch.is_some(),
        })
    }
}

impl BrokerNode {
    /// Takes a follower's fetch; it is answered when there is something to say.
    pub(super) fn replica_fetch(
        &mut self,
        caller: Caller,
        bytes: &[u8],
        now: Now,
        out: &mut Outbox,
    ) {
        let Ok(message) = FetchRequest::from_bytes(bytes, FETCH_VERSION) else {
            return;
        };
        let replica = (
            message.replica_state.replica_id,
            message.replica_state.replica_epoch,
        );
        let (named, forgotten) = (named_by(&message), forgotten_by(&message));
        let request = SessionRequest {
            session_id: message.session_id,
            session_epoch: message.session_epoch,
            uses_topic_ids: true,
            replica: Some(replica),
        };
        let started = self.sessions.start(
            request,
            named
                .iter()
                .map(|(key, one)| (TopicRef::Id(key.0), key.1, *one)),
            forgotten.iter().map(|key| (TopicRef::Id(key.0), key.1)),
            now.monotonic.as_ms(),
        );
        let (session, asked) = match started {
            Err(error) => {
                out.answer(caller, Answer::Bytes(encode_fetched(error, 0, &[])));
                return;
            }
            Ok(FetchContext::Incremental(fetch)) => (HeldSession::Incremental(fetch), Vec::new()),
            Ok(context) => {
                let makes_session = context == FetchContext::Full;
                (HeldSession::Named { makes_session }, named)
            }
        };
        let mut held = HeldFetch {
            caller,
            deadline: now.monotonic.plus_ms(message.max_wait_ms.into()),
            replica,
            session,
            parts: Vec::new(),
        };
        for (key, request) in asked {
            let part = self.read_part(&held, None, key, request, false, now);
            held.parts.push(part);
        }
        self.read_changed(&mut held, false, now);
        self.held.push(held);
    }

    /// Reads the partitions of a session that have changed.
    fn read_changed(&mut self, held: &mut HeldFetch, has_waited: bool, now: Now) {
        let HeldSession::Incremental(fetch) = &held.session else {
            return;
        };
        let Ok(session) = self.sessions.session(fetch) else {
            return;
        };
        let taken: Vec<(PartitionSlot, PartitionKey, FetchPartition)> = session
            .take_changed()
            .filter_map(|(slot, one)| {
                let TopicRef::Id(id) = one.topic.as_ref() else {
                    return None;
                };
                Some((slot, (id, one.partition), one.request))
            })
            .collect();
        for (slot, key, request) in taken {
            let part = self.read_part(held, Some(slot), key, request, has_waited, now);
            held.parts.retain(|one| one.slot != Some(slot));
            held.parts.push(part);
        }
    }

    fn read_part(
        &mut self,
        held: &HeldFetch,
        slot: Option<PartitionSlot>,
        key: PartitionKey,
        request: FetchPartition,
        has_waited: bool,
        now: Now,
    ) -> Part {
        let partition = self.find(key).cloned();
        let time: Option<Arc<SessionTime>> = match &held.session {
            HeldSession::Incremental(fetch) => {
                let session = self.sessions.session(fetch).ok();
                session.and_then(|one| one.follower().map(|one| one.time.clone()))
            }
            HeldSession::Named { .. } => None,
        };
        let seen_of = |isolation| {
            let partition = partition.as_ref().ok()?;
            Some(partition.progress(isolation).seen())
        };
        let (seen, seen_high) = (
            seen_of(Isolation::LogEnd),
            seen_of(Isolation::HighWatermark),
        );
        let result = partition
            .as_ref()
            .map_err(|error| *error)
            .and_then(|partition| {
                let read = ReadRequest {
                    current_leader_epoch: request.current_leader_epoch,
                    fetch_offset: request.fetch_offset,
                    last_fetched_epoch: request.last_fetched_epoch,
                    max_bytes: request.max_bytes.max(0) as usize,
                    at_least_one_batch: true,
                    isolation: Isolation::LogEnd,
                    is_leader_asked: true,
                };
                let fetch = FollowerFetch {
                    broker_id: held.replica.0,
                    broker_epoch: held.replica.1,
                    log_start_offset: request.log_start_offset,
                    now: now.monotonic,
                    session: time.as_ref(),
                    has_waited,
                    is_throttled: false,
                };
                let read = partition.read_as_follower(&read, &fetch);
                read.map_err(|error| error.code())
            });
        Part {
            slot,
            key,
            request,
            partition: partition.ok(),
            seen,
            seen_high,
            result,
        }
    }

    /// Lets followers' fetches go on that wait for what has happened.
    pub(super) fn go_on(&mut self, now: Now, out: &mut Outbox) {
        for mut held in std::mem::take(&mut self.held) {
            self.read_again(&mut held, now);
            if held.has_news() || held.deadline <= now.monotonic {
                self.answer_held(held, now, out);
            } else {
                self.held.push(held);
            }
        }
    }

    /// Reads what may come out otherwise by now.
    fn read_again(&mut self, held: &mut HeldFetch, now: Now) {
        match &held.session {
            HeldSession::Incremental(fetch) => {
                let watched: Vec<_> = held
                    .parts
                    .iter()
                    .filter_map(|part| Some((part.slot?, part.partition.clone()?, part.seen?)))
                    .collect();
                if let Ok(session) = self.sessions.session(fetch) {
                    for (slot, partition, seen) in watched {
                        session.watch(slot, partition.progress(Isolation::LogEnd), seen);
                    }
                }
                self.read_changed(held, true, now);
            }
            HeldSession::Named { .. } => {
                let asked: Vec<_> = held
                    .parts
                    .iter()
                    .map(|one| (one.key, one.request))
                    .collect();
                held.parts.clear();
                for (key, request) in asked {
                    let part = self.read_part(held, None, key, request, true, now);
                    held.parts.push(part);
                }
            }
        }
    }

    fn answer_held(&mut self, held: HeldFetch, now: Now, out: &mut Outbox) {
        let mut listed: Vec<Listed> = Vec::new();
        let mut session_id = 0;
        let mut outcomes = Vec::new();
        for part in &held.parts {
            let outcome = outcome_of(part);
            let is_listed = match (&held.session, part.slot) {
                (HeldSession::Incremental(fetch), Some(slot)) => {
                    let Ok(session) = self.sessions.session(fetch) else {
                        return;
                    };
                    let is_listed = session.answer(slot, &outcome);
                    if let (Some(partition), Some(seen), Some(seen_high)) =
                        (&part.partition, part.seen, part.seen_high)
                    {
                        session.watch(slot, partition.progress(Isolation::LogEnd), seen);
                        let high = partition.progress(Isolation::HighWatermark);
                        session.watch_quietly(slot, high, seen_high);
                        if let Ok(read) = &part.result
                            && read.is_out_of_sync
                        {
                            session.mark_changed(slot);
                        }
                    }
                    is_listed
                }
                _ => true,
            };
            outcomes.push((TopicRef::Id(part.key.0), part.key.1, part.request, outcome));
            if is_listed {
                let mut response = response_of(part);
                if self.deletes_alone() {
                    response.offsets[2] = 0;
                }
                listed.push(response);
            }
        }
        match &held.session {
            HeldSession::Incremental(fetch) => {
                session_id = fetch.session_id;
                if let Ok(session) = self.sessions.session(fetch)
                    && let Some(follower) = session.follower()
                {
                    follower.time.note(now.monotonic);
                }
            }
            HeldSession::Named { makes_session } if *makes_session => {
                let session = FetchSession::answered(true, outcomes.into_iter());
                let new = NewSession {
                    is_privileged: true,
                    random: self.random.next() as u32,
                };
                let session = session.of_follower(held.replica);
                session_id = self.sessions.create(new, session, now.monotonic.as_ms());
            }
            HeldSession::Named { .. } => {}
        }
        for removed in self.sessions.take_removed() {
            self.leave_session(&removed);
        }
        let bytes = encode_fetched(ErrorCode::None, session_id, &listed);
        out.answer(held.caller, Answer::Bytes(bytes));
    }

    /// What a session that has ended said of partitions counts no more.
    fn leave_session(&self, session: &FetchSession) {
        let Some(follower) = session.follower() else {
            return;
        };
        for (_, one) in session.partitions() {
            if let TopicRef::Id(id) = one.topic.as_ref()
                && let Some(partition) = self.partitions.get(&(id, one.partition))
            {
                partition.leave_session(follower.replica.0, &follower.time);
            }
        }
    }

    pub(super) fn replica_list_offsets(&self, caller: Caller, bytes: &[u8], out: &mut Outbox) {
        let message = ListOffsetsRequest::from_bytes(bytes, LIST_OFFSETS_VERSION);
        let Ok(message) = message else { return };
        let mut topics = Vec::new();
        for topic in message.topics.iter() {
            let id = self.image.topics.id_of(topic.name).unwrap_or(Uuid::ZERO);
            let mut partitions = Vec::new();
            for one in topic.partitions.iter() {
                let found = self.find((id, one.partition_index)).and_then(|partition| {
                    partition.check_leader(LeaderEpoch(one.current_leader_epoch))?;
                    Ok(partition.offsets())
                });
                partitions.push(match found {
                    Ok(offsets) => ListOffsetsPartitionResponse {
                        partition_index: one.partition_index,
                        error_code: ErrorCode::None.code(),
                        timestamp: -1,
                        offset: match one.timestamp {
                            EARLIEST => offsets.log_start_offset.0,
                            _ => offsets.log_end_offset.0,
                        },
                        leader_epoch: offsets.leader_epoch.0,
                    },
                    Err(error) => ListOffsetsPartitionResponse {
                        partition_index: one.partition_index,
                        error_code: error.code(),
                        ..ListOffsetsPartitionResponse::default()
                    },
                });
            }
            topics.push((topic.name, partitions));
        }
        let topics: Vec<ListOffsetsTopicResponse<'_>> = topics
            .iter()
            .map(|(name, partitions)| ListOffsetsTopicResponse {
                name,
                partitions: partitions.clone().into(),
            })
            .collect();
        let response = ListOffsetsResponse {
            throttle_time_ms: 0,
            topics: topics.into(),
        };
        let bytes = response.to_bytes(LIST_OFFSETS_VERSION);
        out.answer(caller, Answer::Bytes(bytes));
    }

    /// Tells the controller who is to be in sync.
    pub(super) fn propose_isr(&mut self, now: Now, out: &mut Outbox) {
        let Some(broker_epoch) = self.life.broker_epoch() else {
            return;
        };
        let leaders = self.host.leaders();
        let proposals = leaders.with_proposals(|proposals| proposals.poll_request(now.monotonic));
        let Some(proposals) = proposals else {
            return;
        };
        let partitions = proposals.into_iter().map(|one| WantedIsr {
            topic_id: one.key.0,
            partition_id: one.key.1,
            leader_epoch: one.leader_epoch,
            partition_epoch: one.partition_epoch,
            isr: one.isr,
            leader_recovery_state: Some(LeaderRecoveryState::Recovered),
        });
        let request = AlterPartition {
            broker_id: self.id,
            broker_epoch,
            partitions: partitions.collect(),
        };
        self.asked_isr = request
            .partitions
            .iter()
            .map(|one| (one.topic_id, one.partition_id))
            .collect();
        let ask = Ask::Control(Box::new(request.into()));
        out.ask(0, Channel::InSyncReplicas, ask, super::REQUEST_TIMEOUT_MS);
    }

    pub(super) fn isr_answered(&mut self, answer: Option<Answer>, now: Now) {
        let asked = std::mem::take(&mut self.asked_isr);
        let answer: Result<Vec<(PartitionKey, IsrAnswer)>, ErrorCode> = match answer {
            Some(Answer::Control(Ok(response))) => match *response {
                ControllerResponse::AlterPartition(Ok(altered)) => {
                    let committed = altered.into_iter().map(|one| {
                        one.map(|one| CommittedIsr {
                            leader_epoch: one.leader_epoch,
                            isr: one.isr,
                            partition_epoch: one.partition_epoch,
                        })
                    });
                    Ok(asked.into_iter().zip(committed).collect())
                }
                ControllerResponse::AlterPartition(Err(error)) => Err(error.code),
                _ => Err(ErrorCode::UnknownServerError),
            },
            Some(Answer::Control(Err(error))) => Err(error),
            _ => Err(ErrorCode::NetworkException),
        };
        let leaders = self.host.leaders();
        let told =
            leaders.with_proposals(|proposals| proposals.handle_answer(answer, now.monotonic));
        for (proposal, answer) in told {
            if let Some(partition) = self.partitions.get(&proposal.key) {
                partition.apply_isr_answer(proposal.number, &answer);
            }
        }
    }
}

/// The partitions that a request names, and what it asks of each.
fn named_by(message: &FetchRequest<'_>) -> Vec<(PartitionKey, FetchPartition)> {
    let mut named = Vec::new();
    for topic in message.topics.iter() {
        for one in topic.partitions.iter() {
            let request = FetchPartition {
                current_leader_epoch: LeaderEpoch(one.current_leader_epoch),
                fetch_offset: Offset(one.fetch_offset),
                last_fetched_epoch: LeaderEpoch(one.last_fetched_epoch),
                log_start_offset: Offset(one.log_start_offset),
                max_bytes: one.partition_max_bytes,
            };
            named.push(((topic.topic_id, one.partition), request));
        }
    }
    named
}

/// The partitions that leave the session.
fn forgotten_by(message: &FetchRequest<'_>) -> Vec<PartitionKey> {
    let mut forgotten = Vec::new();
    for topic in message.forgotten_topics_data.iter() {
        let partitions = topic.partitions.iter();
        forgotten.extend(partitions.map(|index| (topic.topic_id, index)));
    }
    forgotten
}

fn outcome_of(part: &Part) -> ReadOutcome {
    match &part.result {
        Err(error) => ReadOutcome::error(*error),
        Ok(read) => ReadOutcome {
            error: ErrorCode::None,
            high_watermark: read.offsets.high_watermark,
            log_start_offset: read.offsets.log_start_offset,
            has_records: read.records.is_some(),
            has_diverging_epoch: read.diverging_epoch.is_some(),
            has_preferred_read_replica: false,
        },
    }
}

/// A partition as it stands in an answer, with its records.
struct Listed {
    key: PartitionKey,
    error: ErrorCode,
    offsets: [i64; 3],
    diverging_epoch: Option<(LeaderEpoch, Offset)>,
    records: Vec<u8>,
}

fn response_of(part: &Part) -> Listed {
    match &part.result {
        Err(error) => Listed {
            key: part.key,
            error: *error,
            offsets: [-1; 3],
            diverging_epoch: None,
            records: Vec::new(),
        },
        Ok(read) => {
            let offsets = read.offsets;
            let records = read.records.as_ref().map(|slice| slice.to_vec());
            Listed {
                key: part.key,
                error: ErrorCode::None,
                offsets: [
                    offsets.high_watermark.0,
                    offsets.last_stable_offset.0,
                    offsets.log_start_offset.0,
                ],
                diverging_epoch: read.diverging_epoch,
                records: records.and_then(Result::ok).unwrap_or_default(),
            }
        }
    }
}

fn encode_fetched(error: ErrorCode, session_id: i32, listed: &[Listed]) -> Vec<u8> {
    let writer = FetchResponseWriter::new(FETCH_VERSION);
    let mut out = Vec::new();
    let topics: Vec<&[Listed]> = listed
        .chunk_by(|one, next| one.key.0 == next.key.0)
        .collect();
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error,
        session_id,
        topic_count: topics.len(),
    };
    writer.head(&head, &mut out);
    for topic in topics {
        writer.topic("", topic[0].key.0, topic.len(), &mut out);
        for one in topic {
            let partition = FetchResponsePartition {
                index: one.key.1,
                error: one.error,
                high_watermark: Offset(one.offsets[0]),
                last_stable_offset: Offset(one.offsets[1]),
                log_start_offset: Offset(one.offsets[2]),
                diverging_epoch: one.diverging_epoch,
                current_leader: None,
                aborted_transactions: None,
                preferred_read_replica: BrokerId(-1),
                records_bytes: one.records.len(),
            };
            writer.partition(&partition, &mut out);
            out.extend_from_slice(&one.records);
            writer.end_partition(&partition, &mut out);
        }
        writer.end_topic(&mut out);
    }
    writer.end(&[], &mut out);
    out
}
