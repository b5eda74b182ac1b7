//! What a broker asks the controller by itself, in types of the wire: AllocateProducerIds v0, AlterPartition
//! v2–3, AssignReplicasToDirs v0, and CreateTopics v7 of topics that are made because somebody uses them.
//!
//! - Places of replicas go in requests of at most 2250, one after the other, as Apache Kafka's.
//! - What an answer leaves out is not decided, and is asked for again.

use super::connections::Purpose;
use super::controller_channel::ControllerChannel;
use connection::{Deadline, Error, Response};
use controller::alter_partition::{AlteredPartition, AlteredPartitions, WantedIsr};
use controller::create_topics::{CreatedTopic, NewTopic};
use controller::directories::DirectoryAssignment;
use controller::producer_ids::ProducerIdBlock;
use controller::{
    AllocateProducerIds, AlterPartition, ApiError, AssignReplicasToDirectories, CreateTopics,
    TopicResult,
};
use metadata::LeaderRecoveryState;
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Message, Uuid};
use std::collections::{BTreeMap, HashMap};
use wire::Request;
use wire::messages::alter_partition_request::{self, BrokerState};
use wire::messages::assign_replicas_to_dirs_request as assign;
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest,
    AlterPartitionResponse, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse,
    CreateTopicsRequest, CreateTopicsResponse,
};

/// Replicas in one request about their places.
const PLACES_MAX: usize = 2250;

/// What no answer has come of.
fn unanswered(error: &Error) -> ErrorCode {
    match error {
        Error::Unsupported { .. } => ErrorCode::UnsupportedVersion,
        Error::TimedOut { .. } => ErrorCode::RequestTimedOut,
        _ => ErrorCode::NotController,
    }
}

impl ControllerChannel {
    async fn ask<'m, M: Request<'m>>(
        &self,
        message: &M,
        code_of: impl Fn(&Response) -> Result<ErrorCode, Error>,
        deadline: Deadline,
    ) -> Result<Response, ApiError> {
        let answered = self.call(Purpose::Controller, message, code_of, deadline);
        answered.await.map_err(|error| {
            tracing::debug!(%error, "the controller has not answered");
            ApiError::new(unanswered(&error), error.to_string())
        })
    }

    /// Asks for producer ids.
    ///
    /// # Errors
    /// What the controller refuses, or that it has not answered.
    pub(super) async fn allocate_producer_ids(
        &self,
        request: &AllocateProducerIds,
        deadline: Deadline,
    ) -> Result<ProducerIdBlock, ApiError> {
        let message = AllocateProducerIdsRequest {
            broker_id: request.broker_id,
            broker_epoch: request.broker_epoch,
        };
        let code_of = |response: &Response| {
            let read: AllocateProducerIdsResponse = response.read()?;
            Ok(ErrorCode::from_code(read.error_code))
        };
        let response = self.ask(&message, code_of, deadline).await?;
        let read: AllocateProducerIdsResponse = readable(&response)?;
        checked(read.error_code)?;
        Ok(ProducerIdBlock {
            first: read.producer_id_start,
            count: read.producer_id_len.into(),
        })
    }

    /// Tells who is in sync with this leader.
    ///
    /// # Errors
    /// What the controller refuses as a whole, or that it has not answered.
    pub(super) async fn alter_partition(
        &self,
        request: &AlterPartition,
        deadline: Deadline,
    ) -> Result<AlteredPartitions, ApiError> {
        let mut by_topic: BTreeMap<Uuid, Vec<_>> = BTreeMap::new();
        for wanted in &request.partitions {
            let partitions = by_topic.entry(wanted.topic_id).or_default();
            partitions.push(wanted_partition(wanted));
        }
        let topics = by_topic.into_iter();
        let topics = topics.map(
            |(topic_id, partitions)| alter_partition_request::TopicData {
                topic_id,
                partitions: partitions.into(),
            },
        );
        let message = AlterPartitionRequest {
            broker_id: request.broker_id,
            broker_epoch: request.broker_epoch,
            topics: topics.collect(),
        };
        let code_of = |response: &Response| {
            let read: AlterPartitionResponse<'_> = response.read()?;
            let topics = read.topics.iter();
            let mut codes = topics.flat_map(|topic| {
                let partitions = topic.partitions.iter().map(|one| one.error_code);
                partitions.collect::<Vec<_>>()
            });
            // A partition may be the one that is told so.
            let is_misdirected = codes.any(|code| code == ErrorCode::NotController.code());
            Ok(match is_misdirected {
                true => ErrorCode::NotController,
                false => ErrorCode::from_code(read.error_code),
            })
        };
        let response = self.ask(&message, code_of, deadline).await?;
        let read: AlterPartitionResponse<'_> = readable(&response)?;
        checked(read.error_code)?;
        Ok(altered(&request.partitions, &read))
    }

