//! User data: the examples of Kafka Streams 4.3.1, every version, any bytes.

use super::super::FormatError;
use super::*;
use crate::formats::fuzz::hex;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TASK: TaskId = TaskId {
    subtopology: 0,
    partition: 1,
};

fn subscription(version: i32) -> MemberSubscription {
    let mut process_id = [0; 16];
    process_id.copy_from_slice(&hex("01020304050607081112131415161718"));
    MemberSubscription {
        version,
        latest_supported_version: LATEST_VERSION,
        process_id,
        user_endpoint: "h:1".to_owned(),
        task_offset_sums: BTreeMap::from([(TASK, LATEST_OFFSET)]),
        unique_field: 5,
        error_code: 0,
        client_tags: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
    }
}

#[test]
fn subscriptions_are_those_of_kafka_streams() {
    let text = "0000000b 0000000b 01020304050607081112131415161718 00000003683a31 00000001 00000000
        00000001 fffffffffffffffe ffff 05 00000000 00000001 000000047a6f6e65 0000000161";
    assert_eq!(subscription(11).to_bytes(), hex(text));
    let read = MemberSubscription::read(&hex(text));
    assert_eq!(read, Ok(OfVersion::Known(subscription(11))));
}

#[test]
fn each_version_of_a_subscription_has_its_fields() {
    let id = "01020304050607081112131415161718";
    let (task, endpoint) = ("00000000 00000001", "00000003683a31");
    for (version, text) in [
        (1, format!("00000001 {id} 00000001 {task} 00000000")),
        (
            2,
            format!("00000002 {id} 00000001 {task} 00000000 {endpoint}"),
        ),
        (
            6,
            format!("00000006 0000000b {id} 00000001 {task} 00000000 {endpoint}"),
        ),
        (
            7,
            format!(
                "00000007 0000000b {id} {endpoint} 00000001 00000000 00000001 00000001 fffffffffffffffe"
            ),
        ),
        (
            10,
            format!(
                "0000000a 0000000b {id} {endpoint} 00000001 {task} fffffffffffffffe ffff 05 00000000"
            ),
        ),
    ] {
        let written = subscription(version).to_bytes();
        assert_eq!(written, hex(&text), "{version}");
        let read = MemberSubscription::read(&written).unwrap().known().unwrap();
        assert_eq!(
            read.task_offset_sums,
            subscription(version).task_offset_sums
        );
        assert_eq!(read.to_bytes(), written);
    }
}

fn assignment(version: i32) -> MemberAssignment<'static> {
    let partition = |topic| AssignedPartition {
        topic,
        partition: i32::from(topic == "in"),
    };
    let host = |partition| HostPartitions {
        host: "h",
        port: 9,
        partitions: vec![partition],
    };
    MemberAssignment {
        version,
        commonly_supported_version: LATEST_VERSION,
        active_tasks: vec![TASK],
        standby_tasks: vec![StandbyTask {
            task: TaskId {
                subtopology: 1,
                partition: 0,
            },
            partitions: vec![partition("c")],
        }],
        active_hosts: vec![host(partition("in"))],
        standby_hosts: vec![host(partition("c"))],
        error: AssignmentError::None,
        next_rebalance_ms: None,
    }
}

#[test]
fn assignments_are_those_of_kafka_streams() {
    let text = "0000000b 0000000b 00000001 000000000000000100000000 00000001 000000010000000000000000
        00000001 000163 00000000
        00000002 00000000 000163 00000001 0002696e 00000001 000168 00000009 00000001 00000001 00000001
        00000001 000168 00000009 00000001 00000000 00000000 00000000 7fffffffffffffff";
    assert_eq!(assignment(11).to_bytes(), hex(text));
    let read = hex(text);
    let read = MemberAssignment::read(&read);
    assert_eq!(read, Ok(OfVersion::Known(assignment(11))));
}

#[test]
fn each_version_of_an_assignment_has_its_fields() {
    let tasks = "00000001 0000000000000001 00000001 0000000100000000 00000001 000163 00000000";
    let host = "00000001 000168 00000009 00000001";
    for (version, text) in [
        (1, format!("00000001 {tasks}")),
        (2, format!("00000002 {tasks} {host} 0002696e 00000001")),
        (
            3,
            format!("00000003 0000000b {tasks} {host} 0002696e 00000001"),
        ),
        (
            4,
            format!("00000004 0000000b {tasks} {host} 0002696e 00000001 00000000"),
        ),
        (
            5,
            format!(
                "00000005 0000000b {tasks} 00000001 00000000 0002696e {host} 00000000 00000001 00000000"
            ),
        ),
    ] {
        let written = assignment(version).to_bytes();
        assert_eq!(written, hex(&text), "{version}");
        let read = MemberAssignment::read(&written).unwrap().known().unwrap();
        assert_eq!(read.to_bytes(), written);
    }
}

#[test]
fn a_newer_version_tells_what_it_supports() {
    let newer = OfVersion::Newer {
        version: 12,
        latest_supported_version: 13,
    };
    let bytes = hex("0000000c 0000000d ff");
    assert_eq!(MemberSubscription::read(&bytes), Ok(newer));
    let assignment = MemberAssignment::read(&bytes).unwrap();
    assert_eq!(assignment.known(), None);
}

