//! The settings of the group coordinator: the broker's, and over them those of single groups.

use crate::coordinators::Coordinators;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::logs::hosting::topic_settings;
use config::server::{ConsumerGroupConfig, MigrationPolicy};
use config::{ConfigMap, ServerConfig};
use coordinator::group::{self, Assignor, ConsumerGroupTimes, GroupConfig};
use metadata::{ConfigResourceType, GROUP_VERSION_FEATURE, MetadataImage};
use record::Compression;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

impl Coordinators {
    /// Whether members may speak the consumer protocol (KIP-848).
    pub(crate) fn speaks_consumer_protocol(&self) -> bool {
        let protocols = self.node.config.groups.coordinator.rebalance_protocols;
        protocols.consumer && self.node.image().features.level(GROUP_VERSION_FEATURE) > 0
    }

    /// Puts in force what the image says of groups and of the broker.
    pub(crate) fn configure_groups(&self, image: &MetadataImage) {
        self.groups
            .set_config(group_config(&self.node.live_config(), image));
    }
}

/// The codec of `offsets.topic.compression.codec`.
pub(crate) fn offsets_compression(config: &ServerConfig) -> Compression {
    let id = i8::try_from(config.groups.offsets.topic_compression_codec);
    let codec = id.ok().and_then(Compression::from_id);
    codec.expect("the configuration is checked")
}

/// How long what was decided about a group waits for its replicas.
pub(crate) fn offsets_commit_limit(config: &ServerConfig) -> Duration {
    let timeout_ms = config.groups.offsets.commit_timeout_ms;
    Duration::from_millis(timeout_ms.max(1).unsigned_abs().into())
}

/// What the group coordinator is to obey. A batch is bounded by `max.message.bytes` of its topic.
pub(crate) fn group_config(config: &ServerConfig, image: &MetadataImage) -> GroupConfig {
    let (classic, offsets) = (&config.groups.classic, &config.groups.offsets);
    let offsets_topic = topic_settings(image, &config.topic_defaults, OFFSETS_TOPIC);
    GroupConfig {
        initial_rebalance_delay_ms: classic.initial_rebalance_delay_ms,
        session_timeout_min_ms: classic.min_session_timeout_ms,
        session_timeout_max_ms: classic.max_session_timeout_ms,
        group_size_max: classic.max_size.max(1) as usize,
        consumer: consumer_group_config(&config.groups.consumer, image),
        offset_metadata_length_max: offsets.metadata_max_bytes.max(0) as usize,
        offsets_retention_ms: i64::from(offsets.retention_minutes) * 60_000,
        offsets_retention_check_interval_ms: offsets.retention_check_interval_ms,
        batch_bytes_max: offsets_topic.max_message_bytes.max(0) as usize,
    }
}

fn consumer_group_config(
    config: &ConsumerGroupConfig,
    image: &MetadataImage,
) -> group::ConsumerGroupConfig {
    let assignors = config.assignors.iter();
    let of_groups: BTreeMap<String, ConsumerGroupTimes> = image
        .configs
        .by_resource()
        .iter()
        .filter(|(resource, _)| resource.resource_type == ConfigResourceType::Group)
        .map(|(resource, values)| (resource.name.clone(), times(config, values)))
        .collect();
    group::ConsumerGroupConfig {
        times: times(config, &ConfigMap::new()),
        times_of_groups: Arc::new(of_groups),
        size_max: config.max_size.max(1) as usize,
        assignors: assignors
            .filter_map(|name| Assignor::from_name(name))
            .collect(),
        migration_policy: match config.migration_policy {
            MigrationPolicy::Disabled => group::MigrationPolicy::Disabled,
            MigrationPolicy::Downgrade => group::MigrationPolicy::Downgrade,
            MigrationPolicy::Upgrade => group::MigrationPolicy::Upgrade,
            MigrationPolicy::Bidirectional => group::MigrationPolicy::Bidirectional,
        },
        regex_refresh_interval_ms: config.regex_refresh_interval_ms,
    }
}

/// The times of a group with these values of its own. The broker's bounds may have been narrowed
/// since they were set.
fn times(config: &ConsumerGroupConfig, own: &ConfigMap) -> ConsumerGroupTimes {
    let time = |key: &str, bounded: &config::server::Bounded| {
        let own = own
            .get(key)
            .and_then(|text| text.trim().parse::<i32>().ok());
        own.map_or(bounded.value, |value| {
            value.max(bounded.min).min(bounded.max)
        })
    };
    ConsumerGroupTimes {
        session_timeout_ms: time("consumer.session.timeout.ms", &config.session_timeout_ms),
        heartbeat_interval_ms: time(
            "consumer.heartbeat.interval.ms",
            &config.heartbeat_interval_ms,
        ),
        assignment_interval_ms: time(
            "consumer.assignment.interval.ms",
            &config.assignment_interval_ms,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::sources::{Sources, load};

    /// What the group coordinator obeys with these keys of the broker.
    fn with(keys: &[(&str, &str)]) -> GroupConfig {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let overrides: Vec<_> = keys.iter().map(owned).collect();
        let loaded = load(&Sources {
            overrides: &overrides,
            ..Sources::default()
        });
        let config = ServerConfig::read(&loaded.unwrap().values).unwrap();
        group_config(&config, &MetadataImage::default())
    }

    #[test]
    fn retention_of_offsets_is_given_in_minutes() {
        const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
        assert_eq!(with(&[]).offsets_retention_ms, WEEK_MS);
        let config = with(&[("offsets.retention.minutes", "3")]);
        assert_eq!(config.offsets_retention_ms, 180_000);
        let config = with(&[("offsets.retention.check.interval.ms", "7")]);
        assert_eq!(config.offsets_retention_check_interval_ms, 7);
    }

    #[test]
    fn sizes_and_times_of_groups_are_those_of_the_broker() {
        let config = with(&[
            ("group.initial.rebalance.delay.ms", "11"),
            ("group.min.session.timeout.ms", "12"),
            ("group.max.session.timeout.ms", "13000"),
            ("group.max.size", "14"),
            ("offset.metadata.max.bytes", "15"),
            ("group.consumer.max.size", "16"),
        ]);
        let classic = (
            config.initial_rebalance_delay_ms,
            config.session_timeout_min_ms,
            config.session_timeout_max_ms,
        );
        assert_eq!(classic, (11, 12, 13_000));
        let sizes = (
            config.group_size_max,
            config.offset_metadata_length_max,
            config.consumer.size_max,
        );
        assert_eq!(sizes, (14, 15, 16));
    }
}
