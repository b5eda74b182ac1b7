//! What the APIs of the quorum share: which log and which cluster they are about, and where the leader is.

use crate::api::cluster_node::ClusterNode;
use crate::net::ConnectionContext;
use model::{BrokerId, Uuid};
use raft::{LeaderAndEpoch, ReplicaKey};
use storage::FileSlice;

/// The topic of the metadata log, which has one partition.
pub(super) const METADATA_TOPIC: &str = "__cluster_metadata";

/// Whether a request is meant for this cluster. Not all tell.
pub(super) fn is_of_cluster(server: &ClusterNode, cluster_id: Option<&str>) -> bool {
    cluster_id.is_none_or(|cluster_id| cluster_id == server.node.cluster_id)
}

/// The element, if there is one and no other.
pub(super) fn only<T>(mut elements: impl Iterator<Item = T>) -> Option<T> {
    let only = elements.next()?;
    elements.next().is_none().then_some(only)
}

/// The key of a replica, if it tells its id.
pub(super) fn replica_key(id: BrokerId, directory_id: Uuid) -> Option<ReplicaKey> {
    (!id.is_none()).then_some(ReplicaKey { id, directory_id })
}

/// Where a leader is reached, as far as this node knows: the leader's id, host and port.
pub(super) fn leader_endpoint(
    server: &ClusterNode,
    context: &ConnectionContext,
    leader: LeaderAndEpoch,
) -> Option<(BrokerId, String, u16)> {
    let id = leader.leader_id.filter(|id| *id == server.node.id)?;
    let (host, port) = context.advertised();
    Some((id, host, port))
}

/// The number that stands for a leader, known or not.
pub(super) fn leader_id(leader: LeaderAndEpoch) -> BrokerId {
    leader.leader_id.unwrap_or(BrokerId::NONE)
}

/// The bytes of a part of a file, read off the workers.
pub(super) async fn read(slice: FileSlice<std::fs::File>) -> std::io::Result<Vec<u8>> {
    let read = tokio::task::spawn_blocking(move || slice.to_vec());
    read.await.map_err(std::io::Error::other)?
}
