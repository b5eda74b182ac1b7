//! Random records: replayed, written as a snapshot, read again, always the same image.

use metadata::{
    AccessControlEntry, BatchContentError, BatchPlace, BrokerRegistration,
    BrokerRegistrationChange, ConfigResource, ConfigResourceType, ControllerRegistration,
    DelegationToken, Endpoint, LeaderRecoveryState, MetadataDelta, MetadataImage, MetadataLoader,
    MetadataRecord, MetadataVersion, Partition, PartitionChange, Provenance, QuotaEntity,
    ScramCredential, ScramKey, SnapshotId, SnapshotQuorum, VersionRange, metadata_batch,
    read_metadata_records, read_snapshot, write_snapshot,
};
use model::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, ProducerId, Uuid};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use record::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn id() -> impl Strategy<Value = Uuid> {
    (0u128..6).prop_map(Uuid::from_u128)
}

fn broker_epoch() -> impl Strategy<Value = BrokerEpoch> {
    (0i64..3).prop_map(BrokerEpoch)
}

fn broker() -> impl Strategy<Value = BrokerId> {
    (0i32..4).prop_map(BrokerId)
}

fn name() -> impl Strategy<Value = String> {
    "[a-c]{1,2}"
}

fn recovery() -> impl Strategy<Value = LeaderRecoveryState> {
    prop_oneof![
        Just(LeaderRecoveryState::Recovered),
        Just(LeaderRecoveryState::Recovering)
    ]
}

prop_compose! {
    fn registration()(
        id in broker(), epoch in broker_epoch(), incarnation_id in id(), rack in of(name()),
        features in btree_map(name(), (0i16..3, 3i16..5), 0..3),
        fenced in any::<bool>(), leaving in any::<bool>(), directories in vec(id(), 0..3),
        cordoned_directories in of(vec(id(), 0..2)), port in any::<u16>(),
    ) -> BrokerRegistration {
        BrokerRegistration {
            id, epoch, incarnation_id, rack,
            endpoints: vec![Endpoint {
                name: "PLAINTEXT".into(), host: "h".into(), port, security_protocol: 0,
            }],
            features: features
                .into_iter()
                .map(|(name, (min, max))| (name, VersionRange { min, max }))
                .collect(),
            is_fenced: fenced,
            is_in_controlled_shutdown: leaving,
            is_migrating_zk_broker: false,
            directories,
            cordoned_directories,
        }
    }
}

prop_compose! {
    fn partition()(
        replicas in vec((broker(), id()), 1..4), isr in vec(broker(), 0..3),
        moving in vec(broker(), 0..2), eligible in vec(broker(), 0..2),
        last_known in vec(broker(), 0..2), leader in (-1i32..4).prop_map(BrokerId), state in recovery(),
        leader_epoch in 0i32..9, partition_epoch in 0i32..9,
    ) -> Partition {
        Partition {
            replicas: replicas.iter().map(|replica| replica.0).collect(),
            directories: replicas.iter().map(|replica| replica.1).collect(),
            isr,
            removing_replicas: moving.clone(),
            adding_replicas: moving,
            eligible_leader_replicas: eligible,
            last_known_eligible_leader_replicas: last_known,
            leader,
            leader_recovery_state: state,
            leader_epoch: LeaderEpoch(leader_epoch),
            partition_epoch,
        }
    }
}

prop_compose! {
    fn partition_change()(
        topic_id in id(), partition_id in 0i32..3, isr in of(vec(broker(), 0..3)),
        leader in of((-1i32..4).prop_map(BrokerId)), replicas in of(vec((broker(), id()), 1..4)),
        state in of(recovery()), eligible in of(vec(broker(), 0..2)),
    ) -> PartitionChange {
        PartitionChange {
            topic_id, partition_id, isr, leader,
            replicas: replicas.as_ref().map(|all| all.iter().map(|replica| replica.0).collect()),
            directories: replicas.as_ref().map(|all| all.iter().map(|replica| replica.1).collect()),
            removing_replicas: replicas.as_ref().map(|_| Vec::new()),
            adding_replicas: None,
            leader_recovery_state: state,
            eligible_leader_replicas: eligible.clone(),
            last_known_eligible_leader_replicas: eligible,
        }
    }
}

fn topic_record() -> impl Strategy<Value = MetadataRecord> {
    prop_oneof![
        3 => (name(), id())
            .prop_map(|(name, topic_id)| MetadataRecord::Topic { name, topic_id }),
        5 => (id(), 0i32..3, partition()).prop_map(|(topic_id, partition_id, partition)| {
            MetadataRecord::Partition { topic_id, partition_id, partition }
        }),
        4 => partition_change().prop_map(MetadataRecord::PartitionChange),
        1 => id().prop_map(|topic_id| MetadataRecord::RemoveTopic { topic_id }),
        1 => "[a-c]{0,2}".prop_map(|topic_name| MetadataRecord::ClearElr { topic_name }),
    ]
}

