//! Groups: classic, consumer, share and streams, their coordinators and committed offsets.

use super::ServerConfigError;
use super::transactions::InternalTopic;
use crate::typed::TypedValues;

/// A value that a group may set for itself, between bounds that the broker sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// The broker's own value, for groups without one.
    pub value: i32,
    /// Least value.
    pub min: i32,
    /// Greatest value.
    pub max: i32,
}

/// Group protocols that the coordinator speaks; the classic one always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebalanceProtocols {
    /// Groups of KIP-848.
    pub consumer: bool,
    /// Groups of KIP-932.
    pub share: bool,
    /// Groups of KIP-1071.
    pub streams: bool,
}

/// Which conversions between classic and consumer groups are allowed while they are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Neither way.
    Disabled,
    /// From consumer to classic.
    Downgrade,
    /// From classic to consumer.
    Upgrade,
    /// Both ways.
    Bidirectional,
}

/// Everything about groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// The group coordinator.
    pub coordinator: GroupCoordinatorConfig,
    /// Committed offsets.
    pub offsets: OffsetsConfig,
    /// Classic groups.
    pub classic: ClassicGroupConfig,
    /// Groups of the consumer protocol.
    pub consumer: ConsumerGroupConfig,
    /// Share groups.
    pub share: ShareGroupConfig,
    /// The share coordinator.
    pub share_coordinator: ShareCoordinatorConfig,
    /// Streams groups.
    pub streams: StreamsGroupConfig,
}

/// How the group coordinator works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCoordinatorConfig {
    /// Protocols it speaks.
    pub rebalance_protocols: RebalanceProtocols,
    /// How long it gathers writes; none adapts to the load.
    pub append_linger_ms: Option<i32>,
    /// Largest buffer it keeps.
    pub cached_buffer_max_bytes: i32,
    /// Its threads.
    pub threads: i32,
    /// Its threads for slower chores.
    pub background_threads: i32,
}

/// How committed offsets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetsConfig {
    /// The offsets topic.
    pub topic: InternalTopic,
    /// Bytes read at a time when it is loaded.
    pub load_buffer_size: i32,
    /// Longest metadata of a commit.
    pub metadata_max_bytes: i32,
    /// How long a commit may wait for replicas.
    pub commit_timeout_ms: i32,
    /// How long offsets of an empty group are kept.
    pub retention_minutes: i32,
    /// Time between two searches for expired offsets.
    pub retention_check_interval_ms: i64,
}

/// Limits of classic groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassicGroupConfig {
    /// Shortest session timeout.
    pub min_session_timeout_ms: i32,
    /// Longest session timeout.
    pub max_session_timeout_ms: i32,
    /// How long an empty group waits before its first rebalance.
    pub initial_rebalance_delay_ms: i32,
    /// Members.
    pub max_size: i32,
}

/// Values of groups of the consumer protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// Silence after which a member goes.
    pub session_timeout_ms: Bounded,
    /// Time between two heartbeats.
    pub heartbeat_interval_ms: Bounded,
    /// Least time between two assignments.
    pub assignment_interval_ms: Bounded,
    /// Members.
    pub max_size: i32,
    /// Names of the assignors on offer, the default first: `uniform`, `range`.
    pub assignors: Vec<&'static str>,
    /// Conversions allowed.
    pub migration_policy: MigrationPolicy,
    /// Time between two evaluations of regular expressions.
    pub regex_refresh_interval_ms: i32,
}

/// Values of share groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupConfig {
    /// Silence after which a member goes.
    pub session_timeout_ms: Bounded,
    /// Time between two heartbeats.
    pub heartbeat_interval_ms: Bounded,
    /// Least time between two assignments.
    pub assignment_interval_ms: Bounded,
    /// How long a record stays with one consumer.
    pub record_lock_duration_ms: Bounded,
    /// How often a record is handed out.
    pub delivery_count_limit: Bounded,
    /// Records of a partition in flight.
    pub partition_max_record_locks: Bounded,
    /// Names of the assignors on offer: `simple`.
    pub assignors: Vec<&'static str>,
    /// Members.
    pub max_size: i32,
    /// Share sessions of a broker.
    pub max_share_sessions: i32,
    /// Time between two attempts to initialise a group's partitions.
    pub initialize_retry_interval_ms: i32,
}

