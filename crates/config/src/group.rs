//! The keys of a group of the consumer, share and streams protocols.

use crate::definition::{ConfigDefinition, Constraint, boolean, int, string};
use crate::table::{ConfigTable, sorted};

/// Every key of a group.
pub static GROUP: ConfigTable = ConfigTable::new(|| sorted(&[GROUP_DEFINITIONS]));

#[rustfmt::skip]
const GROUP_DEFINITIONS: &[ConfigDefinition] = &[
    int("consumer.assignment.interval.ms").default("1000").at_least(0).medium().cluster_wide()
        .doc("Least time between two assignments computed for this group of the consumer \
              protocol, in milliseconds."),
    int("consumer.heartbeat.interval.ms").default("5000").at_least(1).medium().cluster_wide()
        .doc("How often members of this group of the consumer protocol are told to send \
              heartbeats, in milliseconds."),
    int("consumer.session.timeout.ms").default("45000").at_least(1).medium().cluster_wide()
        .doc("A member of this group of the consumer protocol that is silent for this long, in \
              milliseconds, is removed."),
    int("share.assignment.interval.ms").default("1000").at_least(0).medium().cluster_wide()
        .doc("Least time between two assignments computed for this share group, in milliseconds."),
    string("share.auto.offset.reset").default("latest")
        .constraint(Constraint::ShareOffsetReset).medium().cluster_wide()
        .doc("Where the share group starts on a partition it has not read: `earliest`, `latest`, \
              or `by_duration:` with an ISO 8601 duration before now."),
    int("share.delivery.count.limit").default("5").at_least(2).medium().cluster_wide()
        .doc("How many times a record is handed to consumers of the share group before it is \
              given up."),
    int("share.heartbeat.interval.ms").default("5000").at_least(1).medium().cluster_wide()
        .doc("How often members of the share group are told to send heartbeats, in milliseconds."),
    string("share.isolation.level").default("read_uncommitted")
        .one_of(&["read_committed", "read_uncommitted"]).medium().cluster_wide()
        .doc("Whether the share group sees records of open and aborted transactions \
              (read_uncommitted) or not (read_committed)."),
    int("share.partition.max.record.locks").default("2000").at_least(100).medium().cluster_wide()
        .doc("Records of one partition that the share group may have in flight."),
    int("share.record.lock.duration.ms").default("30000").at_least(1000).medium().cluster_wide()
        .doc("How long a record stays with one consumer of the share group before it is offered \
              again, in milliseconds."),
    boolean("share.renew.acknowledge.enable").default("true").medium().cluster_wide()
        .doc("Whether consumers of the share group may renew the lock of a record while they \
              work on it."),
    int("share.session.timeout.ms").default("45000").at_least(1).medium().cluster_wide()
        .doc("A member of the share group that is silent for this long, in milliseconds, is \
              removed."),
    int("streams.assignment.interval.ms").default("1000").at_least(0).medium().cluster_wide()
        .doc("Least time between two assignments computed for the streams group, in \
              milliseconds."),
    int("streams.heartbeat.interval.ms").default("5000").at_least(1).medium().cluster_wide()
        .doc("How often members of the streams group are told to send heartbeats, in \
              milliseconds."),
    int("streams.initial.rebalance.delay.ms").default("3000").at_least(0).medium().cluster_wide()
        .doc("How long the empty streams group waits for more members before its first \
              assignment, in milliseconds."),
    int("streams.num.standby.replicas").default("0").at_least(0).medium().cluster_wide()
        .doc("Standby replicas of each stateful task of the streams group."),
    int("streams.session.timeout.ms").default("45000").at_least(1).medium().cluster_wide()
        .doc("A member of the streams group that is silent for this long, in milliseconds, is \
              removed."),
];