    /// Tells where replicas are. One result for each.
    ///
    /// # Errors
    /// What the controller refuses as a whole, or that it has not answered.
    pub(super) async fn assign_replicas(
        &self,
        request: &AssignReplicasToDirectories,
        deadline: Deadline,
    ) -> Result<Vec<ErrorCode>, ApiError> {
        let mut results = Vec::with_capacity(request.assignments.len());
        for assignments in request.assignments.chunks(PLACES_MAX) {
            let broker = (request.broker_id, request.broker_epoch);
            results.extend(self.assign_some(broker, assignments, deadline).await?);
        }
        Ok(results)
    }

    async fn assign_some(
        &self,
        (broker_id, broker_epoch): (BrokerId, BrokerEpoch),
        assignments: &[DirectoryAssignment],
        deadline: Deadline,
    ) -> Result<Vec<ErrorCode>, ApiError> {
        let message = AssignReplicasToDirsRequest {
            broker_id,
            broker_epoch,
            directories: places(assignments).into(),
        };
        let code_of = |response: &Response| {
            let read: AssignReplicasToDirsResponse<'_> = response.read()?;
            Ok(ErrorCode::from_code(read.error_code))
        };
        let response = self.ask(&message, code_of, deadline).await?;
        let read: AssignReplicasToDirsResponse<'_> = readable(&response)?;
        checked(read.error_code)?;
        let mut codes = HashMap::new();
        for directory in read.directories.iter() {
            for topic in directory.topics.iter() {
                for partition in topic.partitions.iter() {
                    let key = (directory.id, topic.topic_id, partition.partition_index);
                    codes.insert(key, ErrorCode::from_code(partition.error_code));
                }
            }
        }
        let code_of = |one: &DirectoryAssignment| {
            let key = (one.directory, one.topic_id, one.partition_id);
            codes
                .get(&key)
                .copied()
                .unwrap_or(ErrorCode::UnknownServerError)
        };
        Ok(assignments.iter().map(code_of).collect())
    }

    /// Creates topics that somebody uses. Of what is created only the ids are told.
    ///
    /// # Errors
    /// That the controller has not answered.
    pub(super) async fn create_topics(
        &self,
        request: &CreateTopics,
        deadline: Deadline,
    ) -> Result<Vec<TopicResult<CreatedTopic>>, ApiError> {
        let topics = request.topics.iter().map(creatable);
        let message = CreateTopicsRequest {
            topics: topics.collect(),
            timeout_ms: i32::try_from(deadline.remaining_ms()).unwrap_or(i32::MAX),
            validate_only: request.validate_only,
        };
        let code_of = |response: &Response| {
            let read: CreateTopicsResponse<'_> = response.read()?;
            let mut codes = read.topics.iter().map(|topic| topic.error_code);
            let is_misdirected = codes.any(|code| code == ErrorCode::NotController.code());
            Ok(match is_misdirected {
                true => ErrorCode::NotController,
                false => ErrorCode::None,
            })
        };
        let response = self.ask(&message, code_of, deadline).await?;
        let read: CreateTopicsResponse<'_> = readable(&response)?;
        let results = read.topics.iter().map(|topic| TopicResult {
            name: topic.name.to_owned(),
            result: match ErrorCode::from_code(topic.error_code) {
                ErrorCode::None => Ok(CreatedTopic {
                    topic_id: topic.topic_id,
                    num_partitions: topic.num_partitions,
                    replication_factor: topic.replication_factor,
                    configs: Vec::new(),
                }),
                code => Err(ApiError {
                    code,
                    message: topic.error_message.map(str::to_owned),
                }),
            },
        });
        Ok(results.collect())
    }
}

