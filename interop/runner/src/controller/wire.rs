//! Requests as messages, and answers of both controllers in one form.

use ::controller::alter_configs::ConfigChange;
use ::controller::update_features::UpgradeType;
use ::controller::{
    AlterConfigs, AlterPartition, AlterPartitionReassignments, ApiError,
    AssignReplicasToDirectories, BrokerHeartbeat, ControllerRequest, ControllerResponse,
    CreatePartitions, CreateTopics, DeleteTopics, ElectLeaders, PartitionResults, RegisterBroker,
    UpdateFeatures,
};
use ::wire::ApiKey;
use ::wire::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse, AlterPartitionRequest, AlterPartitionResponse,
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, BrokerHeartbeatRequest,
    BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, ElectLeadersRequest, ElectLeadersResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, UnregisterBrokerRequest,
    UnregisterBrokerResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
    alter_partition_reassignments_request, alter_partition_request,
    assign_replicas_to_dirs_request, broker_registration_request, create_partitions_request,
    create_topics_request, delete_topics_request, elect_leaders_request,
    incremental_alter_configs_request, update_features_request,
};
use anyhow::{Result, anyhow, bail};
use model::{ErrorCode, Message};

/// The cluster of both controllers.
pub(super) const CLUSTER_ID: &str = "cmhvdGhhcmJvdXJyaXZlcg";

const TIMEOUT_MS: i32 = 20_000;

/// What was answered: a line for each thing that the request names, and one for the whole.
pub(super) type Answer = Vec<String>;

/// A request as it is sent.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) body: Vec<u8>,
}

impl Asked {
    fn of<'a, M: Message<'a>>(api: ApiKey, version: i16, message: &M) -> Self {
        Self {
            api,
            version,
            body: message.to_bytes(version),
        }
    }
}

/// The message of a request.
pub(super) fn asked(request: &ControllerRequest) -> Asked {
    match request {
        ControllerRequest::RegisterBroker(request) => register_broker(request),
        ControllerRequest::BrokerHeartbeat(request) => heartbeat(request),
        ControllerRequest::AlterPartition(request) => alter_partition(request),
        ControllerRequest::AssignReplicasToDirectories(request) => assign(request),
        ControllerRequest::AllocateProducerIds(request) => {
            let message = AllocateProducerIdsRequest {
                broker_id: request.broker_id,
                broker_epoch: request.broker_epoch,
            };
            Asked::of(ApiKey::AllocateProducerIds, 0, &message)
        }
        ControllerRequest::UnregisterBroker(request) => {
            let message = UnregisterBrokerRequest {
                broker_id: request.broker_id,
            };
            Asked::of(ApiKey::UnregisterBroker, 0, &message)
        }
        ControllerRequest::CreateTopics(request) => create_topics(request),
        ControllerRequest::CreatePartitions(request) => create_partitions(request),
        ControllerRequest::DeleteTopics(request) => delete_topics(request),
        ControllerRequest::ElectLeaders(request) => elect_leaders(request),
        ControllerRequest::AlterPartitionReassignments(request) => reassign(request),
        ControllerRequest::AlterConfigs(request) => alter_configs(request),
        ControllerRequest::UpdateFeatures(request) => update_features(request),
        other => unreachable!("never drawn: {other:?}"),
    }
}

fn register_broker(request: &RegisterBroker) -> Asked {
    let one = &request.registration;
    let listeners = one.endpoints.iter();
    let listeners = listeners.map(|endpoint| broker_registration_request::Listener {
        name: &endpoint.name,
        host: &endpoint.host,
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    });
    let features = one.features.iter();
    let features = features.map(|(name, range)| broker_registration_request::Feature {
        name,
        min_supported_version: range.min,
        max_supported_version: range.max,
    });
    let message = BrokerRegistrationRequest {
        broker_id: one.broker_id,
        cluster_id: CLUSTER_ID,
        incarnation_id: one.incarnation_id,
        listeners: listeners.collect(),
        features: features.collect(),
        rack: one.rack.as_deref(),
        is_migrating_zk_broker: one.is_migrating_zk_broker,
        log_dirs: one.directories.clone().into(),
        previous_broker_epoch: one.previous_broker_epoch,
    };
    let version = if request.detects_clean_shutdown { 4 } else { 2 };
    Asked::of(ApiKey::BrokerRegistration, version, &message)
}

