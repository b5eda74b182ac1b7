//! CreateTopics: v2–7. New topics, decided by the controller.
//!
//! - Version 4 lets counts be left to the broker (-1), version 5 answers with the configuration,
//!   version 7 with the topic's id.
//! - A client has its answer when the topics can be used; a `timeoutMs`
//!   below 1 is over before it begins, others are ignored.

use super::{Request, Served, has_single, limit_of};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::create_topics::{CreatedTopic, NewTopic, PartitionAssignment};
use controller::internal_topics::topic_for_first_use;
use controller::{ApiError, CreateTopics, TopicResult};
use model::{DecodeError, ErrorCode};
use std::time::Duration;
use wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

pub(crate) async fn serve(
    broker: &Broker,
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
    let decided = broker.controller.request_within(timeout_ms, create).await;
    if let Ok(results) = &decided {
        broker.wait_for_new(results, limit_of(timeout_ms)).await;
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

/// As many topics are made in one decision because somebody uses them; each decision is a sync.
const USED_TOPICS_MAX: usize = 500;

/// As many partitions they have at most, but for one topic by itself: far fewer than a request may.
const USED_PARTITIONS_MAX: usize = 5_000;

impl Broker {
    /// Makes topics because somebody uses them, with the broker's defaults or, for internal topics,
    /// their own. A topic that is there already is no error.
    pub(crate) async fn create_missing_topics(&self, names: &[&str]) -> Vec<Result<(), ApiError>> {
        let partition_count = self.node.config.topics.num_partitions.max(1).unsigned_abs() as usize;
        let count = (USED_PARTITIONS_MAX / partition_count).clamp(1, USED_TOPICS_MAX);
        let mut outcomes = Vec::with_capacity(names.len());
        for names in names.chunks(count) {
            let topics: Vec<NewTopic> = names
                .iter()
                .map(|name| topic_for_first_use(name, &self.node.config))
                .collect();
            let create = CreateTopics {
                topics,
                validate_only: false,
            };
            match self.controller.request(create).await {
                Ok(results) => {
                    self.wait_for_new(&results, Duration::MAX).await;
                    outcomes.extend(names.iter().map(|name| created(name, &results)));
                }
                Err(code) => outcomes.extend(names.iter().map(|_| Err(ApiError::bare(code)))),
            }
        }
        outcomes
    }

    /// Waits until topics that have been created can be used, or are known not to be for now.
    async fn wait_for_new(&self, results: &[TopicResult<CreatedTopic>], limit: Duration) {
        let created = results
            .iter()
            .filter_map(|topic| topic.result.as_ref().ok());
        let ids: Vec<_> = created.map(|topic| topic.topic_id).collect();
        self.logs.creations.wait_for(&ids, limit).await;
    }
}

/// What became of one of the topics that were to be made.
fn created(name: &str, results: &[TopicResult<CreatedTopic>]) -> Result<(), ApiError> {
    let found = results.iter().find(|topic| topic.name == name);
    match found.map(|topic| &topic.result) {
        Some(Err(error)) if error.code != ErrorCode::TopicAlreadyExists => {
            // As often as a client likes to ask, who is told.
            tracing::debug!(topic = name, %error, "the topic cannot be created");
            Err(error.clone())
        }
        _ => Ok(()),
    }
}
