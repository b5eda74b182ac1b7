//! Keys that are known, checked and described like any other, and that nothing reads: whoever sets
//! one is told so, and why.
//!
//! Every key either has a reader or stands here; a test compares this list with what is read.

use std::collections::BTreeMap;

use crate::synonyms::without_listener;

/// Why some keys have no effect.
struct Theme {
    reason: &'static str,
    /// Names; one that ends in `*` stands for every key that begins like it.
    keys: &'static [&'static str],
}

const THEMES: &[Theme] = &[
    Theme {
        reason: "connections are neither encrypted nor authenticated yet; let only hosts that \
                 you trust reach the listeners",
        keys: &[
            "allow.everyone.if.no.acl.found",
            "connection.failed.authentication.delay.ms",
            "connections.max.reauth.ms",
            "delegation.token.*",
            "early.start.listeners",
            "principal.builder.class",
            "sasl.*",
            "security.providers",
            "ssl.*",
            "super.users",
        ],
    },
    Theme {
        reason: "this version runs a single node",
        keys: &[
            "auto.leader.rebalance.enable",
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "controlled.shutdown.enable",
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.election.*",
            "controller.quorum.fetch.*",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "controller.socket.timeout.ms",
            "follower.replication.throttled.*",
            "initial.broker.registration.timeout.ms",
            "leader.imbalance.check.interval.seconds",
            "leader.replication.throttled.*",
            "log.dir.failure.timeout.ms",
            "metadata.max.idle.interval.ms",
            "num.replica.fetchers",
            "offsets.commit.timeout.ms",
            "replica.fetch.*",
            "replica.lag.time.max.ms",
            "replica.selector.class",
            "replica.socket.*",
            "replication.quota.window.*",
            "request.timeout.ms",
            "socket.connection.setup.*",
            "unclean.leader.election.*",
        ],
    },
    Theme {
        reason: "requests run on one thread a core; set TOKIO_WORKER_THREADS in the environment \
                 for another number",
        keys: &[
            "background.threads",
            "group.coordinator.background.threads",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
        ],
    },
    Theme {
        reason: "requests do not queue: a connection is read again when its request is answered; \
                 `queued.max.request.bytes` bounds the memory of all",
        keys: &["queued.max.requests"],
    },
    Theme {
        reason: "coordinators write each change at once, from and to buffers of their own",
        keys: &[
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "offsets.load.buffer.size",
            "transaction.state.log.load.buffer.size",
        ],
    },
    Theme {
        reason: "requests that wait are woken one by one; there is no purgatory to purge",
        keys: &[
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
        ],
    },
    Theme {
        reason: "segments grow as they are written",
        keys: &["log.preallocate", "preallocate"],
    },
    Theme {
        reason: "moves between log directories keep to their rate at every moment, not over a \
                 window",
        keys: &["alter.log.dirs.replication.quota.window.*"],
    },
    Theme {
        reason: "quotas of clients are kept and not enforced yet",
        keys: &["client.quota.callback.class", "controller.quota.window.*"],
    },
    Theme {
        reason: "metrics are not exported yet",
        keys: &[
            "controller.performance.*",
            "kafka.metrics.*",
            "metric.reporters",
            "metrics.*",
            "telemetry.max.bytes",
        ],
    },
    Theme {
        reason: "no Java classes are loaded here",
        keys: &[
            "alter.config.policy.class.name",
            "config.providers",
            "create.topic.policy.class.name",
        ],
    },
    Theme {
        reason: "segments are kept in log directories only; there is no remote storage yet",
        keys: &[
            "follower.fetch.last.tiered.offset.enable",
            "local.retention.*",
            "log.local.retention.*",
            "remote.fetch.max.wait.ms",
            "remote.list.offsets.request.timeout.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.log.index.*",
            "remote.log.manager.*",
            "remote.log.metadata.*",
            "remote.log.reader.*",
            "remote.log.storage.manager.*",
            "remote.storage.enable",
        ],
    },
    Theme {
        reason: "there are no share groups yet",
        keys: &[
            "group.share.*",
            "share.assignment.interval.ms",
            "share.auto.offset.reset",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.cold.partition.snapshot.interval.ms",
            "share.coordinator.load.buffer.size",
            "share.coordinator.snapshot.update.records.per.snapshot",
            "share.coordinator.state.topic.compression.codec",
            "share.coordinator.state.topic.prune.interval.ms",
            "share.coordinator.threads",
            "share.coordinator.write.timeout.ms",
            "share.delivery.count.limit",
            "share.fetch.purgatory.purge.interval.requests",
            "share.heartbeat.interval.ms",
            "share.isolation.level",
            "share.partition.max.record.locks",
            "share.record.lock.duration.ms",
            "share.renew.acknowledge.enable",
            "share.session.timeout.ms",
        ],
    },
    Theme {
        reason: "there are no streams groups yet",
        keys: &["group.streams.*", "streams.*"],
    },
    Theme {
        reason: "an API or feature that is not stable is never offered",
        keys: &[
            "unstable.api.versions.enable",
            "unstable.feature.versions.enable",
        ],
    },
];

/// Why `key` has no effect, whether a server, a topic or a group has it; none if it has one. A key
/// behind the prefix of a listener is judged without it.
pub fn reason_without_effect(key: &str) -> Option<&'static str> {
    let key = without_listener(key).unwrap_or(key);
    let theme = THEMES
        .iter()
        .find(|theme| theme.keys.iter().any(|pattern| matches(pattern, key)));
    theme.map(|theme| theme.reason)
}

fn matches(pattern: &str, key: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => pattern == key,
    }
}

/// What to tell whoever has set `keys`: a line for each reason that one of them has no effect.
pub fn warnings<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in keys {
        if let Some(reason) = reason_without_effect(key) {
            by_reason
                .entry(reason)
                .or_default()
                .push(format!("`{key}`"));
        }
    }
    let lines = by_reason.into_iter().map(|(reason, keys)| {
        let verb = if keys.len() == 1 { "has" } else { "have" };
        format!("{} {verb} no effect: {reason}", keys.join(", "))
    });
    lines.collect()
}

#[cfg(test)]
mod tests;
