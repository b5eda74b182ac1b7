//! Requests of the product's own clients, as they leave them: frames with as much in them as a client likes.
//!
//! ```text
//!   frame ──> parts: one Ask for each partition ──> what modelled clients are served by ──┐
//!     │  └──> a whole request of a group ──> its shard                                    │
//!     └────── answer, in the order of the parts <── when all have come <──────────────────┘
//! ```
//!
//! One version of each API is served, the newest that the client speaks.

use super::{Caller, Node};
use crate::halted::Halted;
use crate::protocol::{Answer, Ask, Fetched, ProducerKey};
use metadata::TRANSACTION_VERSION_FEATURE;
use model::{BrokerId, DecodeError, ErrorCode, LeaderEpoch, Message, Now, Offset, Reader};
use simclients::{HOST, PORT};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use wire::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{
    ApiVersionsResponse, EndTxnRequest, EndTxnResponse, FetchRequest, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::{ApiKey, RequestHeader, ResponseHeader};

/// The caller of the parts of a frame, whose connection is then the frame's number.
const FRAMES: usize = usize::MAX;
/// What clients of the product are served, and in which version.
const SERVED: [(ApiKey, i16); 17] = [
    (ApiKey::Produce, 13),
    (ApiKey::Fetch, 17),
    (ApiKey::ListOffsets, 7),
    (ApiKey::Metadata, 13),
    (ApiKey::OffsetCommit, 9),
    (ApiKey::OffsetFetch, 9),
    (ApiKey::FindCoordinator, 4),
    (ApiKey::JoinGroup, 9),
    (ApiKey::Heartbeat, 4),
    (ApiKey::LeaveGroup, 5),
    (ApiKey::SyncGroup, 5),
    (ApiKey::ApiVersions, 4),
    (ApiKey::InitProducerId, 5),
    (ApiKey::EndTxn, 5),
    (ApiKey::TxnOffsetCommit, 5),
    (ApiKey::OffsetForLeaderEpoch, 4),
    (ApiKey::ConsumerGroupHeartbeat, 1),
];
/// What ListOffsets asks for by these timestamps.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// What becomes of a frame.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is answered.
    Frame(Vec<u8>),
    /// A fetch has found nothing, and may be served again later.
    NothingYet,
    /// It is no request: its connection ends.
    Refused,
}

/// Frames that are served.
#[derive(Debug, Default)]
pub(super) struct Frames {
    last: u64,
    open: BTreeMap<u64, Open>,
    replies: Vec<(u64, Reply)>,
}

#[derive(Debug)]
struct Open {
    connection: u64,
    frame: Arc<[u8]>,
    parts: Vec<Option<Answer>>,
}

/// What a request is served by.
enum Serving {
    Parts(Vec<Ask>),
    Answered(Answer),
    /// The answer comes by itself.
    Decided,
    NothingYet,
}

pub(super) fn version_of(api: ApiKey) -> i16 {
    let mut served = SERVED.iter();
    let found = served.find(|(one, _)| *one == api);
    found.map_or(-1, |(_, version)| *version)
}

pub(super) fn is_of_frame(caller: &Caller) -> bool {
    caller.client == FRAMES
}

/// A body in the version that is served.
pub(super) fn body_of<'a, M: Message<'a>>(api: ApiKey, message: &M) -> Answer {
    Answer::Body(message.to_bytes(version_of(api)))
}

pub(super) fn read_header(frame: &[u8]) -> Result<(RequestHeader<'_>, ApiKey, &[u8]), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    let api = ApiKey::from_number(header.api_key).ok_or(DecodeError::UnsupportedVersion)?;
    if header.api_version != version_of(api) {
        return Err(DecodeError::UnsupportedVersion);
    }
    Ok((header, api, reader.remaining()))
}

impl Frames {
    fn begin(&mut self, connection: u64, frame: &Arc<[u8]>) -> Caller {
        self.last += 1;
        let open = Open {
            connection,
            frame: frame.clone(),
            parts: Vec::new(),
        };
        self.open.insert(self.last, open);
        Caller {
            client: FRAMES,
            connection: self.last,
            correlation_id: 0,
        }
    }

    fn end(&mut self, number: u64, reply: Reply) {
        if let Some(open) = self.open.remove(&number) {
            self.replies.push((open.connection, reply));
        }
    }

