//! The keys of a topic: what `CreateTopics` and `kafka-topics --config` take.

use crate::definition::{
    CLEANUP_POLICIES, COMPRESSION_TYPES, ConfigDefinition, Constraint, TIMESTAMP_TYPES, boolean,
    double, int, list, long, string,
};
use crate::table::{ConfigTable, sorted};

/// Every key of a topic.
pub static TOPIC: ConfigTable = ConfigTable::new(|| sorted(&[TOPIC_DEFINITIONS]));

#[rustfmt::skip]
const TOPIC_DEFINITIONS: &[ConfigDefinition] = &[
    list("cleanup.policy").default("delete").list_of(CLEANUP_POLICIES).medium().cluster_wide()
        .doc("What happens to old segments: `delete` removes them by age and size, `compact` \
              keeps the last record of each key; both may be combined, and an empty list keeps \
              all."),
    int("compression.gzip.level").default("-1").constraint(Constraint::GzipLevel)
        .medium().cluster_wide()
        .doc("Level of gzip when this topic's batches are compressed by the broker: 1 is \
              fastest, 9 is smallest, -1 is the library's choice."),
    int("compression.lz4.level").default("9").between(1, 17).medium().cluster_wide()
        .doc("Level of lz4 when this topic's batches are compressed by the broker, from 1 to 17."),
    string("compression.type").default("producer").one_of(COMPRESSION_TYPES).medium().cluster_wide()
        .doc("Codec in which batches are stored: `producer` keeps what the producer chose, \
              `uncompressed` stores plain batches, a codec's name recompresses."),
    int("compression.zstd.level").default("3").between(-131072, 22).medium().cluster_wide()
        .doc("Level of zstd when this topic's batches are compressed by the broker, from -131072 \
              to 22."),
    long("delete.retention.ms").default("86400000").at_least(0).medium().cluster_wide()
        .doc("How long a tombstone stays in a compacted log, in milliseconds."),
    long("file.delete.delay.ms").default("60000").at_least(0).medium().cluster_wide()
        .doc("How long the file of a deleted segment stays on disk before it is removed, in \
              milliseconds."),
    long("flush.messages").default("9223372036854775807").at_least(1).medium().cluster_wide()
        .doc("Records appended to a partition before its log is forced to disk."),
    long("flush.ms").default("9223372036854775807").at_least(0).medium().cluster_wide()
        .doc("Longest time in milliseconds that a record stays only in memory before its log is \
              forced to disk."),
    list("follower.replication.throttled.replicas").default("")
        .constraint(Constraint::ThrottledReplicas).medium().cluster_wide()
        .doc("Replicas whose fetching as a follower is throttled, as `partition:broker` pairs, \
              or `*` for all."),
    int("index.interval.bytes").default("4096").at_least(0).medium().cluster_wide()
        .doc("Bytes appended to a log between two entries of its offset index."),
    int("internal.segment.bytes").internal().medium().cluster_wide()
        .doc("Segment size without a lower bound, for tests; takes precedence over \
              `segment.bytes`."),
    list("leader.replication.throttled.replicas").default("")
        .constraint(Constraint::ThrottledReplicas).medium().cluster_wide()
        .doc("Replicas whose serving of followers is throttled, as `partition:broker` pairs, or \
              `*` for all."),
    long("local.retention.bytes").default("-2").at_least(-2).medium().cluster_wide()
        .doc("Size of a tiered partition's local log above which its oldest local segments are \
              deleted; -2 means `retention.bytes`."),
    long("local.retention.ms").default("-2").at_least(-2).medium().cluster_wide()
        .doc("Age in milliseconds after which local segments of a tiered partition are deleted; \
              -2 means `retention.ms`."),
    long("max.compaction.lag.ms").default("9223372036854775807").at_least(1).medium().cluster_wide()
        .doc("Longest time a record stays out of reach of compaction, in milliseconds, whatever \
              the ratio of dirty bytes."),
    int("max.message.bytes").default("1048588").at_least(0).medium().cluster_wide()
        .doc("Largest record batch that the topic accepts, after compression."),
    long("message.timestamp.after.max.ms").default("3600000").at_least(0).medium().cluster_wide()
        .doc("How far a record's timestamp may lie ahead of the broker's clock, in milliseconds; \
              later ones are refused. Only with CreateTime."),
    long("message.timestamp.before.max.ms").default("9223372036854775807").at_least(0)
        .medium().cluster_wide()
        .doc("How far a record's timestamp may lie behind the broker's clock, in milliseconds; \
              older ones are refused. Only with CreateTime."),
    string("message.timestamp.type").default("CreateTime").one_of(TIMESTAMP_TYPES)
        .medium().cluster_wide()
        .doc("Whether a record carries the time its producer set (CreateTime) or the time the \
              broker appended it (LogAppendTime)."),
    double("min.cleanable.dirty.ratio").default("0.5").within(0.0, 1.0).medium().cluster_wide()
        .doc("Share of uncompacted bytes from which the log becomes worth compacting."),
    long("min.compaction.lag.ms").default("0").at_least(0).medium().cluster_wide()
        .doc("Shortest time a record stays untouched by compaction, in milliseconds."),
    int("min.insync.replicas").default("1").at_least(1).medium().cluster_wide()
        .doc("In-sync replicas that must hold a record before a producer with acks=all gets its \
              acknowledgement; with fewer in sync, such writes are refused."),
    boolean("preallocate").default("false").medium().cluster_wide()
        .doc("Whether a segment's file gets its full size when it is created."),
    boolean("remote.log.copy.disable").default("false").medium().cluster_wide()
        .doc("Whether a tiered topic stops copying segments to remote storage while what is \
              there stays readable."),
    boolean("remote.log.delete.on.disable").default("false").medium().cluster_wide()
        .doc("Whether the remote segments are deleted when remote storage is switched off for \
              the topic."),
    boolean("remote.storage.enable").default("false").medium().cluster_wide()
        .doc("Whether segments of the topic are moved to remote storage."),
    long("retention.bytes").default("-1").medium().cluster_wide()
        .doc("Size of a partition's log above which its oldest segments are deleted; -1 sets no \
              limit."),
    long("retention.ms").default("604800000").at_least(-1).medium().cluster_wide()
        .doc("Age in milliseconds after which a segment is deleted; -1 sets no limit."),
    int("segment.bytes").default("1073741824").at_least(1048576).medium().cluster_wide()
        .doc("Size at which a segment is closed and a new one opened."),
    int("segment.index.bytes").default("10485760").at_least(4).medium().cluster_wide()
        .doc("Size limit of one index file; a full index makes the segment roll."),
    long("segment.jitter.ms").default("0").at_least(0).medium().cluster_wide()
        .doc("Most milliseconds by which rolling is brought forward at random, so that segments \
              do not all roll at once."),
    long("segment.ms").default("604800000").at_least(1).medium().cluster_wide()
        .doc("Milliseconds after which an active segment with records is closed and a new one \
              opened."),
    boolean("unclean.leader.election.enable").default("false").medium().cluster_wide()
        .doc("Whether a replica that is not in sync may become leader when no other is left; \
              acknowledged records can be lost that way."),
];
