//! RemoveRaftVoter: v0. Refused: there is one voter, and it stays (KIP-853).
//!
//! - The last voter is VOTER_NOT_FOUND, as is one that is none: Kafka's answer to both.

use super::quorum::is_of_cluster;
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use raft::{ReplicaKey, VoterRefusal};
use wire::messages::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: RemoveRaftVoterRequest<'_> = request.decode()?;
    let voter = ReplicaKey {
        id: message.voter_id,
        directory_id: message.voter_directory_id,
    };
    let asking = server
        .controller
        .ask_quorum(move |replica| replica.handle_remove_voter(voter));
    let refused = match is_of_cluster(server, message.cluster_id) {
        true => unless_asked(asking.await),
        false => Err(foreign_cluster(server, message.cluster_id)),
    };
    let response = match &refused {
        Ok(()) => RemoveRaftVoterResponse::default(),
        Err(refusal) => RemoveRaftVoterResponse {
            error_code: refusal.error.code(),
            error_message: Some(&refusal.message),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The refusal of a request that is meant for another cluster, in Kafka's words.
pub(super) fn foreign_cluster(server: &ClusterNode, cluster_id: Option<&str>) -> VoterRefusal {
    let (asked, own) = (cluster_id.unwrap_or_default(), &server.node.cluster_id);
    VoterRefusal {
        error: ErrorCode::InconsistentClusterId,
        message: format!("The given id \"{asked}\" doesn't match the cluster id \"{own}\""),
    }
}

/// The controller's refusal, or that there is no controller.
pub(super) fn unless_asked(
    asked: Result<Result<(), VoterRefusal>, ErrorCode>,
) -> Result<(), VoterRefusal> {
    asked.unwrap_or_else(|error| {
        Err(VoterRefusal {
            error,
            message: error.message().to_owned(),
        })
    })
}
