//! EndQuorumEpoch: v0–1. A node says that it leads the quorum no longer: nobody has led but this one.
//!
//! - Version 1 has directory ids and endpoints (KIP-853), which are ignored: nobody is elected next.
//! - Another leader than this node is INCONSISTENT_VOTER_SET. Kafka's controller ends if the epoch is its own.

use super::quorum::{METADATA_TOPIC, is_of_cluster, leader_endpoint, leader_id, only};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{BrokerId, DecodeError, ErrorCode, LeaderEpoch, Uuid};
use raft::{EpochRequest, LeaderAndEpoch, ReplicaKey};
use wire::messages::end_quorum_epoch_response::{NodeEndpoint, PartitionData, TopicData};
use wire::messages::{EndQuorumEpochRequest, EndQuorumEpochResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: EndQuorumEpochRequest<'_> = request.decode()?;
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
    let response = EndQuorumEpochResponse {
        error_code: refused.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is said, if it is about the metadata log.
fn epoch_request(message: &EndQuorumEpochRequest<'_>) -> Option<EpochRequest> {
    let topic = only(message.topics.iter())?;
    let partition = only(topic.partitions.iter())?;
    if topic.topic_name != METADATA_TOPIC || partition.partition_index != 0 {
        return None;
    }
    Some(EpochRequest {
        // It does not say.
        voter: ReplicaKey {
            id: BrokerId::NONE,
            directory_id: Uuid::ZERO,
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
    let response = EndQuorumEpochResponse {
        topics: vec![topic].into(),
        node_endpoints: endpoints.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
}
