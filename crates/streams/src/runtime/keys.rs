//! Every key of Kafka Streams 4.3's configuration, and what becomes of it here.
//!
//! A file that Java's application reads is read whole: what means something here is read, what cannot change results
//! is taken with a word, and what would change them without one is refused. `docs/streams-reference.md` has this table.

use super::ConfigError;

/// A key of Kafka Streams' configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// The key; one that ends with a point begins others.
    pub(super) name: &'static str,
    /// What is done without it, as text: Kafka Streams' default, as a rule; empty when that is null.
    pub(super) usual: &'static str,
    pub(super) treatment: Treatment,
}

/// What the library does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is read.
    Read,
    /// It is read into `StreamsConfig::topology`.
    Topology,
    /// The clients of the library read it.
    Client,
    /// Values other than the usual one change nothing, for this reason.
    WithoutEffect(&'static str),
    /// Values other than the usual one are errors, for this reason.
    Refused(&'static str),
}

use Treatment::{Client, Read, Refused, Topology, WithoutEffect};

const fn key(name: &'static str, usual: &'static str, treatment: Treatment) -> Key {
    Key {
        name,
        usual,
        treatment,
    }
}

const BY_TYPES: &str = "serdes come from the types of keys and values";
const OWN_METRICS: &str = "`KafkaStreams::metrics` gives metrics to whoever exports them, with rates of the last 30 to 60 s";
const NO_RACKS: &str = "active tasks are assigned without a look at racks";

/// In the order of their names.
pub(super) const KEYS: [Key; 75] = [
    key("acceptable.recovery.lag", "10000", Read),
    key(
        "allow.os.group.write.access",
        "false",
        WithoutEffect("files have the permissions that the umask of the process leaves"),
    ),
    key("application.id", "", Read),
    key("application.server", "", Read),
    key("bootstrap.servers", "", Read),
    key("buffered.records.per.partition", "1000", Read),
    key(
        "built.in.metrics.version",
        "latest",
        Refused("String must be one of: latest"),
    ),
    key("cache.max.bytes.buffering", "10485760", Read),
    key("client.id", "", Client),
    key("client.tag.", "", Read),
    key("commit.interval.ms", "30000", Read),
    key(
        "config.providers",
        "",
        Refused("values are taken as they stand, `${...}` too; write them out"),
    ),
    key("connections.max.idle.ms", "540000", Client),
    key(
        "default.client.supplier",
        "org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier",
        WithoutEffect("the library makes its own clients"),
    ),
    key(
        "default.deserialization.exception.handler",
        "org.apache.kafka.streams.errors.LogAndFailExceptionHandler",
        Read,
    ),
    key("default.dsl.store", "rocksDB", Topology),
    key("default.key.serde", "", WithoutEffect(BY_TYPES)),
    key("default.list.key.serde.inner", "", WithoutEffect(BY_TYPES)),
    key("default.list.key.serde.type", "", WithoutEffect(BY_TYPES)),
    key(
        "default.list.value.serde.inner",
        "",
        WithoutEffect(BY_TYPES),
    ),
    key("default.list.value.serde.type", "", WithoutEffect(BY_TYPES)),
    key(
        "default.production.exception.handler",
        "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
        Read,
    ),
    key(
        "default.timestamp.extractor",
        "org.apache.kafka.streams.processor.FailOnInvalidTimestamp",
        Read,
    ),
    key("default.value.serde", "", WithoutEffect(BY_TYPES)),
    key(
        "deserialization.exception.handler",
        "org.apache.kafka.streams.errors.LogAndFailExceptionHandler",
        Read,
    ),
    key("dsl.store.format", "DEFAULT", Topology),
    key(
        "dsl.store.suppliers.class",
        "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers",
        Topology,
    ),
    key(
        "enable.metrics.push",
        "false",
        WithoutEffect("metrics are not sent to brokers"),
    ),
    key(
        "ensure.explicit.internal.resource.naming",
        "false",
        Topology,
    ),
    key("errors.dead.letter.queue.topic.name", "", Read),
    key("group.protocol", "classic", Read),
    key(
        "log.summary.interval.ms",
        "120000",
        WithoutEffect("no summary is logged"),
    ),
    key("max.task.idle.ms", "0", Read),
    key("max.warmup.replicas", "2", Read),
    key("metadata.max.age.ms", "300000", Client),
    key("metadata.recovery.rebootstrap.trigger.ms", "300000", Client),
    key("metadata.recovery.strategy", "rebootstrap", Client),
    key(
        "metric.reporters",
        "org.apache.kafka.common.metrics.JmxReporter",
        WithoutEffect(OWN_METRICS),
    ),
    key("metrics.num.samples", "2", WithoutEffect(OWN_METRICS)),
    key("metrics.recording.level", "INFO", Read),
    key(
        "metrics.sample.window.ms",
        "30000",
        WithoutEffect(OWN_METRICS),
    ),
    key("num.standby.replicas", "0", Read),
    key("num.stream.threads", "1", Read),
    key("poll.ms", "100", Read),
    key("probing.rebalance.interval.ms", "600000", Read),
    key(
        "processing.exception.handler",
        "org.apache.kafka.streams.errors.LogAndFailProcessingExceptionHandler",
        Read,
    ),
    key("processing.exception.handler.global.enabled", "false", Read),
    key("processing.guarantee", "at_least_once", Read),
    key(
        "processor.wrapper.class",
        "org.apache.kafka.streams.processor.internals.NoOpProcessorWrapper",
        Refused("processors cannot be wrapped by a class of Java"),
    ),
    key(
        "production.exception.handler",
        "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
        Read,
    ),
    key(
        "rack.aware.assignment.non_overlap_cost",
        "",
        WithoutEffect(NO_RACKS),
    ),
    key(
        "rack.aware.assignment.strategy",
        "none",
        WithoutEffect(NO_RACKS),
    ),
    key("rack.aware.assignment.tags", "", Read),
    key(
        "rack.aware.assignment.traffic_cost",
        "",
        WithoutEffect(NO_RACKS),
    ),
    key("receive.buffer.bytes", "32768", Client),
    key("reconnect.backoff.max.ms", "1000", Client),
    key("reconnect.backoff.ms", "50", Client),
    key("repartition.purge.interval.ms", "30000", Read),
    key("replication.factor", "-1", Read),
    key("request.timeout.ms", "40000", Client),
    key("retry.backoff.ms", "100", Client),
    key(
        "rocksdb.config.setter",
        "",
        WithoutEffect("stores on disk are not RocksDB's"),
    ),
    key("security.protocol", "PLAINTEXT", Client),
    key("send.buffer.bytes", "131072", Client),
    key("state.cleanup.delay.ms", "600000", Read),
    key("state.cleanup.dir.max.age.ms", "-1", Read),
    key("state.dir", "/tmp/kafka-streams", Read),
    key("statestore.cache.max.bytes", "10485760", Read),
    key(
        "task.assignor.class",
        "",
        WithoutEffect("tasks are assigned as by Kafka Streams' `HighAvailabilityTaskAssignor`"),
    ),
    key("task.timeout.ms", "300000", Read),
    key("topology.optimization", "none", Topology),
    key("upgrade.from", "", Read),
    key("window.size.ms", "", WithoutEffect(BY_TYPES)),
    key("windowed.inner.class.serde", "", WithoutEffect(BY_TYPES)),
    key(
        "windowstore.changelog.additional.retention.ms",
        "86400000",
        Read,
    ),
];

/// What is to be done with the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is read, here or by clients, if there is such a key.
    Read,
    /// It is taken, and says what is done anyway.
    Same,
    /// It is taken, and has no effect, for this reason.
    WithoutEffect(&'static str),
}

/// What is to be done with `value` of `key`.
///
/// # Errors
/// It is refused.
pub(super) fn judge(key: &str, value: &str) -> Result<Verdict, ConfigError> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        return Ok(Verdict::Read);
    };
    let is_usual = value.trim() == known.usual;
    match known.treatment {
        Read | Topology | Client => Ok(Verdict::Read),
        WithoutEffect(_) | Refused(_) if is_usual => Ok(Verdict::Same),
        WithoutEffect(why) => Ok(Verdict::WithoutEffect(why)),
        Refused(why) => Err(ConfigError::Invalid {
            key: key.to_owned(),
            value: value.to_owned(),
            reason: why.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
