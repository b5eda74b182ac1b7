//! The bytes of records: those that Apache Kafka 4.3.1 writes, and those that nobody should.

use super::super::group_record::GroupRecord;
use super::super::membership::Membership;
use super::super::records;
use super::super::{GroupConfig, GroupShard, RecordOrigin, ReplayError, fuzz_replay, fuzz_texts};
use super::text::subscription;
use crate::CoordinatorRecord;
use crate::messages::{
    GroupMetadataValue, OffsetCommitValue, group_metadata_value::MemberMetadata,
};
use model::{DecodeError, LeaderEpoch, Message, Offset, ProducerId, Uuid};
use proptest::collection::vec;
use proptest::prelude::*;

const TIME_MS: i64 = 1_234_567_890_123;

/// A key and a value in hexadecimal digits, `-` for a tombstone.
fn hex(record: &CoordinatorRecord) -> (String, String) {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let value = record.value.as_deref().map_or_else(|| "-".to_owned(), text);
    (text(&record.key), value)
}

fn check_bytes(record: &CoordinatorRecord, key: &str, value: &str) {
    assert_eq!(hex(record), (key.to_owned(), value.to_owned()));
}

fn offset_value() -> OffsetCommitValue<'static> {
    OffsetCommitValue {
        offset: 100,
        leader_epoch: 3,
        metadata: "note",
        commit_timestamp: TIME_MS,
        expire_timestamp: -1,
        topic_id: Uuid::from_u128((1 << 64) | 2),
    }
}

#[test]
fn records_are_those_of_kafka() {
    let offset_key = "0001000567726f75700005746f70696300000007";
    let record = |value: &OffsetCommitValue<'_>| records::offset_commit("group", "topic", 7, value);
    check_bytes(
        &record(&offset_value()),
        offset_key,
        "0004000000000000006400000003056e6f74650000011f71fb04cb01001000000000000000010000000000000002",
    );
    let plain = OffsetCommitValue {
        leader_epoch: -1,
        metadata: "",
        topic_id: Uuid::ZERO,
        ..offset_value()
    };
    check_bytes(
        &record(&plain),
        offset_key,
        "00040000000000000064ffffffff010000011f71fb04cb00",
    );
    let expiring = OffsetCommitValue {
        expire_timestamp: 1_234_567_890_999,
        ..offset_value()
    };
    check_bytes(
        &record(&expiring),
        offset_key,
        "0001000000000000006400046e6f74650000011f71fb04cb0000011f71fb0837",
    );
    check_bytes(
        &records::offset_tombstone("group", "topic", 7),
        offset_key,
        "-",
    );
    check_bytes(
        &records::group_tombstone("group"),
        "0002000567726f7570",
        "-",
    );
}

#[test]
fn record_of_a_group_is_that_of_kafka() {
    let value = GroupMetadataValue {
        protocol_type: "consumer",
        generation: 4,
        protocol: Some("range"),
        leader: Some("m-1"),
        current_state_timestamp: TIME_MS,
        members: vec![
            MemberMetadata {
                member_id: "i-2",
                group_instance_id: Some("i"),
                client_id: "n",
                client_host: "/h",
                rebalance_timeout: 60_000,
                session_timeout: 10_000,
                subscription: &[],
                assignment: &[4, 5],
            },
            MemberMetadata {
                member_id: "m-1",
                group_instance_id: None,
                client_id: "m",
                client_host: "/127.0.0.1",
                rebalance_timeout: 60_000,
                session_timeout: 10_000,
                subscription: &[1, 2],
                assignment: &[3],
            },
        ]
        .into(),
    };
    let record = records::group_metadata("group", &Membership::restored(&value));
    check_bytes(
        &record,
        "0002000567726f7570",
        "00030008636f6e73756d657200000004000572616e676500036d2d310000011f71fb04cb00000002\
         0003692d3200016900016e00022f680000ea600000271000000000000000020405\
         00036d2d31ffff00016d000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    );
}

/// Every version of the value of an offset, the oldest type of key included.
#[test]
fn offsets_of_all_versions_are_read() {
    for (key_type, version) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4)] {
        let mut record = records::offset_tombstone("group", "topic", 7);
        record.key[..2].copy_from_slice(&i16::to_be_bytes(key_type));
        let mut value = i16::to_be_bytes(version).to_vec();
        offset_value().write(version, &mut value);
        let parsed =
            GroupRecord::parse(Offset(9), &record.key, Some(&value)).expect("a sound record");
        let GroupRecord::Offset {
            offset: Some(offset),
            ..
        } = parsed
        else {
            panic!("an offset, not {parsed:?}");
        };
        assert_eq!(
            (offset.offset, offset.record_offset),
            (Offset(100), Offset(9))
        );
        assert_eq!(
            offset.leader_epoch,
            LeaderEpoch(if version >= 3 { 3 } else { -1 })
        );
        assert_eq!(offset.expire_timestamp_ms, None);
        assert_eq!(offset.topic_id.is_zero(), version < 4);
    }
}

