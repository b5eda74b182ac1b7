//! ListPartitionReassignments: v0. The reassignments under way (KIP-455).
//!
//! - Partitions that are not reassigned, or not there, are left out without an error.
//! - The broker's image is as new as any: `TimeoutMs` is ignored.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::reassign_partitions::{OngoingReassignments, list_reassignments};
use model::DecodeError;
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

pub(crate) fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListPartitionReassignmentsRequest<'_> = request.decode()?;
    let topics: Option<Vec<(&str, Vec<i32>)>> = message.topics.as_ref().map(|topics| {
        let topics = topics.iter();
        topics
            .map(|topic| (topic.name, topic.partition_indexes.iter().collect()))
            .collect()
    });
    let ongoing = list_reassignments(&server.node.image(), topics.as_deref());
    let response = ListPartitionReassignmentsResponse {
        error_message: None,
        topics: ongoing.iter().map(topic_of).collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn topic_of(ongoing: &OngoingReassignments) -> OngoingTopicReassignment<'_> {
    let partitions = ongoing.partitions.iter();
    OngoingTopicReassignment {
        name: &ongoing.topic,
        partitions: partitions
            .map(|(id, partition)| OngoingPartitionReassignment {
                partition_index: *id,
                replicas: partition.replicas.iter().copied().collect(),
                adding_replicas: partition.adding_replicas.iter().copied().collect(),
                removing_replicas: partition.removing_replicas.iter().copied().collect(),
            })
            .collect(),
    }
}
