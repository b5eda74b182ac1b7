//! The controller of another node, as the rest of the broker asks it.
//!
//! ```text
//!   ControllerLink ── request ─┬─> ControllerChannel: producer ids, places of replicas, in-sync replicas, topics
//!                              └─> BrokerLifecycle: directories that have failed or are cordoned, by heartbeats
//! ```

use super::connections::Purpose;
use super::controller_channel::ControllerChannel;
use super::lifecycle::BrokerLifecycle;
use super::quorum_follower::QuorumFollower;
use crate::controller::link::{Later, RemoteController};
use controller::metadata_log::AppendMetadataError;
use controller::{ChangeDirectories, ControllerRequest, ControllerResponse};
use model::ErrorCode;

/// The controller of another node.
#[derive(Debug)]
pub(crate) struct ControllerOfQuorum {
    /// The way to it.
    pub(crate) channel: ControllerChannel,
    /// Whoever sends heartbeats to it.
    pub(crate) lifecycle: BrokerLifecycle,
    /// Whoever follows what it decides.
    pub(crate) follower: QuorumFollower,
}

impl RemoteController for ControllerOfQuorum {
    fn request(
        &self,
        request: ControllerRequest,
    ) -> Later<'_, Result<ControllerResponse, ErrorCode>> {
        Box::pin(self.decide(request))
    }

    fn close(&self) -> Later<'_, Result<Result<raft::Closed, AppendMetadataError>, ErrorCode>> {
        Box::pin(self.follower.close())
    }
}

impl ControllerOfQuorum {
    async fn decide(&self, request: ControllerRequest) -> Result<ControllerResponse, ErrorCode> {
        let channel = &self.channel;
        let deadline = channel.deadline(Purpose::Controller);
        Ok(match request {
            ControllerRequest::AllocateProducerIds(request) => {
                let answered = channel.allocate_producer_ids(&request, deadline).await;
                ControllerResponse::AllocateProducerIds(answered)
            }
            ControllerRequest::AlterPartition(request) => {
                let answered = channel.alter_partition(&request, deadline).await;
                ControllerResponse::AlterPartition(answered)
            }
            ControllerRequest::AssignReplicasToDirectories(request) => {
                let answered = channel.assign_replicas(&request, deadline).await;
                ControllerResponse::AssignReplicasToDirectories(answered)
            }
            ControllerRequest::CreateTopics(request) => {
                let answered = channel.create_topics(&request, deadline).await;
                ControllerResponse::CreateTopics(answered.map_err(|error| error.code)?)
            }
            ControllerRequest::ChangeDirectories(request) => {
                let ChangeDirectories {
                    offline, cordoned, ..
                } = request;
                self.lifecycle.tell_directories(offline, cordoned).await?;
                ControllerResponse::ChangeDirectories(Ok(()))
            }
            // What clients ask for is forwarded before anybody here decides.
            _ => return Err(ErrorCode::NotController),
        })
    }
}
