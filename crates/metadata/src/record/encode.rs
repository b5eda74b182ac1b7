//! From records to the generated messages that write them.
//!
//! Here it is decided which version of a record a metadata version demands, and which fields it
//! leaves out. A registration change takes the lowest version that has its fields.

use super::MetadataRecord;
use crate::messages::*;
use crate::metadata_version::MetadataVersion;
use crate::{
    AccessControlEntry, BrokerRegistration, BrokerRegistrationChange, ControllerRegistration,
    DelegationToken, Endpoint, Partition, PartitionChange, QuotaEntity, ScramCredential, ScramKey,
    SupportedFeatures,
};
use model::{Array, BrokerId, Message, Uuid};

/// Receives a record's type, its version, and what writes its body.
type Output<'o> = dyn FnMut(i16, i16, &dyn Fn(&mut Vec<u8>)) + 'o;

/// What [`PartitionChangeRecord`] says when the leader stays.
pub(super) const LEADER_UNCHANGED: BrokerId = BrokerId(-2);
/// What [`PartitionChangeRecord`] says when the recovery state stays.
const RECOVERY_STATE_UNCHANGED: i8 = -1;

fn put<'a, M: Message<'a>>(output: &mut Output<'_>, id: i16, version: i16, message: &M) {
    output(id, version, &|out| message.write(version, out));
}

macro_rules! put {
    ($output:expr, $message:ident { $($fields:tt)* }) => {
        put!($output, 0, $message { $($fields)* })
    };
    ($output:expr, $version:expr, $message:ident { $($fields:tt)* }) => {
        put($output, $message::ID, $version, &$message { $($fields)* })
    };
}

pub(super) fn encode(record: &MetadataRecord, level: MetadataVersion, output: &mut Output<'_>) {
    use MetadataRecord as Record;
    match record {
        Record::RegisterBroker(broker) => encode_broker(broker, level, output),
        Record::BrokerRegistrationChange(change) => encode_broker_change(change, output),
        Record::RegisterController(controller) => encode_controller(controller, output),
        Record::Partition {
            topic_id,
            partition_id,
            partition,
        } => encode_partition(*topic_id, *partition_id, partition, level, output),
        Record::PartitionChange(change) => encode_partition_change(change, level, output),
        Record::DelegationToken(token) => encode_token(token, output),
        Record::UserScramCredential { key, credential } => {
            encode_scram(key, credential, output);
        }
        Record::ClientQuota { entity, key, value } => encode_quota(entity, key, *value, output),
        Record::AccessControlEntry(entry) => encode_acl(entry, output),
        other => encode_small(other, output),
    }
}

/// The records of a few fields, all of version 0.
fn encode_small(record: &MetadataRecord, output: &mut Output<'_>) {
    use MetadataRecord as Record;
    match record {
        Record::UnregisterBroker {
            broker_id,
            broker_epoch,
        } => put!(
            output,
            UnregisterBrokerRecord {
                broker_id: *broker_id,
                broker_epoch: *broker_epoch,
            }
        ),
        Record::Topic { name, topic_id } => put!(
            output,
            TopicRecord {
                name,
                topic_id: *topic_id,
            }
        ),
        Record::Config {
            resource,
            name,
            value,
        } => put!(
            output,
            ConfigRecord {
                resource_type: resource.resource_type.id(),
                resource_name: &resource.name,
                name,
                value: value.as_deref(),
            }
        ),
        Record::RemoveTopic { topic_id } => put!(
            output,
            RemoveTopicRecord {
                topic_id: *topic_id,
            }
        ),
        Record::FeatureLevel { name, level } => put!(
            output,
            FeatureLevelRecord {
                name,
                feature_level: *level,
            }
        ),
        Record::ProducerIds {
            broker_id,
            broker_epoch,
            next_producer_id,
        } => put!(
            output,
            ProducerIdsRecord {
                broker_id: *broker_id,
                broker_epoch: *broker_epoch,
                next_producer_id: next_producer_id.0,
            }
        ),
        other => encode_marker(other, output),
    }
}