fn heartbeat(request: &BrokerHeartbeat) -> Asked {
    let message = BrokerHeartbeatRequest {
        broker_id: request.broker_id,
        broker_epoch: request.broker_epoch,
        current_metadata_offset: request.metadata_offset.0,
        want_fence: request.wants_fence,
        want_shut_down: request.wants_shut_down,
        offline_log_dirs: request.offline_directories.clone().into(),
        cordoned_log_dirs: request.cordoned_directories.clone().map(Into::into),
    };
    Asked::of(ApiKey::BrokerHeartbeat, 2, &message)
}

fn alter_partition(request: &AlterPartition) -> Asked {
    let partitions = request.partitions.iter();
    let topics = partitions.map(|wanted| {
        let isr = wanted.isr.iter();
        let isr = isr.map(|(id, epoch)| alter_partition_request::BrokerState {
            broker_id: *id,
            broker_epoch: *epoch,
        });
        let partition = alter_partition_request::PartitionData {
            partition_index: wanted.partition_id,
            leader_epoch: wanted.leader_epoch.0,
            new_isr_with_epochs: isr.collect(),
            leader_recovery_state: wanted
                .leader_recovery_state
                .map_or(-1, metadata::LeaderRecoveryState::id),
            partition_epoch: wanted.partition_epoch,
            ..alter_partition_request::PartitionData::default()
        };
        alter_partition_request::TopicData {
            topic_id: wanted.topic_id,
            partitions: vec![partition].into(),
        }
    });
    let message = AlterPartitionRequest {
        broker_id: request.broker_id,
        broker_epoch: request.broker_epoch,
        topics: topics.collect(),
    };
    Asked::of(ApiKey::AlterPartition, 3, &message)
}

fn assign(request: &AssignReplicasToDirectories) -> Asked {
    let directories = request.assignments.iter().map(|one| {
        let partition = assign_replicas_to_dirs_request::PartitionData {
            partition_index: one.partition_id,
        };
        let topic = assign_replicas_to_dirs_request::TopicData {
            topic_id: one.topic_id,
            partitions: vec![partition].into(),
        };
        assign_replicas_to_dirs_request::DirectoryData {
            id: one.directory,
            topics: vec![topic].into(),
        }
    });
    let message = AssignReplicasToDirsRequest {
        broker_id: request.broker_id,
        broker_epoch: request.broker_epoch,
        directories: directories.collect(),
    };
    Asked::of(ApiKey::AssignReplicasToDirs, 0, &message)
}

fn create_topics(request: &CreateTopics) -> Asked {
    let topics = request.topics.iter().map(|topic| {
        let assignments = topic.assignments.iter();
        let assignments =
            assignments.map(|one| create_topics_request::CreatableReplicaAssignment {
                partition_index: one.partition_index,
                broker_ids: one.broker_ids.clone().into(),
            });
        let configs = topic.configs.iter();
        let configs = configs.map(
            |(name, value)| create_topics_request::CreatableTopicConfig {
                name,
                value: value.as_deref(),
            },
        );
        create_topics_request::CreatableTopic {
            name: &topic.name,
            num_partitions: topic.num_partitions,
            replication_factor: topic.replication_factor,
            assignments: assignments.collect(),
            configs: configs.collect(),
        }
    });
    let message = CreateTopicsRequest {
        topics: topics.collect(),
        timeout_ms: TIMEOUT_MS,
        validate_only: request.validate_only,
    };
    Asked::of(ApiKey::CreateTopics, 7, &message)
}

fn create_partitions(request: &CreatePartitions) -> Asked {
    let topics = request.topics.iter().map(|topic| {
        let assignments = topic.assignments.as_ref().map(|assignments| {
            let assignments = assignments.iter();
            let assignments =
                assignments.map(
                    |ids| create_partitions_request::CreatePartitionsAssignment {
                        broker_ids: ids.clone().into(),
                    },
                );
            assignments.collect()
        });
        create_partitions_request::CreatePartitionsTopic {
            name: &topic.name,
            count: topic.count,
            assignments,
        }
    });
    let message = CreatePartitionsRequest {
        topics: topics.collect(),
        timeout_ms: TIMEOUT_MS,
        validate_only: request.validate_only,
    };
    Asked::of(ApiKey::CreatePartitions, 3, &message)
}

