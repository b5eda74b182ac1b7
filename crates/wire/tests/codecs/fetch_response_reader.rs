//! The fetch response read by hand against the generated codec.

use model::BrokerId;
use model::{DecodeError, ErrorCode, LeaderEpoch, Message, Offset, Uuid};
use wire::fetch_response_reader::*;
use wire::messages::FetchResponse;
use wire::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, SnapshotId,
};
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};

type Told<'a> = (FetchAnswer, Vec<(Uuid, AnsweredPartition<'a>)>);

fn in_one_pass(body: &[u8], version: i16) -> Result<Told<'_>, DecodeError> {
    let mut partitions = Vec::new();
    let answer = read_fetch_response::<DecodeError>(body, version, |topic, partition, at| {
        assert_eq!(
            read_answered_partition(&body[at..], version),
            Ok(*partition)
        );
        partitions.push((topic, *partition));
        Ok(())
    })?;
    Ok((answer, partitions))
}

fn generated(body: &[u8], version: i16) -> Result<Told<'_>, DecodeError> {
    let response = FetchResponse::from_bytes(body, version)?;
    let answer = FetchAnswer {
        throttle_time_ms: response.throttle_time_ms,
        error: ErrorCode::from_code(response.error_code),
        session_id: response.session_id,
    };
    let mut partitions = Vec::new();
    for topic in response.responses.iter() {
        for partition in topic.partitions.iter() {
            let end = partition.diverging_epoch;
            let told = AnsweredPartition {
                index: partition.partition_index,
                error_code: partition.error_code,
                high_watermark: Offset(partition.high_watermark),
                log_start_offset: Offset(partition.log_start_offset),
                diverging_epoch: (end.epoch >= 0)
                    .then_some((LeaderEpoch(end.epoch), Offset(end.end_offset))),
                records: partition.records.unwrap_or_default(),
            };
            partitions.push((topic.topic_id, told));
        }
    }
    Ok((answer, partitions))
}

fn topic<'a>(id: u128, partitions: Vec<PartitionData<'a>>) -> FetchableTopicResponse<'a> {
    FetchableTopicResponse {
        topic_id: Uuid::from_u128(id),
        partitions: partitions.into(),
        ..FetchableTopicResponse::default()
    }
}

/// A response with everything that a partition can say.
fn response(version: i16) -> Vec<u8> {
    let long = vec![7; 20_000];
    let plain = PartitionData {
        partition_index: 3,
        high_watermark: 10,
        last_stable_offset: 9,
        log_start_offset: 1,
        aborted_transactions: None,
        records: Some(&[1, 2, 3]),
        ..PartitionData::default()
    };
    let diverging = PartitionData {
        records: None,
        diverging_epoch: EpochEndOffset {
            epoch: 5,
            end_offset: 44,
        },
        ..plain.clone()
    };
    let moved = PartitionData {
        error_code: ErrorCode::NotLeaderOrFollower.code(),
        current_leader: LeaderIdAndEpoch {
            leader_id: BrokerId(5),
            leader_epoch: 6,
        },
        snapshot_id: SnapshotId {
            end_offset: 7,
            epoch: 8,
        },
        ..plain.clone()
    };
    let aborted = PartitionData {
        aborted_transactions: Some(
            vec![AbortedTransaction {
                producer_id: 7,
                first_offset: 3,
            }]
            .into(),
        ),
        records: Some(&long),
        ..plain.clone()
    };
    let endpoint = NodeEndpoint {
        node_id: BrokerId(5),
        host: "host",
        port: 9092,
        rack: Some("rack"),
    };
    let none_aborted = PartitionData {
        aborted_transactions: Some(Vec::new().into()),
        ..plain.clone()
    };
    let all = vec![plain.clone(), diverging, moved, aborted, none_aborted];
    let response = FetchResponse {
        throttle_time_ms: 1,
        session_id: 42,
        responses: vec![topic(1, all), topic(2, Vec::new()), topic(3, vec![plain])].into(),
        node_endpoints: vec![endpoint].into(),
        ..FetchResponse::default()
    };
    response.to_bytes(version)
}

#[test]
fn equals_the_generated_codec_in_every_version() {
    for version in 12..=19 {
        let body = response(version.clamp(13, 18));
        let told = in_one_pass(&body, version);
        match version {
            13..=18 => assert_eq!(told.as_ref().unwrap().1.len(), 6),
            _ => {
                assert_eq!(told, Err(DecodeError::UnsupportedVersion));
                continue;
            }
        }
        assert_eq!(told, generated(&body, version), "{version}");
    }
}

#[test]
fn refuses_what_the_generated_codec_refuses() {
    for version in [13, 18] {
        let body = response(version);
        for length in (0..body.len()).filter(|length| !(400..20_000).contains(length)) {
            let cut = &body[..length];
            assert_eq!(
                in_one_pass(cut, version),
                generated(cut, version),
                "{length}"
            );
        }
        for at in (0..body.len()).filter(|at| !(400..20_000).contains(at)) {
            for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut damaged = body.clone();
                damaged[at] = byte;
                let (ours, theirs) = (in_one_pass(&damaged, version), generated(&damaged, version));
                assert_eq!(
                    ours.is_ok(),
                    theirs.is_ok(),
                    "version {version}, {byte} at {at}"
                );
                if ours.is_ok() {
                    assert_eq!(ours, theirs, "version {version}, {byte} at {at}");
                }
            }
        }
    }
}
