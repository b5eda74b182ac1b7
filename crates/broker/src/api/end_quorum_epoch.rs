//! EndQuorumEpoch: v0–1. A node says that it leads the quorum no longer: nobody has led but this one.
//!
//! - Version 1 has directory ids and endpoints (KIP-853), which are ignored: nobody is elected next.
//! - Another leader than this node is INCONSISTENT_VOTER_SET. Kafka's controller ends if the epoch is its own.

use super::quorum::{METADATA_TOPIC, asked, handle_epoch, only, quorum_response};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{BrokerId, DecodeError, LeaderEpoch, Uuid};
use raft::{EpochRequest, ReplicaKey};
use wire::messages::EndQuorumEpochRequest;

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: EndQuorumEpochRequest<'_> = request.decode()?;
    let said = asked(server, message.cluster_id, epoch_request(&message));
    let outcome = handle_epoch(server, context, said).await;
    quorum_response!(
        EndQuorumEpochResponse in end_quorum_epoch_response {},
        outcome,
        server,
        context,
        request,
        out
    );
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
