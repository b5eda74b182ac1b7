//! From the generated messages to records.

use super::encode::LEADER_UNCHANGED;
use super::{MetadataRecord, RecordError};
use crate::messages::*;
use crate::{
    AccessControlEntry, BrokerRegistration, BrokerRegistrationChange, ConfigResource,
    ConfigResourceType, ControllerRegistration, DelegationToken, Endpoint, LeaderRecoveryState,
    Partition, PartitionChange, QuotaEntity, ScramCredential, ScramKey, VersionRange,
};
use model::{Array, BrokerEpoch, BrokerId, LeaderEpoch, Message, ProducerId};

/// Reads the whole of `body` as a message of this version.
fn read<'a, M: Message<'a>>(body: &'a [u8], version: u32) -> Result<M, RecordError> {
    let known = i16::try_from(version)
        .ok()
        .filter(|number| (M::MIN_VERSION..=M::MAX_VERSION).contains(number));
    let Some(number) = known else {
        return Err(RecordError::UnknownVersion {
            name: M::NAME,
            version,
            max: M::MAX_VERSION,
        });
    };
    M::from_bytes(body, number).map_err(|error| RecordError::Body {
        name: M::NAME,
        error,
    })
}

fn unknown_value<'a, M: Message<'a>>(
    _: &M,
    field: &'static str,
    value: impl Into<i64>,
) -> RecordError {
    RecordError::UnknownValue {
        name: M::NAME,
        field,
        value: value.into(),
    }
}

pub(super) fn decode(
    type_id: u32,
    version: u32,
    body: &[u8],
) -> Result<MetadataRecord, RecordError> {
    macro_rules! decode_by_id {
        ($($message:ident => $convert:ident,)*) => {
            match i16::try_from(type_id).unwrap_or(-1) {
                $($message::ID => $convert(read(body, version)?),)*
                _ => Err(RecordError::UnknownType { type_id, version }),
            }
        };
    }
    decode_by_id! {
        RegisterBrokerRecord => register_broker,
        UnregisterBrokerRecord => unregister_broker,
        TopicRecord => topic,
        PartitionRecord => partition,
        ConfigRecord => config,
        PartitionChangeRecord => partition_change,
        FenceBrokerRecord => fence_broker,
        UnfenceBrokerRecord => unfence_broker,
        RemoveTopicRecord => remove_topic,
        DelegationTokenRecord => delegation_token,
        UserScramCredentialRecord => user_scram_credential,
        FeatureLevelRecord => feature_level,
        ClientQuotaRecord => client_quota,
        ProducerIdsRecord => producer_ids,
        BrokerRegistrationChangeRecord => broker_registration_change,
        AccessControlEntryRecord => access_control_entry,
        RemoveAccessControlEntryRecord => remove_access_control_entry,
        NoOpRecord => no_op,
        ZkMigrationStateRecord => zk_migration_state,
        RemoveUserScramCredentialRecord => remove_user_scram_credential,
        BeginTransactionRecord => begin_transaction,
        EndTransactionRecord => end_transaction,
        AbortTransactionRecord => abort_transaction,
        RemoveDelegationTokenRecord => remove_delegation_token,
        RegisterControllerRecord => register_controller,
        ClearElrRecord => clear_elr,
    }
}

type Decoded = Result<MetadataRecord, RecordError>;

fn register_broker(r: RegisterBrokerRecord<'_>) -> Decoded {
    let endpoints = r.end_points.iter().map(|endpoint| Endpoint {
        name: endpoint.name.to_owned(),
        host: endpoint.host.to_owned(),
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    });
    let features = r.features.iter().map(|feature| {
        let range = VersionRange {
            min: feature.min_supported_version,
            max: feature.max_supported_version,
        };
        (feature.name.to_owned(), range)
    });
    Ok(MetadataRecord::RegisterBroker(BrokerRegistration {
        id: r.broker_id,
        epoch: r.broker_epoch,
        incarnation_id: r.incarnation_id,
        endpoints: endpoints.collect(),
        features: features.collect(),
        rack: r.rack.map(str::to_owned),
        is_fenced: r.fenced,
        is_in_controlled_shutdown: r.in_controlled_shutdown,
        is_migrating_zk_broker: r.is_migrating_zk_broker,
        directories: r.log_dirs.iter().collect(),
        cordoned_directories: r.cordoned_log_dirs.map(|ids| ids.iter().collect()),
    }))
}

