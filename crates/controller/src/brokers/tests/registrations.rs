//! What a broker registers with, and how it is forgotten.

use super::super::*;
use super::script::check;
use crate::test_cluster::{TestCluster, directory, registration, wrapped};
use expect_test::expect;
use model::Offset;

#[test]
fn brokers_are_unregistered() {
    check(
        "elr
         brokers 1 2
         topic t 1,2
         config t min.insync.replicas=2
         fence 1
         unregister 1
         unregister 1
         fence 1
         unfence 1
         shutdown 1",
        expect![[r#"
            elr
            brokers 1 2
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            config t min.insync.replicas=2
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2] elr [1]
            unregister 1
              broker 1 is gone
              t-0 leader 2 epoch 1.2 isr [2]
            unregister 1 -> BROKER_ID_NOT_REGISTERED: Broker ID 1 is not currently registered
            fence 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            unfence 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            shutdown 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
        "#]],
    );
}

#[test]
fn directories_go_offline() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         assign 1 1 t-0
         assign 1 101 t-1
         assign 2 2 t-0
         assign 2 2 t-2
         assign 2 2 u-0
         offline 1 1
         offline 1 1
         offline 1 101
         assign 1 lost t-1
         assign 1 1 t-1
         cordon 1 101
         cordon 1 101",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            assign 1 1 t-0 -> NONE
              t-0 leader 1 epoch 0.1 isr [1, 2]
            assign 1 101 t-1 -> NONE
              t-1 leader 1 epoch 0.1 isr [1, 2]
            assign 2 2 t-0 -> NONE
              t-0 leader 1 epoch 0.2 isr [1, 2]
            assign 2 2 t-2 -> UNKNOWN_TOPIC_OR_PARTITION
            assign 2 2 u-0 -> UNKNOWN_TOPIC_ID
            offline 1 1
              broker 1 epoch 1 directories [101]
              t-0 leader 2 epoch 1.3 isr [2]
            offline 1 1
            offline 1 101
              t-1 leader 2 epoch 1.2 isr [2]
            assign 1 lost t-1 -> NONE
              t-1 leader 2 epoch 1.3 isr [2]
            assign 1 1 t-1 -> NONE
              t-1 leader 2 epoch 1.4 isr [2]
            cordon 1 101
              broker 1 epoch 1 directories [101] cordoned [101]
            cordon 1 101
        "#]],
    );
}

#[test]
fn a_replica_that_is_assigned_to_a_directory_that_is_offline_loses_the_leadership_once() {
    check(
        "brokers 1 2
         topic t 1,2
         topic u 1
         assign 1 lost t-0
         assign 1 lost u-0
         assign 1 lost u-0
         assign 1 1 u-0",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            topic u 1
              u-0 leader 1 epoch 0.0 isr [1]
            assign 1 lost t-0 -> NONE
              t-0 leader 2 epoch 1.2 isr [2]
            assign 1 lost u-0 -> NONE
              u-0 leader -1 epoch 1.2 isr [1]
            assign 1 lost u-0 -> NONE
            assign 1 1 u-0 -> NONE
              u-0 leader 1 epoch 2.3 isr [1]
        "#]],
    );
}

