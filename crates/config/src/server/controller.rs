//! The controller quorum and its log.

use crate::constraint::{host_and_port, quorum_voter};
use crate::typed::TypedValues;
use model::BrokerId;

/// A voter of a static quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumVoter {
    /// Its node id.
    pub id: BrokerId,
    /// Its host.
    pub host: String,
    /// Port of its controller listener.
    pub port: u16,
}

/// How the quorum is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumConfig {
    /// Voters of a static quorum; empty with a dynamic one.
    pub voters: Vec<QuorumVoter>,
    /// Hosts and ports at which the quorum is found.
    pub bootstrap_servers: Vec<(String, u16)>,
    /// How long the answer of another node of the quorum may take.
    pub request_timeout_ms: i32,
    /// How long the leader may be silent before others are asked who leads.
    pub fetch_timeout_ms: i32,
    /// The pause before a request is repeated that has failed.
    pub retry_backoff_ms: i32,
    /// Most bytes of the log in one answer; one batch may be larger.
    pub fetch_max_bytes: i32,
    /// Most bytes of a snapshot in one answer.
    pub fetch_snapshot_max_bytes: i32,
}

/// How the metadata log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataLogConfig {
    /// Bytes of records between two snapshots.
    pub max_record_bytes_between_snapshots: i64,
    /// Time between two snapshots; none leaves it to the bytes.
    pub max_snapshot_interval_ms: Option<i64>,
    /// Size at which a segment is closed.
    pub segment_bytes: i32,
    /// Age at which a segment is closed.
    pub segment_ms: i64,
    /// Size above which old snapshots and segments go; -1 for none.
    pub retention_bytes: i64,
    /// Age at which old snapshots and segments go; -1 for none.
    pub retention_ms: i64,
    /// Largest batch.
    pub max_batch_size_bytes: i32,
    /// How long a deleted file stays on disk.
    pub delete_delay_ms: i64,
}

/// What the active controller does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerTasksConfig {
    /// How long a broker may be silent before it is fenced.
    pub broker_session_timeout_ms: i64,
    /// Time after which an idle controller writes a no-op record; none if it writes none.
    pub max_idle_interval_ms: Option<i64>,
    /// Time between two searches for leaders that are not the preferred ones; none if nobody searches.
    pub leader_balance_interval_ms: Option<i64>,
    /// Time between two searches for partitions without a leader that may have an unclean one.
    pub unclean_election_interval_ms: i64,
}

/// How a broker lives with its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifecycleConfig {
    /// Time between two heartbeats.
    pub heartbeat_interval_ms: i32,
    /// How long the first registration may take.
    pub registration_timeout_ms: i32,
    /// How long the controller may not hear of a log directory that has failed.
    pub directory_failure_timeout_ms: i64,
    /// Whether the broker hands its leaderships over before it stops.
    pub controlled_shutdown_enable: bool,
}

/// The quorum as this node is told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerConfig {
    /// What it does by itself when it is active.
    pub tasks: ControllerTasksConfig,
    /// The quorum.
    pub quorum: QuorumConfig,
    /// Its log.
    pub metadata_log: MetadataLogConfig,
    /// What this node as a broker does towards its controller.
    pub lifecycle: LifecycleConfig,
}

impl ControllerConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            tasks: tasks(values),
            quorum: QuorumConfig {
                voters: voters(values),
                bootstrap_servers: bootstrap_servers(values),
                request_timeout_ms: values.int("controller.quorum.request.timeout.ms"),
                fetch_timeout_ms: values.int("controller.quorum.fetch.timeout.ms"),
                retry_backoff_ms: values.int("controller.quorum.retry.backoff.ms"),
                fetch_max_bytes: values.int("controller.quorum.fetch.max.bytes"),
                fetch_snapshot_max_bytes: values.int("controller.quorum.fetch.snapshot.max.bytes"),
            },
            metadata_log: metadata_log(values),
            lifecycle: LifecycleConfig {
                heartbeat_interval_ms: values.int("broker.heartbeat.interval.ms"),
                registration_timeout_ms: values.int("initial.broker.registration.timeout.ms"),
                directory_failure_timeout_ms: values.long("log.dir.failure.timeout.ms"),
                controlled_shutdown_enable: values.boolean("controlled.shutdown.enable"),
            },
        }
    }
}

fn tasks(values: &TypedValues) -> ControllerTasksConfig {
    let balances = values.boolean("auto.leader.rebalance.enable");
    let balance_interval_s = values.long("leader.imbalance.check.interval.seconds");
    ControllerTasksConfig {
        broker_session_timeout_ms: values.int("broker.session.timeout.ms").into(),
        max_idle_interval_ms: Some(values.int("metadata.max.idle.interval.ms").into())
            .filter(|interval_ms| *interval_ms > 0),
        leader_balance_interval_ms: balances.then(|| balance_interval_s.saturating_mul(1000)),
        unclean_election_interval_ms: values.long("unclean.leader.election.interval.ms"),
    }
}

/// The voters of a static quorum. The constraint of the key has checked their form.
pub(super) fn voters(values: &TypedValues) -> Vec<QuorumVoter> {
    let texts = values.list("controller.quorum.voters").iter();
    texts
        .filter_map(|text| quorum_voter(text))
        .map(|(id, host, port)| QuorumVoter {
            id: BrokerId(id),
            host: host.to_owned(),
            port,
        })
        .collect()
}

/// Where a dynamic quorum is found. The constraint of the key has checked their form.
fn bootstrap_servers(values: &TypedValues) -> Vec<(String, u16)> {
    let texts = values.list("controller.quorum.bootstrap.servers").iter();
    texts
        .filter_map(|text| host_and_port(text))
        .map(|(host, port)| (host.to_owned(), port))
        .collect()
}

fn metadata_log(values: &TypedValues) -> MetadataLogConfig {
    MetadataLogConfig {
        max_record_bytes_between_snapshots: values
            .long("metadata.log.max.record.bytes.between.snapshots"),
        max_snapshot_interval_ms: Some(values.long("metadata.log.max.snapshot.interval.ms"))
            .filter(|interval_ms| *interval_ms > 0),
        segment_bytes: values
            .int_or_null("internal.metadata.log.segment.bytes")
            .unwrap_or_else(|| values.int("metadata.log.segment.bytes")),
        segment_ms: values.long("metadata.log.segment.ms"),
        retention_bytes: values.long("metadata.max.retention.bytes"),
        retention_ms: values.long("metadata.max.retention.ms"),
        max_batch_size_bytes: values.int("internal.metadata.max.batch.size.in.bytes"),
        delete_delay_ms: values.long("internal.metadata.delete.delay.millis"),
    }
}
