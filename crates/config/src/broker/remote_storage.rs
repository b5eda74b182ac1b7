//! Broker keys: tiered storage.

use crate::definition::{ConfigDefinition, Constraint, boolean, double, int, long, string};

#[rustfmt::skip]
pub(super) const REMOTE_STORAGE: &[ConfigDefinition] = &[
    boolean("follower.fetch.last.tiered.offset.enable").default("false").medium().cluster_wide()
        .doc("Whether a new follower of a tiered topic starts at the last tiered offset and \
              skips the local records that are already in remote storage."),
    long("log.local.retention.bytes").default("-2").at_least(-2).medium().cluster_wide()
        .doc("Size of a tiered partition's local log above which its oldest local segments are \
              deleted; -2 means `log.retention.bytes`."),
    long("log.local.retention.ms").default("-2").at_least(-2).medium().cluster_wide()
        .doc("Age in milliseconds after which local segments of a tiered partition are deleted; \
              -2 means the retention of the topic."),
    int("remote.fetch.max.wait.ms").default("500").at_least(1).medium().cluster_wide()
        .doc("How long a fetch may wait for remote storage, in milliseconds."),
    long("remote.list.offsets.request.timeout.ms").default("30000").at_least(1)
        .medium().cluster_wide()
        .doc("How long a look-up of offsets in remote storage may take, in milliseconds."),
    long("remote.log.index.file.cache.total.size.bytes").default("1073741824")
        .at_least(1).low().cluster_wide()
        .doc("Local disk space for the cached index files of remote segments, in bytes."),
    long("remote.log.index.file.cache.ttl.ms").default("900000").at_least(-1).internal().low()
        .doc("How long a cached index file is kept without use, in milliseconds; -1 keeps it."),
    int("remote.log.manager.copier.thread.pool.size").default("10").at_least(1)
        .medium().cluster_wide()
        .doc("Threads that copy segments to remote storage."),
    long("remote.log.manager.copy.max.bytes.per.second")
        .default("9223372036854775807").at_least(1).medium().cluster_wide()
        .doc("Bytes a second that this broker may copy to remote storage."),
    int("remote.log.manager.copy.quota.window.num").default("11").at_least(1).medium()
        .doc("Samples kept for the quota on copying to remote storage."),
    int("remote.log.manager.copy.quota.window.size.seconds").default("1").at_least(1).medium()
        .doc("Seconds of each sample for the quota on copying to remote storage."),
    int("remote.log.manager.expiration.thread.pool.size").default("10").at_least(1)
        .medium().cluster_wide()
        .doc("Threads that delete expired segments from remote storage."),
    long("remote.log.manager.fetch.max.bytes.per.second")
        .default("9223372036854775807").at_least(1).medium().cluster_wide()
        .doc("Bytes a second that this broker may read from remote storage."),
    int("remote.log.manager.fetch.quota.window.num").default("11").at_least(1).medium()
        .doc("Samples kept for the quota on reading from remote storage."),
    int("remote.log.manager.fetch.quota.window.size.seconds").default("1").at_least(1).medium()
        .doc("Seconds of each sample for the quota on reading from remote storage."),
    int("remote.log.manager.follower.thread.pool.size").default("2").at_least(1)
        .medium().cluster_wide()
        .doc("Threads that follow remote storage for the partitions this broker does not lead."),
    long("remote.log.manager.task.interval.ms").default("30000").at_least(1).low()
        .doc("Milliseconds between two runs of a partition's remote storage task."),
    long("remote.log.manager.task.retry.backoff.max.ms").default("30000")
        .at_least(1).internal().low()
        .doc("Longest pause after a failed remote storage task, in milliseconds."),
    long("remote.log.manager.task.retry.backoff.ms").default("500").at_least(1).internal().low()
        .doc("Pause after the first failure of a remote storage task, in milliseconds; it grows \
              with each further one."),
    double("remote.log.manager.task.retry.jitter").default("0.2").within(0.0, 0.5)
        .internal().low()
        .doc("Random share by which those pauses vary."),
    int("remote.log.manager.thread.pool.size").default("2").at_least(1).medium()
        .doc("Threads of remote storage that are not set apart for copying, expiring or \
              following."),
    int("remote.log.metadata.custom.metadata.max.bytes").default("128").at_least(0).low()
        .doc("Largest custom metadata of a remote segment that is kept, in bytes."),
    string("remote.log.metadata.manager.class.name")
        .default("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager")
        .constraint(Constraint::NonEmpty).medium()
        .doc("Class that keeps track of the remote segments."),
    string("remote.log.metadata.manager.class.path").medium()
        .doc("Where the class that keeps track of remote segments is loaded from."),
    string("remote.log.metadata.manager.impl.prefix").default("rlmm.config.")
        .constraint(Constraint::NonEmpty).medium()
        .doc("Prefix of the keys passed to the class that keeps track of remote segments."),
    string("remote.log.metadata.manager.listener.name").constraint(Constraint::NonEmpty).medium()
        .doc("Listener of this broker over which that class reaches the cluster."),
    int("remote.log.reader.max.pending.tasks").default("100").at_least(1).medium()
        .doc("Reads from remote storage that may wait for a thread."),
    int("remote.log.reader.threads").default("10").at_least(1).medium().cluster_wide()
        .doc("Threads that read from remote storage."),
    string("remote.log.storage.manager.class.name").constraint(Constraint::NonEmpty).medium()
        .doc("Class that stores and reads segments remotely."),
    string("remote.log.storage.manager.class.path").medium()
        .doc("Where the class that stores segments remotely is loaded from."),
    string("remote.log.storage.manager.impl.prefix").default("rsm.config.")
        .constraint(Constraint::NonEmpty).medium()
        .doc("Prefix of the keys passed to the class that stores segments remotely."),
    boolean("remote.log.storage.system.enable").default("false").medium()
        .doc("Whether this broker supports topics with remote storage."),
];
