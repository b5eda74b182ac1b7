//! The controller quorum and its log.

use crate::constraint::quorum_voter;
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
    /// How long the answer of another node of the quorum may take.
    pub request_timeout_ms: i32,
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

/// The quorum as this node is told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerConfig {
    /// What it does by itself when it is active.
    pub tasks: ControllerTasksConfig,
    /// The quorum.
    pub quorum: QuorumConfig,
    /// Its log.
    pub metadata_log: MetadataLogConfig,
}

impl ControllerConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            tasks: tasks(values),
            quorum: QuorumConfig {
                voters: voters(values),
                request_timeout_ms: values.int("controller.quorum.request.timeout.ms"),
            },
            metadata_log: metadata_log(values),
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