#[test]
fn what_is_no_user_data_is_refused() {
    let check = |text: &str, expected: FormatError| {
        assert_eq!(MemberAssignment::read(&hex(text)), Err(expected), "{text}");
    };
    check("", FormatError::Truncated);
    check("00000000", FormatError::UnknownVersion(0));
    check("0000000c", FormatError::Truncated);
    check("00000001 7fffffff", FormatError::LengthBeyondEnd);
    check("00000001 00000000 ffffffff", FormatError::NegativeLength);
    check(
        "00000004 00000004 00000000 00000000 00000000 00000005",
        FormatError::UnknownFlag(5),
    );
    let indexed = "00000001 0000 00000000 00000001 00000007 00000000 00000000";
    check(
        &format!("00000005 00000005 00000000 00000000 00000000 {indexed}"),
        FormatError::Contradiction,
    );
    let named = "0000000b 0000000b 00000001 0000000000000001 00000001";
    check(
        &format!("{named} 0061 00000000"),
        FormatError::NamedTopology,
    );
    let mut bytes = subscription(11).to_bytes();
    bytes.push(0);
    assert_eq!(
        MemberSubscription::read(&bytes),
        Err(FormatError::TrailingBytes)
    );
}

fn tasks() -> impl Strategy<Value = Vec<TaskId>> {
    let task = (0..9i32, 0..9i32).prop_map(|(subtopology, partition)| TaskId {
        subtopology,
        partition,
    });
    proptest::collection::vec(task, 0..5)
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn subscriptions_come_back(
        version in 1..=LATEST_VERSION,
        process_id: [u8; 16],
        user_endpoint in "\\PC{0,9}",
        sums in proptest::collection::btree_map((0..3i32, 0..3i32), -3..9i64, 0..6),
        others: (i8, i32),
        client_tags in proptest::collection::btree_map("\\PC{0,4}", "\\PC{0,4}", 0..4),
    ) {
        let sums = sums.into_iter().map(|((subtopology, partition), offset_sum)| {
            let task = TaskId { subtopology, partition };
            match (version, offset_sum) {
                (..=6, LATEST_OFFSET) | (7.., _) => (task, offset_sum),
                _ => (task, UNKNOWN_OFFSET_SUM),
            }
        });
        let whole = MemberSubscription {
            version,
            latest_supported_version: if version < 3 { version } else { 11 },
            process_id,
            user_endpoint: if version < 2 { String::new() } else { user_endpoint },
            task_offset_sums: sums.collect(),
            unique_field: if version < 8 { 0 } else { others.0 },
            error_code: if version < 9 { 0 } else { others.1 },
            client_tags: if version < 11 { BTreeMap::new() } else { client_tags },
        };
        let bytes = whole.to_bytes();
        prop_assert_eq!(MemberSubscription::read(&bytes), Ok(OfVersion::Known(whole)));
        for cut in 0..bytes.len() {
            prop_assert!(MemberSubscription::read(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn assignments_come_back(
        version in 1..=LATEST_VERSION,
        active_tasks in tasks(),
        standby_tasks in tasks(),
        hosts in proptest::collection::vec((".{0,3}", any::<i32>(), "[a-c]{1,2}"), 0..4),
        next_rebalance_ms in proptest::option::of(0..i64::MAX),
    ) {
        let hosts = hosts.iter().map(|(host, port, topic)| HostPartitions {
            host,
            port: *port,
            partitions: vec![AssignedPartition { topic, partition: *port }; 2],
        });
        let hosts: Vec<_> = hosts.collect();
        let of_version = |first: i32| match version < first {
            true => Vec::new(),
            false => hosts.clone(),
        };
        let standby_tasks = standby_tasks.iter().map(|&task| StandbyTask {
            task,
            partitions: vec![AssignedPartition { topic: "t", partition: task.partition }],
        });
        let whole = MemberAssignment {
            version,
            commonly_supported_version: if version < 3 { version } else { 11 },
            active_tasks,
            standby_tasks: standby_tasks.collect(),
            active_hosts: of_version(2),
            standby_hosts: of_version(6),
            error: match version {
                ..4 => AssignmentError::None,
                _ => AssignmentError::ShutdownRequested,
            },
            next_rebalance_ms: next_rebalance_ms.filter(|_| version >= 7),
        };
        let bytes = whole.to_bytes();
        prop_assert_eq!(MemberAssignment::read(&bytes), Ok(OfVersion::Known(whole)));
        for cut in 0..bytes.len() {
            prop_assert!(MemberAssignment::read(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_taken(
        version in 0..13u8,
        bytes in proptest::collection::vec(0..2u8, 0..90),
        others: Vec<u8>,
    ) {
        fuzz_group_user_data(&[&[0, 0, 0, version], &bytes[..]].concat());
        fuzz_group_user_data(&[&[0, 0, 0, version], &others[..]].concat());
    }
}