    /// Whether nothing waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes the answer of a part in.
    pub(super) fn answered(&mut self, caller: Caller, answer: Answer) {
        let Some(open) = self.open.get_mut(&caller.connection) else {
            return;
        };
        let part = usize::try_from(caller.correlation_id).unwrap_or(usize::MAX);
        if let Some(part) = open.parts.get_mut(part) {
            *part = Some(answer);
        }
        self.end_if_whole(caller.connection);
    }

    fn end_if_whole(&mut self, number: u64) {
        let Some(open) = self.open.get(&number) else {
            return;
        };
        let parts: Option<Vec<Answer>> = open.parts.iter().cloned().collect();
        let Some(parts) = parts else { return };
        let frame = open.frame.clone();
        let reply = response(&frame, parts).map_or(Reply::Refused, Reply::Frame);
        self.end(number, reply);
    }
}

impl Node {
    /// Serves a frame of a connection. A fetch that finds nothing is only answered if it may not wait.
    pub(crate) fn serve_frame(
        &mut self,
        connection: u64,
        frame: &Arc<[u8]>,
        may_wait: bool,
        now: Now,
    ) -> Result<(), Halted> {
        let caller = self.frames.begin(connection, frame);
        let number = caller.connection;
        let serving = match read_header(frame) {
            Ok((header, api, body)) => {
                let client_id = header.client_id.unwrap_or_default();
                match api {
                    ApiKey::Fetch => self.serving_of_fetch(body, may_wait),
                    ApiKey::OffsetCommit
                    | ApiKey::OffsetFetch
                    | ApiKey::JoinGroup
                    | ApiKey::SyncGroup
                    | ApiKey::Heartbeat
                    | ApiKey::LeaveGroup
                    | ApiKey::ConsumerGroupHeartbeat => {
                        self.frames.expect(number, 1);
                        let decided =
                            self.serve_frame_of_group(caller, api, client_id, body, now)?;
                        decided.map(|()| Serving::Decided)
                    }
                    _ => self.serving_of(api, body),
                }
            }
            Err(error) => Err(error),
        };
        match serving {
            Ok(Serving::Parts(asks)) => {
                self.frames.expect(number, asks.len());
                for (correlation_id, ask) in (0..).zip(asks) {
                    let caller = Caller {
                        correlation_id,
                        ..caller
                    };
                    match ask {
                        Ask::Produce { .. } => self.produce(caller, ask, now)?,
                        ask => self.serve_transaction(caller, ask, now)?,
                    }
                }
                self.frames.end_if_whole(number);
            }
            Ok(Serving::Answered(answer)) => {
                self.frames.expect(number, 1);
                self.frames.answered(caller, answer);
            }
            Ok(Serving::Decided) => {}
            Ok(Serving::NothingYet) => self.frames.end(number, Reply::NothingYet),
            Err(_) => self.frames.end(number, Reply::Refused),
        }
        self.go_on(now)
    }

