//! What the overrides of a topic must satisfy, one by one and together.

use super::AlterError;
use crate::layers::ConfigMap;
use crate::topic::TOPIC;
use crate::topic_settings::{TopicDefaults, TopicSettings};
use crate::typed::TypedValues;

/// Checks the overrides of a topic that is to be created and returns them.
pub fn check_created_topic(
    pairs: &[(&str, Option<&str>)],
    defaults: &TopicDefaults,
    remote_storage: bool,
) -> Result<ConfigMap, AlterError> {
    let without: Vec<_> = pairs
        .iter()
        .filter(|(_, value)| value.is_none())
        .map(|(name, _)| *name)
        .collect();
    if !without.is_empty() {
        return Err(AlterError::invalid_config(format!(
            "Null value not supported for topic configs: {}",
            without.join(",")
        )));
    }
    check_names(pairs.iter().map(|(name, _)| *name))?;
    let overrides = pairs
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())))
        .collect();
    check_topic(&overrides, &ConfigMap::new(), defaults, remote_storage)?;
    Ok(overrides)
}

pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), AlterError> {
    let mut names = names;
    match names.find(|name| TOPIC.definition(name).is_none()) {
        Some(name) => Err(AlterError::invalid_config(format!(
            "Unknown topic config name: {name}"
        ))),
        None => Ok(()),
    }
}

/// Checks the overrides of a topic: each value, and the rules over several. `current` are the
/// overrides before the change.
pub fn check_topic(
    overrides: &ConfigMap,
    current: &ConfigMap,
    defaults: &TopicDefaults,
    remote_storage: bool,
) -> Result<(), AlterError> {
    let values = defaults
        .with_overrides(overrides)
        .map_err(AlterError::invalid_config)?;
    let settings = defaults
        .settings(overrides)
        .map_err(AlterError::invalid_config)?;
    let (least, most) = (
        settings.min_compaction_lag_ms,
        settings.max_compaction_lag_ms,
    );
    if least > most {
        return Err(AlterError::invalid_config(format!(
            "min.compaction.lag.ms ({least}) must be less than or equal to max.compaction.lag.ms \
             ({most})"
        )));
    }
    let is_remote = values.boolean("remote.storage.enable");
    let was_remote = defaults
        .with_overrides(current)
        .is_ok_and(|values| values.boolean("remote.storage.enable"));
    if was_remote && !is_remote && !values.boolean("remote.log.delete.on.disable") {
        return Err(AlterError::invalid_config(
            "remote.storage.enable may become false only with remote.log.delete.on.disable=true, \
             which deletes the remote segments; to keep them readable leave it true and set \
             remote.log.copy.disable=true",
        ));
    }
    if is_remote {
        check_remote(&settings, &values, remote_storage)?;
    }
    Ok(())
}

fn check_remote(
    settings: &TopicSettings,
    values: &TypedValues,
    remote_storage: bool,
) -> Result<(), AlterError> {
    if !remote_storage {
        return Err(AlterError::invalid_config(
            "remote.storage.enable may be true only where the broker has \
             remote.log.storage.system.enable=true",
        ));
    }
    if settings.cleanup_policy.compact {
        return Err(AlterError::invalid_config(
            "remote.storage.enable may be true only with cleanup.policy=delete or an empty \
             cleanup.policy",
        ));
    }
    for (local_key, local, whole_key, whole) in [
        (
            "local.retention.ms",
            values.long("local.retention.ms"),
            "retention.ms",
            settings.retention_ms,
        ),
        (
            "local.retention.bytes",
            values.long("local.retention.bytes"),
            "retention.bytes",
            settings.retention_bytes,
        ),
    ] {
        check_local_limit(local_key, local, whole_key, whole)?;
        if values.boolean("remote.log.copy.disable") && local != -2 && local != whole {
            return Err(AlterError::invalid_config(format!(
                "{local_key} ({local}) must be equal to {whole_key} ({whole}), or -2, while \
                 remote.log.copy.disable is true"
            )));
        }
    }
    Ok(())
}

/// What is kept locally cannot be more than what is kept at all.
fn check_local_limit(
    local_key: &str,
    local: i64,
    whole_key: &str,
    whole: i64,
) -> Result<(), AlterError> {
    let invalid = |reason: String| {
        Err(AlterError::invalid_config(format!(
            "Invalid value {local} for configuration {local_key}: {reason}"
        )))
    };
    if whole < 0 || local == -2 {
        Ok(())
    } else if local == -1 {
        invalid(format!("Value must not be -1 while {whole_key} is {whole}"))
    } else if local > whole {
        invalid(format!(
            "Value must not be more than {whole_key}, which is {whole}"
        ))
    } else {
        Ok(())
    }
}