/// The records that fence, remove or mark something.
fn encode_marker(record: &MetadataRecord, output: &mut Output<'_>) {
    use MetadataRecord as Record;
    match record {
        Record::FenceBroker {
            broker_id,
            broker_epoch,
        } => put!(
            output,
            FenceBrokerRecord {
                id: *broker_id,
                epoch: broker_epoch.0,
            }
        ),
        Record::UnfenceBroker {
            broker_id,
            broker_epoch,
        } => put!(
            output,
            UnfenceBrokerRecord {
                id: *broker_id,
                epoch: broker_epoch.0,
            }
        ),
        Record::RemoveAccessControlEntry { id } => {
            put!(output, RemoveAccessControlEntryRecord { id: *id });
        }
        Record::NoOp => put!(output, NoOpRecord {}),
        Record::ZkMigrationState { state } => put!(
            output,
            ZkMigrationStateRecord {
                zk_migration_state: *state,
            }
        ),
        Record::RemoveUserScramCredential(key) => put!(
            output,
            RemoveUserScramCredentialRecord {
                name: &key.user,
                mechanism: key.mechanism,
            }
        ),
        Record::BeginTransaction { name } => put!(
            output,
            BeginTransactionRecord {
                name: name.as_deref(),
            }
        ),
        Record::EndTransaction => put!(output, EndTransactionRecord {}),
        Record::AbortTransaction { reason } => put!(
            output,
            AbortTransactionRecord {
                reason: reason.as_deref(),
            }
        ),
        Record::RemoveDelegationToken { token_id } => {
            put!(output, RemoveDelegationTokenRecord { token_id });
        }
        Record::ClearElr { topic_name } => put!(output, ClearElrRecord { topic_name }),
        other => unreachable!("`encode` and `encode_small` write {other:?}"),
    }
}

fn encode_broker(broker: &BrokerRegistration, level: MetadataVersion, output: &mut Output<'_>) {
    use register_broker_record::{BrokerEndpoint, BrokerFeature};
    let end_points = broker.endpoints.iter().map(|endpoint| BrokerEndpoint {
        name: &endpoint.name,
        host: &endpoint.host,
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    });
    let features = broker.features.iter().map(|(name, range)| BrokerFeature {
        name,
        min_supported_version: range.min,
        max_supported_version: range.max,
    });
    put!(
        output,
        level.register_broker_version(),
        RegisterBrokerRecord {
            broker_id: broker.id,
            is_migrating_zk_broker: broker.is_migrating_zk_broker,
            incarnation_id: broker.incarnation_id,
            broker_epoch: broker.epoch,
            end_points: end_points.collect(),
            features: features.collect(),
            rack: broker.rack.as_deref(),
            fenced: broker.is_fenced,
            in_controlled_shutdown: broker.is_in_controlled_shutdown,
            log_dirs: Array::from(&broker.directories),
            cordoned_log_dirs: broker.cordoned_directories.as_ref().map(Array::from),
        }
    );
}

fn encode_broker_change(change: &BrokerRegistrationChange, output: &mut Output<'_>) {
    let version = if change.cordoned_directories.is_some() {
        3
    } else if change.directories.is_some() {
        2
    } else {
        i16::from(change.enters_controlled_shutdown)
    };
    put!(
        output,
        version,
        BrokerRegistrationChangeRecord {
            broker_id: change.broker_id,
            broker_epoch: change.broker_epoch,
            fenced: match change.is_fenced {
                Some(true) => 1,
                Some(false) => -1,
                None => 0,
            },
            in_controlled_shutdown: i8::from(change.enters_controlled_shutdown),
            log_dirs: change
                .directories
                .as_ref()
                .map(Array::from)
                .unwrap_or_default(),
            cordoned_log_dirs: change.cordoned_directories.as_ref().map(Array::from),
        }
    );
}

fn encode_controller(controller: &ControllerRegistration, output: &mut Output<'_>) {
    use register_controller_record::{ControllerEndpoint, ControllerFeature};
    let end_point = |endpoint: &'_ Endpoint| (endpoint.port, endpoint.security_protocol);
    let end_points = controller.endpoints.iter().map(|endpoint| {
        let (port, security_protocol) = end_point(endpoint);
        ControllerEndpoint {
            name: &endpoint.name,
            host: &endpoint.host,
            port,
            security_protocol,
        }
    });
    let features: &SupportedFeatures = &controller.features;
    let features = features.iter().map(|(name, range)| ControllerFeature {
        name,
        min_supported_version: range.min,
        max_supported_version: range.max,
    });
    put!(
        output,
        0,
        RegisterControllerRecord {
            controller_id: controller.id,
            incarnation_id: controller.incarnation_id,
            zk_migration_ready: controller.is_zk_migration_ready,
            end_points: end_points.collect(),
            features: features.collect(),
        }
    );
}

