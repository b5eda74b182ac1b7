//! The fetch response written by hand against the generated codec.

use model::Array;
use model::{BrokerId, ErrorCode, LeaderEpoch, Message, Offset, ProducerId, Uuid};
use wire::fetch_response::*;
use wire::messages::FetchResponse;
use wire::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, NodeEndpoint, PartitionData,
};
use wire::messages::fetch_response::{EpochEndOffset, LeaderIdAndEpoch};

const ABORTED: &[(ProducerId, Offset)] = &[(ProducerId(7), Offset(3)), (ProducerId(8), Offset(4))];

fn partitions() -> [FetchResponsePartition<'static>; 5] {
    let plain = FetchResponsePartition {
        index: 0,
        error: ErrorCode::None,
        high_watermark: Offset(10),
        last_stable_offset: Offset(9),
        log_start_offset: Offset(1),
        diverging_epoch: None,
        current_leader: None,
        aborted_transactions: None,
        preferred_read_replica: BrokerId::NONE,
        records_bytes: 5,
    };
    let aborted = FetchResponsePartition {
        index: 1,
        aborted_transactions: Some(ABORTED),
        records_bytes: 200,
        ..plain
    };
    let moved = FetchResponsePartition {
        index: 2,
        error: ErrorCode::NotLeaderOrFollower,
        diverging_epoch: Some((LeaderEpoch(3), Offset(4))),
        current_leader: Some((BrokerId(5), LeaderEpoch(6))),
        records_bytes: 0,
        ..plain
    };
    let empty = FetchResponsePartition {
        index: 3,
        records_bytes: 0,
        ..plain
    };
    let empty_of_none_aborted = FetchResponsePartition {
        aborted_transactions: Some(&[]),
        ..empty
    };
    [plain, aborted, moved, empty, empty_of_none_aborted]
}

fn streamed(version: i16) -> Vec<u8> {
    let mut out = Vec::new();
    let writer = FetchResponseWriter::new(version);
    let head = FetchResponseHead {
        throttle_time_ms: 1,
        error: ErrorCode::None,
        session_id: 42,
        topic_count: 1,
    };
    writer.head(&head, &mut out);
    writer.topic("topic", Uuid::from_u128(77), partitions().len(), &mut out);
    for partition in partitions() {
        if partition.records_bytes == 0 {
            writer.partition_without_records(&partition, &mut out);
            continue;
        }
        writer.partition(&partition, &mut out);
        out.resize(out.len() + partition.records_bytes, 0xab);
        writer.end_partition(&partition, &mut out);
    }
    writer.end_topic(&mut out);
    writer.end(&[(BrokerId(5), "host", 9092, Some("rack"))], &mut out);
    out
}

fn generated(version: i16) -> Vec<u8> {
    let records = [0xab; 200];
    let partitions: Vec<PartitionData<'_>> = partitions()
        .iter()
        .map(|p| PartitionData {
            partition_index: p.index,
            error_code: p.error.code(),
            high_watermark: p.high_watermark.0,
            last_stable_offset: p.last_stable_offset.0,
            log_start_offset: p.log_start_offset.0,
            diverging_epoch: p.diverging_epoch.map_or_else(EpochEndOffset::default, |d| {
                EpochEndOffset {
                    epoch: d.0.0,
                    end_offset: d.1.0,
                }
            }),
            current_leader: p
                .current_leader
                .map_or_else(LeaderIdAndEpoch::default, |l| LeaderIdAndEpoch {
                    leader_id: l.0,
                    leader_epoch: l.1.0,
                }),
            aborted_transactions: p.aborted_transactions.map(|all| {
                let all = all
                    .iter()
                    .map(|&(producer_id, first_offset)| AbortedTransaction {
                        producer_id: producer_id.0,
                        first_offset: first_offset.0,
                    });
                all.collect()
            }),
            preferred_read_replica: p.preferred_read_replica,
            records: Some(&records[..p.records_bytes]),
            ..PartitionData::default()
        })
        .collect();
    let topic = FetchableTopicResponse {
        topic: "topic",
        topic_id: Uuid::from_u128(77),
        partitions: partitions.into(),
    };
    let endpoint = NodeEndpoint {
        node_id: BrokerId(5),
        host: "host",
        port: 9092,
        rack: Some("rack"),
    };
    let response = FetchResponse {
        throttle_time_ms: 1,
        session_id: 42,
        responses: Array::from(vec![topic]),
        node_endpoints: Array::from(vec![endpoint]),
        ..FetchResponse::default()
    };
    response.to_bytes(version)
}

#[test]
fn equals_the_generated_codec_in_every_version() {
    for version in 4..=18 {
        assert_eq!(streamed(version), generated(version), "version {version}");
    }
}
