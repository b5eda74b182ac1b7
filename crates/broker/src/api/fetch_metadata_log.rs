//! Fetch at a controller's listener: v4–18. The metadata log, for brokers and other nodes that follow it.
//!
//! - Versions: 13 topic ids (KIP-516), without which nobody knows the log: INVALID_REQUEST; 17 directory ids
//!   and the leader's endpoint (KIP-853), 18 the follower's high watermark (KIP-1166).
//! - The one partition that has an answer is that of the metadata log, alone.
//! - A request that brings nothing new waits until the log goes on, or until `MaxWaitMs`. It does not wait
//!   before the controller, which is asked once, and once more when there is something.
//! - Ignored on purpose: sessions, `MinBytes`, `PartitionMaxBytes` and the isolation level: what is sent is
//!   committed.

use super::quorum::{is_of_cluster, leader_endpoint, leader_id, only, push_slice, replica_key};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{BrokerId, DecodeError, ErrorCode, LeaderEpoch, Offset, Uuid};
use raft::{FetchAnswer, FetchContent, LeaderAndEpoch};
use std::fs::File;
use std::time::Duration;
use storage::FileSlice;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};
use wire::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
    SnapshotId,
};
use wire::messages::{FetchRequest, FetchResponse};

/// From this version on the answer has the leader's endpoint.
const ENDPOINTS_VERSION: i16 = 17;

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: FetchRequest<'_> = request.decode()?;
    let refused = match fetch_request(request.version, &message) {
        _ if !is_of_cluster(server, message.cluster_id) => ErrorCode::InconsistentClusterId,
        None => ErrorCode::InvalidRequest,
        Some(fetch) => match answer(server, fetch).await {
            Ok(answer) => {
                if answer.shows_loss(&fetch) {
                    let (image, cluster_id) = (server.node.image(), message.cluster_id);
                    let foreign_nodes = &server.foreign_nodes;
                    foreign_nodes.tell_ahead(context.peer, &image, cluster_id, &fetch);
                }
                respond(server, context, request, answer, out);
                return Ok(Served::Answered);
            }
            Err(error) => error,
        },
    };
    let response = FetchResponse {
        error_code: refused.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is asked for, if it is the metadata log.
fn fetch_request(version: i16, message: &FetchRequest<'_>) -> Option<raft::FetchRequest> {
    let topic = only(message.topics.iter())?;
    let partition = only(topic.partitions.iter())?;
    if version < 13 || topic.topic_id != Uuid::METADATA_TOPIC || partition.partition != 0 {
        return None;
    }
    let replica_id = match version {
        15.. => message.replica_state.replica_id,
        _ => message.replica_id,
    };
    Some(raft::FetchRequest {
        replica: replica_key(replica_id, partition.replica_directory_id),
        leader_epoch: LeaderEpoch(partition.current_leader_epoch),
        fetch_offset: Offset(partition.fetch_offset),
        last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
        high_watermark: Offset(partition.high_watermark),
        max_wait_ms: message.max_wait_ms,
        max_bytes: message.max_bytes.max(0) as usize,
    })
}

/// The answer, as soon as it brings anything or time is out.
async fn answer(
    server: &ClusterNode,
    fetch: raft::FetchRequest,
) -> Result<FetchAnswer<File>, ErrorCode> {
    let limit = Duration::from_millis(fetch.max_wait_ms.max(0).unsigned_abs().into());
    let deadline = tokio::time::Instant::now() + limit;
    let mut progress = server.controller.high_watermark()?;
    loop {
        progress.borrow_and_update();
        let answer = server.controller.fetch(fetch).await?;
        if answer.is_news(&fetch) {
            return Ok(answer);
        }
        let moved_on = tokio::time::timeout_at(deadline, progress.changed()).await;
        if !matches!(moved_on, Ok(Ok(()))) {
            return Ok(answer);
        }
    }
}

fn respond(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    answer: FetchAnswer<File>,
    out: &mut ResponseBuffer,
) {
    let endpoint = leader_endpoint(server, context, answer.leader);
    let endpoint = endpoint.filter(|_| request.version >= ENDPOINTS_VERSION);
    let endpoint = endpoint
        .as_ref()
        .map(|(id, host, port)| (*id, &**host, i32::from(*port), None));
    match answer.content {
        FetchContent::Records(slice) => {
            let answer = FetchAnswer {
                content: FetchContent::Nothing,
                ..answer
            };
            respond_with_records(server, request, (&answer, endpoint), slice, out);
        }
        _ => respond_without_records(request, &answer, endpoint, out),
    }
}

/// The id, host, port and rack of the leader.
type LeaderEndpoint<'a> = (BrokerId, &'a str, i32, Option<&'a str>);

fn respond_with_records(
    server: &ClusterNode,
    request: &Request<'_>,
    (answer, endpoint): (&FetchAnswer<File>, Option<LeaderEndpoint<'_>>),
    slice: FileSlice<File>,
    out: &mut ResponseBuffer,
) {
    let writer = FetchResponseWriter::new(request.version);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: ErrorCode::None,
        session_id: 0,
        topic_count: 1,
    };
    let partition = FetchResponsePartition {
        index: 0,
        error: answer.error,
        high_watermark: answer.high_watermark,
        last_stable_offset: Offset::NONE,
        log_start_offset: answer.log_start_offset,
        diverging_epoch: None,
        current_leader: Some((leader_id(answer.leader), answer.leader.epoch)),
        aborted_transactions: Some(&[]),
        preferred_read_replica: BrokerId::NONE,
        records_bytes: slice.length,
    };
    let start = request.begin_answer(&mut out.head);
    writer.head(&head, &mut out.head);
    writer.topic("", Uuid::METADATA_TOPIC, 1, &mut out.head);
    writer.partition(&partition, &mut out.head);
    let file_bytes = push_slice(server, slice, out);
    writer.end_partition(&partition, &mut out.head);
    writer.end_topic(&mut out.head);
    writer.end(endpoint.as_slice(), &mut out.head);
    request.finish_answer_with_records(start, file_bytes, out);
}

fn respond_without_records(
    request: &Request<'_>,
    answer: &FetchAnswer<File>,
    endpoint: Option<LeaderEndpoint<'_>>,
    out: &mut ResponseBuffer,
) {
    let LeaderAndEpoch { epoch, .. } = answer.leader;
    let mut partition = PartitionData {
        error_code: answer.error.code(),
        high_watermark: answer.high_watermark.0,
        log_start_offset: answer.log_start_offset.0,
        aborted_transactions: Some(Vec::new().into()),
        current_leader: LeaderIdAndEpoch {
            leader_id: leader_id(answer.leader),
            leader_epoch: epoch.0,
        },
        records: Some(&[]),
        ..Default::default()
    };
    match &answer.content {
        FetchContent::Nothing | FetchContent::Records(_) => {}
        FetchContent::Diverging(end) => {
            partition.diverging_epoch = EpochEndOffset {
                epoch: end.leader_epoch.0,
                end_offset: end.end_offset.0,
            };
        }
        FetchContent::SnapshotId(id) => {
            partition.snapshot_id = SnapshotId {
                end_offset: id.end_offset.0,
                epoch: id.epoch.0,
            };
        }
    }
    let partitions = vec![partition];
    let topic = FetchableTopicResponse {
        topic_id: Uuid::METADATA_TOPIC,
        partitions: (&partitions).into(),
        ..Default::default()
    };
    let endpoints = endpoint.map(|(node_id, host, port, rack)| NodeEndpoint {
        node_id,
        host,
        port,
        rack,
    });
    let response = FetchResponse {
        responses: vec![topic].into(),
        node_endpoints: endpoints.into_iter().collect(),
        ..Default::default()
    };
    request.answer(&response, out);
}
