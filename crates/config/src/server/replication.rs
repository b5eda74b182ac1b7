//! Followers, leaders, and the windows over which quotas are measured.

use super::ServerConfigError;
use crate::typed::TypedValues;

/// Which replica a consumer reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaSelector {
    /// The leader.
    Leader,
    /// A caught-up replica in the consumer's rack, or else the leader.
    RackAware,
}

/// A quota is measured over `num` samples of `size_seconds` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaWindow {
    /// Samples.
    pub num: i32,
    /// Seconds of a sample.
    pub size_seconds: i32,
}

/// How replicas follow their leader, and how leadership is balanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicationConfig {
    /// Whether leadership returns to preferred replicas.
    pub auto_leader_rebalance_enable: bool,
    /// Whether partitions are handed over before the broker stops.
    pub controlled_shutdown_enable: bool,
    /// Pause of a partition after an error.
    pub fetch_backoff_ms: i32,
    /// Bytes asked for from each partition.
    pub fetch_max_bytes: i32,
    /// Bytes a leader gathers before it answers.
    pub fetch_min_bytes: i32,
    /// Bytes asked for in one answer.
    pub fetch_response_max_bytes: i32,
    /// How long a leader may hold back an answer.
    pub fetch_wait_max_ms: i32,
    /// Time between two writes of the high-watermark checkpoint.
    pub high_watermark_checkpoint_interval_ms: i64,
    /// Silence after which a follower leaves the in-sync replicas.
    pub lag_time_max_ms: i64,
    /// Seconds between two searches for leaders that are not preferred.
    pub leader_imbalance_check_interval_seconds: i64,
    /// Fetchers for each leader's broker.
    pub num_replica_fetchers: i32,
    /// Which replica a consumer reads from.
    pub selector: ReplicaSelector,
    /// Receive buffer of replication's sockets.
    pub socket_receive_buffer_bytes: i32,
    /// Timeout of replication's sockets.
    pub socket_timeout_ms: i32,
    /// Window of client quotas.
    pub client_quota_window: QuotaWindow,
    /// Window of replication quotas.
    pub replication_quota_window: QuotaWindow,
    /// Window of the quota on moves between directories.
    pub alter_log_dirs_quota_window: QuotaWindow,
    /// Window of the quota on topic changes.
    pub controller_quota_window: QuotaWindow,
}

impl ReplicationConfig {
    pub(super) fn of_values(values: &TypedValues, errors: &mut Vec<ServerConfigError>) -> Self {
        let selector = selector(values).unwrap_or_else(|error| {
            errors.push(error);
            ReplicaSelector::Leader
        });
        let window = |prefix: &str| QuotaWindow {
            num: values.int(&format!("{prefix}quota.window.num")),
            size_seconds: values.int(&format!("{prefix}quota.window.size.seconds")),
        };
        Self {
            auto_leader_rebalance_enable: values.boolean("auto.leader.rebalance.enable"),
            controlled_shutdown_enable: values.boolean("controlled.shutdown.enable"),
            fetch_backoff_ms: values.int("replica.fetch.backoff.ms"),
            fetch_max_bytes: values.int("replica.fetch.max.bytes"),
            fetch_min_bytes: values.int("replica.fetch.min.bytes"),
            fetch_response_max_bytes: values.int("replica.fetch.response.max.bytes"),
            fetch_wait_max_ms: values.int("replica.fetch.wait.max.ms"),
            high_watermark_checkpoint_interval_ms: values
                .long("replica.high.watermark.checkpoint.interval.ms"),
            lag_time_max_ms: values.long("replica.lag.time.max.ms"),
            leader_imbalance_check_interval_seconds: values
                .long("leader.imbalance.check.interval.seconds"),
            num_replica_fetchers: values.int("num.replica.fetchers"),
            selector,
            socket_receive_buffer_bytes: values.int("replica.socket.receive.buffer.bytes"),
            socket_timeout_ms: values.int("replica.socket.timeout.ms"),
            client_quota_window: window(""),
            replication_quota_window: window("replication."),
            alter_log_dirs_quota_window: window("alter.log.dirs.replication."),
            controller_quota_window: window("controller."),
        }
    }
}

fn selector(values: &TypedValues) -> Result<ReplicaSelector, ServerConfigError> {
    match values.text("replica.selector.class") {
        None | Some("" | "org.apache.kafka.common.replica.LeaderSelector") => {
            Ok(ReplicaSelector::Leader)
        }
        Some("org.apache.kafka.common.replica.RackAwareReplicaSelector") => {
            Ok(ReplicaSelector::RackAware)
        }
        Some(class) => Err(ServerConfigError::Rule(format!(
            "`replica.selector.class` is `{class}`, but only \
             org.apache.kafka.common.replica.LeaderSelector and \
             org.apache.kafka.common.replica.RackAwareReplicaSelector exist here"
        ))),
    }
}
