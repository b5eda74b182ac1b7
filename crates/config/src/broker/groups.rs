//! Broker keys: the group coordinator, classic and consumer groups, committed offsets.

use crate::definition::{ANY, ConfigDefinition, int, list, long, short, string};

#[rustfmt::skip]
pub(super) const GROUPS: &[ConfigDefinition] = &[
    int("group.consumer.assignment.interval.ms").default("1000").at_least(0)
        .medium().cluster_wide()
        .doc("Least time between two assignments computed for a group of the consumer protocol, \
              in milliseconds."),
    list("group.consumer.assignors").default("uniform,range").filled_list_of(ANY).medium()
        .doc("Assignors on offer to groups of the consumer protocol, the first being the \
              default: `uniform`, `range`."),
    int("group.consumer.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("How often members of the consumer protocol are told to send heartbeats, in \
              milliseconds."),
    int("group.consumer.max.assignment.interval.ms").default("15000").at_least(0).medium()
        .doc("Upper bound of the assignment interval of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.max.heartbeat.interval.ms").default("15000").at_least(1).medium()
        .doc("Upper bound of the heartbeat interval of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.max.session.timeout.ms").default("60000").at_least(1).medium()
        .doc("Upper bound of the session timeout of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.max.size").default("2147483647").at_least(1).medium()
        .doc("Members that one group of the consumer protocol may have."),
    string("group.consumer.migration.policy").default("bidirectional")
        .one_of_any_case(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]).medium()
        .doc("Which conversions between classic and consumer groups are allowed while they are \
              in use: `bidirectional`, `upgrade`, `downgrade` or `disabled`."),
    int("group.consumer.min.assignment.interval.ms").default("0").at_least(0).medium()
        .doc("Lower bound of the assignment interval of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.min.heartbeat.interval.ms").default("5000").at_least(1).medium()
        .doc("Lower bound of the heartbeat interval of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.min.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("Lower bound of the session timeout of groups of the consumer protocol, in \
              milliseconds."),
    int("group.consumer.regex.refresh.interval.ms").default("600000")
        .at_least(10000).internal().medium()
        .doc("Milliseconds between two evaluations of the regular expressions that groups \
              subscribe to."),
    int("group.consumer.session.timeout.ms").default("45000").at_least(1).medium()
        .doc("A member of the consumer protocol that is silent for this long, in milliseconds, \
              is removed from its group."),
    int("group.coordinator.append.linger.ms").default("-1").at_least(-1).medium()
        .doc("How long the group coordinator gathers writes before it appends them, in \
              milliseconds; -1 adapts to the load."),
    int("group.coordinator.background.threads").default("2").at_least(1).high()
        .doc("Threads of the group coordinator for its slower chores."),
    int("group.coordinator.cached.buffer.max.bytes").default("1048588")
        .at_least(524288).medium().cluster_wide()
        .doc("Largest buffer that the group coordinator keeps for its next write, in bytes."),
    list("group.coordinator.rebalance.protocols")
        .default("classic,consumer,streams")
        .filled_list_of(&["consumer", "classic", "share", "streams"]).medium()
        .doc("Group protocols that the coordinator speaks; `classic` cannot be left out."),
    int("group.coordinator.threads").default("4").at_least(1).high()
        .doc("Threads of the coordinators of groups and of transactions."),
    int("group.initial.rebalance.delay.ms").default("3000").medium()
        .doc("How long a classic group that was empty waits for more members before its first \
              rebalance, in milliseconds."),
    int("group.max.session.timeout.ms").default("1800000").medium()
        .doc("Longest session timeout that a member of a classic group may ask for, in \
              milliseconds."),
    int("group.max.size").default("2147483647").at_least(1).medium()
        .doc("Members that one classic group may have."),
    int("group.min.session.timeout.ms").default("6000").medium()
        .doc("Shortest session timeout that a member of a classic group may ask for, in \
              milliseconds."),
    int("offset.metadata.max.bytes").default("4096").high()
        .doc("Longest metadata string, in bytes, that a consumer may commit with an offset."),
    int("offsets.commit.timeout.ms").default("5000").at_least(1).high()
        .doc("How long a commit of offsets may wait for the replicas of the offsets topic, in \
              milliseconds."),
    int("offsets.load.buffer.size").default("5242880").at_least(1).high()
        .doc("Bytes read at a time from the offsets topic when a coordinator loads it."),
    long("offsets.retention.check.interval.ms").default("600000").at_least(1).high()
        .doc("Milliseconds between two searches for committed offsets that have expired."),
    int("offsets.retention.minutes").default("10080").at_least(1).high()
        .doc("Minutes that committed offsets are kept once their group is empty, or since the \
              commit for consumers without a group."),
    int("offsets.topic.compression.codec").default("0").high()
        .doc("Number of the codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."),
    int("offsets.topic.num.partitions").default("50").at_least(1).high()
        .doc("Partitions of the offsets topic; not to be changed once it exists."),
    short("offsets.topic.replication.factor").default("3").at_least(1).high()
        .doc("Replicas of the offsets topic. It is not created while there are fewer brokers."),
    int("offsets.topic.segment.bytes").default("104857600").at_least(1).high()
        .doc("Segment size of the offsets topic, kept small so that compaction is prompt and \
              loading fast."),
];
