//! Requests as frames, each in the newest version that names what it is about by the topic's id, where
//! there is one.

use super::{Ask, ProducerKey};
use model::{DecodeError, Message, Reader};
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, EndTxnRequest, FetchRequest,
    HeartbeatRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest,
    MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
    TxnOffsetCommitRequest,
};
use wire::{ApiKey, Request, RequestHeader};

/// How long a transaction may take before it is aborted for its producer.
const TRANSACTION_TIMEOUT_MS: i32 = 4_000;
/// How long a member of a group may be silent.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 6_000;
/// Configurations of topics, as requests number the kinds of resources.
pub(crate) const TOPIC_RESOURCE: i8 = 2;

/// The version of a request that the world's clients use.
pub(super) const fn version_of(api: ApiKey) -> i16 {
    match api {
        ApiKey::Produce | ApiKey::Fetch => 13,
        ApiKey::Metadata => 12,
        ApiKey::OffsetCommit | ApiKey::OffsetFetch => 10,
        ApiKey::JoinGroup => 9,
        ApiKey::Heartbeat => 4,
        ApiKey::CreateTopics => 7,
        ApiKey::DeleteTopics => 6,
        ApiKey::DeleteRecords => 2,
        ApiKey::IncrementalAlterConfigs => 1,
        // InitProducerId, EndTxn, TxnOffsetCommit, SyncGroup
        _ => 5,
    }
}

fn frame<'a, M: Request<'a>>(correlation_id: i32, message: &M) -> Vec<u8> {
    let version = version_of(M::API);
    let header = RequestHeader {
        api_key: M::API as i16,
        api_version: version,
        correlation_id,
        client_id: Some("sim"),
    };
    let mut out = Vec::new();
    header.encode(M::API.is_request_flexible(version), &mut out);
    message.write(version, &mut out);
    out
}

impl Ask {
    /// The API that it asks for.
    pub(super) const fn api(&self) -> ApiKey {
        match self {
            Self::Metadata { .. } => ApiKey::Metadata,
            Self::Produce { .. } => ApiKey::Produce,
            Self::Fetch { .. } => ApiKey::Fetch,
            Self::InitProducerId { .. } => ApiKey::InitProducerId,
            Self::EndTransaction { .. } => ApiKey::EndTxn,
            Self::CommitInTransaction { .. } => ApiKey::TxnOffsetCommit,
            Self::CommitOffset { .. } => ApiKey::OffsetCommit,
            Self::FetchOffset { .. } => ApiKey::OffsetFetch,
            Self::CreateTopic { .. } => ApiKey::CreateTopics,
            Self::DeleteTopic { .. } => ApiKey::DeleteTopics,
            Self::DeleteRecords { .. } => ApiKey::DeleteRecords,
            Self::AlterConfig { .. } => ApiKey::IncrementalAlterConfigs,
            Self::Join { .. } => ApiKey::JoinGroup,
            Self::Sync { .. } => ApiKey::SyncGroup,
            Self::Heartbeat { .. } => ApiKey::Heartbeat,
        }
    }

