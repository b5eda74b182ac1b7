//! CreateTopics: v2–7. New topics, decided by the controller.
//!
//! - Version 4 lets counts be left to the broker (-1), version 5 answers with the configuration,
//!   version 7 with the topic's id.
//! - A client has its answer when the topics can be used; a `timeoutMs`
//!   below 1 is over before it begins, others are ignored.

use super::{Request, Served, has_single, limit_of};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::create_topics::{CreatedTopic, NewTopic, PartitionAssignment};
use controller::{ApiError, CreateTopics, TopicResult};
use model::{DecodeError, ErrorCode};
use wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: CreateTopicsRequest<'_> = request.decode()?;
    let topics: Vec<NewTopic> = message
        .topics
        .iter()
        .map(|topic| new_topic(&topic))
        .collect();
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    // What only repeats names needs no decision, hence no time.
    let timeout_ms = match has_single(names.iter()) {
        true => message.timeout_ms,
        false => i32::MAX,
    };
    let create = CreateTopics {
        topics,
        validate_only: message.validate_only,
    };
    let decided = server.controller.request_within(timeout_ms, create).await;
    if let (Ok(results), Some(logs)) = (&decided, &server.logs) {
        logs.wait_for_new(results, limit_of(timeout_ms)).await;
    }
    let results = decided.unwrap_or_else(|error| {
        let failed = |name| TopicResult {
            name,
            result: Err(ApiError::undecided(error)),
        };
        names.into_iter().map(failed).collect()
    });
    let topics = results.iter().map(|topic| match &topic.result {
        Ok(created) => described(&topic.name, created),
        Err(error) => CreatableTopicResult {
            name: &topic.name,
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            configs: Some(Vec::new().into()),
            ..Default::default()
        },
    });
    let response = CreateTopicsResponse {
        topics: topics.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn new_topic(topic: &wire::messages::create_topics_request::CreatableTopic<'_>) -> NewTopic {
    let assignments = topic.assignments.iter().map(|one| PartitionAssignment {
        partition_index: one.partition_index,
        broker_ids: one.broker_ids.iter().collect(),
    });
    let configs = topic.configs.iter();
    NewTopic {
        name: topic.name.to_owned(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs
            .map(|one| (one.name.to_owned(), one.value.map(str::to_owned)))
            .collect(),
    }
}

fn described<'t>(name: &'t str, created: &'t CreatedTopic) -> CreatableTopicResult<'t> {
    let configs = created.configs.iter().map(|entry| CreatableTopicConfigs {
        name: &entry.name,
        value: entry.value.as_deref(),
        read_only: entry.read_only,
        config_source: entry.source.code(),
        is_sensitive: entry.sensitive,
    });
    CreatableTopicResult {
        name,
        topic_id: created.topic_id,
        error_code: ErrorCode::None.code(),
        error_message: None,
        topic_config_error_code: ErrorCode::None.code(),
        num_partitions: created.num_partitions,
        replication_factor: created.replication_factor,
        configs: Some(configs.collect()),
    }
}
