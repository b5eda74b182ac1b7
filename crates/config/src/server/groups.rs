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

/// What the group coordinator offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCoordinatorConfig {
    /// Protocols it speaks.
    pub rebalance_protocols: RebalanceProtocols,
    /// Threads that decide, of groups and of transactions.
    pub threads: i32,
}

/// How committed offsets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetsConfig {
    /// The offsets topic.
    pub topic: InternalTopic,
    /// Codec of its batches, if the topic leaves it open: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub topic_compression_codec: i32,
    /// How long a commit, and whatever else is decided about groups, waits for the replicas.
    pub commit_timeout_ms: i32,
    /// Longest metadata of a commit.
    pub metadata_max_bytes: i32,
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

/// Bounds of what a share group may set for itself.
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
}

/// Where the share coordinator keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareCoordinatorConfig {
    /// The share state topic.
    pub state_topic: InternalTopic,
}

/// Bounds of what a streams group may set for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsGroupConfig {
    /// Silence after which a member goes.
    pub session_timeout_ms: Bounded,
    /// Time between two heartbeats.
    pub heartbeat_interval_ms: Bounded,
    /// Least time between two assignments.
    pub assignment_interval_ms: Bounded,
    /// Standby replicas of a task; between zero and the greatest number.
    pub num_standby_replicas: Bounded,
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
                num_standby_replicas: Bounded {
                    value: values.int("group.streams.num.standby.replicas"),
                    min: 0,
                    max: values.int("group.streams.max.standby.replicas"),
                },
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

fn coordinator(values: &TypedValues) -> GroupCoordinatorConfig {
    let protocols = values.list("group.coordinator.rebalance.protocols");
    let speaks = |name: &str| protocols.iter().any(|protocol| protocol == name);
    GroupCoordinatorConfig {
        rebalance_protocols: RebalanceProtocols {
            consumer: speaks("consumer"),
        },
        threads: values.int("group.coordinator.threads"),
    }
}

fn offsets(values: &TypedValues) -> OffsetsConfig {
    OffsetsConfig {
        topic: InternalTopic {
            num_partitions: values.int("offsets.topic.num.partitions"),
            replication_factor: values.short("offsets.topic.replication.factor"),
            segment_bytes: values.int("offsets.topic.segment.bytes"),
            min_insync_replicas: None,
        },
        topic_compression_codec: values.int("offsets.topic.compression.codec"),
        commit_timeout_ms: values.int("offsets.commit.timeout.ms"),
        metadata_max_bytes: values.int("offset.metadata.max.bytes"),
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
    assignors(values, "group.share.assignors", &known, errors);
    ShareGroupConfig {
        session_timeout_ms: of_group("session.timeout.ms"),
        heartbeat_interval_ms: of_group("heartbeat.interval.ms"),
        assignment_interval_ms: of_group("assignment.interval.ms"),
        record_lock_duration_ms: of_group("record.lock.duration.ms"),
        delivery_count_limit: of_group("delivery.count.limit"),
        partition_max_record_locks: of_group("partition.max.record.locks"),
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
        },
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
