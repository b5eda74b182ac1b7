//! AlterPartitionReassignments: v0–1. Replicas move to other brokers (KIP-455).
//!
//! - Of several words for one partition the last one counts that is not refused and changes something.
//! - Partitions without replicas have their ongoing reassignment taken back.
//! - Version 1 can insist on as many replicas as there are (KIP-860).
//! - A request without topics has the schema's defaults as its answer, an empty message included.
//! - A client has its answer when the reassignment is under way; a `TimeoutMs`
//!   below 1 is over before it begins, others are ignored.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::reassign_partitions::TopicReassignment;
use controller::{AlterPartitionReassignments, ApiError, PartitionResults, WordsOfAnswer};
use model::{DecodeError, ErrorCode};
use wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterPartitionReassignmentsRequest<'_> = request.decode()?;
    if message.topics.is_empty() {
        request.answer(&AlterPartitionReassignmentsResponse::default(), out);
        return Ok(Served::Answered);
    }
    let allows_other_counts = message.allow_replication_factor_change;
    let topics: Vec<TopicReassignment> = message
        .topics
        .iter()
        .map(|topic| TopicReassignment {
            topic: topic.name.to_owned(),
            partitions: topic
                .partitions
                .iter()
                .map(|one| {
                    let replicas = one.replicas.as_ref();
                    (
                        one.partition_index,
                        replicas.map(|ids| ids.iter().collect()),
                    )
                })
                .collect(),
        })
        .collect();
    let asked = topics.clone();
    let timeout_ms = message.timeout_ms;
    let reassign = AlterPartitionReassignments {
        topics,
        allows_other_counts,
    };
    let decided = server.controller.request_within(timeout_ms, reassign);
    match decided.await {
        Ok(results) => {
            let response = AlterPartitionReassignmentsResponse {
                allow_replication_factor_change: allows_other_counts,
                error_message: None,
                responses: results.iter().map(response_of).collect(),
                ..Default::default()
            };
            request.answer(&response, out);
        }
        Err(error) => {
            let error = ApiError::undecided(error);
            let mut words = WordsOfAnswer::default();
            let results = asked.into_iter();
            let results: Vec<_> = results
                .map(|one| refused(one, &error, &mut words))
                .collect();
            let response = AlterPartitionReassignmentsResponse {
                error_code: error.code.code(),
                error_message: error.message.as_deref(),
                responses: results.iter().map(response_of).collect(),
                ..Default::default()
            };
            request.answer(&response, out);
        }
    }
    Ok(Served::Answered)
}

/// The error of the whole request, for each partition.
fn refused(
    asked: TopicReassignment,
    error: &ApiError,
    words: &mut WordsOfAnswer,
) -> PartitionResults {
    let partitions = asked.partitions.into_iter();
    PartitionResults {
        topic: asked.topic,
        partitions: partitions
            .map(|(id, _)| (id, Err(words.keep(error.clone()))))
            .collect(),
    }
}

fn response_of(results: &PartitionResults) -> ReassignableTopicResponse<'_> {
    let partitions = results.partitions.iter();
    ReassignableTopicResponse {
        name: &results.topic,
        partitions: partitions
            .map(|(id, result)| ReassignablePartitionResponse {
                partition_index: *id,
                error_code: result
                    .as_ref()
                    .map_or_else(|e| e.code, |()| ErrorCode::None)
                    .code(),
                error_message: result.as_ref().err().and_then(|e| e.message.as_deref()),
            })
            .collect(),
    }
}
