//! Vote: v0–2. A node that wants to lead the quorum: never granted, as this node votes alone.
//!
//! - Version 1 has directory ids (KIP-853), version 2 pre-votes (KIP-996).
//! - Who names a later epoch is told who leads, and nothing changes; Kafka's controller follows it there and is
//!   elected again.

use super::quorum::{METADATA_TOPIC, asked, only, quorum_response};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset};
use raft::{LeaderAndEpoch, ReplicaKey};
use wire::messages::VoteRequest;

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: VoteRequest<'_> = request.decode()?;
    let vote = asked(server, message.cluster_id, vote_request(&message));
    let outcome = handle_vote(server, context, vote).await;
    quorum_response!(
        VoteResponse in vote_response { vote_granted: false },
        outcome,
        server,
        context,
        request,
        out
    );
    Ok(Served::Answered)
}

async fn handle_vote(
    server: &ClusterNode,
    context: &ConnectionContext,
    vote: Result<raft::VoteRequest, ErrorCode>,
) -> Result<(ErrorCode, LeaderAndEpoch), ErrorCode> {
    let vote = vote?;
    let asking = server
        .controller
        .ask_quorum(move |one| one.handle_vote(&vote));
    let answer = asking.await?;
    if vote.epoch > answer.leader.epoch {
        server
            .foreign_nodes
            .tell(context.peer, vote.candidate, vote.epoch);
    }
    Ok((answer.error, answer.leader))
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
        last_offset: Offset(partition.last_offset),
        is_pre_vote: partition.pre_vote,
    })
}