fn node_record() -> impl Strategy<Value = MetadataRecord> {
    let fencing = (broker(), broker_epoch(), any::<bool>());
    prop_oneof![
        3 => registration().prop_map(MetadataRecord::RegisterBroker),
        1 => broker().prop_map(|broker_id| {
            MetadataRecord::UnregisterBroker { broker_id, broker_epoch: BrokerEpoch(0) }
        }),
        2 => fencing.prop_map(|(broker_id, broker_epoch, fence)| if fence {
            MetadataRecord::FenceBroker { broker_id, broker_epoch }
        } else {
            MetadataRecord::UnfenceBroker { broker_id, broker_epoch }
        }),
        2 => (broker(), broker_epoch(), of(any::<bool>()), of(vec(id(), 1..3)), of(vec(id(), 0..2)))
            .prop_map(|(broker_id, broker_epoch, is_fenced, directories, cordoned_directories)| {
                MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChange {
                    broker_id, broker_epoch, is_fenced,
                    enters_controlled_shutdown: is_fenced.is_none(),
                    directories, cordoned_directories,
                })
            }),
        1 => (broker(), id()).prop_map(|(id, incarnation_id)| {
            MetadataRecord::RegisterController(ControllerRegistration {
                id, incarnation_id, is_zk_migration_ready: false,
                endpoints: Vec::new(), features: BTreeMap::new(),
            })
        }),
    ]
}

fn setting_record() -> impl Strategy<Value = MetadataRecord> {
    let resource_type = prop_oneof![
        Just(ConfigResourceType::Topic),
        Just(ConfigResourceType::Broker),
        Just(ConfigResourceType::Group),
    ];
    prop_oneof![
        4 => (resource_type, "[a-c]{0,2}", name(), of(name())).prop_map(
            |(resource_type, resource, name, value)| MetadataRecord::Config {
                resource: ConfigResource::new(resource_type, resource), name, value,
            }),
        2 => (btree_map(name(), of(name()), 1..3), name(), of(0u8..9)).prop_map(
            |(entity, key, value)| MetadataRecord::ClientQuota {
                entity: QuotaEntity(entity), key, value: value.map(f64::from),
            }),
        1 => (0i64..9000).prop_map(|next_producer_id| MetadataRecord::ProducerIds {
            broker_id: BrokerId(1), broker_epoch: BrokerEpoch(1), next_producer_id: ProducerId(next_producer_id),
        }),
        1 => (name(), 0i16..3).prop_map(|(name, level)| {
            MetadataRecord::FeatureLevel { name, level }
        }),
        1 => Just(MetadataRecord::NoOp),
    ]
}

fn security_record() -> impl Strategy<Value = MetadataRecord> {
    let key = || (1i8..3, name()).prop_map(|(mechanism, user)| ScramKey { mechanism, user });
    prop_oneof![
        2 => (id(), name()).prop_map(|(id, name)| {
            MetadataRecord::AccessControlEntry(AccessControlEntry {
                id, resource_type: 2, resource_name: name, pattern_type: 3,
                principal: "User:a".into(), host: "*".into(), operation: 3, permission_type: 3,
            })
        }),
        1 => id().prop_map(|id| MetadataRecord::RemoveAccessControlEntry { id }),
        2 => (key(), vec(any::<u8>(), 0..4), 1i32..9).prop_map(
            |(key, salt, iterations)| MetadataRecord::UserScramCredential {
                key,
                credential: ScramCredential {
                    stored_key: salt.clone(), server_key: salt.clone(), salt, iterations,
                },
            }),
        1 => key().prop_map(MetadataRecord::RemoveUserScramCredential),
        2 => (name(), vec(name(), 0..3), 0i64..9).prop_map(|(token_id, renewers, time)| {
            MetadataRecord::DelegationToken(DelegationToken {
                token_id, owner: "User:a".into(), requester: "User:b".into(), renewers,
                issue_timestamp: time, max_timestamp: time, expiration_timestamp: time,
            })
        }),
        1 => name().prop_map(|token_id| MetadataRecord::RemoveDelegationToken { token_id }),
    ]
}