#[test]
fn old_metadata_versions_know_no_directories() {
    check(
        "metadata-version 16
         brokers 1
         topic t 1
         assign 1 1 t-0
         offline 1 1
         cordon 1 1",
        expect![[r#"
            metadata-version 16
            brokers 1
              broker 1 epoch 2 directories []
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            assign 1 1 t-0 -> UNSUPPORTED_VERSION: Directory assignment is not supported yet.
            offline 1 1
            cordon 1 1
        "#]],
    );
    check(
        "metadata-version 11
         brokers 1 2
         topic t 1,2
         fence 2",
        expect![[r#"
            metadata-version 11
            brokers 1 2
              broker 1 epoch 2 directories []
              broker 2 epoch 4 directories []
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories []
              t-0 leader 1 epoch 1.1 isr [1]
        "#]],
    );
}

/// The error of a registration that is changed so.
fn refused(change: &dyn Fn(&mut NewRegistration)) -> String {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(2)]);
    cluster.enable_eligible_leader_replicas();
    let state = RegistrationState {
        next_offset: Offset(10),
        has_live_session: false,
        detects_clean_shutdown: true,
    };
    let mut registration = registration(BrokerId(1));
    change(&mut registration);
    let refused = register_broker(&cluster.image, &cluster.context(), &registration, state);
    format!("{}\n", refused.unwrap_err())
}

/// What no broker could connect to, and what fills the memory of every node.
#[test]
fn registrations_name_listeners_that_can_be_reached_and_not_too_much() {
    let mut shown = String::new();
    let mut refuse = |change: &dyn Fn(&mut NewRegistration)| shown += &refused(change);
    let endpoint = |name: &str, security_protocol| Endpoint {
        name: name.to_owned(),
        host: "localhost".to_owned(),
        port: 9092,
        security_protocol,
    };
    refuse(&|new| new.endpoints.push(endpoint("SECURE", 77)));
    refuse(&|new| new.endpoints.push(endpoint("", 0)));
    refuse(&|new| new.endpoints = vec![endpoint("PLAINTEXT", 0); 101]);
    refuse(&|new| {
        let feature = |number: usize| (number.to_string(), VersionRange { min: 0, max: 1 });
        new.features = (0..1_001).map(feature).collect();
    });
    let long = || "x".repeat(32_767);
    refuse(&|new| new.endpoints = vec![endpoint(&long(), 0), endpoint(&long(), 0)]);
    refuse(&|new| {
        let feature = |number: usize| {
            (
                number.to_string() + &long(),
                VersionRange { min: 0, max: 1 },
            )
        };
        new.features.extend((0..2).map(feature));
    });
    refuse(&|new| new.rack = Some(long() + &long() + "xxx"));
    // Nothing else is looked at before.
    refuse(&|new| new.directories = vec![LOST_DIRECTORY; 1_001]);
    expect![[r#"
        INVALID_REGISTRATION: The listener `SECURE` has no name or an unknown security protocol,
            77.
        INVALID_REGISTRATION: The listener `` has no name or an unknown security protocol, 0.
        INVALID_REGISTRATION: A broker registers with 101 listeners; 100 are the most.
        INVALID_REGISTRATION: A broker registers with 1001 features; 1000 are the most.
        INVALID_REGISTRATION: A broker registers with 65673 bytes of names; 65536 are the most.
        INVALID_REGISTRATION: A broker registers with 65657 bytes of names; 65536 are the most.
        INVALID_REGISTRATION: A broker registers with 65658 bytes of names; 65536 are the most.
        INVALID_REGISTRATION: A broker registers with 1001 log directories; 1000 are the most.
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn registrations_are_checked() {
    let mut shown = String::new();
    let mut refuse = |change: &dyn Fn(&mut NewRegistration)| shown += &refused(change);
    refuse(&|new| new.directories.clear());
    refuse(&|new| new.directories.push(LOST_DIRECTORY));
    refuse(&|new| new.directories.push(Uuid::from_u128(99)));
    refuse(&|new| new.directories.push(new.directories[0]));
    refuse(&|new| new.directories.push(directory(BrokerId(2))));
    refuse(&|new| new.is_migrating_zk_broker = true);
    refuse(&|new| {
        new.features.remove(MetadataVersion::FEATURE);
    });
    refuse(&|new| {
        let range = VersionRange { min: 7, max: 29 };
        new.features
            .insert(MetadataVersion::FEATURE.to_owned(), range);
    });
    refuse(&|new| {
        new.features
            .remove(metadata::ELIGIBLE_LEADER_REPLICAS_FEATURE);
    });
    refuse(&|new| {
        let range = VersionRange { min: 1, max: 2 };
        new.features.insert("other".to_owned(), range);
    });
    expect![[r#"
        INVALID_REGISTRATION: No directories specified in request
        INVALID_REGISTRATION: Reserved directory ID in request
        INVALID_REGISTRATION: Reserved directory ID in request
        INVALID_REGISTRATION: Duplicate directory ID in request
        INVALID_REGISTRATION: Broker 2 is already registered with directory AAAAAAAAAAAAAAAAAAAD6g
        BROKER_ID_NOT_REGISTERED: Controller does not support registering ZK brokers.
        INVALID_REGISTRATION: Request features do not contain 'metadata.version'
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 30 of metadata.version. The broker wants a version between 7 and 29,
            inclusive.
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 1 of eligible.leader.replicas.version. The broker wants a version between 0
            and 0, inclusive.
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 0 of other. The broker wants a version between 1 and 2, inclusive.
    "#]]
    .assert_eq(&wrapped(&shown));
}