    /// What has become of frames, each with its connection.
    pub(crate) fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.frames.replies)
    }

    fn serving_of(&self, api: ApiKey, body: &[u8]) -> Result<Serving, DecodeError> {
        let version = version_of(api);
        Ok(match api {
            ApiKey::ApiVersions => Serving::Answered(self.api_versions()),
            ApiKey::Metadata => {
                let message = MetadataRequest::from_bytes(body, version)?;
                Serving::Answered(self.metadata_of(&message))
            }
            ApiKey::FindCoordinator => {
                let message = FindCoordinatorRequest::from_bytes(body, version)?;
                Serving::Answered(coordinators(&message))
            }
            ApiKey::ListOffsets => {
                let message = ListOffsetsRequest::from_bytes(body, version)?;
                Serving::Answered(self.listed_offsets(&message))
            }
            ApiKey::OffsetForLeaderEpoch => {
                let message = OffsetForLeaderEpochRequest::from_bytes(body, version)?;
                Serving::Answered(self.epoch_ends(&message))
            }
            ApiKey::Produce => {
                let message = ProduceRequest::from_bytes(body, version)?;
                Serving::Parts(asks_of_produce(&message))
            }
            ApiKey::InitProducerId => {
                let message = InitProducerIdRequest::from_bytes(body, version)?;
                let expected = ProducerKey {
                    id: message.producer_id,
                    epoch: message.producer_epoch,
                };
                Serving::Parts(vec![Ask::InitProducerId {
                    transactional_id: message.transactional_id.map(str::to_owned),
                    expected: (expected.id != -1).then_some(expected),
                }])
            }
            ApiKey::EndTxn => {
                let message = EndTxnRequest::from_bytes(body, version)?;
                Serving::Parts(vec![Ask::EndTransaction {
                    transactional_id: message.transactional_id.to_owned(),
                    producer: ProducerKey {
                        id: message.producer_id,
                        epoch: message.producer_epoch,
                    },
                    is_commit: message.committed,
                }])
            }
            ApiKey::TxnOffsetCommit => {
                let message = TxnOffsetCommitRequest::from_bytes(body, version)?;
                Serving::Parts(asks_of_offsets(&message))
            }
            _ => return Err(DecodeError::UnsupportedVersion),
        })
    }

    fn api_versions(&self) -> Answer {
        let keys = SERVED.iter().map(|(api, version)| ApiVersion {
            api_key: *api as i16,
            min_version: *version,
            max_version: *version,
        });
        let level = self.image.features.level(TRANSACTION_VERSION_FEATURE);
        let feature = FinalizedFeatureKey {
            name: TRANSACTION_VERSION_FEATURE,
            max_version_level: level,
            min_version_level: level,
        };
        body_of(
            ApiKey::ApiVersions,
            &ApiVersionsResponse {
                api_keys: keys.collect(),
                finalized_features: vec![feature].into(),
                finalized_features_epoch: 1,
                ..ApiVersionsResponse::default()
            },
        )
    }

    fn metadata_of(&self, message: &MetadataRequest<'_>) -> Answer {
        let topics = &self.image.topics;
        let asked: Vec<&str> = match &message.topics {
            Some(asked) => asked.iter().filter_map(|topic| topic.name).collect(),
            None => topics.iter().map(|topic| &*topic.name).collect(),
        };
        let describe = |name| {
            let Some(topic) = topics.by_name(name) else {
                return MetadataResponseTopic {
                    error_code: ErrorCode::UnknownTopicOrPartition.code(),
                    name: Some(name),
                    ..MetadataResponseTopic::default()
                };
            };
            let count = i32::try_from(topic.partition_count()).unwrap_or(0);
            let partition = |index: i32| {
                let partition = topic.partition(index)?;
                Some(MetadataResponsePartition {
                    partition_index: index,
                    leader_id: partition.leader,
                    leader_epoch: partition.leader_epoch.0,
                    ..MetadataResponsePartition::default()
                })
            };
            MetadataResponseTopic {
                name: Some(name),
                topic_id: topic.id,
                partitions: (0..count).filter_map(partition).collect(),
                ..MetadataResponseTopic::default()
            }
        };
        let broker = MetadataResponseBroker {
            node_id: self.config.node_id,
            host: HOST,
            port: PORT.into(),
            rack: None,
        };
        body_of(
            ApiKey::Metadata,
            &MetadataResponse {
                brokers: vec![broker].into(),
                cluster_id: Some("sim"),
                topics: asked.into_iter().map(describe).collect(),
                ..MetadataResponse::default()
            },
        )
    }

    fn listed_offsets(&self, message: &ListOffsetsRequest<'_>) -> Answer {
        let list = |name: &str, index: i32, timestamp: i64| {
            let id = self.image.topics.id_of(name);
            let id = id.ok_or(ErrorCode::UnknownTopicOrPartition)?;
            let offsets = self.find(id, index)?.offsets();
            let offset = match (timestamp, message.isolation_level) {
                (EARLIEST, _) => offsets.log_start_offset,
                (LATEST, 0) => offsets.high_watermark,
                (LATEST, _) => offsets.last_stable_offset,
                _ => Offset::NONE,
            };
            Ok::<_, ErrorCode>((offset, offsets.leader_epoch.0))
        };
        let topics = message.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let listed = list(topic.name, asked.partition_index, asked.timestamp);
                let (offset, leader_epoch) = listed.unwrap_or((Offset::NONE, -1));
                ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: listed.err().unwrap_or(ErrorCode::None).code(),
                    offset: offset.0,
                    leader_epoch,
                    ..ListOffsetsPartitionResponse::default()
                }
            });
            ListOffsetsTopicResponse {
                name: topic.name,
                partitions: partitions.collect(),
            }
        });
        let response = ListOffsetsResponse {
            topics: topics.collect(),
            ..ListOffsetsResponse::default()
        };
        body_of(ApiKey::ListOffsets, &response)
    }

    fn epoch_ends(&self, message: &OffsetForLeaderEpochRequest<'_>) -> Answer {
        let end = |name: &str, index: i32, epoch: LeaderEpoch| {
            let id = self.image.topics.id_of(name);
            let id = id.ok_or(ErrorCode::UnknownTopicOrPartition)?;
            let end = self.find(id, index)?.end_offset_of_epoch(epoch);
            end.map_err(|error| error.code())
        };
        let topics = message.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let found = end(
                    topic.topic,
                    asked.partition,
                    LeaderEpoch(asked.leader_epoch),
                );
                let place = found.ok().flatten();
                let (leader_epoch, end_offset) = place.unwrap_or((LeaderEpoch::NONE, Offset::NONE));
                EpochEndOffset {
                    error_code: found.err().unwrap_or(ErrorCode::None).code(),
                    partition: asked.partition,
                    leader_epoch: leader_epoch.0,
                    end_offset: end_offset.0,
                }
            });
            OffsetForLeaderTopicResult {
                topic: topic.topic,
                partitions: partitions.collect(),
            }
        });
        let response = OffsetForLeaderEpochResponse {
            topics: topics.collect(),
            ..OffsetForLeaderEpochResponse::default()
        };
        body_of(ApiKey::OffsetForLeaderEpoch, &response)
    }

    fn serving_of_fetch(&self, body: &[u8], may_wait: bool) -> Result<Serving, DecodeError> {
        let message = FetchRequest::from_bytes(body, version_of(ApiKey::Fetch))?;
        let is_committed = message.isolation_level == 1;
        let mut found = Vec::new();
        for topic in message.topics.iter() {
            for asked in topic.partitions.iter() {
                let epoch = LeaderEpoch(asked.current_leader_epoch);
                let key = (topic.topic_id, asked.partition);
                let fetched = self.fetch(key, Offset(asked.fetch_offset), epoch, is_committed);
                found.push((key, fetched));
            }
        }
        let is_news = |one: &Fetched| one.error != ErrorCode::None || !one.records.is_empty();
        if may_wait && !found.iter().any(|(_, one)| is_news(one)) {
            return Ok(Serving::NothingYet);
        }
        let topics = found.iter().map(|((topic_id, index), fetched)| {
            let aborted = fetched
                .aborted
                .iter()
                .map(|(id, first)| AbortedTransaction {
                    producer_id: id.0,
                    first_offset: first.0,
                });
            let partition = PartitionData {
                partition_index: *index,
                error_code: fetched.error.code(),
                high_watermark: fetched.high_watermark,
                last_stable_offset: fetched.last_stable_offset,
                log_start_offset: fetched.log_start_offset,
                aborted_transactions: is_committed.then(|| aborted.collect()),
                records: Some(&fetched.records),
                ..PartitionData::default()
            };
            FetchableTopicResponse {
                topic_id: *topic_id,
                partitions: vec![partition].into(),
                ..FetchableTopicResponse::default()
            }
        });
        let response = FetchResponse {
            responses: topics.collect(),
            ..FetchResponse::default()
        };
        Ok(Serving::Answered(body_of(ApiKey::Fetch, &response)))
    }
}

