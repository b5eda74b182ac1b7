//! Transactions, producer ids, and the shape of internal topics.

use crate::typed::TypedValues;

/// How an internal topic is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InternalTopic {
    /// Partitions.
    pub num_partitions: i32,
    /// Replicas.
    pub replication_factor: i16,
    /// Segment size.
    pub segment_bytes: i32,
    /// In-sync replicas that a write needs; none takes over the broker's `min.insync.replicas`.
    pub min_insync_replicas: Option<i32>,
}

/// How transactions are coordinated and producers remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionConfig {
    /// The transaction topic.
    pub state_topic: InternalTopic,
    /// Longest timeout that a producer may ask for.
    pub max_timeout_ms: i32,
    /// Time between two searches for transactions out of time.
    pub abort_timed_out_interval_ms: i32,
    /// Time between two searches for expired transactional ids.
    pub remove_expired_interval_ms: i32,
    /// How long an idle transactional id is remembered.
    pub transactional_id_expiration_ms: i32,
    /// How long a partition remembers an idle producer id.
    pub producer_id_expiration_ms: i32,
    /// Time between two searches for expired producer ids.
    pub producer_id_expiration_check_interval_ms: i32,
    /// Whether an append asks the coordinator first.
    pub partition_verification_enable: bool,
    /// Whether transactions may be left prepared without a timeout.
    pub two_phase_commit_enable: bool,
    /// Pause between two attempts to add a partition.
    pub add_partitions_retry_backoff_ms: i32,
    /// Longest time of those attempts.
    pub add_partitions_retry_backoff_max_ms: i32,
}

impl TransactionConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            state_topic: InternalTopic {
                num_partitions: values.int("transaction.state.log.num.partitions"),
                replication_factor: values.short("transaction.state.log.replication.factor"),
                segment_bytes: values.int("transaction.state.log.segment.bytes"),
                min_insync_replicas: Some(values.int("transaction.state.log.min.isr")),
            },
            max_timeout_ms: values.int("transaction.max.timeout.ms"),
            abort_timed_out_interval_ms: values
                .int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_interval_ms: values
                .int("transaction.remove.expired.transaction.cleanup.interval.ms"),
            transactional_id_expiration_ms: values.int("transactional.id.expiration.ms"),
            producer_id_expiration_ms: values.int("producer.id.expiration.ms"),
            producer_id_expiration_check_interval_ms: values
                .int("producer.id.expiration.check.interval.ms"),
            partition_verification_enable: values
                .boolean("transaction.partition.verification.enable"),
            two_phase_commit_enable: values.boolean("transaction.two.phase.commit.enable"),
            add_partitions_retry_backoff_ms: values.int("add.partitions.to.txn.retry.backoff.ms"),
            add_partitions_retry_backoff_max_ms: values
                .int("add.partitions.to.txn.retry.backoff.max.ms"),
        }
    }
}
