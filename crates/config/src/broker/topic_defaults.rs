//! Broker keys: what a topic takes over when it has no setting of its own.
//!
//! `crate::synonyms` pairs each with the topic's key.

use crate::definition::{
    CLEANUP_POLICIES, COMPRESSION_TYPES, ConfigDefinition, Constraint, TIMESTAMP_TYPES, boolean,
    int, list, long, string,
};

#[rustfmt::skip]
pub(super) const TOPIC_DEFAULTS: &[ConfigDefinition] = &[
    int("compression.gzip.level").default("-1").constraint(Constraint::GzipLevel)
        .medium().cluster_wide()
        .doc("Level of gzip when the server compresses: 1 is fastest, 9 is smallest and -1 is \
              the library's own choice."),
    int("compression.lz4.level").default("9").between(1, 17).medium().cluster_wide()
        .doc("Level of lz4 when the server compresses, from 1 to 17."),
    string("compression.type").default("producer").one_of(COMPRESSION_TYPES).high().cluster_wide()
        .doc("Codec in which batches are stored: `producer` keeps what the producer chose, \
              `uncompressed` stores plain batches, a codec's name recompresses."),
    int("compression.zstd.level").default("3").between(-131072, 22).medium().cluster_wide()
        .doc("Level of zstd when the server compresses, from -131072 to 22."),
    int("default.replication.factor").default("1").medium()
        .doc("Replicas of a topic created without a replication factor, automatic creation \
              included."),
    int("log.index.interval.bytes").default("4096").at_least(0).medium().cluster_wide()
        .doc("Bytes appended to a log between two entries of its offset index."),
    int("log.index.size.max.bytes").default("10485760").at_least(4).medium().cluster_wide()
        .doc("Size limit of one index file; a full index makes the segment roll."),
    list("log.cleanup.policy").default("delete").list_of(CLEANUP_POLICIES).medium().cluster_wide()
        .doc("What happens to old segments: `delete` removes them by age and size, `compact` \
              keeps the last record of each key; both may be combined, and an empty list keeps \
              all."),
    long("log.flush.interval.messages").default("9223372036854775807").at_least(1)
        .high().cluster_wide()
        .doc("Records appended to a partition before its log is forced to disk."),
    long("log.flush.interval.ms").high().cluster_wide()
        .doc("Longest time in milliseconds that a record stays only in memory before its log is \
              forced to disk. Unset means `log.flush.scheduler.interval.ms`."),
    long("log.message.timestamp.after.max.ms").default("3600000").at_least(0)
        .medium().cluster_wide()
        .doc("How far a record's timestamp may lie ahead of the broker's clock, in milliseconds; \
              later ones are refused. Only with CreateTime."),
    long("log.message.timestamp.before.max.ms").default("9223372036854775807")
        .at_least(0).medium().cluster_wide()
        .doc("How far a record's timestamp may lie behind the broker's clock, in milliseconds; \
              older ones are refused. Only with CreateTime."),
    string("log.message.timestamp.type").default("CreateTime")
        .one_of(TIMESTAMP_TYPES).medium().cluster_wide()
        .doc("Whether a record carries the time its producer set (CreateTime) or the time the \
              broker appended it (LogAppendTime)."),
    boolean("log.preallocate").default("false").medium().cluster_wide()
        .doc("Whether a segment's file gets its full size when it is created."),
    long("log.retention.bytes").default("-1").high().cluster_wide()
        .doc("Size of a partition's log above which its oldest segments are deleted; -1 sets no \
              limit."),
    int("log.retention.hours").default("168").high()
        .doc("Age in hours after which a segment is deleted. `log.retention.minutes` and \
              `log.retention.ms` take precedence."),
    int("log.retention.minutes").high()
        .doc("Age in minutes after which a segment is deleted. `log.retention.ms` takes \
              precedence; unset means `log.retention.hours`."),
    long("log.retention.ms").high().cluster_wide()
        .doc("Age in milliseconds after which a segment is deleted, -1 for never. Unset means \
              `log.retention.minutes`."),
    int("log.roll.hours").default("168").at_least(1).high()
        .doc("Hours after which an active segment with records is closed and a new one opened. \
              `log.roll.ms` takes precedence."),
    int("log.roll.jitter.hours").default("0").at_least(0).high()
        .doc("Most hours by which rolling is brought forward at random, so that segments do not \
              all roll at once. `log.roll.jitter.ms` takes precedence."),
    long("log.roll.jitter.ms").high().cluster_wide()
        .doc("Most milliseconds by which rolling is brought forward at random. Unset means \
              `log.roll.jitter.hours`."),
    long("log.roll.ms").high().cluster_wide()
        .doc("Milliseconds after which an active segment with records is closed and a new one \
              opened. Unset means `log.roll.hours`."),
    int("log.segment.bytes").default("1073741824").at_least(1048576).high().cluster_wide()
        .doc("Size at which a segment is closed and a new one opened."),
    long("log.segment.delete.delay.ms").default("60000").at_least(0).high().cluster_wide()
        .doc("How long the file of a deleted segment stays on disk before it is removed, in \
              milliseconds."),
    int("message.max.bytes").default("1048588").at_least(0).high().cluster_wide()
        .doc("Largest record batch the broker accepts, after compression. Topics override it \
              with `max.message.bytes`."),
    int("min.insync.replicas").default("1").at_least(1).high().cluster_wide()
        .doc("In-sync replicas that must hold a record before a producer with acks=all gets its \
              acknowledgement; with fewer in sync, such writes are refused."),
    int("num.partitions").default("1").at_least(1).medium()
        .doc("Partitions of a topic that is created without a partition count."),
    boolean("unclean.leader.election.enable").default("false").high().cluster_wide()
        .doc("Whether a replica that is not in sync may become leader when no other is left; \
              acknowledged records can be lost that way."),
];