impl Frames {
    /// An open frame has so many parts.
    fn expect(&mut self, number: u64, count: usize) {
        if let Some(open) = self.open.get_mut(&number) {
            open.parts = vec![None; count];
        }
    }
}

/// This node coordinates everything.
fn coordinators(message: &FindCoordinatorRequest<'_>) -> Answer {
    let keys = message.coordinator_keys.iter().map(|key| Coordinator {
        key,
        node_id: BrokerId(1),
        host: HOST,
        port: PORT.into(),
        ..Coordinator::default()
    });
    let response = FindCoordinatorResponse {
        coordinators: keys.collect(),
        ..FindCoordinatorResponse::default()
    };
    body_of(ApiKey::FindCoordinator, &response)
}

pub(super) fn asks_of_produce(message: &ProduceRequest<'_>) -> Vec<Ask> {
    let mut asks = Vec::new();
    for topic in message.topic_data.iter() {
        for data in topic.partition_data.iter() {
            asks.push(Ask::Produce {
                topic_id: topic.topic_id,
                partition: data.index,
                transactional_id: message.transactional_id.map(str::to_owned),
                records: data.records.unwrap_or_default().to_vec(),
            });
        }
    }
    asks
}

fn asks_of_offsets(message: &TxnOffsetCommitRequest<'_>) -> Vec<Ask> {
    let mut asks = Vec::new();
    for topic in message.topics.iter() {
        for partition in topic.partitions.iter() {
            asks.push(Ask::CommitInTransaction {
                transactional_id: message.transactional_id.to_owned(),
                producer: ProducerKey {
                    id: message.producer_id,
                    epoch: message.producer_epoch,
                },
                group: message.group_id.to_owned(),
                topic: topic.name.to_owned(),
                partition: partition.partition_index,
                offset: partition.committed_offset,
            });
        }
    }
    asks
}