/// Records that fit an image: those that do not fit are left out.
fn history() -> impl Strategy<Value = Vec<MetadataRecord>> {
    let record = prop_oneof![
        topic_record(),
        node_record(),
        setting_record(),
        security_record()
    ];
    vec(record, 0..60).prop_map(|records| {
        let mut image = MetadataImage::default();
        let mut history = vec![MetadataRecord::FeatureLevel {
            name: MetadataVersion::FEATURE.into(),
            level: MetadataVersion::LATEST.level(),
        }];
        image.replay(&history[0]).expect("known");
        for record in records {
            let before = image.clone();
            match image.replay(&record) {
                Ok(()) => history.push(record),
                Err(_) => assert_eq!(before, image, "a failed replay changes nothing"),
            }
        }
        history
    })
}

fn image_of(records: &[MetadataRecord]) -> MetadataImage {
    let mut image = MetadataImage::default();
    for record in records {
        image.replay(record).expect("records that fit");
    }
    image
}

proptest! {
    #![proptest_config(trials::property(64))]

    #[test]
    fn an_image_survives_its_snapshot(history in history()) {
        let mut image = image_of(&history);
        image.provenance = Provenance { last_offset: Offset(99), last_epoch: LeaderEpoch(3), last_timestamp_ms: 7 };
        let mut bytes = Vec::new();
        write_snapshot(&image, &SnapshotQuorum::default(), 8, &mut |batch| {
            bytes.extend_from_slice(batch);
            Ok::<(), ()>(())
        }).expect("the sink takes all");
        let read = read_snapshot(&bytes, SnapshotId { end_offset: Offset(100), epoch: LeaderEpoch(3) });
        prop_assert_eq!(read.map(|snapshot| snapshot.content), Ok(image));
        for cut in [bytes.len() - 1, bytes.len() / 2, 0] {
            let id = SnapshotId { end_offset: Offset(100), epoch: LeaderEpoch(3) };
            prop_assert!(read_snapshot(&bytes[..cut], id).is_err());
        }
    }

    #[test]
    fn records_survive_a_batch(history in history()) {
        let place = BatchPlace { base_offset: Offset(5), leader_epoch: LeaderEpoch(2), timestamp_ms: 9 };
        let bytes = metadata_batch(&history, MetadataVersion::MINIMUM, place);
        let (batch, rest) = RecordBatch::parse(&bytes).expect("one batch");
        prop_assert!(rest.is_empty());
        prop_assert_eq!(batch.last_offset(), Offset(5) + history.len() as i64 - 1);
        let mut records = Vec::new();
        let read = read_metadata_records(&batch, |offset, record| {
            assert_eq!(offset, Offset(5 + records.len() as i64));
            records.push(record);
            Ok::<(), BatchContentError>(())
        });
        prop_assert_eq!((read, records), (Ok(()), history));
    }

    #[test]
    fn a_transaction_takes_effect_at_its_end_or_not_at_all(history in history(), ends in any::<bool>()) {
        let (before, within) = history.split_at(history.len() / 2);
        let mut loader = MetadataLoader::new(image_of(before));
        let untouched = loader.image().clone();
        let at = |offset: usize| Provenance {
            last_offset: Offset(offset as i64), last_epoch: LeaderEpoch(1), last_timestamp_ms: 1,
        };
        loader.replay(&MetadataRecord::BeginTransaction { name: None }, at(0)).expect("begins");
        for (offset, record) in within.iter().enumerate() {
            loader.replay(record, at(offset + 1)).expect("fits");
            prop_assert_eq!(loader.image(), &untouched);
        }
        let last = at(within.len() + 1);
        let (end, mut expected) = if ends {
            (MetadataRecord::EndTransaction, image_of(&history))
        } else {
            (MetadataRecord::AbortTransaction { reason: None }, untouched)
        };
        loader.replay(&end, last).expect("ends");
        expected.provenance = last;
        prop_assert_eq!(loader.image(), &expected);
    }

    #[test]
    fn a_delta_tells_every_changed_partition_and_config(history in history(), more in history()) {
        let before = image_of(&history);
        let mut after = before.clone();
        for record in &more {
            // What does not fit here changes nothing.
            let _ = after.replay(record);
        }
        let delta = MetadataDelta::new(Arc::new(before), Arc::new(after));
        let partitions = |image: &MetadataImage| {
            let mut all = BTreeMap::new();
            for (topic_id, topic) in image.topics.topics_by_id() {
                for (partition_id, partition) in &topic.partitions {
                    all.insert((*topic_id, *partition_id), (**partition).clone());
                }
            }
            all
        };
        let mut patched = partitions(&delta.before);
        for change in delta.partitions() {
            let key = (change.topic.id, change.partition_id);
            prop_assert_eq!(patched.get(&key), change.before);
            match change.after {
                Some(partition) => patched.insert(key, partition.clone()),
                None => patched.remove(&key),
            };
        }
        prop_assert_eq!(patched, partitions(&delta.after));
        let mut configs: BTreeMap<_, _> = delta.before.configs.by_resource().iter().collect();
        for change in delta.configs() {
            match change.after {
                Some(config) => configs.insert(change.key, config),
                None => configs.remove(change.key),
            };
        }
        prop_assert!(configs.into_iter().eq(delta.after.configs.by_resource()));
    }

    #[test]
    fn parsers_take_any_bytes(bytes in vec(any::<u8>(), 0..80), type_id in 0u8..30, version in 0u8..5) {
        metadata::fuzz_metadata_record(&bytes);
        let mut framed = vec![1, type_id, version];
        framed.extend_from_slice(&bytes);
        metadata::fuzz_metadata_record(&framed);
        metadata::fuzz_quorum_state(&bytes);
        metadata::fuzz_quorum_record(&bytes);
        let mut kind = vec![0, type_id % 8, 0, 0];
        kind.extend_from_slice(&bytes);
        metadata::fuzz_quorum_record(&kind);
        metadata::fuzz_snapshot(&bytes);
    }
}

