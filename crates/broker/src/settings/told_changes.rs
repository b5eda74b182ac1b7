//! What the log says of changes that clients make while the server runs: to configurations, quotas,
//! credentials and features. Secrets are not shown.

use config::layers::ConfigMap;
use config::{effect, sources};
use controller::internal_topics::is_internal;
use metadata::{
    Config, ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage, QuotaEntity, Quotas,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// Logs what has changed.
pub(crate) fn tell_changes(delta: &MetadataDelta) {
    for changed in delta.configs() {
        tell_config(changed.key, changed.before, changed.after);
    }
    let (before, after) = (&delta.before, &delta.after);
    for changed in before.client_quotas.diff(&after.client_quotas) {
        tell_quota(changed.key, changed.before, changed.after);
    }
    for changed in before.scram.diff(&after.scram) {
        let (user, mechanism) = (&*changed.key.user, scram_name(changed.key.mechanism));
        match changed.after {
            Some(_) => tracing::info!(user, mechanism, "credential set"),
            None => tracing::info!(user, mechanism, "credential deleted"),
        }
    }
    // A new cluster's are no change.
    if !before.is_empty() {
        tell_features(before, after);
    }
}

fn tell_quota(entity: &QuotaEntity, before: Option<&Arc<Quotas>>, after: Option<&Arc<Quotas>>) {
    let named = entity.0.iter().map(|(kind, name)| match name {
        Some(name) => format!("{kind} {name:?}"),
        None => format!("the default {kind}"),
    });
    let named: Vec<String> = named.collect();
    let nothing = Quotas::new();
    let changes = changes(
        before.map_or(&nothing, |set| &**set),
        after.map_or(&nothing, |set| &**set),
    );
    tracing::info!(of = named.join(", "), changes, "quota changed");
}

fn tell_features(before: &MetadataImage, after: &MetadataImage) {
    if let (Some(old), Some(new)) = (
        before.features.metadata_version(),
        after.features.metadata_version(),
    ) && old != new
    {
        let (from, to) = (old.name(), new.name());
        tracing::info!(feature = "metadata.version", from, to, "feature changed");
    }
    let changes = changes(before.features.levels(), after.features.levels());
    if !changes.is_empty() {
        tracing::info!(changes, "feature changed");
    }
}

/// What is set otherwise than before, and what is not set any more.
fn changes<V: PartialEq + Display>(
    before: &BTreeMap<String, V>,
    after: &BTreeMap<String, V>,
) -> String {
    let set = after.iter();
    let set = set.filter(|(key, value)| before.get(*key) != Some(*value));
    let set = set.map(|(key, value)| format!("{key}={value}"));
    let unset = before.keys().filter(|key| !after.contains_key(*key));
    let unset = unset.map(|key| format!("{key} unset"));
    let all: Vec<String> = set.chain(unset).collect();
    all.join(", ")
}

const fn scram_name(mechanism: i8) -> &'static str {
    match mechanism {
        1 => "SCRAM-SHA-256",
        2 => "SCRAM-SHA-512",
        _ => "unknown",
    }
}

/// Logs a change of a configuration, and which of it has no effect.
fn tell_config(
    resource: &ConfigResource,
    before: Option<&Arc<Config>>,
    after: Option<&Arc<Config>>,
) {
    let nothing = Config::new();
    let before = before.map_or(&nothing, |set| &**set);
    let after = after.map_or(&nothing, |set| &**set);
    let set: Vec<_> = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value))
        .collect();
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let changes = set.iter().map(|(key, value)| match is_shown(key) {
        true => format!("{key}={value:.200}"),
        false => format!("{key}=(hidden)"),
    });
    let changes: Vec<_> = changes
        .chain(removed.map(|key| format!("{key} unset")))
        .collect();
    if changes.is_empty() {
        return;
    }
    let (kind, name) = (resource.resource_type, &*resource.name);
    tracing::info!(
        ?kind,
        name,
        changes = changes.join(", "),
        "configuration changed"
    );
    let is_of_broker = resource.resource_type == ConfigResourceType::Broker;
    let unknown = |key: &str| is_of_broker.then(|| sources::unknown_key(key)).flatten();
    for unknown in set.iter().filter_map(|(key, _)| unknown(key)) {
        tracing::warn!(?kind, name, "{unknown}");
    }
    if is_own_topic(resource) {
        return;
    }
    let given = set
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .filter(|(key, _)| unknown(key).is_none());
    for effect::Note { text, is_warning } in effect::notes(given) {
        match is_warning {
            true => tracing::warn!(?kind, name, "{text}"),
            false => tracing::info!(?kind, name, "{text}"),
        }
    }
}

/// Whether the broker itself sets keys of the resource, as Apache Kafka's does.
fn is_own_topic(resource: &ConfigResource) -> bool {
    resource.resource_type == ConfigResourceType::Topic && is_internal(&resource.name)
}

/// Whether a value may be logged: it is no secret. Of a key that nobody knows nobody can tell.
fn is_shown(key: &str) -> bool {
    let definition = config::synonyms::broker_definition(key)
        .or_else(|| config::TOPIC.definition(key))
        .or_else(|| config::GROUP.definition(key))
        .or_else(|| config::CLIENT_METRICS.definition(key));
    definition.is_some_and(|definition| !definition.is_sensitive())
}

/// Logs which keys, set while the server ran before, have no effect.
pub(crate) fn tell_what_has_no_effect(image: &MetadataImage) {
    let resources = image.configs.by_resource();
    let given: BTreeMap<&str, &str> = resources
        .iter()
        .filter(|(resource, _)| !is_own_topic(resource))
        .flat_map(|(_, set)| {
            set.iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
        })
        .collect();
    for effect::Note { text, is_warning } in effect::notes(given) {
        match is_warning {
            true => tracing::warn!("set while the server ran: {text}"),
            false => tracing::info!("set while the server ran: {text}"),
        }
    }
}

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// Logs that the `min.insync.replicas` of the broker's `own` file has no effect, where the cluster has another one.
pub(crate) fn tell_overruled_min_isr(own: &ConfigMap, image: &MetadataImage) {
    let all_brokers = ConfigResource::all_brokers();
    let of_cluster = image.configs.value(&all_brokers, MIN_INSYNC_REPLICAS);
    if let Some(text) = overruled_min_isr(own, of_cluster) {
        tracing::warn!("{text}");
    }
}

/// With eligible leader replicas (KIP-966) every cluster has a default, made of the first active controller's own
/// value. It comes before the file of a broker, as in Apache Kafka, whose brokers do not say so.
fn overruled_min_isr(own: &ConfigMap, of_cluster: Option<&str>) -> Option<String> {
    let (own, of_cluster) = (own.get(MIN_INSYNC_REPLICAS)?, of_cluster?);
    (own != of_cluster).then(|| {
        format!(
            "{MIN_INSYNC_REPLICAS}={own} has no effect: the cluster's default is {of_cluster}; change that with \
             `riverrun config set broker default {MIN_INSYNC_REPLICAS}={own}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_min_isr_that_the_cluster_overrules_is_told() {
        let own = ConfigMap::from([(MIN_INSYNC_REPLICAS.to_owned(), "2".to_owned())]);
        let text = overruled_min_isr(&own, Some("1")).unwrap_or_default();
        assert!(
            text.starts_with("min.insync.replicas=2 has no effect: the cluster's default is 1;")
        );
        assert_eq!(overruled_min_isr(&own, Some("2")), None);
        assert_eq!(overruled_min_isr(&own, None), None);
        assert_eq!(overruled_min_isr(&ConfigMap::new(), Some("1")), None);
    }
}
