//! DeleteTopics: v1–6. Topics go, with their records, by name or (version 6) by id.
//!
//! - Version 5 has a message with each error.
//! - The records are gone for clients at once, and on disk after `file.delete.delay.ms`.

use super::{Request, Served, has_single};
use crate::api::cluster_node::ClusterNode;
use crate::api::error_codes::topic_deletion;
use crate::net::ResponseBuffer;
use controller::delete_topics::{DeletedTopic, TopicToDelete};
use controller::{ApiError, DeleteTopics};
use model::DecodeError;
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DeleteTopicsRequest<'_> = request.decode()?;
    let topics: Vec<TopicToDelete> = match request.version {
        6.. => message
            .topics
            .iter()
            .map(|topic| TopicToDelete {
                name: topic.name.map(str::to_owned),
                topic_id: topic.topic_id,
            })
            .collect(),
        _ => message
            .topic_names
            .iter()
            .map(TopicToDelete::by_name)
            .collect(),
    };
    let asked = topics.clone();
    // What cannot name a topic needs no decision, hence no time.
    let names = topics
        .iter()
        .filter(|topic| topic.name.is_some() == topic.topic_id.is_zero());
    let timeout_ms = match has_single(names.map(|topic| (&topic.name, topic.topic_id))) {
        true => message.timeout_ms,
        false => i32::MAX,
    };
    let decided = server
        .controller
        .request_within(timeout_ms, DeleteTopics { topics });
    let results = decided.await.unwrap_or_else(|error| {
        let failed = |topic: TopicToDelete| DeletedTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            result: Err(ApiError::undecided(error)),
        };
        asked.into_iter().map(failed).collect()
    });
    let responses = results.iter().map(|topic| DeletableTopicResult {
        name: match &topic.name {
            Some(name) => Some(name),
            None => (request.version < 6).then_some(""),
        },
        topic_id: topic.topic_id,
        error_code: topic_deletion(request.version, &topic.result).code(),
        error_message: topic
            .result
            .as_ref()
            .err()
            .and_then(|error| error.message.as_deref()),
    });
    let response = DeleteTopicsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
