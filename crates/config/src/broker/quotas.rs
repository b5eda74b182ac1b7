//! Broker keys: quotas, policies and metrics.

use crate::definition::{ANY, ConfigDefinition, class, int, list, long, string};

#[rustfmt::skip]
pub(super) const QUOTAS: &[ConfigDefinition] = &[
    int("alter.log.dirs.replication.quota.window.num").default("11").at_least(1).low()
        .doc("Samples kept for the quota on moving replicas between log directories."),
    int("alter.log.dirs.replication.quota.window.size.seconds").default("1").at_least(1).low()
        .doc("Seconds of each sample for the quota on moving replicas between log directories."),
    class("alter.config.policy.class.name").low()
        .doc("Class of a policy that is asked before configurations are altered."),
    class("client.quota.callback.class").low()
        .doc("Class that decides the quotas of clients; unset means the quotas stored for users \
              and client ids."),
    int("controller.quota.window.num").default("11").at_least(1).low()
        .doc("Samples kept for the quota on topic and partition changes."),
    int("controller.quota.window.size.seconds").default("1").at_least(1).low()
        .doc("Seconds of each sample for the quota on topic and partition changes."),
    class("create.topic.policy.class.name").low()
        .doc("Class of a policy that is asked before topics are created."),
    int("kafka.metrics.polling.interval.secs").default("10").at_least(1).low()
        .doc("Seconds between two rounds of the reporters in `kafka.metrics.reporters`."),
    list("kafka.metrics.reporters").default("").list_of(ANY).low()
        .doc("Classes of reporters for the server's older set of metrics."),
    list("metric.reporters").default("org.apache.kafka.common.metrics.JmxReporter")
        .list_of(ANY).low().cluster_wide()
        .doc("Classes of metrics reporters."),
    int("metrics.num.samples").default("2").at_least(1).low()
        .doc("Samples kept to work out a metric."),
    string("metrics.recording.level").default("INFO").low()
        .doc("Finest metrics that are recorded: INFO, DEBUG or TRACE."),
    long("metrics.sample.window.ms").default("30000").at_least(1).low()
        .doc("Milliseconds of each sample of a metric."),
    int("quota.window.num").default("11").at_least(1).low()
        .doc("Samples kept for client quotas."),
    int("quota.window.size.seconds").default("1").at_least(1).low()
        .doc("Seconds of each sample for client quotas."),
    int("replication.quota.window.num").default("11").at_least(1).low()
        .doc("Samples kept for replication quotas."),
    int("replication.quota.window.size.seconds").default("1").at_least(1).low()
        .doc("Seconds of each sample for replication quotas."),
    int("telemetry.max.bytes").default("1048576").at_least(1).low()
        .doc("Largest block of client metrics that one push may carry, in bytes."),
];