fn delete_topics(request: &DeleteTopics) -> Asked {
    let topics = request.topics.iter();
    let topics = topics.map(|topic| delete_topics_request::DeleteTopicState {
        name: topic.name.as_deref(),
        topic_id: topic.topic_id,
    });
    let message = DeleteTopicsRequest {
        topics: topics.collect(),
        timeout_ms: TIMEOUT_MS,
        ..DeleteTopicsRequest::default()
    };
    Asked::of(ApiKey::DeleteTopics, 6, &message)
}

fn elect_leaders(request: &ElectLeaders) -> Asked {
    let topics = request.topics.as_ref().map(|topics| {
        let topics = topics.iter();
        let topics = topics.map(|topic| elect_leaders_request::TopicPartitions {
            topic: &topic.topic,
            partitions: topic.partitions.clone().into(),
        });
        topics.collect()
    });
    let message = ElectLeadersRequest {
        election_type: request.election as i8,
        topic_partitions: topics,
        timeout_ms: TIMEOUT_MS,
    };
    Asked::of(ApiKey::ElectLeaders, 2, &message)
}

fn reassign(request: &AlterPartitionReassignments) -> Asked {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|(id, replicas)| {
            alter_partition_reassignments_request::ReassignablePartition {
                partition_index: *id,
                replicas: replicas.clone().map(Into::into),
            }
        });
        alter_partition_reassignments_request::ReassignableTopic {
            name: &topic.topic,
            partitions: partitions.collect(),
        }
    });
    let message = AlterPartitionReassignmentsRequest {
        timeout_ms: TIMEOUT_MS,
        allow_replication_factor_change: request.allows_other_counts,
        topics: topics.collect(),
    };
    Asked::of(ApiKey::AlterPartitionReassignments, 1, &message)
}

fn alter_configs(request: &AlterConfigs) -> Asked {
    let resources = request.resources.iter().map(|resource| {
        let ConfigChange::Operations(operations) = &resource.change else {
            unreachable!("never drawn: {resource:?}");
        };
        let operations = operations.iter();
        let configs = operations.map(|one| incremental_alter_configs_request::AlterableConfig {
            name: &one.name,
            config_operation: one.operation,
            value: one.value.as_deref(),
        });
        incremental_alter_configs_request::AlterConfigsResource {
            resource_type: resource.resource_type,
            resource_name: &resource.resource_name,
            configs: configs.collect(),
        }
    });
    let message = IncrementalAlterConfigsRequest {
        resources: resources.collect(),
        validate_only: request.options.validate_only,
    };
    Asked::of(ApiKey::IncrementalAlterConfigs, 1, &message)
}

fn update_features(request: &UpdateFeatures) -> Asked {
    let updates = request.updates.iter();
    let updates = updates.map(|one| update_features_request::FeatureUpdateKey {
        feature: &one.feature,
        max_version_level: one.level,
        upgrade_type: match one.upgrade_type {
            UpgradeType::Unknown => 0,
            UpgradeType::Upgrade => 1,
            UpgradeType::SafeDowngrade => 2,
            UpgradeType::UnsafeDowngrade => 3,
        },
        ..update_features_request::FeatureUpdateKey::default()
    });
    let message = UpdateFeaturesRequest {
        timeout_ms: TIMEOUT_MS,
        feature_updates: updates.collect(),
        validate_only: request.validate_only,
    };
    Asked::of(ApiKey::UpdateFeatures, 2, &message)
}

fn code(code: i16) -> &'static str {
    ErrorCode::from_code(code).name()
}