#[test]
fn unknown_records_are_refused_by_name() {
    let check = |bytes: &[u8], expected: &str| {
        let error = MetadataRecord::from_bytes(bytes).map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_owned()));
    };
    check(&[1, 29, 0], "metadata record of unknown type 29, version 0");
    check(&[1, 6, 3], "metadata record of unknown type 6, version 3");
    check(
        &[1, 3, 3, 0],
        "`PartitionRecord` has version 3, but 2 is the highest known",
    );
    check(
        &[2, 3, 0],
        "metadata record has frame version 2, only 1 is known",
    );
    check(
        &[0, 3, 0],
        "metadata record has frame version 0, only 1 is known",
    );
    check(
        &[],
        "metadata record without a frame: the bytes end within a field",
    );
    check(
        &[1, 20, 0, 0, 0],
        "`NoOpRecord` cannot be read: bytes are left after the message",
    );
    check(
        &[1, 4, 0, 1, 1, 1, 0, 0],
        "`ConfigRecord` has the unknown value 1 in `ResourceType`",
    );
}

#[test]
fn snapshot_ids_are_file_names() {
    let check = |name: &str, end_offset, epoch| {
        let id = SnapshotId { end_offset, epoch };
        assert_eq!(id.to_string(), name);
        assert_eq!(name.parse(), Ok(id));
    };
    check(
        "00000000000000000000-0000000000.checkpoint",
        Offset(0),
        LeaderEpoch(0),
    );
    check(
        "00000000000000000064-0000000001.checkpoint",
        Offset(64),
        LeaderEpoch(1),
    );
    for name in [
        "00000000000000000064-0000000001.checkpoint.part",
        "00000000000000000064-0000000001.checkpoint.deleted",
        "64-1.checkpoint",
        "99999999999999999999-0000000001.checkpoint",
        "00000000000000000064.log",
    ] {
        assert!(name.parse::<SnapshotId>().is_err(), "{name}");
    }
}

#[test]
fn equal_partitions_of_a_topic_share_their_memory() {
    let topic_id = Uuid::from_u128(7);
    let mut image = MetadataImage::default();
    let topic = MetadataRecord::Topic {
        name: "orders".into(),
        topic_id,
    };
    image.replay(&topic).unwrap();
    for partition_id in 0..1000 {
        let partition = Partition {
            replicas: vec![BrokerId(partition_id % 3)],
            directories: vec![Uuid::from_u128(9)],
            isr: vec![BrokerId(partition_id % 3)],
            leader: BrokerId(partition_id % 3),
            ..Partition::default()
        };
        let record = MetadataRecord::Partition {
            topic_id,
            partition_id,
            partition,
        };
        image.replay(&record).unwrap();
    }
    let distinct = |image: &MetadataImage| {
        let partitions = image.topics.by_id(topic_id).unwrap().partitions.values();
        let places: BTreeSet<_> = partitions.map(Arc::as_ptr).collect();
        places.len()
    };
    assert_eq!(distinct(&image), 3);
    for partition_id in 0..1000 {
        let change = PartitionChange {
            leader: Some(BrokerId::NONE),
            ..PartitionChange::of(topic_id, partition_id)
        };
        let change = MetadataRecord::PartitionChange(change);
        image.replay(&change).unwrap();
    }
    assert_eq!(distinct(&image), 3);
}
