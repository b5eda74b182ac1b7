//! Broker keys: followers, leaders and the balance between them.

use crate::definition::{ConfigDefinition, boolean, int, long, string};

#[rustfmt::skip]
pub(super) const REPLICATION: &[ConfigDefinition] = &[
    boolean("auto.leader.rebalance.enable").default("true").high()
        .doc("Whether leadership returns to the preferred replicas in the background."),
    boolean("controlled.shutdown.enable").default("true").medium()
        .doc("Whether the broker hands over its partitions before it stops."),
    int("controller.socket.timeout.ms").default("30000").medium()
        .doc("Socket timeout of the channels from the controller to the brokers, in \
              milliseconds."),
    int("delete.records.purgatory.purge.interval.requests").default("1").medium()
        .doc("Finished delete-records operations that may pile up before they are swept out."),
    int("fetch.purgatory.purge.interval.requests").default("1000").medium()
        .doc("Finished delayed fetches that may pile up before they are swept out."),
    long("leader.imbalance.check.interval.seconds").default("300").at_least(1).high()
        .doc("Seconds between two searches for partitions whose leader is not the preferred \
              replica."),
    int("num.replica.fetchers").default("1").at_least(1).high().cluster_wide()
        .doc("Fetcher threads for each broker that this one replicates from."),
    int("producer.purgatory.purge.interval.requests").default("1000").medium()
        .doc("Finished delayed produce operations that may pile up before they are swept out."),
    int("replica.fetch.backoff.ms").default("1000").at_least(0).medium()
        .doc("How long a fetcher leaves a partition alone after an error, in milliseconds."),
    int("replica.fetch.max.bytes").default("1048576").at_least(0).medium()
        .doc("Bytes a follower asks for from each partition; a larger first batch is still sent \
              whole."),
    int("replica.fetch.min.bytes").default("1").high()
        .doc("Bytes that a leader gathers before it answers a follower, unless \
              `replica.fetch.wait.max.ms` passes first."),
    int("replica.fetch.response.max.bytes").default("10485760").at_least(0).medium()
        .doc("Bytes a follower asks for in one answer over all partitions; a larger first batch \
              is still sent whole."),
    int("replica.fetch.wait.max.ms").default("500").high()
        .doc("How long a leader may hold back the answer to a follower, in milliseconds; not \
              more than `replica.lag.time.max.ms`."),
    long("replica.high.watermark.checkpoint.interval.ms").default("5000").high()
        .doc("Milliseconds between two writes of the high-watermark checkpoint."),
    long("replica.lag.time.max.ms").default("30000").high()
        .doc("A follower that has not caught up with its leader for this long, in milliseconds, \
              leaves the in-sync replicas."),
    string("replica.selector.class").medium()
        .doc("Class that chooses the replica a consumer reads from; unset means the leader."),
    int("replica.socket.receive.buffer.bytes").default("65536").high()
        .doc("Receive buffer of the sockets over which this broker replicates, in bytes."),
    int("replica.socket.timeout.ms").default("30000").high()
        .doc("Socket timeout of replication, in milliseconds; at least \
              `replica.fetch.wait.max.ms`."),
    long("unclean.leader.election.interval.ms").default("300000").at_least(1).internal().medium()
        .doc("Milliseconds between two searches for leaderless partitions that may elect a \
              replica that is not in sync."),
];
