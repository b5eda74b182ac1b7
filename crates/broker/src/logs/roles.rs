//! The roles that the metadata give this broker, applied in one place.
//!
//! ```text
//!   start ─┐                            removed ─> coordinators leave, `removals`
//!   delta ─┴──────────> role_changes ─> led     ─> log there: told in its directory's queue, then
//!                                       followed     coordinators load; no log: `new_partitions`, or lost
//! ```
//!
//! What partitions are is kept with their topics ([`HostedTopic::role`]): the newest that the metadata have,
//! which a log whose disk is late may not know yet. So a log is told the newest role, however many there
//! were, and one that is made later begins with it.

use crate::logs::Logs;
use crate::logs::hosting;
use crate::logs::log_updates::LogUpdate;
use crate::logs::partitions::{HostedTopic, Unavailable};
use crate::logs::{new_partitions, removals};
use crate::scheduling::clock::monotonic;
use config::topic_settings::TopicDefaults;
use metadata::{MetadataDelta, MetadataImage, Topic};
use replication::{Role, RoleChange, role_changes};
use std::sync::Arc;

/// The roles that a start finds, each with its topic, where the partition is hosted from here on.
pub(crate) fn at_start(
    logs: &Logs,
    delta: &MetadataDelta,
    defaults: &TopicDefaults,
) -> Vec<(Arc<HostedTopic>, RoleChange)> {
    let image = &delta.after;
    tell_leaders(logs, image);
    let changes = role_changes(image, Some(delta), logs.node.id, &logs.partitions);
    let hosted = changes.into_iter().filter_map(|change| {
        let topic = image.topics.by_id(change.key.0)?;
        let hosted = hosting::host(logs, image, defaults, topic);
        hosted.set_role(change.key.1, change.after.clone());
        Some((hosted, change))
    });
    hosted.collect()
}

/// Takes the roles that have changed between two images. When this returns, logs know them, but for those
/// in directories that are behind.
pub(crate) fn apply(logs: &Arc<Logs>, delta: &MetadataDelta, defaults: &TopicDefaults) {
    let image = &delta.after;
    tell_leaders(logs, image);
    let changes = role_changes(image, Some(delta), logs.node.id, &logs.partitions);
    let is_removed = |change: &RoleChange| change.after == Role::None;
    // What is removed comes first, as its name may be another one's.
    let (removed, taken) = changes.split_at(changes.partition_point(is_removed));
    remove(logs, delta, removed);
    if taken.iter().any(|change| change.before == Role::None) {
        new_partitions::probe(logs);
    }
    let mut created = Vec::new();
    let mut telling = LogUpdate::new(logs);
    for change in taken {
        let topic = image.topics.by_id(change.key.0);
        let topic = topic.expect("there is no role without a partition");
        let hosted = hosting::host(logs, image, defaults, topic);
        let index = change.key.1;
        hosted.set_role(index, change.after.clone());
        if let Some(partition) = hosted.partition(index) {
            if !change.after.is_leader() {
                leave(logs, &hosted, change);
            }
            telling.role(&partition, change);
        } else if !logs.new_partitions.has(hosted.id, index) && hosted.loss_of(index).is_some() {
            hosted.lose(index, Unavailable::not_led(&change.after));
        } else if let Some(directory) = directory_of(logs, topic, index) {
            new_partitions::create(logs, &hosted, index, directory);
            created.extend(hosted.partition(index));
        }
    }
    new_partitions::sync_topic_ids(logs, &created);
    telling.tell();
}

/// Tells leaders which brokers there are, before the roles that follow from it, and the time in which they begin.
fn tell_leaders(logs: &Logs, image: &MetadataImage) {
    let leaders = logs.host.leaders();
    leaders.set_cluster(image.cluster.clone());
    leaders.note_time(monotonic());
}

/// Lets those know who keep state in a partition that it is not led here any more.
fn leave(logs: &Logs, topic: &HostedTopic, change: &RoleChange) {
    if let Role::Leader { leader_epoch, .. } = change.before {
        logs.users().left(&topic.name, change.key, leader_epoch);
    }
}

/// The directory that the metadata name for the replica here.
fn directory_of(logs: &Logs, topic: &Topic, index: i32) -> Option<model::Uuid> {
    topic.partition(index)?.directory_of(logs.node.id)
}

/// Lets go of partitions: their topics are deleted, or their replicas elsewhere from here on.
fn remove(logs: &Arc<Logs>, delta: &MetadataDelta, removed: &[RoleChange]) {
    let mut gone = Vec::new();
    for of_topic in removed.chunk_by(|one, next| one.key.0 == next.key.0) {
        let Some(topic) = logs.partitions.topic_by_id(of_topic[0].key.0) else {
            continue;
        };
        for change in of_topic {
            leave(logs, &topic, change);
        }
        let indexes = of_topic.iter().map(|change| change.key.1).collect();
        let partitions = topic.remove_all(&indexes).into_iter();
        // Once it is hosted no more: news of its role may be on their way to a fetcher.
        for change in of_topic {
            logs.unfollow(change.key);
        }
        gone.extend(partitions.map(|partition| (topic.clone(), partition)));
    }
    let deleted: Vec<&Topic> = delta.deleted_topics().map(|topic| &**topic).collect();
    for topic in &deleted {
        logs.partitions.remove(topic.id);
    }
    if !gone.is_empty() || !deleted.is_empty() {
        removals::remove(logs, &delta.after, &gone, &deleted);
    }
}