/// An answer that Kafka has sent.
pub(super) fn answer_of(request: &ControllerRequest, version: i16, body: &[u8]) -> Result<Answer> {
    let lines = match request {
        ControllerRequest::RegisterBroker(_) => {
            let answer: BrokerRegistrationResponse = read(body, version)?;
            let line = match answer.error_code {
                0 => format!("NONE epoch {}", answer.broker_epoch),
                other => code(other).to_owned(),
            };
            vec![line]
        }
        ControllerRequest::BrokerHeartbeat(_) => {
            let answer: BrokerHeartbeatResponse = read(body, version)?;
            let line = match answer.error_code {
                0 => standing(
                    answer.is_caught_up,
                    answer.is_fenced,
                    answer.should_shut_down,
                ),
                other => code(other).to_owned(),
            };
            vec![line]
        }
        ControllerRequest::AlterPartition(_) => altered(&read(body, version)?),
        ControllerRequest::AssignReplicasToDirectories(_) => {
            let answer: AssignReplicasToDirsResponse<'_> = read(body, version)?;
            assigned(&answer)
        }
        ControllerRequest::AllocateProducerIds(_) => {
            let answer: AllocateProducerIdsResponse = read(body, version)?;
            let line = match answer.error_code {
                0 => format!("{} {}", answer.producer_id_start, answer.producer_id_len),
                other => code(other).to_owned(),
            };
            vec![line]
        }
        ControllerRequest::UnregisterBroker(_) => {
            let answer: UnregisterBrokerResponse<'_> = read(body, version)?;
            vec![told(answer.error_code, answer.error_message)]
        }
        ControllerRequest::UpdateFeatures(_) => {
            let answer: UpdateFeaturesResponse<'_> = read(body, version)?;
            vec![told(answer.error_code, answer.error_message)]
        }
        _ => return answer_of_topics(request, version, body),
    };
    Ok(lines)
}

fn answer_of_topics(request: &ControllerRequest, version: i16, body: &[u8]) -> Result<Answer> {
    let lines = match request {
        ControllerRequest::CreateTopics(_) => {
            let answer: CreateTopicsResponse<'_> = read(body, version)?;
            let results = answer.topics.iter();
            results
                .map(|topic| {
                    format!(
                        "{} {}",
                        topic.name,
                        told(topic.error_code, topic.error_message)
                    )
                })
                .collect()
        }
        ControllerRequest::CreatePartitions(_) => {
            let answer: CreatePartitionsResponse<'_> = read(body, version)?;
            let results = answer.results.iter();
            results
                .map(|topic| {
                    format!(
                        "{} {}",
                        topic.name,
                        told(topic.error_code, topic.error_message)
                    )
                })
                .collect()
        }
        ControllerRequest::DeleteTopics(_) => {
            let answer: DeleteTopicsResponse<'_> = read(body, version)?;
            let results = answer.responses.iter();
            results
                .map(|topic| code(topic.error_code).to_owned())
                .collect()
        }
        ControllerRequest::ElectLeaders(_) => {
            let answer: ElectLeadersResponse<'_> = read(body, version)?;
            let mut lines = vec![code(answer.error_code).to_owned()];
            for topic in answer.replica_election_results.iter() {
                for one in topic.partition_result.iter() {
                    let told = told(one.error_code, one.error_message);
                    lines.push(format!("{}-{} {told}", topic.topic, one.partition_id));
                }
            }
            lines
        }
        ControllerRequest::AlterPartitionReassignments(_) => {
            let answer: AlterPartitionReassignmentsResponse<'_> = read(body, version)?;
            let mut lines = vec![code(answer.error_code).to_owned()];
            for topic in answer.responses.iter() {
                for one in topic.partitions.iter() {
                    let told = told(one.error_code, one.error_message);
                    lines.push(format!("{}-{} {told}", topic.name, one.partition_index));
                }
            }
            lines
        }
        ControllerRequest::AlterConfigs(_) => {
            let answer: IncrementalAlterConfigsResponse<'_> = read(body, version)?;
            let results = answer.responses.iter();
            results
                .map(|one| told(one.error_code, one.error_message))
                .collect()
        }
        other => bail!("never drawn: {other:?}"),
    };
    Ok(lines)
}

fn read<'a, M: Message<'a>>(body: &'a [u8], version: i16) -> Result<M> {
    M::from_bytes(body, version).map_err(|error| anyhow!("no {} v{version}: {error}", M::NAME))
}

fn told(code: i16, message: Option<&str>) -> String {
    let code = ErrorCode::from_code(code);
    match message.filter(|_| code != ErrorCode::None) {
        Some(message) => format!("{}: {message}", code.name()),
        None => code.name().to_owned(),
    }
}

fn standing(is_caught_up: bool, is_fenced: bool, should_shut_down: bool) -> String {
    format!("caught up {is_caught_up}, fenced {is_fenced}, stop {should_shut_down}")
}

