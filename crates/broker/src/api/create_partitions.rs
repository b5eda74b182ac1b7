//! CreatePartitions: v0–3. Topics get more partitions (KIP-195).
//!
//! - The records that there are stay where they are; keys of new ones may go elsewhere.
//! - A client has its answer when the partitions can be used; a `TimeoutMs`
//!   below 1 is over before it begins, others are ignored.

use super::{Request, Served, has_single};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::create_partitions::{GrowingTopic, create_partitions};
use controller::{ApiError, TopicResult};
use model::{DecodeError, ErrorCode};
use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

pub(crate) async fn serve(
    broker: &Broker,
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
    let validate_only = message.validate_only;
    let decided = broker
        .controller
        .decide_within(timeout_ms, move |image, _, random| {
            create_partitions(image, &topics, validate_only, random)
        });
    let results = decided.await.unwrap_or_else(|error| {
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
