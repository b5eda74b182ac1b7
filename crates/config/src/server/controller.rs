//! The controller quorum, its log, and the bond between brokers and controllers.

use crate::constraint::{host_and_port, quorum_voter};
use crate::typed::TypedValues;

/// A voter of a static quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumVoter {
    /// Its node id.
    pub id: i32,
    /// Its host.
    pub host: String,
    /// Port of its controller listener.
    pub port: u16,
}

/// How the quorum is found and timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumConfig {
    /// Voters of a static quorum; empty with a dynamic one.
    pub voters: Vec<QuorumVoter>,
    /// Where a dynamic quorum is found, as host and port.
    pub bootstrap_servers: Vec<(String, u16)>,
    /// Whether a controller outside the voters adds itself.
    pub auto_join_enable: bool,
    /// How long the leader gathers records.
    pub append_linger_ms: i32,
    /// Longest pause after a lost election.
    pub election_backoff_max_ms: i32,
    /// How long a candidate waits for votes.
    pub election_timeout_ms: i32,
    /// Bytes asked for in one fetch.
    pub fetch_max_bytes: i32,
    /// Bytes of a snapshot asked for in one fetch.
    pub fetch_snapshot_max_bytes: i32,
    /// Time without a successful fetch after which an election starts.
    pub fetch_timeout_ms: i32,
    /// How long an answer is waited for.
    pub request_timeout_ms: i32,
    /// Pause before a request is repeated.
    pub retry_backoff_ms: i32,
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
    /// Idle time after which a no-op record is written; none writes none.
    pub max_idle_interval_ms: Option<i32>,
    /// Largest batch.
    pub max_batch_size_bytes: i32,
    /// How long a deleted file stays on disk.
    pub delete_delay_ms: i64,
}

/// What binds a node to the quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerConfig {
    /// The quorum.
    pub quorum: QuorumConfig,
    /// Its log.
    pub metadata_log: MetadataLogConfig,
    /// Time between two heartbeats of a broker.
    pub broker_heartbeat_interval_ms: i32,
    /// Silence after which a broker is fenced.
    pub broker_session_timeout_ms: i32,
    /// How long a broker tries to register at start.
    pub initial_broker_registration_timeout_ms: i32,
    /// Time between two searches for partitions that may elect a leader uncleanly.
    pub unclean_leader_election_interval_ms: i64,
}

impl ControllerConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            quorum: quorum(values),
            metadata_log: metadata_log(values),
            broker_heartbeat_interval_ms: values.int("broker.heartbeat.interval.ms"),
            broker_session_timeout_ms: values.int("broker.session.timeout.ms"),
            initial_broker_registration_timeout_ms: values
                .int("initial.broker.registration.timeout.ms"),
            unclean_leader_election_interval_ms: values.long("unclean.leader.election.interval.ms"),
        }
    }
}

/// The voters of a static quorum. The constraint of the key has checked their form.
pub(super) fn voters(values: &TypedValues) -> Vec<QuorumVoter> {
    let texts = values.list("controller.quorum.voters").iter();
    texts
        .filter_map(|text| quorum_voter(text))
        .map(|(id, host, port)| QuorumVoter {
            id,
            host: host.to_owned(),
            port,
        })
        .collect()
}

fn quorum(values: &TypedValues) -> QuorumConfig {
    let servers = values.list("controller.quorum.bootstrap.servers").iter();
    QuorumConfig {
        voters: voters(values),
        bootstrap_servers: servers
            .filter_map(|text| host_and_port(text))
            .map(|(host, port)| (host.to_owned(), port))
            .collect(),
        auto_join_enable: values.boolean("controller.quorum.auto.join.enable"),
        append_linger_ms: values.int("controller.quorum.append.linger.ms"),
        election_backoff_max_ms: values.int("controller.quorum.election.backoff.max.ms"),
        election_timeout_ms: values.int("controller.quorum.election.timeout.ms"),
        fetch_max_bytes: values.int("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes: values.int("controller.quorum.fetch.snapshot.max.bytes"),
        fetch_timeout_ms: values.int("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms: values.int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms: values.int("controller.quorum.retry.backoff.ms"),
    }
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
        max_idle_interval_ms: Some(values.int("metadata.max.idle.interval.ms"))
            .filter(|interval_ms| *interval_ms > 0),
        max_batch_size_bytes: values.int("internal.metadata.max.batch.size.in.bytes"),
        delete_delay_ms: values.long("internal.metadata.delete.delay.millis"),
    }
}
