//! Which keys stand in for which: a topic's keys and the broker's defaults for them, a group's
//! keys and the broker's, and the broker's keys that say one thing in several units.
//!
//! Order matters: the first synonym with a value wins.

use crate::broker::BROKER;
use crate::definition::ConfigDefinition;
use crate::parsing::parse;
use crate::quota::BROKER_QUOTA;
use crate::value::{Value, ValueError};

/// What a broker's value is multiplied with to be in the unit of the topic's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The value is taken as it is.
    Same,
    /// Minutes into milliseconds.
    Minutes,
    /// Hours into milliseconds.
    Hours,
}

/// A broker key whose value a topic takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSynonym {
    /// The broker's key.
    pub name: &'static str,
    /// Unit of its value.
    pub unit: Unit,
}

const fn same(name: &'static str) -> TopicSynonym {
    TopicSynonym {
        name,
        unit: Unit::Same,
    }
}

const fn minutes(name: &'static str) -> TopicSynonym {
    TopicSynonym {
        name,
        unit: Unit::Minutes,
    }
}

const fn hours(name: &'static str) -> TopicSynonym {
    TopicSynonym {
        name,
        unit: Unit::Hours,
    }
}

/// A topic's keys, by name, and the broker's for each. Keys that are missing have none.
#[rustfmt::skip]
const TOPIC_SYNONYMS: &[(&str, &[TopicSynonym])] = &[
    ("cleanup.policy", &[same("log.cleanup.policy")]),
    ("compression.gzip.level", &[same("compression.gzip.level")]),
    ("compression.lz4.level", &[same("compression.lz4.level")]),
    ("compression.type", &[same("compression.type")]),
    ("compression.zstd.level", &[same("compression.zstd.level")]),
    ("delete.retention.ms", &[same("log.cleaner.delete.retention.ms")]),
    ("file.delete.delay.ms", &[same("log.segment.delete.delay.ms")]),
    ("flush.messages", &[same("log.flush.interval.messages")]),
    ("flush.ms", &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]),
    ("index.interval.bytes", &[same("log.index.interval.bytes")]),
    ("local.retention.bytes", &[same("log.local.retention.bytes")]),
    ("local.retention.ms", &[same("log.local.retention.ms")]),
    ("max.compaction.lag.ms", &[same("log.cleaner.max.compaction.lag.ms")]),
    ("max.message.bytes", &[same("message.max.bytes")]),
    ("message.timestamp.after.max.ms", &[same("log.message.timestamp.after.max.ms")]),
    ("message.timestamp.before.max.ms", &[same("log.message.timestamp.before.max.ms")]),
    ("message.timestamp.type", &[same("log.message.timestamp.type")]),
    ("min.cleanable.dirty.ratio", &[same("log.cleaner.min.cleanable.ratio")]),
    ("min.compaction.lag.ms", &[same("log.cleaner.min.compaction.lag.ms")]),
    ("min.insync.replicas", &[same("min.insync.replicas")]),
    ("preallocate", &[same("log.preallocate")]),
    ("retention.bytes", &[same("log.retention.bytes")]),
    ("retention.ms", &[
        same("log.retention.ms"),
        minutes("log.retention.minutes"),
        hours("log.retention.hours"),
    ]),
    ("segment.bytes", &[same("log.segment.bytes")]),
    ("segment.index.bytes", &[same("log.index.size.max.bytes")]),
    ("segment.jitter.ms", &[same("log.roll.jitter.ms"), hours("log.roll.jitter.hours")]),
    ("segment.ms", &[same("log.roll.ms"), hours("log.roll.hours")]),
    ("unclean.leader.election.enable", &[same("unclean.leader.election.enable")]),
];

/// Broker keys that say one thing in several units, first wins.
const BROKER_SYNONYMS: &[&[&str]] = &[
    &[
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ],
    &["log.roll.ms", "log.roll.hours"],
    &["log.roll.jitter.ms", "log.roll.jitter.hours"],
];

/// Keys that stand under a mechanism after the listener's prefix, as in
/// `listener.name.internal.plain.sasl.jaas.config`.
const MECHANISM_KEYS: &[&str] = &[
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
];

/// The broker's keys that stand in for the topic key `name`, first wins.
pub fn of_topic_key(name: &str) -> &'static [TopicSynonym] {
    match TOPIC_SYNONYMS.binary_search_by(|(key, _)| (*key).cmp(name)) {
        Ok(index) => TOPIC_SYNONYMS
            .get(index)
            .map_or(&[], |(_, synonyms)| synonyms),
        Err(_) => &[],
    }
}

/// The broker's key that stands in for the group key `name`.
pub fn of_group_key(name: &str) -> Option<&'static str> {
    let without_broker_key = [
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    ];
    if without_broker_key.contains(&name) {
        return None;
    }
    BROKER
        .definition(&format!("group.{name}"))
        .map(|definition| definition.name)
}

/// The broker's keys that can set what `name` sets, `name` included, first wins. A key with a
/// listener's prefix falls back to the key without it.
pub fn of_broker_key(name: &str) -> Vec<&str> {
    if let Some(family) = BROKER_SYNONYMS.iter().find(|family| family.contains(&name)) {
        return family.to_vec();
    }
    if name == "log.flush.interval.ms" {
        return vec![name, "log.flush.scheduler.interval.ms"];
    }
    match without_listener(name) {
        Some(base) => vec![name, base],
        None => vec![name],
    }
}

/// The keys whose values a change of `name` while the broker runs replaces.
pub(crate) fn replaced_by(name: &str) -> Vec<&str> {
    match without_listener(name) {
        Some(_) => vec![name],
        None => of_broker_key(name),
    }
}

/// `name` without `listener.name.<listener>.`, and without a mechanism where the key has one.
pub fn without_listener(name: &str) -> Option<&str> {
    let (_, base) = name.strip_prefix("listener.name.")?.split_once('.')?;
    let mechanism_key = MECHANISM_KEYS.iter().find(|key| base.ends_with(*key));
    Some(mechanism_key.copied().unwrap_or(base))
}

/// Definition of a broker's key, of a broker's quota, or of the key behind a listener's prefix.
pub fn broker_definition(name: &str) -> Option<&'static ConfigDefinition> {
    BROKER
        .definition(name)
        .or_else(|| BROKER_QUOTA.definition(name))
        .or_else(|| BROKER.definition(without_listener(name)?))
}

impl TopicSynonym {
    /// The broker's value `text` in the unit of the topic's key.
    ///
    /// A negative age means no limit, in whatever unit, and becomes -1.
    pub fn convert(&self, text: &str) -> Result<String, ValueError> {
        let factor = match self.unit {
            Unit::Same if self.name != "log.retention.ms" => return Ok(text.to_owned()),
            Unit::Same => 1,
            Unit::Minutes => 60_000,
            Unit::Hours => 3_600_000,
        };
        let Some(definition) = BROKER.definition(self.name) else {
            return Ok(text.to_owned());
        };
        let count = match parse(definition, text)? {
            Value::Int(count) => i64::from(count),
            Value::Long(count) => count,
            other => unreachable!("{} is a whole number, not {other}", self.name),
        };
        Ok(if count < 0 {
            -1
        } else {
            count.saturating_mul(factor)
        }
        .to_string())
    }
}

#[cfg(test)]
mod tests;
