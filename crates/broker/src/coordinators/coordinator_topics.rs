//! The topics that coordinators keep their state in: made when somebody first asks for a coordinator.

use crate::coordinators::Coordinators;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::coordinators::transactions::TRANSACTION_TOPIC;
use crate::scheduling::log_rate_limit::LogRateLimit;
use controller::ApiError;
use model::ErrorCode;

/// Lines about topics that cannot be made.
#[derive(Debug)]
pub(crate) struct UnmadeTopics {
    offsets: LogRateLimit,
    transactions: LogRateLimit,
}

impl Default for UnmadeTopics {
    fn default() -> Self {
        Self {
            offsets: LogRateLimit::once_a_minute(),
            transactions: LogRateLimit::once_a_minute(),
        }
    }
}

impl Coordinators {
    /// Makes a topic that a coordinator keeps its state in when it is missing.
    ///
    /// # Errors
    /// That it cannot be made, or that it was made just now; clients should ask again.
    pub(crate) async fn ensure_coordinator_topic(&self, name: &str) -> Result<(), ErrorCode> {
        if self.node.image().topics.by_name(name).is_some() {
            return Ok(());
        }
        let outcomes = self.logs.create_missing_topics(&[name]).await;
        if let Some(error) = outcomes.into_iter().find_map(Result::err) {
            let lines = match name {
                TRANSACTION_TOPIC => &self.unmade_topics.transactions,
                _ => &self.unmade_topics.offsets,
            };
            if let Some(not_logged) = lines.due() {
                tracing::warn!(topic = name, %error, not_logged, "{}", consequence(name, &error));
            }
        }
        Err(ErrorCode::CoordinatorNotAvailable)
    }
}

/// What does not work, and what to change.
fn consequence(topic: &str, error: &ApiError) -> String {
    let (what, key) = match topic {
        OFFSETS_TOPIC => ("consumer groups do", "offsets.topic.replication.factor"),
        TRANSACTION_TOPIC => (
            "transactions do",
            "transaction.state.log.replication.factor",
        ),
        _ => return "the topic cannot be created".to_owned(),
    };
    let advice = match error.code {
        ErrorCode::InvalidReplicationFactor => {
            format!(": set `{key}` to at most the number of brokers, and start the server again")
        }
        _ => String::new(),
    };
    format!("the topic cannot be created, so {what} not work{advice}")
}
