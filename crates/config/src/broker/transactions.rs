//! Broker keys: transactions and idempotent producers.

use crate::definition::{ConfigDefinition, boolean, int, short};

#[rustfmt::skip]
pub(super) const TRANSACTIONS: &[ConfigDefinition] = &[
    int("add.partitions.to.txn.retry.backoff.max.ms").default("100").at_least(0).high()
        .doc("Longest time, in milliseconds, that the server keeps trying to add a partition to \
              a transaction whose predecessor is still completing."),
    int("add.partitions.to.txn.retry.backoff.ms").default("20").at_least(1).high()
        .doc("Wait between two of those attempts to add a partition to a transaction, in \
              milliseconds."),
    int("producer.id.expiration.check.interval.ms").default("600000").at_least(1).internal().low()
        .doc("Milliseconds between two searches for producer ids that have expired."),
    int("producer.id.expiration.ms").default("86400000").at_least(1).low().cluster_wide()
        .doc("How long a partition remembers an idle producer id for detecting duplicates, in \
              milliseconds."),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        .default("10000").at_least(1).low()
        .doc("Milliseconds between two searches for transactions that have run out of time and \
              must be aborted."),
    int("transaction.max.timeout.ms").default("900000").at_least(1).high()
        .doc("Longest transaction timeout that a producer may ask for, in milliseconds."),
    boolean("transaction.partition.verification.enable").default("true").low().cluster_wide()
        .doc("Whether a broker checks with the transaction coordinator that a partition belongs \
              to the transaction before it appends."),
    int("transaction.remove.expired.transaction.cleanup.interval.ms")
        .default("3600000").at_least(1).low()
        .doc("Milliseconds between two searches for transactional ids that have expired."),
    int("transaction.state.log.load.buffer.size").default("5242880").at_least(1).high()
        .doc("Bytes read at a time from the transaction topic when a coordinator loads it."),
    int("transaction.state.log.min.isr").default("2").at_least(1).high()
        .doc("`min.insync.replicas` of the transaction topic."),
    int("transaction.state.log.num.partitions").default("50").at_least(1).high()
        .doc("Partitions of the transaction topic; not to be changed once it exists."),
    short("transaction.state.log.replication.factor").default("3").at_least(1).high()
        .doc("Replicas of the transaction topic. It is not created while there are fewer \
              brokers."),
    int("transaction.state.log.segment.bytes").default("104857600").at_least(1).high()
        .doc("Segment size of the transaction topic, kept small so that compaction is prompt and \
              loading fast."),
    boolean("transaction.two.phase.commit.enable").default("false").low()
        .doc("Whether a producer may leave a transaction prepared without a timeout, for an \
              external transaction manager to decide."),
    int("transactional.id.expiration.ms").default("604800000").at_least(1).high()
        .doc("How long a transactional id without any activity is remembered, in milliseconds."),
];