fn altered(answer: &AlterPartitionResponse<'_>) -> Answer {
    if answer.error_code != 0 {
        return vec![code(answer.error_code).to_owned()];
    }
    let mut lines = Vec::new();
    for topic in answer.topics.iter() {
        for one in topic.partitions.iter() {
            lines.push(match one.error_code {
                0 => format!(
                    "leader {} {} isr {:?} recovery {} epoch {}",
                    one.leader_id,
                    one.leader_epoch,
                    one.isr.iter().collect::<Vec<_>>(),
                    one.leader_recovery_state,
                    one.partition_epoch
                ),
                other => code(other).to_owned(),
            });
        }
    }
    lines
}

fn assigned(answer: &AssignReplicasToDirsResponse<'_>) -> Answer {
    if answer.error_code != 0 {
        return vec![code(answer.error_code).to_owned()];
    }
    let mut lines = Vec::new();
    for directory in answer.directories.iter() {
        for topic in directory.topics.iter() {
            let results = topic.partitions.iter();
            lines.extend(results.map(|one| code(one.error_code).to_owned()));
        }
    }
    lines
}

/// An answer of the controller of this workspace.
pub(super) fn our_answer(response: &ControllerResponse) -> Answer {
    match response {
        ControllerResponse::RegisterBroker(answer) => vec![match answer {
            Ok(epoch) => format!("NONE epoch {epoch}"),
            Err(error) => error.code.name().to_owned(),
        }],
        ControllerResponse::BrokerHeartbeat(answer) => vec![match answer {
            Ok(one) => standing(one.is_caught_up, one.is_fenced, one.should_shut_down),
            Err(error) => error.code.name().to_owned(),
        }],
        ControllerResponse::AlterPartition(answer) => match answer {
            Err(error) => vec![error.code.name().to_owned()],
            Ok(partitions) => {
                let lines = partitions.iter().map(|one| match one {
                    Ok(one) => format!(
                        "leader {} {} isr {:?} recovery {} epoch {}",
                        one.leader,
                        one.leader_epoch,
                        one.isr,
                        one.leader_recovery_state.id(),
                        one.partition_epoch
                    ),
                    Err(code) => code.name().to_owned(),
                });
                lines.collect()
            }
        },
        ControllerResponse::AssignReplicasToDirectories(answer) => match answer {
            Err(error) => vec![error.code.name().to_owned()],
            Ok(results) => results.iter().map(|code| code.name().to_owned()).collect(),
        },
        ControllerResponse::AllocateProducerIds(answer) => vec![match answer {
            Ok(block) => format!("{} {}", block.first, block.count),
            Err(error) => error.code.name().to_owned(),
        }],
        ControllerResponse::UnregisterBroker(answer) => vec![of_result(answer.as_ref())],
        ControllerResponse::UpdateFeatures(answer) => vec![of_result(answer.as_ref())],
        ControllerResponse::CreateTopics(results) => {
            let lines = results.iter();
            lines
                .map(|one| format!("{} {}", one.name, of_result(one.result.as_ref())))
                .collect()
        }
        ControllerResponse::CreatePartitions(results) => {
            let lines = results.iter();
            lines
                .map(|one| format!("{} {}", one.name, of_result(one.result.as_ref())))
                .collect()
        }
        ControllerResponse::DeleteTopics(results) => {
            let code = |error: &ApiError| error.code;
            let lines = results.iter();
            lines
                .map(|one| {
                    one.result
                        .as_ref()
                        .err()
                        .map_or(ErrorCode::None, code)
                        .name()
                        .to_owned()
                })
                .collect()
        }
        ControllerResponse::ElectLeaders(results)
        | ControllerResponse::AlterPartitionReassignments(results) => of_partitions(results),
        ControllerResponse::AlterConfigs(results) => {
            let lines = results.iter();
            lines.map(|one| of_result(one.as_ref())).collect()
        }
        other => unreachable!("never drawn: {other:?}"),
    }
}

fn of_partitions(results: &[PartitionResults]) -> Answer {
    let mut lines = vec![ErrorCode::None.name().to_owned()];
    for topic in results {
        for (id, result) in &topic.partitions {
            lines.push(format!(
                "{}-{id} {}",
                topic.topic,
                of_result(result.as_ref())
            ));
        }
    }
    lines
}

fn of_result<T>(result: Result<T, &ApiError>) -> String {
    match result {
        Ok(_) => told(0, None),
        Err(error) => told(error.code.code(), error.message.as_deref()),
    }
}
