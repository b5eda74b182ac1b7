//! What one node does of replication, and the window over which connections are counted.

use super::ServerConfigError;
use crate::typed::TypedValues;

const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// A quota is measured over `num` samples of `size_seconds` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaWindow {
    /// Samples.
    pub num: i32,
    /// Seconds of a sample.
    pub size_seconds: i32,
}

/// How replicas are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicationConfig {
    /// Time between two writes of the high-watermark checkpoint.
    pub high_watermark_checkpoint_interval_ms: i64,
    /// How late a follower may be and stay in sync.
    pub replica_lag_time_max_ms: i64,
    /// Whether consumers are told of a replica in their rack (KIP-392).
    pub is_rack_aware: bool,
    /// Window of client quotas, the rate of new connections among them.
    pub client_quota_window: QuotaWindow,
    /// Window of the quotas of replication.
    pub replication_quota_window: QuotaWindow,
    /// How this broker fetches from leaders.
    pub fetch: ReplicaFetchConfig,
}

/// How a broker fetches what others lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaFetchConfig {
    /// Fetchers of each leader.
    pub fetcher_count: i32,
    /// How long a leader or a partition is left alone after an error.
    pub backoff_ms: i32,
    /// The most bytes of a partition, but for a single batch that is larger.
    pub max_bytes: i32,
    /// The least bytes that are worth an answer.
    pub min_bytes: i32,
    /// The most bytes of an answer, but for a single batch that is larger.
    pub response_max_bytes: i32,
    /// How long a leader may wait for the least bytes.
    pub wait_max_ms: i32,
}

impl ReplicaFetchConfig {
    fn of_values(values: &TypedValues) -> Self {
        Self {
            fetcher_count: values.int("num.replica.fetchers"),
            backoff_ms: values.int("replica.fetch.backoff.ms"),
            max_bytes: values.int("replica.fetch.max.bytes"),
            min_bytes: values.int("replica.fetch.min.bytes"),
            response_max_bytes: values.int("replica.fetch.response.max.bytes"),
            wait_max_ms: values.int("replica.fetch.wait.max.ms"),
        }
    }
}

impl ReplicationConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            high_watermark_checkpoint_interval_ms: values
                .long("replica.high.watermark.checkpoint.interval.ms"),
            replica_lag_time_max_ms: values.long("replica.lag.time.max.ms"),
            is_rack_aware: values.text("replica.selector.class") == Some(RACK_AWARE_SELECTOR),
            client_quota_window: QuotaWindow {
                num: values.int("quota.window.num"),
                size_seconds: values.int("quota.window.size.seconds"),
            },
            replication_quota_window: QuotaWindow {
                num: values.int("replication.quota.window.num"),
                size_seconds: values.int("replication.quota.window.size.seconds"),
            },
            fetch: ReplicaFetchConfig::of_values(values),
        }
    }
}

/// Only Kafka's own selectors stand for something.
pub(super) fn check_selector(values: &TypedValues) -> Result<(), ServerConfigError> {
    match values.text("replica.selector.class") {
        None
        | Some("" | "org.apache.kafka.common.replica.LeaderSelector" | RACK_AWARE_SELECTOR) => {
            Ok(())
        }
        Some(class) => Err(ServerConfigError::Rule(format!(
            "`replica.selector.class` is `{class}`, but only \
             org.apache.kafka.common.replica.LeaderSelector and \
             org.apache.kafka.common.replica.RackAwareReplicaSelector exist here"
        ))),
    }
}
