//! UpdateRaftVoter: v0. A voter tells where it is reached: there is none but this node (KIP-853).
//!
//! - The answer names the leader whatever the error is, as Kafka's does.

use super::quorum::{is_of_cluster, leader_endpoint, leader_id};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use ::metadata::VersionRange;
use model::{DecodeError, ErrorCode, LeaderEpoch};
use raft::{ReplicaKey, UpdateVoterRequest};
use wire::messages::update_raft_voter_response::CurrentLeader;
use wire::messages::{UpdateRaftVoterRequest, UpdateRaftVoterResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: UpdateRaftVoterRequest<'_> = request.decode()?;
    let is_here = is_of_cluster(server, message.cluster_id);
    let voter = ReplicaKey {
        id: message.voter_id,
        directory_id: message.voter_directory_id,
    };
    let leader_epoch = LeaderEpoch(message.current_leader_epoch);
    let kraft_version = VersionRange {
        min: message.kraft_version_feature.min_supported_version,
        max: message.kraft_version_feature.max_supported_version,
    };
    let listeners = message.listeners.iter().map(|one| one.name.to_owned());
    let listeners: Vec<String> = listeners.collect();
    let asking = server.controller.ask_quorum(move |replica| {
        let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
        let error = match is_here {
            true => replica.handle_update_voter(&UpdateVoterRequest {
                leader_epoch,
                voter,
                listeners: &listeners,
                kraft_version,
            }),
            false => ErrorCode::InconsistentClusterId,
        };
        (error, replica.leader_and_epoch())
    });
    let (error, leader) = match asking.await {
        Ok((error, leader)) => (error, Some(leader)),
        Err(error) => (error, None),
    };
    let endpoint = leader.and_then(|leader| leader_endpoint(server, context, leader));
    let current_leader = match (leader, &endpoint) {
        (Some(leader), Some((_, host, port))) => CurrentLeader {
            leader_id: leader_id(leader),
            leader_epoch: leader.epoch.0,
            host,
            port: i32::from(*port),
        },
        _ => CurrentLeader::default(),
    };
    let response = UpdateRaftVoterResponse {
        error_code: error.code(),
        current_leader,
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