fn encode_partition(
    topic_id: Uuid,
    partition_id: i32,
    partition: &Partition,
    level: MetadataVersion,
    output: &mut Output<'_>,
) {
    /// Tagged fields are left out when they are empty.
    fn tagged(ids: &Vec<BrokerId>) -> Option<Array<'_, BrokerId>> {
        (!ids.is_empty()).then(|| Array::from(ids))
    }
    put!(
        output,
        level.partition_version(),
        PartitionRecord {
            partition_id,
            topic_id,
            replicas: Array::from(&partition.replicas),
            isr: Array::from(&partition.isr),
            removing_replicas: Array::from(&partition.removing_replicas),
            adding_replicas: Array::from(&partition.adding_replicas),
            leader: partition.leader,
            leader_recovery_state: partition.leader_recovery_state.id(),
            leader_epoch: partition.leader_epoch.0,
            partition_epoch: partition.partition_epoch,
            directories: Array::from(&partition.directories),
            eligible_leader_replicas: tagged(&partition.eligible_leader_replicas),
            last_known_elr: tagged(&partition.last_known_eligible_leader_replicas),
        }
    );
}

fn encode_partition_change(
    change: &PartitionChange,
    level: MetadataVersion,
    output: &mut Output<'_>,
) {
    fn ids(ids: &Option<Vec<BrokerId>>) -> Option<Array<'_, BrokerId>> {
        ids.as_ref().map(Array::from)
    }
    put!(
        output,
        level.partition_version(),
        PartitionChangeRecord {
            partition_id: change.partition_id,
            topic_id: change.topic_id,
            isr: ids(&change.isr),
            leader: change.leader.unwrap_or(LEADER_UNCHANGED),
            replicas: ids(&change.replicas),
            removing_replicas: ids(&change.removing_replicas),
            adding_replicas: ids(&change.adding_replicas),
            leader_recovery_state: change
                .leader_recovery_state
                .map_or(RECOVERY_STATE_UNCHANGED, |state| state.id()),
            directories: change.directories.as_ref().map(Array::from),
            eligible_leader_replicas: ids(&change.eligible_leader_replicas),
            last_known_elr: ids(&change.last_known_eligible_leader_replicas),
        }
    );
}

fn encode_token(token: &DelegationToken, output: &mut Output<'_>) {
    put!(
        output,
        DelegationTokenRecord {
            owner: &token.owner,
            requester: &token.requester,
            renewers: token.renewers.iter().map(String::as_str).collect(),
            issue_timestamp: token.issue_timestamp,
            max_timestamp: token.max_timestamp,
            expiration_timestamp: token.expiration_timestamp,
            token_id: &token.token_id,
        }
    );
}

fn encode_scram(key: &ScramKey, credential: &ScramCredential, output: &mut Output<'_>) {
    put!(
        output,
        UserScramCredentialRecord {
            name: &key.user,
            mechanism: key.mechanism,
            salt: &credential.salt,
            stored_key: &credential.stored_key,
            server_key: &credential.server_key,
            iterations: credential.iterations,
        }
    );
}

fn encode_quota(entity: &QuotaEntity, key: &str, value: Option<f64>, output: &mut Output<'_>) {
    use client_quota_record::EntityData;
    let entity = entity.0.iter().map(|(entity_type, name)| EntityData {
        entity_type,
        entity_name: name.as_deref(),
    });
    put!(
        output,
        ClientQuotaRecord {
            entity: entity.collect(),
            key,
            value: value.unwrap_or_default(),
            remove: value.is_none(),
        }
    );
}

fn encode_acl(entry: &AccessControlEntry, output: &mut Output<'_>) {
    put!(
        output,
        AccessControlEntryRecord {
            id: entry.id,
            resource_type: entry.resource_type,
            resource_name: &entry.resource_name,
            pattern_type: entry.pattern_type,
            principal: &entry.principal,
            host: &entry.host,
            operation: entry.operation,
            permission_type: entry.permission_type,
        }
    );
}
