//! What the overrides of a group must satisfy: each value by itself and within the broker's bounds.

use super::AlterError;
use crate::group::GROUP;
use crate::layers::ConfigMap;
use crate::parsing::parse;
use crate::server::{Bounded, GroupConfig};
use crate::value::Value;

pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), AlterError> {
    let mut names = names;
    match names.find(|name| GROUP.definition(name).is_none()) {
        Some(name) => Err(AlterError::invalid_config(format!(
            "Unknown group config name: {name}"
        ))),
        None => Ok(()),
    }
}

/// Checks the overrides of a group.
pub(super) fn check(overrides: &ConfigMap, bounds: &GroupConfig) -> Result<(), AlterError> {
    let mut numbers = Vec::new();
    for (name, text) in overrides {
        let Some(definition) = GROUP.definition(name) else {
            continue;
        };
        match parse(definition, text) {
            Ok(Value::Int(number)) => numbers.push((definition.name, number)),
            Ok(_) => {}
            Err(error) => return Err(AlterError::invalid_config(error)),
        }
    }
    for (name, number) in &numbers {
        let Some(Bounded { min, max, .. }) = bounds_of(name, bounds) else {
            continue;
        };
        let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
        if *number < min {
            return Err(AlterError::invalid_config(format!(
                "{name} must be greater than or equal to group.{kind}.min.{rest}"
            )));
        }
        if *number > max {
            let rest = rest.strip_prefix("num.").unwrap_or(rest);
            return Err(AlterError::invalid_config(format!(
                "{name} must be less than or equal to group.{kind}.max.{rest}"
            )));
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let (heartbeat, session) = (
            format!("{kind}.heartbeat.interval.ms"),
            format!("{kind}.session.timeout.ms"),
        );
        let in_force = |key: &str| {
            let own = numbers
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, number)| *number);
            own.or_else(|| bounds_of(key, bounds).map(|bounded| bounded.value))
        };
        if in_force(&heartbeat) >= in_force(&session) {
            return Err(AlterError::invalid_config(format!(
                "{session} must be greater than {heartbeat}"
            )));
        }
    }
    Ok(())
}

fn bounds_of(name: &str, bounds: &GroupConfig) -> Option<Bounded> {
    let (consumer, share, streams) = (&bounds.consumer, &bounds.share, &bounds.streams);
    match name {
        "consumer.session.timeout.ms" => Some(consumer.session_timeout_ms),
        "consumer.heartbeat.interval.ms" => Some(consumer.heartbeat_interval_ms),
        "consumer.assignment.interval.ms" => Some(consumer.assignment_interval_ms),
        "share.session.timeout.ms" => Some(share.session_timeout_ms),
        "share.heartbeat.interval.ms" => Some(share.heartbeat_interval_ms),
        "share.assignment.interval.ms" => Some(share.assignment_interval_ms),
        "share.record.lock.duration.ms" => Some(share.record_lock_duration_ms),
        "share.delivery.count.limit" => Some(share.delivery_count_limit),
        "share.partition.max.record.locks" => Some(share.partition_max_record_locks),
        "streams.session.timeout.ms" => Some(streams.session_timeout_ms),
        "streams.heartbeat.interval.ms" => Some(streams.heartbeat_interval_ms),
        "streams.assignment.interval.ms" => Some(streams.assignment_interval_ms),
        "streams.num.standby.replicas" => Some(streams.num_standby_replicas),
        _ => None,
    }
}
