//! Topics and logs that this broker hosts, with the settings that they have here.

use crate::logs::Logs;
use crate::logs::log_directories::LogDirectory;
use crate::logs::partitions::HostedTopic;
use crate::scheduling::clock::now_ms;
use crate::settings::node::ConfigLayers;
use config::topic_settings::{TopicDefaults, TopicSettings};
use metadata::{MetadataImage, Topic};
use model::Offset;
use replication::Partition;
use std::sync::Arc;
use storage::{Log, LogConfig, RealDisk, StorageError};

/// The settings that a topic has on this broker: its own over `defaults`.
pub(crate) fn topic_settings(
    image: &MetadataImage,
    defaults: &TopicDefaults,
    topic: &str,
) -> TopicSettings {
    let none = config::ConfigMap::new();
    let overrides = image.configs.of_topic(topic).map_or(&none, |set| &**set);
    defaults.settings(overrides).unwrap_or_else(|error| {
        tracing::warn!(topic, %error, "the topic's configuration is unusable; defaults hold");
        defaults
            .settings(&none)
            .unwrap_or_else(|_| TopicSettings::kafka_defaults())
    })
}

pub(super) fn topic_defaults(logs: &Logs, image: &MetadataImage) -> TopicDefaults {
    let layers = ConfigLayers::of(&logs.node.config, image);
    TopicDefaults::of_broker(&layers.layers())
        .unwrap_or_else(|_| logs.node.config.topic_defaults.clone())
}

/// The topic, as it is hosted from here on.
pub(crate) fn host(
    logs: &Logs,
    image: &MetadataImage,
    defaults: &TopicDefaults,
    topic: &Topic,
) -> Arc<HostedTopic> {
    if let Some(hosted) = logs.partitions.topic_by_id(topic.id) {
        return hosted;
    }
    let settings = topic_settings(image, defaults, &topic.name);
    let hosted = Arc::new(HostedTopic::new(topic.name.clone(), topic.id, settings));
    logs.partitions.insert(hosted.clone());
    hosted
}

pub(crate) fn topic_log_config(logs: &Logs, topic: &HostedTopic) -> Arc<LogConfig> {
    topic.log_config(&logs.node.live_config().transactions)
}

/// Hosts the partition of a log, which is replicated up to the high watermark as far as is known. One that
/// is all replicated is opened again when it is first used, unless producers may send again what it has.
///
/// # Errors
/// When the log cannot be written.
pub(crate) fn host_log(
    logs: &Logs,
    topic: &Arc<HostedTopic>,
    mut log: Log<RealDisk>,
    directory: &LogDirectory,
    high_watermark: Offset,
) -> Result<(), StorageError> {
    let (logs, name) = (&logs.host, directory.shared_name().clone());
    let role = topic.role(log.topic_partition().partition);
    let is_replicated = role.is_all_replicated() || high_watermark >= log.log_end_offset();
    let now_ms = now_ms();
    let idle = match is_replicated && !log.awaits_retries(now_ms) {
        true => log.idle(now_ms, false)?,
        false => None,
    };
    let partition = match idle {
        Some(idle) => {
            let partition = log.topic_partition().clone();
            let place = (name, log.config().clone());
            Partition::host_idle(logs, partition, topic.id, (idle, false), place, role)
        }
        None => Partition::host(logs, log, topic.id, name, (role, high_watermark))?,
    };
    directory.count_partition();
    topic.add(Arc::new(partition));
    Ok(())
}