    /// The request as a frame without its size.
    pub(crate) fn to_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::CreateTopic { .. } | Self::DeleteTopic { .. } | Self::Metadata { .. } => {
                self.admin_frame(correlation_id)
            }
            Self::DeleteRecords { .. } | Self::AlterConfig { .. } => {
                self.change_frame(correlation_id)
            }
            Self::Produce { .. } | Self::Fetch { .. } => self.data_frame(correlation_id),
            Self::InitProducerId { .. } | Self::EndTransaction { .. } => {
                self.transaction_frame(correlation_id)
            }
            _ => self.group_frame(correlation_id),
        }
    }

    fn data_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::Produce {
                topic_id,
                partition,
                transactional_id,
                records,
            } => {
                let data = PartitionProduceData {
                    index: *partition,
                    records: Some(records),
                };
                let topic = TopicProduceData {
                    topic_id: *topic_id,
                    partition_data: vec![data].into(),
                    ..TopicProduceData::default()
                };
                let message = ProduceRequest {
                    transactional_id: transactional_id.as_deref(),
                    acks: -1,
                    timeout_ms: 30_000,
                    topic_data: vec![topic].into(),
                };
                frame(correlation_id, &message)
            }
            Self::Fetch {
                topic_id,
                partition,
                offset,
                is_committed,
            } => {
                let asked = FetchPartition {
                    partition: *partition,
                    fetch_offset: *offset,
                    partition_max_bytes: 4_000,
                    ..FetchPartition::default()
                };
                let topic = FetchTopic {
                    topic_id: *topic_id,
                    partitions: vec![asked].into(),
                    ..FetchTopic::default()
                };
                let message = FetchRequest {
                    isolation_level: i8::from(*is_committed),
                    topics: vec![topic].into(),
                    ..FetchRequest::default()
                };
                frame(correlation_id, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn transaction_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::InitProducerId {
                transactional_id,
                expected,
            } => frame(
                correlation_id,
                &InitProducerIdRequest {
                    transactional_id: transactional_id.as_deref(),
                    producer_id: expected.map_or(-1, |expected| expected.id),
                    producer_epoch: expected.map_or(-1, |expected| expected.epoch),
                    transaction_timeout_ms: TRANSACTION_TIMEOUT_MS,
                    ..InitProducerIdRequest::default()
                },
            ),
            Self::EndTransaction {
                transactional_id,
                producer,
                is_commit,
            } => frame(
                correlation_id,
                &EndTxnRequest {
                    transactional_id,
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    committed: *is_commit,
                },
            ),
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn admin_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::Metadata { topic } => {
                let asked = MetadataRequestTopic {
                    name: Some(topic),
                    ..MetadataRequestTopic::default()
                };
                let message = MetadataRequest {
                    topics: Some(vec![asked].into()),
                    allow_auto_topic_creation: false,
                    ..MetadataRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::CreateTopic {
                name,
                partition_count,
                configs,
            } => {
                let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
                    name,
                    value: Some(value),
                });
                let topic = CreatableTopic {
                    name,
                    num_partitions: *partition_count,
                    replication_factor: 1,
                    configs: configs.collect(),
                    ..CreatableTopic::default()
                };
                let topics = vec![topic].into();
                let message = CreateTopicsRequest {
                    topics,
                    ..CreateTopicsRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::DeleteTopic { name } => {
                let topic = DeleteTopicState {
                    name: Some(name),
                    ..DeleteTopicState::default()
                };
                let topics = vec![topic].into();
                let message = DeleteTopicsRequest {
                    topics,
                    ..DeleteTopicsRequest::default()
                };
                frame(correlation_id, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn change_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::DeleteRecords {
                topic,
                partition,
                offset,
            } => {
                let partition = DeleteRecordsPartition {
                    partition_index: *partition,
                    offset: *offset,
                };
                let topic = DeleteRecordsTopic {
                    name: topic,
                    partitions: vec![partition].into(),
                };
                let topics = vec![topic].into();
                let message = DeleteRecordsRequest {
                    topics,
                    ..DeleteRecordsRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::AlterConfig { topic, key, value } => {
                let config = AlterableConfig {
                    name: key,
                    config_operation: i8::from(value.is_none()),
                    value: value.as_deref(),
                };
                let resource = AlterConfigsResource {
                    resource_type: TOPIC_RESOURCE,
                    resource_name: topic,
                    configs: vec![config].into(),
                };
                let resources = vec![resource].into();
                let message = IncrementalAlterConfigsRequest {
                    resources,
                    ..IncrementalAlterConfigsRequest::default()
                };
                frame(correlation_id, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn group_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::CommitInTransaction { .. } | Self::CommitOffset { .. } => {
                self.offsets_frame(correlation_id)
            }
            Self::FetchOffset { .. } => self.fetch_offset_frame(correlation_id),
            Self::Join { group, member_id } => {
                let protocol = JoinGroupRequestProtocol {
                    name: "range",
                    metadata: &[],
                };
                let message = JoinGroupRequest {
                    group_id: group,
                    session_timeout_ms: SESSION_TIMEOUT_MS,
                    rebalance_timeout_ms: SESSION_TIMEOUT_MS,
                    member_id,
                    protocol_type: "consumer",
                    protocols: vec![protocol].into(),
                    ..JoinGroupRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::Sync {
                group,
                generation,
                member_id,
                assignments,
            } => {
                let assigned = |(member_id, assignment)| SyncGroupRequestAssignment {
                    member_id,
                    assignment,
                };
                let assignments = assignments.iter().map(|(id, bytes)| (&**id, &**bytes));
                let message = SyncGroupRequest {
                    group_id: group,
                    generation_id: *generation,
                    member_id,
                    assignments: assignments.map(assigned).collect(),
                    ..SyncGroupRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::Heartbeat {
                group,
                generation,
                member_id,
            } => frame(
                correlation_id,
                &HeartbeatRequest {
                    group_id: group,
                    generation_id: *generation,
                    member_id,
                    ..HeartbeatRequest::default()
                },
            ),
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn offsets_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::CommitInTransaction {
                transactional_id,
                producer,
                group,
                topic,
                partition,
                offset,
            } => {
                let partition = TxnOffsetCommitRequestPartition {
                    partition_index: *partition,
                    committed_offset: *offset,
                    ..TxnOffsetCommitRequestPartition::default()
                };
                let topic = TxnOffsetCommitRequestTopic {
                    name: topic,
                    partitions: vec![partition].into(),
                };
                let message = TxnOffsetCommitRequest {
                    transactional_id,
                    group_id: group,
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    topics: vec![topic].into(),
                    ..TxnOffsetCommitRequest::default()
                };
                frame(correlation_id, &message)
            }
            Self::CommitOffset {
                group,
                generation,
                member_id,
                topic_id,
                partition,
                offset,
            } => {
                let partition = OffsetCommitRequestPartition {
                    partition_index: *partition,
                    committed_offset: *offset,
                    ..OffsetCommitRequestPartition::default()
                };
                let topic = OffsetCommitRequestTopic {
                    topic_id: *topic_id,
                    partitions: vec![partition].into(),
                    ..OffsetCommitRequestTopic::default()
                };
                let message = OffsetCommitRequest {
                    group_id: group,
                    generation_id_or_member_epoch: *generation,
                    member_id,
                    topics: vec![topic].into(),
                    ..OffsetCommitRequest::default()
                };
                frame(correlation_id, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    fn fetch_offset_frame(&self, correlation_id: i32) -> Vec<u8> {
        match self {
            Self::FetchOffset {
                group,
                topic_id,
                partition,
            } => {
                let topic = OffsetFetchRequestTopics {
                    topic_id: *topic_id,
                    partition_indexes: vec![*partition].into(),
                    ..OffsetFetchRequestTopics::default()
                };
                let group = OffsetFetchRequestGroup {
                    group_id: group,
                    topics: Some(vec![topic].into()),
                    ..OffsetFetchRequestGroup::default()
                };
                let message = OffsetFetchRequest {
                    groups: vec![group].into(),
                    require_stable: true,
                    ..OffsetFetchRequest::default()
                };
                frame(correlation_id, &message)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    /// The request in a frame, with its correlation id.
    ///
    /// # Errors
    /// A [`DecodeError`] when it is none of those that clients here make.
    pub(crate) fn from_frame(frame: &[u8]) -> Result<(i32, Self), DecodeError> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader)?;
        let api = ApiKey::from_number(header.api_key).ok_or(DecodeError::UnsupportedVersion)?;
        if header.api_version != version_of(api) {
            return Err(DecodeError::UnsupportedVersion);
        }
        let body = reader.remaining();
        let ask = match api {
            ApiKey::Produce | ApiKey::Fetch => Self::read_data(api, body),
            ApiKey::OffsetCommit | ApiKey::OffsetFetch | ApiKey::TxnOffsetCommit => {
                Self::read_offsets(api, body)
            }
            ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat => {
                Self::read_group(api, body)
            }
            ApiKey::InitProducerId | ApiKey::EndTxn => Self::read_transaction(api, body),
            _ => Self::read_admin(api, body),
        };
        Ok((header.correlation_id, ask?))
    }

    fn read_data(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        if api == ApiKey::Produce {
            let message = ProduceRequest::from_bytes(body, version_of(api))?;
            let topic = message.topic_data.iter().next().ok_or(LACKS)?;
            let data = topic.partition_data.iter().next().ok_or(LACKS)?;
            return Ok(Self::Produce {
                topic_id: topic.topic_id,
                partition: data.index,
                transactional_id: message.transactional_id.map(str::to_owned),
                records: data.records.unwrap_or_default().to_vec(),
            });
        }
        let message = FetchRequest::from_bytes(body, version_of(api))?;
        let topic = message.topics.iter().next().ok_or(LACKS)?;
        let asked = topic.partitions.iter().next().ok_or(LACKS)?;
        Ok(Self::Fetch {
            topic_id: topic.topic_id,
            partition: asked.partition,
            offset: asked.fetch_offset,
            is_committed: message.isolation_level == 1,
        })
    }

    fn read_transaction(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        if api == ApiKey::InitProducerId {
            let message = InitProducerIdRequest::from_bytes(body, version_of(api))?;
            let expected = ProducerKey {
                id: message.producer_id,
                epoch: message.producer_epoch,
            };
            return Ok(Self::InitProducerId {
                transactional_id: message.transactional_id.map(str::to_owned),
                expected: (expected.id != -1).then_some(expected),
            });
        }
        let message = EndTxnRequest::from_bytes(body, version_of(api))?;
        Ok(Self::EndTransaction {
            transactional_id: message.transactional_id.to_owned(),
            producer: ProducerKey {
                id: message.producer_id,
                epoch: message.producer_epoch,
            },
            is_commit: message.committed,
        })
    }

    fn read_offsets(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        let version = version_of(api);
        match api {
            ApiKey::TxnOffsetCommit => {
                let message = TxnOffsetCommitRequest::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                let partition = topic.partitions.iter().next().ok_or(LACKS)?;
                Ok(Self::CommitInTransaction {
                    transactional_id: message.transactional_id.to_owned(),
                    producer: ProducerKey {
                        id: message.producer_id,
                        epoch: message.producer_epoch,
                    },
                    group: message.group_id.to_owned(),
                    topic: topic.name.to_owned(),
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                })
            }
            ApiKey::OffsetCommit => {
                let message = OffsetCommitRequest::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                let partition = topic.partitions.iter().next().ok_or(LACKS)?;
                Ok(Self::CommitOffset {
                    group: message.group_id.to_owned(),
                    generation: message.generation_id_or_member_epoch,
                    member_id: message.member_id.to_owned(),
                    topic_id: topic.topic_id,
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                })
            }
            _ => {
                let message = OffsetFetchRequest::from_bytes(body, version)?;
                let group = message.groups.iter().next().ok_or(LACKS)?;
                let topics = group.topics.ok_or(LACKS)?;
                let topic = topics.iter().next().ok_or(LACKS)?;
                let partition = topic.partition_indexes.iter().next().ok_or(LACKS)?;
                Ok(Self::FetchOffset {
                    group: group.group_id.to_owned(),
                    topic_id: topic.topic_id,
                    partition,
                })
            }
        }
    }

    fn read_group(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        let version = version_of(api);
        Ok(match api {
            ApiKey::JoinGroup => {
                let message = JoinGroupRequest::from_bytes(body, version)?;
                Self::Join {
                    group: message.group_id.to_owned(),
                    member_id: message.member_id.to_owned(),
                }
            }
            ApiKey::SyncGroup => {
                let message = SyncGroupRequest::from_bytes(body, version)?;
                let assignments = message.assignments.iter();
                Self::Sync {
                    group: message.group_id.to_owned(),
                    generation: message.generation_id,
                    member_id: message.member_id.to_owned(),
                    assignments: assignments
                        .map(|one| (one.member_id.to_owned(), one.assignment.to_vec()))
                        .collect(),
                }
            }
            _ => {
                let message = HeartbeatRequest::from_bytes(body, version)?;
                Self::Heartbeat {
                    group: message.group_id.to_owned(),
                    generation: message.generation_id,
                    member_id: message.member_id.to_owned(),
                }
            }
        })
    }

    fn read_admin(api: ApiKey, body: &[u8]) -> Result<Self, DecodeError> {
        let version = version_of(api);
        Ok(match api {
            ApiKey::Metadata => {
                let message = MetadataRequest::from_bytes(body, version)?;
                let topic = message.topics.ok_or(LACKS)?.iter().next().ok_or(LACKS)?;
                Self::Metadata {
                    topic: topic.name.ok_or(LACKS)?.to_owned(),
                }
            }
            ApiKey::CreateTopics => {
                let message = CreateTopicsRequest::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                let configs = topic.configs.iter();
                let config = |one: CreatableTopicConfig<'_>| {
                    (one.name.to_owned(), one.value.unwrap_or("").to_owned())
                };
                Self::CreateTopic {
                    name: topic.name.to_owned(),
                    partition_count: topic.num_partitions,
                    configs: configs.map(config).collect(),
                }
            }
            ApiKey::DeleteTopics => {
                let message = DeleteTopicsRequest::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                Self::DeleteTopic {
                    name: topic.name.ok_or(LACKS)?.to_owned(),
                }
            }
            ApiKey::DeleteRecords => {
                let message = DeleteRecordsRequest::from_bytes(body, version)?;
                let topic = message.topics.iter().next().ok_or(LACKS)?;
                let partition = topic.partitions.iter().next().ok_or(LACKS)?;
                Self::DeleteRecords {
                    topic: topic.name.to_owned(),
                    partition: partition.partition_index,
                    offset: partition.offset,
                }
            }
            ApiKey::IncrementalAlterConfigs => {
                let message = IncrementalAlterConfigsRequest::from_bytes(body, version)?;
                let resource = message.resources.iter().next().ok_or(LACKS)?;
                let config = resource.configs.iter().next().ok_or(LACKS)?;
                Self::AlterConfig {
                    topic: resource.resource_name.to_owned(),
                    key: config.name.to_owned(),
                    value: config.value.map(str::to_owned),
                }
            }
            _ => return Err(DecodeError::UnsupportedVersion),
        })
    }
}

/// Every request here is about something.
const LACKS: DecodeError = DecodeError::Truncated;