#[test]
fn groups_of_all_versions_are_read() {
    let members = vec![MemberMetadata {
        member_id: "m",
        session_timeout: 10_000,
        rebalance_timeout: 60_000,
        ..MemberMetadata::default()
    }];
    let value = GroupMetadataValue {
        protocol_type: "consumer",
        current_state_timestamp: TIME_MS,
        members: members.into(),
        ..GroupMetadataValue::default()
    };
    for version in 0..=4 {
        let mut bytes = i16::to_be_bytes(version).to_vec();
        value.write(version, &mut bytes);
        let group = Membership::restored(&records::parse_group(&bytes).expect("a sound value"));
        let rebalance_timeout_ms = if version == 0 { 10_000 } else { 60_000 };
        assert_eq!(group.rebalance_timeout_ms(), rebalance_timeout_ms);
        assert_eq!(group.state_timestamp_ms.is_some(), version >= 2);
    }
}

#[test]
fn damaged_records_are_reported_and_change_nothing() {
    let mut shard = GroupShard::new(GroupConfig::default());
    let origin = RecordOrigin {
        offset: Offset(0),
        producer_id: ProducerId::NONE,
    };
    let sound = records::offset_commit("group", "topic", 7, &offset_value());
    let value = sound.value.expect("an offset");
    let mut check = |key: &[u8], value: &[u8], expected| {
        assert_eq!(shard.replay(origin, key, Some(value)), expected);
        assert!(shard.groups.is_empty());
    };
    let truncated = DecodeError::Truncated;
    check(&[], &value, Err(ReplayError::Key(truncated)));
    check(&sound.key[..9], &value, Err(ReplayError::Key(truncated)));
    check(&sound.key, &value[..9], Err(ReplayError::Value(truncated)));
    check(&sound.key, &[0, 9], Err(ReplayError::LaterVersion(9)));
    let unsupported = DecodeError::UnsupportedVersion;
    check(&sound.key, &[255, 9], Err(ReplayError::Value(unsupported)));
    check(
        &[0, 2, 0, 1, b'g'],
        &[0, 3],
        Err(ReplayError::Value(truncated)),
    );
    check(&[0, 99], &[0, 0], Ok(()));
    check(&[0, 9, 0, 1, b'g'], &[0, 0], Ok(()));
}

/// Bytes of sound records, for damage to be done to.
fn sound_bytes() -> Vec<u8> {
    let subscription = subscription(&["t"]);
    let member = |member_id, group_instance_id| MemberMetadata {
        member_id,
        group_instance_id,
        session_timeout: 10_000,
        subscription: &subscription,
        ..MemberMetadata::default()
    };
    let value = GroupMetadataValue {
        protocol_type: "consumer",
        protocol: Some("range"),
        leader: Some("a"),
        members: vec![
            member("a", None),
            member("b", Some("i")),
            member("b", Some("i")),
        ]
        .into(),
        ..GroupMetadataValue::default()
    };
    let mut group_value = vec![0, 3];
    value.write(3, &mut group_value);
    let group_key = records::group_tombstone("g").key;
    let offset = records::offset_commit("g", "t", 0, &offset_value());
    let mut bytes = Vec::new();
    for (key, value) in [
        (&group_key, &group_value),
        (&offset.key, &offset.value.expect("an offset")),
    ] {
        bytes.push(u8::try_from(key.len()).expect("a short key"));
        bytes.extend_from_slice(key);
        bytes.push(u8::try_from(value.len()).expect("a short value"));
        bytes.extend_from_slice(value);
    }
    bytes
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn any_bytes_are_replayed_without_harm(bytes in vec(any::<u8>(), 0..300)) {
        fuzz_replay(&bytes);
        fuzz_texts(&bytes);
    }

    #[test]
    fn damaged_bytes_are_replayed_without_harm(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = sound_bytes();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        fuzz_replay(&bytes);
    }
}