/// How the share coordinator works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareCoordinatorConfig {
    /// The share state topic.
    pub state_topic: InternalTopic,
    /// Bytes read at a time when it is loaded.
    pub load_buffer_size: i32,
    /// How long it gathers writes; none adapts to the load.
    pub append_linger_ms: Option<i32>,
    /// Largest buffer it keeps.
    pub cached_buffer_max_bytes: i32,
    /// Its threads.
    pub threads: i32,
    /// How long a write may wait for replicas.
    pub write_timeout_ms: i32,
    /// Updates between two snapshots.
    pub snapshot_update_records_per_snapshot: i32,
    /// Time between two deletions of old records.
    pub prune_interval_ms: i32,
    /// Time after which a quiet partition's state is written anew.
    pub cold_partition_snapshot_interval_ms: i32,
}

/// Values of streams groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsGroupConfig {
    /// Silence after which a member goes.
    pub session_timeout_ms: Bounded,
    /// Time between two heartbeats.
    pub heartbeat_interval_ms: Bounded,
    /// Least time between two assignments.
    pub assignment_interval_ms: Bounded,
    /// Members.
    pub max_size: i32,
    /// Standby replicas of a task; between zero and the greatest number.
    pub num_standby_replicas: Bounded,
    /// How long an empty group waits before its first assignment.
    pub initial_rebalance_delay_ms: i32,
}

impl GroupConfig {
    pub(super) fn of_values(values: &TypedValues, errors: &mut Vec<ServerConfigError>) -> Self {
        Self {
            coordinator: coordinator(values),
            offsets: offsets(values),
            classic: ClassicGroupConfig {
                min_session_timeout_ms: values.int("group.min.session.timeout.ms"),
                max_session_timeout_ms: values.int("group.max.session.timeout.ms"),
                initial_rebalance_delay_ms: values.int("group.initial.rebalance.delay.ms"),
                max_size: values.int("group.max.size"),
            },
            consumer: consumer(values, errors),
            share: share(values, errors),
            share_coordinator: share_coordinator(values),
            streams: StreamsGroupConfig {
                session_timeout_ms: bounded(values, "group.streams.", "session.timeout.ms"),
                heartbeat_interval_ms: bounded(values, "group.streams.", "heartbeat.interval.ms"),
                assignment_interval_ms: bounded(values, "group.streams.", "assignment.interval.ms"),
                max_size: values.int("group.streams.max.size"),
                num_standby_replicas: Bounded {
                    value: values.int("group.streams.num.standby.replicas"),
                    min: 0,
                    max: values.int("group.streams.max.standby.replicas"),
                },
                initial_rebalance_delay_ms: values.int("group.streams.initial.rebalance.delay.ms"),
            },
        }
    }
}

fn bounded(values: &TypedValues, prefix: &str, key: &str) -> Bounded {
    Bounded {
        value: values.int(&format!("{prefix}{key}")),
        min: values.int(&format!("{prefix}min.{key}")),
        max: values.int(&format!("{prefix}max.{key}")),
    }
}

fn linger(values: &TypedValues, key: &str) -> Option<i32> {
    Some(values.int(key)).filter(|linger_ms| *linger_ms >= 0)
}

fn coordinator(values: &TypedValues) -> GroupCoordinatorConfig {
    let protocols = values.list("group.coordinator.rebalance.protocols");
    let speaks = |name: &str| protocols.iter().any(|protocol| protocol == name);
    GroupCoordinatorConfig {
        rebalance_protocols: RebalanceProtocols {
            consumer: speaks("consumer"),
            share: speaks("share"),
            streams: speaks("streams"),
        },
        append_linger_ms: linger(values, "group.coordinator.append.linger.ms"),
        cached_buffer_max_bytes: values.int("group.coordinator.cached.buffer.max.bytes"),
        threads: values.int("group.coordinator.threads"),
        background_threads: values.int("group.coordinator.background.threads"),
    }
}

fn offsets(values: &TypedValues) -> OffsetsConfig {
    OffsetsConfig {
        topic: InternalTopic {
            num_partitions: values.int("offsets.topic.num.partitions"),
            replication_factor: values.short("offsets.topic.replication.factor"),
            segment_bytes: values.int("offsets.topic.segment.bytes"),
            min_insync_replicas: None,
            compression_codec: values.int("offsets.topic.compression.codec"),
        },
        load_buffer_size: values.int("offsets.load.buffer.size"),
        metadata_max_bytes: values.int("offset.metadata.max.bytes"),
        commit_timeout_ms: values.int("offsets.commit.timeout.ms"),
        retention_minutes: values.int("offsets.retention.minutes"),
        retention_check_interval_ms: values.long("offsets.retention.check.interval.ms"),
    }
}