fn register_controller(r: RegisterControllerRecord<'_>) -> Decoded {
    let endpoints = r.end_points.iter().map(|endpoint| Endpoint {
        name: endpoint.name.to_owned(),
        host: endpoint.host.to_owned(),
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    });
    let features = r.features.iter().map(|feature| {
        let range = VersionRange {
            min: feature.min_supported_version,
            max: feature.max_supported_version,
        };
        (feature.name.to_owned(), range)
    });
    Ok(MetadataRecord::RegisterController(ControllerRegistration {
        id: r.controller_id,
        incarnation_id: r.incarnation_id,
        is_zk_migration_ready: r.zk_migration_ready,
        endpoints: endpoints.collect(),
        features: features.collect(),
    }))
}

fn unregister_broker(r: UnregisterBrokerRecord) -> Decoded {
    Ok(MetadataRecord::UnregisterBroker {
        broker_id: r.broker_id,
        broker_epoch: r.broker_epoch,
    })
}

fn topic(r: TopicRecord<'_>) -> Decoded {
    Ok(MetadataRecord::Topic {
        name: r.name.to_owned(),
        topic_id: r.topic_id,
    })
}

fn partition(r: PartitionRecord<'_>) -> Decoded {
    let ids = |ids: Option<Array<'_, BrokerId>>| ids.map(|ids| ids.iter().collect());
    let recovery_state = r.leader_recovery_state;
    let partition = Partition {
        replicas: r.replicas.iter().collect(),
        directories: r.directories.iter().collect(),
        isr: r.isr.iter().collect(),
        removing_replicas: r.removing_replicas.iter().collect(),
        adding_replicas: r.adding_replicas.iter().collect(),
        eligible_leader_replicas: ids(r.eligible_leader_replicas.clone()).unwrap_or_default(),
        last_known_eligible_leader_replicas: ids(r.last_known_elr.clone()).unwrap_or_default(),
        leader: r.leader,
        leader_recovery_state: LeaderRecoveryState::from_id(recovery_state)
            .ok_or_else(|| unknown_value(&r, "LeaderRecoveryState", recovery_state))?,
        leader_epoch: LeaderEpoch(r.leader_epoch),
        partition_epoch: r.partition_epoch,
    };
    Ok(MetadataRecord::Partition {
        topic_id: r.topic_id,
        partition_id: r.partition_id,
        partition: partition.with_directories_filled(),
    })
}

fn partition_change(r: PartitionChangeRecord<'_>) -> Decoded {
    let ids = |ids: &Option<Array<'_, BrokerId>>| ids.as_ref().map(|ids| ids.iter().collect());
    let leader_recovery_state = match r.leader_recovery_state {
        -1 => None,
        id => Some(
            LeaderRecoveryState::from_id(id)
                .ok_or_else(|| unknown_value(&r, "LeaderRecoveryState", id))?,
        ),
    };
    Ok(MetadataRecord::PartitionChange(PartitionChange {
        topic_id: r.topic_id,
        partition_id: r.partition_id,
        isr: ids(&r.isr),
        leader: (r.leader != LEADER_UNCHANGED).then_some(r.leader),
        replicas: ids(&r.replicas),
        removing_replicas: ids(&r.removing_replicas),
        adding_replicas: ids(&r.adding_replicas),
        leader_recovery_state,
        directories: r.directories.as_ref().map(|ids| ids.iter().collect()),
        eligible_leader_replicas: ids(&r.eligible_leader_replicas),
        last_known_eligible_leader_replicas: ids(&r.last_known_elr),
    }))
}

fn config(r: ConfigRecord<'_>) -> Decoded {
    let resource_type = ConfigResourceType::from_id(r.resource_type)
        .ok_or_else(|| unknown_value(&r, "ResourceType", r.resource_type))?;
    Ok(MetadataRecord::Config {
        resource: ConfigResource::new(resource_type, r.resource_name),
        name: r.name.to_owned(),
        value: r.value.map(str::to_owned),
    })
}

fn fence_broker(r: FenceBrokerRecord) -> Decoded {
    Ok(MetadataRecord::FenceBroker {
        broker_id: r.id,
        broker_epoch: BrokerEpoch(r.epoch),
    })
}

fn unfence_broker(r: UnfenceBrokerRecord) -> Decoded {
    Ok(MetadataRecord::UnfenceBroker {
        broker_id: r.id,
        broker_epoch: BrokerEpoch(r.epoch),
    })
}

fn remove_topic(r: RemoveTopicRecord) -> Decoded {
    Ok(MetadataRecord::RemoveTopic {
        topic_id: r.topic_id,
    })
}

fn delegation_token(r: DelegationTokenRecord<'_>) -> Decoded {
    Ok(MetadataRecord::DelegationToken(DelegationToken {
        token_id: r.token_id.to_owned(),
        owner: r.owner.to_owned(),
        requester: r.requester.to_owned(),
        renewers: r.renewers.iter().map(str::to_owned).collect(),
        issue_timestamp: r.issue_timestamp,
        max_timestamp: r.max_timestamp,
        expiration_timestamp: r.expiration_timestamp,
    }))
}

