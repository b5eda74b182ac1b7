//! AssignReplicasToDirs: v0. A broker tells in which log directories its replicas are (KIP-858).

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::AssignReplicasToDirectories;
use controller::directories::DirectoryAssignment;
use model::{DecodeError, ErrorCode};
use wire::messages::assign_replicas_to_dirs_response::{DirectoryData, PartitionData, TopicData};
use wire::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AssignReplicasToDirsRequest<'_> = request.decode()?;
    match assign(server, &message).await {
        Ok(results) => respond(request, &message, &results, out),
        Err(error) => {
            let response = AssignReplicasToDirsResponse {
                error_code: error.code(),
                ..Default::default()
            };
            request.answer(&response, out);
        }
    }
    Ok(Served::Answered)
}

/// What becomes of each replica, in the order of the request.
async fn assign(
    server: &ClusterNode,
    message: &AssignReplicasToDirsRequest<'_>,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    let mut assignments = Vec::new();
    for directory in message.directories.iter() {
        for topic in directory.topics.iter() {
            let partitions = topic.partitions.iter();
            assignments.extend(partitions.map(|partition| DirectoryAssignment {
                directory: directory.id,
                topic_id: topic.topic_id,
                partition_id: partition.partition_index,
            }));
        }
    }
    let assign = AssignReplicasToDirectories {
        broker_id: message.broker_id,
        broker_epoch: message.broker_epoch,
        assignments,
    };
    let results = server.controller.request(assign).await?;
    results.map_err(|error| error.code)
}

fn respond(
    request: &Request<'_>,
    message: &AssignReplicasToDirsRequest<'_>,
    results: &[ErrorCode],
    out: &mut ResponseBuffer,
) {
    let mut results = results.iter();
    let mut result = || results.next().map_or(0, |error| error.code());
    let mut directories = Vec::new();
    for directory in message.directories.iter() {
        let mut topics = Vec::new();
        for topic in directory.topics.iter() {
            let partitions = topic.partitions.iter().map(|partition| PartitionData {
                partition_index: partition.partition_index,
                error_code: result(),
            });
            topics.push(TopicData {
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
            });
        }
        directories.push(DirectoryData {
            id: directory.id,
            topics: topics.into(),
        });
    }
    let response = AssignReplicasToDirsResponse {
        directories: directories.into(),
        ..Default::default()
    };
    request.answer(&response, out);
}
