//! BeginQuorumEpoch: v0–1. A node says that it leads the quorum: nobody does but this one.
//!
//! - Version 1 has directory ids and the leader's endpoints (KIP-853).
//! - A leader of a later epoch, or another one of this epoch, is INCONSISTENT_VOTER_SET: who votes here has
//!   elected nobody else. Kafka's controller follows it, and ends if the epoch is its own.

use super::quorum::{METADATA_TOPIC, asked, handle_epoch, only, quorum_response};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, LeaderEpoch};
use raft::{EpochRequest, ReplicaKey};
use wire::messages::BeginQuorumEpochRequest;

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: BeginQuorumEpochRequest<'_> = request.decode()?;
    let said = asked(server, message.cluster_id, epoch_request(&message));
    let outcome = handle_epoch(server, context, said).await;
    quorum_response!(
        BeginQuorumEpochResponse in begin_quorum_epoch_response {},
        outcome,
        server,
        context,
        request,
        out
    );
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