/// The answer to a frame from those to its parts.
fn response(frame: &[u8], parts: Vec<Answer>) -> Result<Vec<u8>, DecodeError> {
    let (header, api, body) = read_header(frame)?;
    let version = version_of(api);
    let mut parts = parts.into_iter();
    let mut next = || parts.next().ok_or(DecodeError::Truncated);
    let body = match api {
        ApiKey::Produce => {
            produced(&ProduceRequest::from_bytes(body, version)?, &mut next)?.to_bytes(version)
        }
        ApiKey::TxnOffsetCommit => committed(
            &TxnOffsetCommitRequest::from_bytes(body, version)?,
            &mut next,
        )?
        .to_bytes(version),
        ApiKey::InitProducerId | ApiKey::EndTxn => match (api, next()?) {
            (ApiKey::EndTxn, Answer::Producer { error, producer }) => EndTxnResponse {
                error_code: error.code(),
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                ..EndTxnResponse::default()
            }
            .to_bytes(version),
            (_, Answer::Producer { error, producer }) => InitProducerIdResponse {
                error_code: error.code(),
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                ..InitProducerIdResponse::default()
            }
            .to_bytes(version),
            _ => return Err(DecodeError::Truncated),
        },
        _ => match next()? {
            Answer::Body(body) => body,
            _ => return Err(DecodeError::Truncated),
        },
    };
    let header_version = api.response_header_version(version);
    let mut out = Vec::new();
    let header = ResponseHeader {
        correlation_id: header.correlation_id,
    };
    header.encode(header_version, &mut out);
    out.extend_from_slice(&body);
    Ok(out)
}

fn produced<'a>(
    message: &ProduceRequest<'a>,
    next: &mut impl FnMut() -> Result<Answer, DecodeError>,
) -> Result<ProduceResponse<'a>, DecodeError> {
    let mut topics = Vec::new();
    for topic in message.topic_data.iter() {
        let mut partitions = Vec::new();
        for data in topic.partition_data.iter() {
            let Answer::Produced { error, base_offset } = next()? else {
                return Err(DecodeError::Truncated);
            };
            partitions.push(PartitionProduceResponse {
                index: data.index,
                error_code: error.code(),
                base_offset,
                ..PartitionProduceResponse::default()
            });
        }
        topics.push(TopicProduceResponse {
            topic_id: topic.topic_id,
            partition_responses: partitions.into(),
            ..TopicProduceResponse::default()
        });
    }
    Ok(ProduceResponse {
        responses: topics.into(),
        ..ProduceResponse::default()
    })
}

fn committed<'a>(
    message: &TxnOffsetCommitRequest<'a>,
    next: &mut impl FnMut() -> Result<Answer, DecodeError>,
) -> Result<TxnOffsetCommitResponse<'a>, DecodeError> {
    let mut topics = Vec::new();
    for topic in message.topics.iter() {
        let mut partitions = Vec::new();
        for partition in topic.partitions.iter() {
            let Answer::Done { error } = next()? else {
                return Err(DecodeError::Truncated);
            };
            partitions.push(TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.code(),
            });
        }
        topics.push(TxnOffsetCommitResponseTopic {
            name: topic.name,
            partitions: partitions.into(),
        });
    }
    Ok(TxnOffsetCommitResponse {
        topics: topics.into(),
        ..TxnOffsetCommitResponse::default()
    })
}
