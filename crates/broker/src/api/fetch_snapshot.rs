//! FetchSnapshot: v0–1. A snapshot of the metadata, piece by piece (KIP-630).
//!
//! - Version 1 has directory ids and the leader's endpoint (KIP-853).
//! - The one partition that has an answer is that of the metadata log, alone: another one is
//!   UNKNOWN_TOPIC_OR_PARTITION, and any other number of them INVALID_REQUEST.
//! - An error of the partition comes with the partition; Kafka 4.3 fails to write such an answer, and says
//!   UNKNOWN_SERVER_ERROR instead.

use super::quorum::{METADATA_TOPIC, is_of_cluster, leader_endpoint, leader_id, only, push_slice};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset};
use raft::LeaderAndEpoch;
use std::fs::File;
use storage::FileSlice;
use wire::fetch_snapshot_response::FetchSnapshotResponseWriter;
use wire::messages::fetch_snapshot_request::PartitionSnapshot as Asked;
use wire::messages::fetch_snapshot_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionSnapshot, SnapshotId,
};
use wire::messages::{FetchSnapshotRequest, FetchSnapshotResponse};

/// A piece, or why there is none.
struct Piece {
    error: ErrorCode,
    leader: LeaderAndEpoch,
    size_bytes: u64,
    slice: Option<FileSlice<File>>,
}

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: FetchSnapshotRequest<'_> = request.decode()?;
    let asked = only(message.topics.iter())
        .and_then(|topic| Some((topic.name, only(topic.partitions.iter())?)));
    let refused = match asked {
        _ if !is_of_cluster(server, message.cluster_id) => ErrorCode::InconsistentClusterId,
        None => ErrorCode::InvalidRequest,
        Some((name, asked)) => match piece(server, name, &asked, message.max_bytes).await {
            Ok(piece) => {
                respond(server, context, request, (name, &asked, piece), out);
                return Ok(Served::Answered);
            }
            Err(error) => error,
        },
    };
    let response = FetchSnapshotResponse {
        error_code: refused.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn piece(
    server: &ClusterNode,
    topic: &str,
    asked: &Asked,
    max_bytes: i32,
) -> Result<Piece, ErrorCode> {
    let is_metadata = topic == METADATA_TOPIC && asked.partition == 0;
    let fetch = raft::FetchSnapshotRequest {
        leader_epoch: LeaderEpoch(asked.current_leader_epoch),
        id: ::metadata::SnapshotId {
            end_offset: Offset(asked.snapshot_id.end_offset),
            epoch: LeaderEpoch(asked.snapshot_id.epoch),
        },
        position: asked.position,
        max_bytes: max_bytes.max(0) as usize,
    };
    let asking = server.controller.ask_quorum(move |replica| {
        let answer = is_metadata.then(|| replica.handle_fetch_snapshot(&fetch));
        answer.ok_or_else(|| replica.leader_and_epoch())
    });
    Ok(match asking.await? {
        Ok(answer) => Piece {
            error: answer.error,
            leader: answer.leader,
            size_bytes: answer.size_bytes,
            slice: answer.piece,
        },
        Err(leader) => Piece {
            error: ErrorCode::UnknownTopicOrPartition,
            leader,
            size_bytes: 0,
            slice: None,
        },
    })
}

fn respond(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    (name, asked, piece): (&str, &Asked, Piece),
    out: &mut ResponseBuffer,
) {
    let partition = PartitionSnapshot {
        index: asked.partition,
        error_code: piece.error.code(),
        snapshot_id: SnapshotId {
            end_offset: asked.snapshot_id.end_offset,
            epoch: asked.snapshot_id.epoch,
        },
        current_leader: LeaderIdAndEpoch {
            leader_id: leader_id(piece.leader),
            leader_epoch: piece.leader.epoch.0,
        },
        size: piece.size_bytes as i64,
        position: asked.position,
        unaligned_records: None,
    };
    let endpoint = leader_endpoint(server, context, piece.leader);
    let endpoints = endpoint.iter().map(|(id, host, port)| NodeEndpoint {
        node_id: *id,
        host,
        port: *port,
    });
    let piece_bytes = piece.slice.as_ref().map_or(0, |slice| slice.length);
    let writer = FetchSnapshotResponseWriter::new(request.version);
    let start = request.begin_answer(&mut out.head);
    writer.before_piece(name, &partition, piece_bytes, &mut out.head);
    let slice = piece.slice;
    let file_bytes = slice.map_or(0, |slice| push_slice(server, slice, out));
    writer.after_piece(&partition, &endpoints.collect(), &mut out.head);
    request.finish_answer_with_records(start, file_bytes, out);
}
