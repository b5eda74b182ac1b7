//! What this broker does about its logs when the metadata change.
//!
//! ```text
//!   delta ──> partitions that are added, changed or removed ──> `roles`
//!             changed configurations ──> settings of logs
//! ```

use crate::logs::hosting::{topic_defaults, topic_settings};
use crate::logs::log_updates::LogUpdate;
use crate::logs::{Logs, cleaner, roles};
use config::topic_settings::TopicDefaults;
use metadata::{ConfigResourceType, MetadataDelta};
use std::sync::Arc;

/// Makes this broker serve what changed between two images.
pub(crate) fn apply(logs: &Arc<Logs>, delta: &MetadataDelta) {
    for topic in delta.deleted_topics() {
        tracing::info!(topic = &*topic.name, id = %topic.id, "topic deleted");
    }
    for topic in delta.created_topics() {
        let partitions = topic.partition_count();
        tracing::info!(topic = &*topic.name, id = %topic.id, partitions, "topic created");
    }
    let defaults = topic_defaults(logs, &delta.after);
    roles::apply(logs, delta, &defaults);
    apply_configs(logs, delta, &defaults);
}

fn apply_configs(logs: &Arc<Logs>, delta: &MetadataDelta, defaults: &TopicDefaults) {
    let mut all = false;
    let mut topics = Vec::new();
    for changed in delta.configs() {
        match changed.key.resource_type {
            ConfigResourceType::Topic => topics.extend(logs.partitions.topic(&changed.key.name)),
            ConfigResourceType::Broker => all = true,
            _ => {}
        }
    }
    if all {
        topics = logs.partitions.all_topics();
    }
    let config = logs.node.live_config();
    let mut telling = LogUpdate::new(logs);
    for topic in topics {
        let settings = topic_settings(&delta.after, defaults, &topic.name);
        topic.set_settings(&settings, &config.transactions);
        for partition in topic.partitions() {
            telling.settings(&partition);
        }
    }
    telling.tell();
    if all {
        cleaner::start(logs);
    }
}
