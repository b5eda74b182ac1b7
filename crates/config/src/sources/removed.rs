//! Keys that Kafka had once, and what became of them; and how other images than its own write them.

/// A key, or the beginning of several if it ends in a dot, and what became of it.
const REMOVED: &[(&str, &str)] = &[
    (
        "zookeeper.",
        "there is no ZooKeeper; the controllers keep the metadata (process.roles)",
    ),
    ("advertised.host.name", "use advertised.listeners"),
    ("advertised.port", "use advertised.listeners"),
    ("auto.include.jmx.reporter", "use metric.reporters"),
    (
        "cfg.",
        "variables of Kafka's own container image have no CFG_: write KAFKA_NODE_ID for node.id",
    ),
    ("broker.id.generation.enable", "give each node its node.id"),
    (
        "control.plane.listener.name",
        "controllers have listeners of their own \
        (controller.listener.names)",
    ),
    (
        "controlled.shutdown.max.retries",
        "the controller decides when a broker may stop",
    ),
    (
        "controlled.shutdown.retry.backoff.ms",
        "the controller decides when a broker may stop",
    ),
    (
        "delegation.token.master.key",
        "use delegation.token.secret.key",
    ),
    (
        "group.coordinator.new.enable",
        "the consumer protocol is always available \
        (group.coordinator.rebalance.protocols)",
    ),
    ("host.name", "use listeners"),
    (
        "inter.broker.protocol.version",
        "the feature metadata.version takes its place",
    ),
    (
        "leader.imbalance.per.broker.percentage",
        "leadership always returns to preferred replicas",
    ),
    (
        "log.message.downconversion.enable",
        "batches are never converted to older formats",
    ),
    (
        "log.message.format.version",
        "batches always have the current format",
    ),
    (
        "log.message.timestamp.difference.max.ms",
        "use log.message.timestamp.before.max.ms and \
        log.message.timestamp.after.max.ms",
    ),
    (
        "offsets.commit.required.acks",
        "commits always wait for the in-sync replicas",
    ),
    (
        "password.encoder.",
        "passwords in the metadata are not encoded",
    ),
    ("port", "use listeners"),
    (
        "quota.consumer.default",
        "set quotas of users and client ids",
    ),
    (
        "quota.producer.default",
        "set quotas of users and client ids",
    ),
    ("reserved.broker.max.id", "give each node its node.id"),
    (
        "unstable.metadata.versions.enable",
        "use unstable.feature.versions.enable",
    ),
];

/// What became of `key`, if Kafka had it once.
pub(super) fn removal(key: &str) -> Option<&'static str> {
    let is_meant = |name: &str| match name.strip_suffix('.') {
        Some(_) => key.starts_with(name),
        None => key == name,
    };
    REMOVED
        .iter()
        .find(|(name, _)| is_meant(name))
        .map(|(_, explanation)| *explanation)
}

#[cfg(test)]
mod tests {
    use super::{REMOVED, removal};
    use crate::BROKER;

    #[test]
    fn removed_keys_are_not_known_keys() {
        for (name, _) in REMOVED {
            assert!(BROKER.definition(name).is_none(), "{name}");
            assert!(BROKER.iter().all(|key| removal(key.name).is_none()));
        }
        assert!(removal("zookeeper.connect").is_some());
        assert!(removal("password.encoder.secret").is_some());
        assert!(removal("port").is_some());
        assert!(removal("portal").is_none());
    }
}
