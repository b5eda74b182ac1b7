//! BeginQuorumEpoch: v0–1. A node says that it leads the quorum: nobody does but this one.
//!
//! - Version 1 has directory ids and the leader's endpoints (KIP-853).
//! - A leader of a later epoch, or another one of this epoch, is INCONSISTENT_VOTER_SET: who votes here has
//!   elected nobody else. Kafka's controller follows it, and ends if the epoch is its own.

use super::quorum::{METADATA_TOPIC, is_of_cluster, leader_endpoint, leader_id, only};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, LeaderEpoch};
use raft::{EpochRequest, LeaderAndEpoch, ReplicaKey};
use wire::messages::begin_quorum_epoch_response::{NodeEndpoint, PartitionData, TopicData};
use wire::messages::{BeginQuorumEpochRequest, BeginQuorumEpochResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: BeginQuorumEpochRequest<'_> = request.decode()?;
    let refused = match epoch_request(&message) {
        _ if !is_of_cluster(server, message.cluster_id) => ErrorCode::InconsistentClusterId,
        None => ErrorCode::InvalidRequest,
        Some(asked) => {
            let asking = server
                .controller
                .ask_quorum(move |one| (one.handle_epoch(&asked), one.leader_and_epoch()));
            match asking.await {
                Ok((error, leader)) => {
                    if error == ErrorCode::InconsistentVoterSet {
                        let (id, epoch) = (asked.leader_id, asked.leader_epoch);
                        server.strangers.tell(context.peer, id, epoch);
                    }
                    respond(server, context, request, (error, leader), out);
                    return Ok(Served::Answered);
                }
                Err(error) => error,
            }
        }
    };
    let response = BeginQuorumEpochResponse {
        error_code: refused.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is said, if it is about the metadata log.
fn epoch_request(message: &BeginQuorumEpochRequest<'_>) -> Option<EpochRequest> {
    let topic = only(message.topics.iter())?;
    let partition = only(topic.partitions.iter())?;
    if topic.topic_name != METADATA_TOPIC || partition.partition_index != 0 {
        return None;
    }
    Some(EpochRequest {
        voter: ReplicaKey {
            id: message.voter_id,
            directory_id: partition.voter_directory_id,
        },
        leader_id: partition.leader_id,
        leader_epoch: LeaderEpoch(partition.leader_epoch),
    })
}

fn respond(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    (error, leader): (ErrorCode, LeaderAndEpoch),
    out: &mut ResponseBuffer,
) {
    let partitions = vec![PartitionData {
        partition_index: 0,
        error_code: error.code(),
        leader_id: leader_id(leader),
        leader_epoch: leader.epoch.0,
    }];
    let topic = TopicData {
        topic_name: METADATA_TOPIC,
        partitions: (&partitions).into(),
    };
    let endpoint = leader_endpoint(server, context, leader);
    let endpoints = endpoint.iter().map(|(id, host, port)| NodeEndpoint {
        node_id: *id,
        host,
        port: *port,
    });
    let response = BeginQuorumEpochResponse {
        topics: vec![topic].into(),
        node_endpoints: endpoints.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
}
