//! Broker keys: log directories, the cleaner, retention checks and flushing.

use crate::definition::{ANY, ConfigDefinition, boolean, double, int, list, long};

#[rustfmt::skip]
pub(super) const LOG: &[ConfigDefinition] = &[
    list("cordoned.log.dirs").default("").list_of(ANY).medium().per_broker()
        .doc("Log directories in which no new replicas are placed; `*` stands for all of them."),
    long("log.cleaner.backoff.ms").default("15000").at_least(0).medium().cluster_wide()
        .doc("How long a cleaner thread sleeps when no log needs compaction, in milliseconds."),
    long("log.cleaner.dedupe.buffer.size").default("134217728").medium().cluster_wide()
        .doc("Memory of all cleaner threads together for the map of keys to offsets, in bytes; \
              more than 1 MiB for each thread."),
    long("log.cleaner.delete.retention.ms").default("86400000").at_least(0)
        .medium().cluster_wide()
        .doc("How long a tombstone stays in a compacted log, in milliseconds; also the time a \
              reader from the start has to see every deletion."),
    boolean("log.cleaner.enable").default("true").medium()
        .doc("Whether logs with the policy `compact` are compacted. Off lets them grow without \
              bound."),
    double("log.cleaner.io.buffer.load.factor").default("0.9").medium().cluster_wide()
        .doc("How full the map of keys to offsets may become, as a share of its slots; a higher \
              share cleans more at once but collides more."),
    int("log.cleaner.io.buffer.size").default("524288").at_least(0).medium().cluster_wide()
        .doc("Memory of all cleaner threads together for reading and writing, in bytes."),
    double("log.cleaner.io.max.bytes.per.second").default("1.7976931348623157E308")
        .medium().cluster_wide()
        .doc("Bytes a second that the cleaners may read and write together."),
    long("log.cleaner.max.compaction.lag.ms").default("9223372036854775807")
        .at_least(1).medium().cluster_wide()
        .doc("Longest time a record stays out of reach of compaction, in milliseconds, whatever \
              the ratio of dirty bytes."),
    double("log.cleaner.min.cleanable.ratio").default("0.5").within(0.0, 1.0)
        .medium().cluster_wide()
        .doc("Share of uncompacted bytes from which a log becomes worth compacting."),
    long("log.cleaner.min.compaction.lag.ms").default("0").at_least(0).medium().cluster_wide()
        .doc("Shortest time a record stays untouched by compaction, in milliseconds."),
    int("log.cleaner.threads").default("1").at_least(0).medium().cluster_wide()
        .doc("Threads that compact logs."),
    list("log.dir").default("/tmp/kafka-logs").filled_list_of(ANY).high()
        .doc("Directory of the logs; `log.dirs` takes precedence."),
    long("log.dir.failure.timeout.ms").default("30000").at_least(1).low()
        .doc("If the broker cannot tell the controller about a failed log directory that holds \
              leaders within this time in milliseconds, it shuts down."),
    list("log.dirs").filled_list_of(ANY).high()
        .doc("Directories of the logs, separated by commas. Unset means `log.dir`."),
    int("log.flush.offset.checkpoint.interval.ms").default("60000").at_least(0).high()
        .doc("Milliseconds between two writes of the recovery-point checkpoint, which bounds \
              recovery after a crash."),
    long("log.flush.scheduler.interval.ms").default("9223372036854775807").high()
        .doc("Milliseconds between two checks for logs that must be forced to disk."),
    int("log.flush.start.offset.checkpoint.interval.ms").default("60000").at_least(0).high()
        .doc("Milliseconds between two writes of the log-start-offset checkpoint."),
    long("log.initial.task.delay.ms").default("30000").at_least(0).internal().low()
        .doc("Milliseconds after start before the log's periodic tasks run for the first time."),
    long("log.retention.check.interval.ms").default("300000").at_least(1).medium()
        .doc("Milliseconds between two searches for segments that retention allows to delete."),
    int("num.recovery.threads.per.data.dir").default("2").at_least(1).high().cluster_wide()
        .doc("Threads of each log directory that load and recover logs at start and flush them \
              at shutdown."),
    int("num.replica.alter.log.dirs.threads").high()
        .doc("Threads that move replicas between log directories; unset means one for each \
              directory."),
];