fn consumer(values: &TypedValues, errors: &mut Vec<ServerConfigError>) -> ConsumerGroupConfig {
    let known = [
        (
            "uniform",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        ),
        (
            "range",
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
    ];
    let policy = values
        .text("group.consumer.migration.policy")
        .unwrap_or_default();
    ConsumerGroupConfig {
        session_timeout_ms: bounded(values, "group.consumer.", "session.timeout.ms"),
        heartbeat_interval_ms: bounded(values, "group.consumer.", "heartbeat.interval.ms"),
        assignment_interval_ms: bounded(values, "group.consumer.", "assignment.interval.ms"),
        max_size: values.int("group.consumer.max.size"),
        assignors: assignors(values, "group.consumer.assignors", &known, errors),
        migration_policy: match policy.to_ascii_lowercase().as_str() {
            "disabled" => MigrationPolicy::Disabled,
            "downgrade" => MigrationPolicy::Downgrade,
            "upgrade" => MigrationPolicy::Upgrade,
            _ => MigrationPolicy::Bidirectional,
        },
        regex_refresh_interval_ms: values.int("group.consumer.regex.refresh.interval.ms"),
    }
}

fn share(values: &TypedValues, errors: &mut Vec<ServerConfigError>) -> ShareGroupConfig {
    let known = [(
        "simple",
        "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    )];
    let of_group = |key: &str| bounded(values, "group.share.", key);
    ShareGroupConfig {
        session_timeout_ms: of_group("session.timeout.ms"),
        heartbeat_interval_ms: of_group("heartbeat.interval.ms"),
        assignment_interval_ms: of_group("assignment.interval.ms"),
        record_lock_duration_ms: of_group("record.lock.duration.ms"),
        delivery_count_limit: of_group("delivery.count.limit"),
        partition_max_record_locks: of_group("partition.max.record.locks"),
        assignors: assignors(values, "group.share.assignors", &known, errors),
        max_size: values.int("group.share.max.size"),
        max_share_sessions: values.int("group.share.max.share.sessions"),
        initialize_retry_interval_ms: values.int("group.share.initialize.retry.interval.ms"),
    }
}

fn share_coordinator(values: &TypedValues) -> ShareCoordinatorConfig {
    ShareCoordinatorConfig {
        state_topic: InternalTopic {
            num_partitions: values.int("share.coordinator.state.topic.num.partitions"),
            replication_factor: values.short("share.coordinator.state.topic.replication.factor"),
            segment_bytes: values.int("share.coordinator.state.topic.segment.bytes"),
            min_insync_replicas: Some(i32::from(
                values.short("share.coordinator.state.topic.min.isr"),
            )),
            compression_codec: values.int("share.coordinator.state.topic.compression.codec"),
        },
        load_buffer_size: values.int("share.coordinator.load.buffer.size"),
        append_linger_ms: linger(values, "share.coordinator.append.linger.ms"),
        cached_buffer_max_bytes: values.int("share.coordinator.cached.buffer.max.bytes"),
        threads: values.int("share.coordinator.threads"),
        write_timeout_ms: values.int("share.coordinator.write.timeout.ms"),
        snapshot_update_records_per_snapshot: values
            .int("share.coordinator.snapshot.update.records.per.snapshot"),
        prune_interval_ms: values.int("share.coordinator.state.topic.prune.interval.ms"),
        cold_partition_snapshot_interval_ms: values
            .int("share.coordinator.cold.partition.snapshot.interval.ms"),
    }
}

/// The assignors of `key`, by their names or by the names of Kafka's classes.
fn assignors(
    values: &TypedValues,
    key: &str,
    known: &[(&'static str, &str)],
    errors: &mut Vec<ServerConfigError>,
) -> Vec<&'static str> {
    let mut assignors = Vec::new();
    for text in values.list(key) {
        match known
            .iter()
            .find(|(name, class)| text == name || text == class)
        {
            Some((name, _)) if !assignors.contains(name) => assignors.push(name),
            Some(_) => {}
            None => {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                errors.push(ServerConfigError::Rule(format!(
                    "`{key}` has `{text}`, but the assignors here are: {}",
                    names.join(", ")
                )));
            }
        }
    }
    assignors
}
