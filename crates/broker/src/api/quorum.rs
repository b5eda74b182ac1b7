//! What the APIs of the quorum share: which log and which cluster they are about, and where the leader is.

use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, FileRange, ResponseBuffer};
use model::{BrokerId, ErrorCode, Uuid};
use raft::{EpochRequest, LeaderAndEpoch, ReplicaKey};
use storage::FileSlice;

/// The topic of the metadata log, which has one partition.
pub(super) const METADATA_TOPIC: &str = "__cluster_metadata";

/// Whether a request is meant for this cluster. Not all tell.
pub(super) fn is_of_cluster(server: &ClusterNode, cluster_id: Option<&str>) -> bool {
    cluster_id.is_none_or(|cluster_id| cluster_id == server.node.cluster_id)
}

/// What is asked of the quorum, if it is meant for this cluster, and about the metadata log.
///
/// # Errors
/// That of the whole request.
pub(super) fn asked<T>(
    server: &ClusterNode,
    cluster_id: Option<&str>,
    of_metadata_log: Option<T>,
) -> Result<T, ErrorCode> {
    match is_of_cluster(server, cluster_id) {
        true => of_metadata_log.ok_or(ErrorCode::InvalidRequest),
        false => Err(ErrorCode::InconsistentClusterId),
    }
}

/// Answers a node that says that it leads, or no longer does: the error is that of the one partition.
///
/// # Errors
/// That of the whole request.
pub(super) async fn handle_epoch(
    server: &ClusterNode,
    context: &ConnectionContext,
    said: Result<EpochRequest, ErrorCode>,
) -> Result<(ErrorCode, LeaderAndEpoch), ErrorCode> {
    let said = said?;
    let asking = server
        .controller
        .ask_quorum(move |one| (one.handle_epoch(&said), one.leader_and_epoch()));
    let (error, leader) = asking.await?;
    if error == ErrorCode::InconsistentVoterSet {
        let (id, epoch) = (said.leader_id, said.leader_epoch);
        server.foreign_nodes.tell(context.peer, id, epoch);
    }
    Ok((error, leader))
}

/// A response with the error of the one partition and its leader, or with an error of the whole request: each API has
/// types of its own for it, with the same fields but for those of its partition that are given.
macro_rules! quorum_response {
    ($response:ident in $messages:ident { $($field:ident: $value:expr)? }, $outcome:expr,
     $server:expr, $context:expr, $request:expr, $out:expr) => {{
        use wire::messages::$messages::{NodeEndpoint, PartitionData, TopicData};
        let (partitions, endpoint);
        let mut response = wire::messages::$response::default();
        match $outcome {
            Ok((error, leader)) => {
                partitions = vec![PartitionData {
                    partition_index: 0,
                    error_code: error.code(),
                    leader_id: $crate::api::quorum::leader_id(leader),
                    leader_epoch: leader.epoch.0,
                    $($field: $value,)?
                }];
                let topic = TopicData {
                    topic_name: $crate::api::quorum::METADATA_TOPIC,
                    partitions: (&partitions).into(),
                };
                endpoint = $crate::api::quorum::leader_endpoint($server, $context, leader);
                let endpoints = endpoint.iter().map(|(id, host, port)| NodeEndpoint {
                    node_id: *id,
                    host,
                    port: *port,
                });
                response.topics = vec![topic].into();
                response.node_endpoints = endpoints.collect();
            }
            Err(error) => response.error_code = error.code(),
        }
        $request.answer(&response, $out);
    }};
}
pub(super) use quorum_response;

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

/// Appends a part of a file of the metadata log, which goes to the socket as it is: those to whom it is sent are as
/// many as ask, and none waits until others have read theirs. Returns how many bytes of it are not in the buffer
/// itself.
pub(super) fn push_slice(
    server: &ClusterNode,
    slice: FileSlice<std::fs::File>,
    out: &mut ResponseBuffer,
) -> usize {
    let disk = &server.metadata_disk;
    out.set_copied_max(server.sockets.answer_memory.copied_max_bytes());
    out.push_range(FileRange {
        file: slice.file,
        position: slice.position,
        length: slice.length,
        directory_index: disk.directory_index,
        disks: disk.disks.clone(),
    })
}