fn scram_key(user: &str, mechanism: i8) -> ScramKey {
    ScramKey {
        mechanism,
        user: user.to_owned(),
    }
}

fn user_scram_credential(r: UserScramCredentialRecord<'_>) -> Decoded {
    Ok(MetadataRecord::UserScramCredential {
        key: scram_key(r.name, r.mechanism),
        credential: ScramCredential {
            salt: r.salt.to_vec(),
            stored_key: r.stored_key.to_vec(),
            server_key: r.server_key.to_vec(),
            iterations: r.iterations,
        },
    })
}

fn remove_user_scram_credential(r: RemoveUserScramCredentialRecord<'_>) -> Decoded {
    let key = scram_key(r.name, r.mechanism);
    Ok(MetadataRecord::RemoveUserScramCredential(key))
}

fn feature_level(r: FeatureLevelRecord<'_>) -> Decoded {
    Ok(MetadataRecord::FeatureLevel {
        name: r.name.to_owned(),
        level: r.feature_level,
    })
}

fn client_quota(r: ClientQuotaRecord<'_>) -> Decoded {
    let entity = r.entity.iter().map(|part| {
        let name = part.entity_name.map(str::to_owned);
        (part.entity_type.to_owned(), name)
    });
    Ok(MetadataRecord::ClientQuota {
        entity: QuotaEntity(entity.collect()),
        key: r.key.to_owned(),
        value: (!r.remove).then_some(r.value),
    })
}

fn producer_ids(r: ProducerIdsRecord) -> Decoded {
    Ok(MetadataRecord::ProducerIds {
        broker_id: r.broker_id,
        broker_epoch: r.broker_epoch,
        next_producer_id: ProducerId(r.next_producer_id),
    })
}

fn broker_registration_change(r: BrokerRegistrationChangeRecord<'_>) -> Decoded {
    let is_fenced = match r.fenced {
        -1 => Some(false),
        0 => None,
        1 => Some(true),
        other => return Err(unknown_value(&r, "Fenced", other)),
    };
    let enters_controlled_shutdown = match r.in_controlled_shutdown {
        0 => false,
        1 => true,
        other => return Err(unknown_value(&r, "InControlledShutdown", other)),
    };
    let change = BrokerRegistrationChange {
        broker_id: r.broker_id,
        broker_epoch: r.broker_epoch,
        is_fenced,
        enters_controlled_shutdown,
        directories: (!r.log_dirs.is_empty()).then(|| r.log_dirs.iter().collect()),
        cordoned_directories: r.cordoned_log_dirs.map(|ids| ids.iter().collect()),
    };
    Ok(MetadataRecord::BrokerRegistrationChange(change))
}

fn access_control_entry(r: AccessControlEntryRecord<'_>) -> Decoded {
    Ok(MetadataRecord::AccessControlEntry(AccessControlEntry {
        id: r.id,
        resource_type: r.resource_type,
        resource_name: r.resource_name.to_owned(),
        pattern_type: r.pattern_type,
        principal: r.principal.to_owned(),
        host: r.host.to_owned(),
        operation: r.operation,
        permission_type: r.permission_type,
    }))
}

fn remove_access_control_entry(r: RemoveAccessControlEntryRecord) -> Decoded {
    Ok(MetadataRecord::RemoveAccessControlEntry { id: r.id })
}

fn zk_migration_state(r: ZkMigrationStateRecord) -> Decoded {
    Ok(MetadataRecord::ZkMigrationState {
        state: r.zk_migration_state,
    })
}

fn begin_transaction(r: BeginTransactionRecord<'_>) -> Decoded {
    Ok(MetadataRecord::BeginTransaction {
        name: r.name.map(str::to_owned),
    })
}

fn abort_transaction(r: AbortTransactionRecord<'_>) -> Decoded {
    Ok(MetadataRecord::AbortTransaction {
        reason: r.reason.map(str::to_owned),
    })
}

fn remove_delegation_token(r: RemoveDelegationTokenRecord<'_>) -> Decoded {
    Ok(MetadataRecord::RemoveDelegationToken {
        token_id: r.token_id.to_owned(),
    })
}

fn clear_elr(r: ClearElrRecord<'_>) -> Decoded {
    Ok(MetadataRecord::ClearElr {
        topic_name: r.topic_name.to_owned(),
    })
}

fn no_op(_: NoOpRecord) -> Decoded {
    Ok(MetadataRecord::NoOp)
}

fn end_transaction(_: EndTransactionRecord) -> Decoded {
    Ok(MetadataRecord::EndTransaction)
}
