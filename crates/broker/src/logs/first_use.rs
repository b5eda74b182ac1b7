//! Topics that are made because somebody uses them.

use crate::logs::Logs;
use controller::create_topics::{CreatedTopic, NewTopic};
use controller::internal_topics::topic_for_first_use;
use controller::{ApiError, CreateTopics, TopicResult};
use model::ErrorCode;
use std::time::Duration;

/// As many topics are made in one decision because somebody uses them; each decision is a sync.
const USED_TOPICS_MAX: usize = 500;

/// As many partitions they have at most, but for one topic by itself: far fewer than a request may.
const USED_PARTITIONS_MAX: usize = 5_000;

impl Logs {
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
    pub(crate) async fn wait_for_new(
        &self,
        results: &[TopicResult<CreatedTopic>],
        limit: Duration,
    ) {
        let created = results
            .iter()
            .filter_map(|topic| topic.result.as_ref().ok());
        let ids: Vec<_> = created.map(|topic| topic.topic_id).collect();
        self.new_partitions.wait_for(&ids, limit).await;
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
