//! CreatePartitions: v0–3. Topics get more partitions (KIP-195).
//!
//! - The records that there are stay where they are; keys of new ones may go elsewhere.
//! - A client has its answer when the partitions can be used; a `TimeoutMs`
//!   below 1 is over before it begins, others are ignored.

use super::{Request, Served, has_single, limit_of};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::create_partitions::GrowingTopic;
use controller::{ApiError, CreatePartitions, TopicResult};
use model::{DecodeError, ErrorCode};
use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: CreatePartitionsRequest<'_> = request.decode()?;
    let topics: Vec<GrowingTopic> = message
        .topics
        .iter()
        .map(|topic| GrowingTopic {
            name: topic.name.to_owned(),
            count: topic.count,
            assignments: topic.assignments.as_ref().map(|assignments| {
                assignments
                    .iter()
                    .map(|one| one.broker_ids.iter().collect())
                    .collect()
            }),
        })
        .collect();
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    // What only repeats names needs no decision, hence no time.
    let timeout_ms = match has_single(names.iter()) {
        true => message.timeout_ms,
        false => i32::MAX,
    };
    let create = CreatePartitions {
        topics,
        validate_only: message.validate_only,
    };
    let decided = server.controller.request_within(timeout_ms, create).await;
    if let (Ok(_), Some(logs)) = (&decided, &server.logs) {
        let image = server.node.image();
        let ids = names.iter().filter_map(|name| image.topics.id_of(name));
        let ids: Vec<_> = ids.collect();
        let new_partitions = &logs.new_partitions;
        new_partitions.wait_for(&ids, limit_of(timeout_ms)).await;
    }
    let results = decided.unwrap_or_else(|error| {
        let failed = |name| TopicResult {
            name,
            result: Err(ApiError::undecided(error)),
        };
        names.into_iter().map(failed).collect()
    });
    let results = results.iter().map(|topic| CreatePartitionsTopicResult {
        name: &topic.name,
        error_code: topic
            .result
            .as_ref()
            .map_or_else(|e| e.code, |()| ErrorCode::None)
            .code(),
        error_message: topic
            .result
            .as_ref()
            .err()
            .and_then(|error| error.message.as_deref()),
    });
    let response = CreatePartitionsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
