//! Answers as frames, in the version of their request.

use super::requests::version_of;
use super::{Answer, Ask, Fetched, Joined, ProducerKey};
use model::{DecodeError, ErrorCode, Message, Offset, ProducerId, Reader};
use wire::messages::create_topics_response::CreatableTopicResult;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{
    CreateTopicsResponse, DeleteRecordsResponse, DeleteTopicsResponse, EndTxnResponse,
    FetchResponse, HeartbeatResponse, IncrementalAlterConfigsResponse, InitProducerIdResponse,
    JoinGroupResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
    ProduceResponse, SyncGroupResponse, TxnOffsetCommitResponse,
};
use wire::{ApiKey, ResponseHeader};

fn frame<'a>(correlation_id: i32, api: ApiKey, message: &impl Message<'a>) -> Vec<u8> {
    let version = version_of(api);
    let mut out = Vec::new();
    let header = ResponseHeader { correlation_id };
    header.encode(api.response_header_version(version), &mut out);
    message.write(version, &mut out);
    out
}

impl Answer {
    /// The answer to a request as a frame without its size.
    ///
    /// # Panics
    /// When it does not answer such a request.
    pub(crate) fn to_frame(&self, correlation_id: i32, ask: &Ask) -> Vec<u8> {
        let api = ask.api();
        match self {
            Self::Done { error } => done_frame(correlation_id, api, error.code()),
            Self::Joined(_) | Self::Synced { .. } | Self::Offset { .. } => {
                self.group_frame(correlation_id, api)
            }
            Self::Metadata { .. } => self.metadata_frame(correlation_id, api),
            _ => self.data_frame(correlation_id, api),
        }
    }

