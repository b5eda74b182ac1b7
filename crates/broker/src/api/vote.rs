//! Vote: v0–2. A node that wants to lead the quorum: never granted, as this node votes alone.
//!
//! - Version 1 has directory ids (KIP-853), version 2 pre-votes (KIP-996).
//! - Who names a later epoch is told who leads, and nothing changes; Kafka's controller follows it there and is
//!   elected again.

use super::quorum::{METADATA_TOPIC, is_of_cluster, leader_endpoint, leader_id, only};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, LeaderEpoch};
use raft::{ReplicaKey, VoteAnswer};
use wire::messages::vote_response::{NodeEndpoint, PartitionData, TopicData};
use wire::messages::{VoteRequest, VoteResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: VoteRequest<'_> = request.decode()?;
    let refused = match vote_request(&message) {
        _ if !is_of_cluster(server, message.cluster_id) => ErrorCode::InconsistentClusterId,
        None => ErrorCode::InvalidRequest,
        Some(vote) => {
            let asking = server
                .controller
                .ask_quorum(move |one| one.handle_vote(&vote));
            match asking.await {
                Ok(answer) => {
                    if vote.epoch > answer.leader.epoch {
                        server
                            .strangers
                            .tell(context.peer, vote.candidate, vote.epoch);
                    }
                    respond(server, context, request, &answer, out);
                    return Ok(Served::Answered);
                }
                Err(error) => error,
            }
        }
    };
    let response = VoteResponse {
        error_code: refused.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is asked, if it is about the metadata log.
fn vote_request(message: &VoteRequest<'_>) -> Option<raft::VoteRequest> {
    let topic = only(message.topics.iter())?;
    let partition = only(topic.partitions.iter())?;
    if topic.topic_name != METADATA_TOPIC || partition.partition_index != 0 {
        return None;
    }
    Some(raft::VoteRequest {
        voter: ReplicaKey {
            id: message.voter_id,
            directory_id: partition.voter_directory_id,
        },
        candidate: partition.replica_id,
        epoch: LeaderEpoch(partition.replica_epoch),
        last_offset_epoch: LeaderEpoch(partition.last_offset_epoch),
        last_offset: partition.last_offset,
        is_pre_vote: partition.pre_vote,
    })
}

fn respond(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    answer: &VoteAnswer,
    out: &mut ResponseBuffer,
) {
    let partitions = vec![PartitionData {
        partition_index: 0,
        error_code: answer.error.code(),
        leader_id: leader_id(answer.leader),
        leader_epoch: answer.leader.epoch.0,
        vote_granted: false,
    }];
    let topic = TopicData {
        topic_name: METADATA_TOPIC,
        partitions: (&partitions).into(),
    };
    let endpoint = leader_endpoint(server, context, answer.leader);
    let endpoints = endpoint.iter().map(|(id, host, port)| NodeEndpoint {
        node_id: *id,
        host,
        port: *port,
    });
    let response = VoteResponse {
        topics: vec![topic].into(),
        node_endpoints: endpoints.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
}
