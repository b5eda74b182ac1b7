//! AddRaftVoter: v0–1. Refused: this node votes alone (KIP-853).
//!
//! - What Kafka's controller would refuse is refused in its words; a voter that could be added is
//!   UNSUPPORTED_VERSION, with a word of what to do.

use super::quorum::is_of_cluster;
use super::remove_raft_voter::{foreign_cluster, unless_asked};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use model::DecodeError;
use raft::ReplicaKey;
use wire::messages::{AddRaftVoterRequest, AddRaftVoterResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AddRaftVoterRequest<'_> = request.decode()?;
    let voter = ReplicaKey {
        id: message.voter_id,
        directory_id: message.voter_directory_id,
    };
    let listeners = message.listeners.iter().map(|one| one.name.to_owned());
    let listeners: Vec<String> = listeners.collect();
    let asking = server.controller.ask_quorum(move |replica| {
        let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
        replica.handle_add_voter(voter, &listeners)
    });
    let refused = match is_of_cluster(server, message.cluster_id) {
        true => unless_asked(asking.await),
        false => Err(foreign_cluster(server, message.cluster_id)),
    };
    let response = match &refused {
        Ok(()) => AddRaftVoterResponse::default(),
        Err(refusal) => AddRaftVoterResponse {
            error_code: refusal.error.code(),
            error_message: Some(&refusal.message),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
