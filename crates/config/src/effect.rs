//! Keys that are known, checked and described like any other, and that nothing reads: whoever sets
//! one is told so, and why, unless nothing depends on it.
//!
//! Every key either has a reader or stands here; a test compares this list with what is read.

use std::collections::BTreeMap;

use crate::parsing::{default_value, parse};
use crate::synonyms::{broker_definition, without_listener};
use crate::{GROUP, TOPIC};

/// Why some keys have no effect.
struct Theme {
    reason: &'static str,
    weight: Weight,
    /// Names; one that ends in `*` stands for every key that begins like it.
    keys: &'static [&'static str],
}

/// How much it matters that a key has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// What was asked for is not done.
    Lack,
    /// What is to be tuned is done in another way here.
    Tuning,
    /// Nothing depends on it where one controller votes alone: Apache Kafka's would not show it either.
    Moot,
}

const THEMES: &[Theme] = &[
    Theme {
        reason: "connections are neither encrypted nor authenticated yet; let only hosts that \
                 you trust reach the listeners",
        weight: Weight::Lack,
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
        reason: "a controller votes alone here, so that none is elected",
        weight: Weight::Moot,
        keys: &[
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.election.*",
        ],
    },
    Theme {
        reason: "requests run on one thread a core; set TOKIO_WORKER_THREADS in the environment \
                 for another number",
        weight: Weight::Tuning,
        keys: &[
            "background.threads",
            "group.coordinator.background.threads",
            "num.io.threads",
            "num.network.threads",
        ],
    },
    Theme {
        reason: "requests do not queue: a connection is read again when its request is answered; \
                 `queued.max.request.bytes` bounds the memory of all",
        weight: Weight::Tuning,
        keys: &["queued.max.requests"],
    },
    Theme {
        reason: "coordinators write each change at once, from and to buffers of their own",
        weight: Weight::Tuning,
        keys: &[
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "offsets.load.buffer.size",
            "transaction.state.log.load.buffer.size",
        ],
    },
    Theme {
        reason: "requests that wait are woken one by one; there is no purgatory to purge",
        weight: Weight::Tuning,
        keys: &[
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
        ],
    },
    Theme {
        reason: "segments grow as they are written",
        weight: Weight::Tuning,
        keys: &["log.preallocate", "preallocate"],
    },
    Theme {
        reason: "moves between log directories keep to their rate at every moment, not over a \
                 window",
        weight: Weight::Tuning,
        keys: &["alter.log.dirs.replication.quota.window.*"],
    },
    Theme {
        reason: "quotas of clients are kept and not enforced yet",
        weight: Weight::Lack,
        keys: &["client.quota.callback.class", "controller.quota.window.*"],
    },
    Theme {
        reason: "metrics are not exported yet",
        weight: Weight::Lack,
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
        weight: Weight::Lack,
        keys: &[
            "alter.config.policy.class.name",
            "config.providers",
            "create.topic.policy.class.name",
        ],
    },
    Theme {
        reason: "segments are kept in log directories only; there is no remote storage yet",
        weight: Weight::Lack,
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
        weight: Weight::Lack,
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
        weight: Weight::Lack,
        keys: &["group.streams.*", "streams.*"],
    },
    Theme {
        reason: "an API or feature that is not stable is never offered",
        weight: Weight::Lack,
        keys: &[
            "unstable.api.versions.enable",
            "unstable.feature.versions.enable",
        ],
    },
    Theme {
        reason: "two-phase commit is asked for by a version of InitProducerId that is not stable, \
                 and not served",
        weight: Weight::Lack,
        keys: &["transaction.two.phase.commit.enable"],
    },
];

/// Why `key` has no effect, whether a server, a topic or a group has it; none if it has one. A key
/// behind the prefix of a listener is judged without it.
pub fn reason_without_effect(key: &str) -> Option<&'static str> {
    theme_of(key).map(|theme| theme.reason)
}

fn theme_of(key: &str) -> Option<&'static Theme> {
    let key = without_listener(key).unwrap_or(key);
    THEMES
        .iter()
        .find(|theme| theme.keys.iter().any(|pattern| matches(pattern, key)))
}

fn matches(pattern: &str, key: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => pattern == key,
    }
}

/// What to tell whoever has set keys that have no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The keys, and why.
    pub text: String,
    /// Whether something that was asked for is not done; otherwise it is done in another way.
    pub is_warning: bool,
}

/// What to tell whoever has set these keys to these values: a note for each reason that one of them
/// has no effect. Nothing is lost where a value is the default, or asks for nothing.
pub fn notes<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Note> {
    let mut by_reason: BTreeMap<&str, (bool, Vec<String>)> = BTreeMap::new();
    for (key, value) in given {
        let Some(theme) = theme_of(key) else { continue };
        if theme.weight == Weight::Moot || asks_for_nothing(key, value) {
            continue;
        }
        let is_warning = theme.weight == Weight::Lack;
        let (_, keys) = by_reason
            .entry(theme.reason)
            .or_insert((is_warning, Vec::new()));
        keys.push(format!("`{key}`"));
    }
    let notes = by_reason.into_iter().map(|(reason, (is_warning, keys))| {
        let verb = if keys.len() == 1 { "has" } else { "have" };
        Note {
            text: format!("{} {verb} no effect: {reason}", keys.join(", ")),
            is_warning,
        }
    });
    notes.collect()
}

/// Whether a value is empty, or what holds without it.
fn asks_for_nothing(key: &str, value: &str) -> bool {
    let definition = broker_definition(key)
        .or_else(|| TOPIC.definition(key))
        .or_else(|| GROUP.definition(key));
    let is_default = definition.is_some_and(|definition| {
        let default = default_value(definition);
        default.is_ok_and(|default| default.is_some() && parse(definition, value).ok() == default)
    });
    is_default || value.trim().is_empty()
}

#[cfg(test)]
mod tests;