fn readable<'r, M: Message<'r>>(response: &'r Response) -> Result<M, ApiError> {
    let read = response.read();
    read.map_err(|error| ApiError::new(ErrorCode::UnknownServerError, error.to_string()))
}

fn checked(code: i16) -> Result<(), ApiError> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        code => Err(ApiError::bare(code)),
    }
}

fn wanted_partition(wanted: &WantedIsr) -> alter_partition_request::PartitionData<'static> {
    let isr = wanted.isr.iter();
    let with_epochs = isr.clone().map(|(broker_id, broker_epoch)| BrokerState {
        broker_id: *broker_id,
        broker_epoch: *broker_epoch,
    });
    alter_partition_request::PartitionData {
        partition_index: wanted.partition_id,
        leader_epoch: wanted.leader_epoch.0,
        new_isr: isr.map(|(id, _)| *id).collect(),
        new_isr_with_epochs: with_epochs.collect(),
        leader_recovery_state: wanted
            .leader_recovery_state
            .map_or(-1, LeaderRecoveryState::id),
        partition_epoch: wanted.partition_epoch,
    }
}

/// What became of each partition; what the answer leaves out is not decided.
fn altered(wanted: &[WantedIsr], answer: &AlterPartitionResponse<'_>) -> AlteredPartitions {
    let mut found = HashMap::new();
    for topic in answer.topics.iter() {
        for partition in topic.partitions.iter() {
            let result = match ErrorCode::from_code(partition.error_code) {
                ErrorCode::None => Ok(AlteredPartition {
                    leader: partition.leader_id,
                    leader_epoch: LeaderEpoch(partition.leader_epoch),
                    isr: partition.isr.iter().collect(),
                    leader_recovery_state: LeaderRecoveryState::from_id(
                        partition.leader_recovery_state,
                    )
                    .unwrap_or(LeaderRecoveryState::Recovered),
                    partition_epoch: partition.partition_epoch,
                }),
                code => Err(code),
            };
            found.insert((topic.topic_id, partition.partition_index), result);
        }
    }
    let result_of = |wanted: &WantedIsr| {
        let key = (wanted.topic_id, wanted.partition_id);
        // One that is named twice is answered once.
        found
            .remove(&key)
            .unwrap_or(Err(ErrorCode::UnknownServerError))
    };
    wanted.iter().map(result_of).collect()
}

/// Directory, topic, partitions.
fn places(assignments: &[DirectoryAssignment]) -> Vec<assign::DirectoryData<'static>> {
    let mut places: BTreeMap<Uuid, BTreeMap<Uuid, Vec<assign::PartitionData>>> = BTreeMap::new();
    for one in assignments {
        let topics = places.entry(one.directory).or_default();
        let partition_index = one.partition_id;
        let partitions = topics.entry(one.topic_id).or_default();
        partitions.push(assign::PartitionData { partition_index });
    }
    let directories = places.into_iter().map(|(id, topics)| {
        let topics = topics.into_iter();
        let topics = topics.map(|(topic_id, partitions)| assign::TopicData {
            topic_id,
            partitions: partitions.into(),
        });
        assign::DirectoryData {
            id,
            topics: topics.collect(),
        }
    });
    directories.collect()
}

fn creatable(topic: &NewTopic) -> CreatableTopic<'_> {
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    CreatableTopic {
        name: &topic.name,
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments
            .map(|one| CreatableReplicaAssignment {
                partition_index: one.partition_index,
                broker_ids: (&one.broker_ids).into(),
            })
            .collect(),
        configs: configs
            .map(|(name, value)| CreatableTopicConfig {
                name,
                value: value.as_deref(),
            })
            .collect(),
    }
}
