//! Broker keys: share groups, the share coordinator and streams groups.

use crate::definition::{ANY, ConfigDefinition, int, list, short, string};

#[rustfmt::skip]
pub(super) const SHARE_AND_STREAMS_GROUPS: &[ConfigDefinition] = &[
    int("group.share.assignment.interval.ms").default("1000").at_least(0).medium().cluster_wide()
        .doc("Least time between two assignments computed for a share group, in milliseconds."),
    list("group.share.assignors").default("simple").filled_list_of(ANY).medium()
        .doc("Assignor of share groups; the built-in one is `simple`."),
    int("group.share.delivery.count.limit").default("5").between(2, 10).medium()
        .doc("How many times a record is handed to consumers of a share group before it is given \
              up."),
    int("group.share.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("How often members of a share group are told to send heartbeats, in milliseconds."),
    int("group.share.initialize.retry.interval.ms").default("30000").at_least(1).internal().low()
        .doc("Milliseconds between two attempts to initialise the state of a share group's \
              partitions."),
    int("group.share.max.assignment.interval.ms").default("15000").at_least(0).medium()
        .doc("Upper bound of the assignment interval of share groups, in milliseconds."),
    int("group.share.max.delivery.count.limit").default("10").between(5, 25).medium()
        .doc("Upper bound of the delivery count limit of share groups."),
    int("group.share.max.heartbeat.interval.ms").default("15000").at_least(1).medium()
        .doc("Upper bound of the heartbeat interval of share groups, in milliseconds."),
    int("group.share.max.partition.max.record.locks").default("4000")
        .between(2000, 10000).medium()
        .doc("Upper bound of the record locks that a share group may hold on one partition."),
    int("group.share.max.record.lock.duration.ms").default("60000")
        .between(30000, 3600000).medium()
        .doc("Upper bound of the time for which a share group locks a record, in milliseconds."),
    int("group.share.max.session.timeout.ms").default("60000").at_least(1).medium()
        .doc("Upper bound of the session timeout of share groups, in milliseconds."),
    int("group.share.max.share.sessions").default("2000").at_least(1).medium()
        .doc("Share sessions that a broker holds at one time; at least `group.share.max.size`."),
    int("group.share.max.size").default("200").between(1, 1000).medium()
        .doc("Members that one share group may have."),
    int("group.share.min.assignment.interval.ms").default("0").at_least(0).medium()
        .doc("Lower bound of the assignment interval of share groups, in milliseconds."),
    int("group.share.min.delivery.count.limit").default("2").between(2, 5).medium()
        .doc("Lower bound of the delivery count limit of share groups."),
    int("group.share.min.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("Lower bound of the heartbeat interval of share groups, in milliseconds."),
    int("group.share.min.partition.max.record.locks").default("100").between(100, 2000).medium()
        .doc("Lower bound of the record locks that a share group may hold on one partition."),
    int("group.share.min.record.lock.duration.ms").default("15000").between(1000, 30000).medium()
        .doc("Lower bound of the time for which a share group locks a record, in milliseconds."),
    int("group.share.min.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("Lower bound of the session timeout of share groups, in milliseconds."),
    int("group.share.partition.max.record.locks").default("2000").between(100, 10000).medium()
        .doc("Records of one partition that a share group may have in flight."),
    string("group.share.persister.class.name")
        .default("org.apache.kafka.server.share.persister.DefaultStatePersister")
        .internal().medium()
        .doc("Class that stores the state of share partitions."),
    int("group.share.record.lock.duration.ms").default("30000").between(1000, 3600000).medium()
        .doc("How long a record stays with one consumer of a share group before it is offered \
              again, in milliseconds."),
    int("group.share.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("A member of a share group that is silent for this long, in milliseconds, is \
              removed."),
    int("group.streams.assignment.interval.ms").default("1000").at_least(0)
        .medium().cluster_wide()
        .doc("Least time between two assignments computed for a streams group, in milliseconds."),
    int("group.streams.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("How often members of a streams group are told to send heartbeats, in milliseconds."),
    int("group.streams.initial.rebalance.delay.ms").default("3000").at_least(0).medium()
        .doc("How long an empty streams group waits for more members before its first \
              assignment, in milliseconds."),
    int("group.streams.max.assignment.interval.ms").default("15000").at_least(0).medium()
        .doc("Upper bound of the assignment interval of streams groups, in milliseconds."),
    int("group.streams.max.heartbeat.interval.ms").default("15000").at_least(1).medium()
        .doc("Upper bound of the heartbeat interval of streams groups, in milliseconds."),
    int("group.streams.max.session.timeout.ms").default("60000").at_least(1).medium()
        .doc("Upper bound of the session timeout of streams groups, in milliseconds."),
    int("group.streams.max.size").default("2147483647").at_least(1).medium()
        .doc("Members that one streams group may have."),
    int("group.streams.max.standby.replicas").default("2").at_least(0).medium()
        .doc("Upper bound of the standby replicas of a streams group."),
    int("group.streams.min.assignment.interval.ms").default("0").at_least(0).medium()
        .doc("Lower bound of the assignment interval of streams groups, in milliseconds."),
    int("group.streams.min.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("Lower bound of the heartbeat interval of streams groups, in milliseconds."),
    int("group.streams.min.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("Lower bound of the session timeout of streams groups, in milliseconds."),
    int("group.streams.num.standby.replicas").default("0").at_least(0).medium()
        .doc("Standby replicas of each stateful task of a streams group."),
    int("group.streams.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("A member of a streams group that is silent for this long, in milliseconds, is \
              removed."),
    int("share.coordinator.append.linger.ms").default("-1").at_least(-1).medium()
        .doc("How long the share coordinator gathers writes before it appends them, in \
              milliseconds; -1 adapts to the load."),
    int("share.coordinator.cached.buffer.max.bytes").default("1048588")
        .at_least(524288).medium().cluster_wide()
        .doc("Largest buffer that the share coordinator keeps for its next write, in bytes."),
    int("share.coordinator.cold.partition.snapshot.interval.ms").default("300000")
        .at_least(1).internal().low()
        .doc("Milliseconds after which the state of a quiet share partition is written anew, so \
              that its older records can go."),
    int("share.coordinator.load.buffer.size").default("5242880").at_least(1).high()
        .doc("Bytes read at a time from the share state topic when a coordinator loads it."),
    int("share.coordinator.snapshot.update.records.per.snapshot").default("500")
        .between(0, 500).medium()
        .doc("Update records of a share partition between two snapshots of its state."),
    int("share.coordinator.state.topic.compression.codec").default("0").high()
        .doc("Number of the codec of the share state topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 \
              zstd."),
    short("share.coordinator.state.topic.min.isr").default("2").at_least(1).high()
        .doc("`min.insync.replicas` of the share state topic."),
    int("share.coordinator.state.topic.num.partitions").default("50").at_least(1).high()
        .doc("Partitions of the share state topic; not to be changed once it exists."),
    int("share.coordinator.state.topic.prune.interval.ms").default("300000")
        .at_least(1).internal().low()
        .doc("Milliseconds between two deletions of records of the share state topic that are no \
              longer needed."),
    short("share.coordinator.state.topic.replication.factor").default("3").at_least(1).high()
        .doc("Replicas of the share state topic. It is not created while there are fewer \
              brokers."),
    int("share.coordinator.state.topic.segment.bytes").default("104857600").at_least(1).high()
        .doc("Segment size of the share state topic."),
    int("share.coordinator.threads").default("1").at_least(1).medium()
        .doc("Threads of the share coordinator."),
    int("share.coordinator.write.timeout.ms").default("5000").at_least(1).high()
        .doc("How long a write of the share coordinator may wait for the replicas of its topic, \
              in milliseconds."),
    int("share.fetch.purgatory.purge.interval.requests").default("1000").medium()
        .doc("Finished delayed share fetches that may pile up before they are swept out."),
];