    fn data_frame(&self, correlation_id: i32, api: ApiKey) -> Vec<u8> {
        match self {
            Self::Produced { error, base_offset } => {
                let partition = PartitionProduceResponse {
                    error_code: error.code(),
                    base_offset: *base_offset,
                    ..PartitionProduceResponse::default()
                };
                let topic = TopicProduceResponse {
                    partition_responses: vec![partition].into(),
                    ..TopicProduceResponse::default()
                };
                let responses = vec![topic].into();
                let message = ProduceResponse {
                    responses,
                    ..ProduceResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            Self::Fetched(fetched) => fetch_frame(correlation_id, fetched),
            Self::Producer { error, producer } if api == ApiKey::EndTxn => {
                let message = EndTxnResponse {
                    error_code: error.code(),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    ..EndTxnResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            Self::Producer { error, producer } => {
                let message = InitProducerIdResponse {
                    error_code: error.code(),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    ..InitProducerIdResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            Self::Created { error, topic_id } => {
                let topic = CreatableTopicResult {
                    error_code: error.code(),
                    topic_id: *topic_id,
                    ..CreatableTopicResult::default()
                };
                let topics = vec![topic].into();
                let message = CreateTopicsResponse {
                    topics,
                    ..CreateTopicsResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn metadata_frame(&self, correlation_id: i32, api: ApiKey) -> Vec<u8> {
        match self {
            Self::Metadata {
                error,
                topic_id,
                partition_count,
            } => {
                let partition = |partition_index| MetadataResponsePartition {
                    partition_index,
                    ..MetadataResponsePartition::default()
                };
                let topic = MetadataResponseTopic {
                    error_code: error.code(),
                    topic_id: *topic_id,
                    partitions: (0..*partition_count).map(partition).collect(),
                    ..MetadataResponseTopic::default()
                };
                let topics = vec![topic].into();
                let message = MetadataResponse {
                    topics,
                    ..MetadataResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn group_frame(&self, correlation_id: i32, api: ApiKey) -> Vec<u8> {
        match self {
            Self::Joined(joined) => {
                let member = |member_id| JoinGroupResponseMember {
                    member_id,
                    ..JoinGroupResponseMember::default()
                };
                let members = joined.members.iter().map(|id| &**id);
                let message = JoinGroupResponse {
                    error_code: joined.error.code(),
                    generation_id: joined.generation,
                    leader: &joined.leader,
                    member_id: &joined.member_id,
                    members: members.map(member).collect(),
                    ..JoinGroupResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            Self::Synced { error, assignment } => {
                let message = SyncGroupResponse {
                    error_code: error.code(),
                    assignment,
                    ..SyncGroupResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            Self::Offset { error, offset } => {
                let partition = OffsetFetchResponsePartitions {
                    error_code: error.code(),
                    committed_offset: *offset,
                    ..OffsetFetchResponsePartitions::default()
                };
                let topic = OffsetFetchResponseTopics {
                    partitions: vec![partition].into(),
                    ..OffsetFetchResponseTopics::default()
                };
                let group = OffsetFetchResponseGroup {
                    topics: vec![topic].into(),
                    ..OffsetFetchResponseGroup::default()
                };
                let groups = vec![group].into();
                let message = OffsetFetchResponse {
                    groups,
                    ..OffsetFetchResponse::default()
                };
                frame(correlation_id, api, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    /// The answer to `ask` in a frame, with its correlation id.
    ///
    /// # Errors
    /// A [`DecodeError`] when it is none.
    pub(crate) fn from_frame(frame: &[u8], ask: &Ask) -> Result<(i32, Self), DecodeError> {
        let api = ask.api();
        let version = version_of(api);
        let mut reader = Reader::new(frame);
        let header = ResponseHeader::decode(&mut reader, api.response_header_version(version))?;
        let body = reader.remaining();
        let answer = match ask {
            Ask::Join { .. } | Ask::Sync { .. } | Ask::FetchOffset { .. } => {
                Self::read_group(api, body)?
            }
            Ask::Metadata { .. }
            | Ask::Produce { .. }
            | Ask::Fetch { .. }
            | Ask::InitProducerId { .. }
            | Ask::EndTransaction { .. }
            | Ask::CreateTopic { .. } => Self::read_data(api, body)?,
            _ => Self::Done {
                error: ErrorCode::from_code(read_done(api, body)?),
            },
        };
        Ok((header.correlation_id, answer))
    }

    fn read_data(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        let version = version_of(api);
        Ok(match api {
            ApiKey::Metadata => {
                let message = MetadataResponse::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                Self::Metadata {
                    error: ErrorCode::from_code(topic.error_code),
                    topic_id: topic.topic_id,
                    partition_count: i32::try_from(topic.partitions.iter().count())
                        .map_err(|_| LACKS)?,
                }
            }
            ApiKey::Produce => {
                let message = ProduceResponse::from_bytes(body, version)?;
                let topic = message.responses.iter().next().ok_or(LACKS)?;
                let partition = topic.partition_responses.iter().next().ok_or(LACKS)?;
                Self::Produced {
                    error: ErrorCode::from_code(partition.error_code),
                    base_offset: partition.base_offset,
                }
            }
            ApiKey::Fetch => Self::Fetched(read_fetched(body)?),
            ApiKey::EndTxn => {
                let message = EndTxnResponse::from_bytes(body, version)?;
                Self::Producer {
                    error: ErrorCode::from_code(message.error_code),
                    producer: ProducerKey {
                        id: message.producer_id,
                        epoch: message.producer_epoch,
                    },
                }
            }
            ApiKey::InitProducerId => {
                let message = InitProducerIdResponse::from_bytes(body, version)?;
                Self::Producer {
                    error: ErrorCode::from_code(message.error_code),
                    producer: ProducerKey {
                        id: message.producer_id,
                        epoch: message.producer_epoch,
                    },
                }
            }
            _ => {
                let message = CreateTopicsResponse::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                Self::Created {
                    error: ErrorCode::from_code(topic.error_code),
                    topic_id: topic.topic_id,
                }
            }
        })
    }

    fn read_group(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        let version = version_of(api);
        Ok(match api {
            ApiKey::JoinGroup => {
                let message = JoinGroupResponse::from_bytes(body, version)?;
                let members = message.members.iter();
                Self::Joined(Joined {
                    error: ErrorCode::from_code(message.error_code),
                    generation: message.generation_id,
                    leader: message.leader.to_owned(),
                    member_id: message.member_id.to_owned(),
                    members: members.map(|one| one.member_id.to_owned()).collect(),
                })
            }
            ApiKey::SyncGroup => {
                let message = SyncGroupResponse::from_bytes(body, version)?;
                Self::Synced {
                    error: ErrorCode::from_code(message.error_code),
                    assignment: message.assignment.to_vec(),
                }
            }
            _ => {
                let message = OffsetFetchResponse::from_bytes(body, version)?;
                let group = message.groups.iter().next().ok_or(LACKS)?;
                let topic = group.topics.iter().next().ok_or(LACKS)?;
                let partition = topic.partitions.iter().next().ok_or(LACKS)?;
                Self::Offset {
                    error: ErrorCode::from_code(partition.error_code),
                    offset: partition.committed_offset,
                }
            }
        })
    }
}

fn fetch_frame(correlation_id: i32, fetched: &Fetched) -> Vec<u8> {
    let aborted = |(producer_id, first_offset): &(ProducerId, Offset)| AbortedTransaction {
        producer_id: producer_id.0,
        first_offset: first_offset.0,
    };
    let partition = PartitionData {
        error_code: fetched.error.code(),
        high_watermark: fetched.high_watermark,
        last_stable_offset: fetched.last_stable_offset,
        log_start_offset: fetched.log_start_offset,
        aborted_transactions: Some(fetched.aborted.iter().map(aborted).collect()),
        records: Some(&fetched.records),
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse {
        partitions: vec![partition].into(),
        ..FetchableTopicResponse::default()
    };
    let responses = vec![topic].into();
    let message = FetchResponse {
        responses,
        ..FetchResponse::default()
    };
    frame(correlation_id, ApiKey::Fetch, &message)
}

fn read_fetched(body: &[u8]) -> Result<Fetched, DecodeError> {
    let message = FetchResponse::from_bytes(body, version_of(ApiKey::Fetch))?;
    let topic = message.responses.iter().next().ok_or(LACKS)?;
    let partition = topic.partitions.iter().next().ok_or(LACKS)?;
    let aborted = partition.aborted_transactions.unwrap_or_default();
    Ok(Fetched {
        error: ErrorCode::from_code(partition.error_code),
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset,
        log_start_offset: partition.log_start_offset,
        aborted: aborted
            .iter()
            .map(|one| (ProducerId(one.producer_id), Offset(one.first_offset)))
            .collect(),
        records: partition.records.unwrap_or_default().to_vec(),
    })
}

fn done_frame(correlation_id: i32, api: ApiKey, error_code: i16) -> Vec<u8> {
    match api {
        ApiKey::TxnOffsetCommit => {
            let partition = TxnOffsetCommitResponsePartition {
                error_code,
                ..TxnOffsetCommitResponsePartition::default()
            };
            let topic = TxnOffsetCommitResponseTopic {
                partitions: vec![partition].into(),
                ..TxnOffsetCommitResponseTopic::default()
            };
            let topics = vec![topic].into();
            let message = TxnOffsetCommitResponse {
                topics,
                ..TxnOffsetCommitResponse::default()
            };
            frame(correlation_id, api, &message)
        }
        ApiKey::OffsetCommit => {
            let partition = OffsetCommitResponsePartition {
                error_code,
                ..OffsetCommitResponsePartition::default()
            };
            let topic = OffsetCommitResponseTopic {
                partitions: vec![partition].into(),
                ..OffsetCommitResponseTopic::default()
            };
            let topics = vec![topic].into();
            let message = OffsetCommitResponse {
                topics,
                ..OffsetCommitResponse::default()
            };
            frame(correlation_id, api, &message)
        }
        _ => done_with_topic_frame(correlation_id, api, error_code),
    }
}

fn done_with_topic_frame(correlation_id: i32, api: ApiKey, error_code: i16) -> Vec<u8> {
    match api {
        ApiKey::DeleteTopics => {
            let topic = DeletableTopicResult {
                error_code,
                ..DeletableTopicResult::default()
            };
            let responses = vec![topic].into();
            let message = DeleteTopicsResponse {
                responses,
                ..DeleteTopicsResponse::default()
            };
            frame(correlation_id, api, &message)
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartitionResult {
                error_code,
                ..DeleteRecordsPartitionResult::default()
            };
            let topic = DeleteRecordsTopicResult {
                partitions: vec![partition].into(),
                ..DeleteRecordsTopicResult::default()
            };
            let topics = vec![topic].into();
            let message = DeleteRecordsResponse {
                topics,
                ..DeleteRecordsResponse::default()
            };
            frame(correlation_id, api, &message)
        }
        ApiKey::Heartbeat => {
            let message = HeartbeatResponse {
                error_code,
                ..HeartbeatResponse::default()
            };
            frame(correlation_id, api, &message)
        }
        _ => {
            let resource = AlterConfigsResourceResponse {
                error_code,
                ..AlterConfigsResourceResponse::default()
            };
            let responses = vec![resource].into();
            let message = IncrementalAlterConfigsResponse {
                responses,
                ..IncrementalAlterConfigsResponse::default()
            };
            frame(correlation_id, ApiKey::IncrementalAlterConfigs, &message)
        }
    }
}

fn read_done(api: ApiKey, body: &[u8]) -> Result<i16, DecodeError> {
    let version = version_of(api);
    Ok(match api {
        ApiKey::TxnOffsetCommit => {
            let message = TxnOffsetCommitResponse::from_bytes(body, version)?;
            let topic = message.topics.iter().next().ok_or(LACKS)?;
            topic.partitions.iter().next().ok_or(LACKS)?.error_code
        }
        ApiKey::OffsetCommit => {
            let message = OffsetCommitResponse::from_bytes(body, version)?;
            let topic = message.topics.iter().next().ok_or(LACKS)?;
            topic.partitions.iter().next().ok_or(LACKS)?.error_code
        }
        ApiKey::DeleteTopics => {
            let message = DeleteTopicsResponse::from_bytes(body, version)?;
            message.responses.iter().next().ok_or(LACKS)?.error_code
        }
        ApiKey::DeleteRecords => {
            let message = DeleteRecordsResponse::from_bytes(body, version)?;
            let topic = message.topics.iter().next().ok_or(LACKS)?;
            topic.partitions.iter().next().ok_or(LACKS)?.error_code
        }
        ApiKey::Heartbeat => HeartbeatResponse::from_bytes(body, version)?.error_code,
        _ => {
            let message = IncrementalAlterConfigsResponse::from_bytes(body, version)?;
            message.responses.iter().next().ok_or(LACKS)?.error_code
        }
    })
}

/// Every answer here is about what its request was about.
const LACKS: DecodeError = DecodeError::Truncated;
