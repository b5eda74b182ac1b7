//! The response to FetchSnapshot written by hand against the generated codec.

use model::{Array, BrokerId, ErrorCode, Message};
use wire::fetch_snapshot_response::FetchSnapshotResponseWriter;
use wire::messages::FetchSnapshotResponse;
use wire::messages::fetch_snapshot_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionSnapshot, SnapshotId, TopicSnapshot,
};

const TOPIC: &str = "__cluster_metadata";

fn written(
    partition: &PartitionSnapshot<'_>,
    endpoints: &Array<'_, NodeEndpoint<'_>>,
    version: i16,
) -> Vec<u8> {
    let writer = FetchSnapshotResponseWriter::new(version);
    let piece = partition.unaligned_records.unwrap_or_default();
    let mut out = Vec::new();
    writer.before_piece(TOPIC, partition, piece.len(), &mut out);
    out.extend_from_slice(piece);
    writer.after_piece(partition, endpoints, &mut out);
    out
}

#[test]
fn equals_the_generated_codec_in_every_version() {
    let piece = vec![0xab; 100_000];
    let leader = LeaderIdAndEpoch {
        leader_id: BrokerId(5),
        leader_epoch: 6,
    };
    let whole = PartitionSnapshot {
        index: 0,
        error_code: 0,
        snapshot_id: SnapshotId {
            end_offset: 77,
            epoch: 3,
        },
        current_leader: leader,
        size: 123_456,
        position: 23_456,
        unaligned_records: Some(&piece),
    };
    let refused = PartitionSnapshot {
        index: 7,
        error_code: ErrorCode::SnapshotNotFound.code(),
        current_leader: LeaderIdAndEpoch::default(),
        size: 0,
        unaligned_records: Some(&[]),
        ..whole.clone()
    };
    let endpoint = NodeEndpoint {
        node_id: BrokerId(5),
        host: "host",
        port: 9092,
    };
    for (partition, endpoints) in [(whole, vec![endpoint]), (refused, Vec::new())] {
        for version in 0..=1 {
            let topic = TopicSnapshot {
                name: TOPIC,
                partitions: vec![partition.clone()].into(),
            };
            let response = FetchSnapshotResponse {
                topics: vec![topic].into(),
                node_endpoints: endpoints.clone().into(),
                ..FetchSnapshotResponse::default()
            };
            let by_hand = written(&partition, &endpoints.clone().into(), version);
            assert_eq!(by_hand, response.to_bytes(version), "version {version}");
        }
    }
}
