//! DescribeQuorum: v0–2. The controllers and how far each has come.
//!
//! - Version 1 has fetch times (KIP-836), version 2 directory ids and endpoints (KIP-853).
//! - The one question that has an answer is for partition 0 of the metadata log, alone.
//! - The one voter is this node; it has always caught up with itself. Observers are those that have fetched lately.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::metadata_log::{QuorumDescription, QuorumReplica};
use model::{DecodeError, ErrorCode};
use wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};

const METADATA_TOPIC: &str = "__cluster_metadata";

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeQuorumRequest<'_> = request.decode()?;
    let described = server.controller.describe_quorum().await;
    let of_quorum = |replicas: fn(&QuorumDescription) -> &[QuorumReplica]| {
        let described = described.as_ref();
        described.map_or_else(|_| Vec::new(), |quorum| states_of(replicas(quorum)))
    };
    let voters = of_quorum(|quorum| &quorum.voters);
    let observers = of_quorum(|quorum| &quorum.observers);
    let is_valid = is_metadata_partition(&message);
    let topics = message.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| match &described {
            Ok(quorum) if is_valid => metadata_partition(quorum, &voters, &observers),
            _ => unknown_partition(asked.partition_index),
        });
        TopicData {
            topic_name: topic.topic_name,
            partitions: partitions.collect(),
        }
    });
    let controllers = server
        .sockets
        .listeners
        .iter()
        .filter(|one| one.is_controller);
    let endpoints: Vec<_> = controllers
        .map(|one| (one.name.as_str(), one.advertised(one.address)))
        .collect();
    let listeners: Vec<Listener<'_>> = endpoints
        .iter()
        .map(|(name, (host, port))| Listener {
            name,
            host,
            port: *port,
        })
        .collect();
    let node = Node {
        node_id: server.node.id,
        listeners: (&listeners).into(),
    };
    let error = described.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let response = DescribeQuorumResponse {
        error_code: error.code(),
        error_message: Some(match error {
            ErrorCode::None => "",
            error => error.message(),
        }),
        topics: topics.collect(),
        nodes: if is_valid {
            vec![node].into()
        } else {
            Vec::new().into()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn is_metadata_partition(message: &DescribeQuorumRequest<'_>) -> bool {
    let mut asked = message.topics.iter().map(|topic| {
        let mut partitions = topic.partitions.iter().map(|one| one.partition_index);
        (topic.topic_name, partitions.next(), partitions.next())
    });
    asked.next() == Some((METADATA_TOPIC, Some(0), None)) && asked.next().is_none()
}

fn states_of(replicas: &[QuorumReplica]) -> Vec<ReplicaState> {
    let replicas = replicas.iter();
    replicas
        .map(|replica| ReplicaState {
            replica_id: replica.id,
            replica_directory_id: replica.directory_id,
            log_end_offset: replica.log_end_offset.0,
            last_fetch_timestamp: replica.last_fetch_timestamp_ms,
            last_caught_up_timestamp: replica.last_caught_up_timestamp_ms,
        })
        .collect()
}

fn metadata_partition<'q>(
    quorum: &QuorumDescription,
    voters: &'q Vec<ReplicaState>,
    observers: &'q Vec<ReplicaState>,
) -> PartitionData<'q> {
    PartitionData {
        error_message: Some(""),
        leader_id: quorum.leader_id,
        leader_epoch: quorum.leader_epoch.0,
        high_watermark: quorum.high_watermark.0,
        current_voters: voters.into(),
        observers: observers.into(),
        ..Default::default()
    }
}

fn unknown_partition(partition_index: i32) -> PartitionData<'static> {
    let error = ErrorCode::UnknownTopicOrPartition;
    PartitionData {
        partition_index,
        error_code: error.code(),
        error_message: Some(error.message()),
        ..Default::default()
    }
}
