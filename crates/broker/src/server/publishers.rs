//! Who learns of new metadata, in which order.
//!
//! ```text
//!   change ─> settings ─> logs ─> coordinators ─> what requests see ─> registration
//! ```
//!
//! Settings come first, as logs are made with them. Requests see a topic when its log is there, and when
//! the coordinators know of it.

use crate::api::broker::Broker;
use crate::controller::metadata_loader::MetadataPublisher;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::coordinators::transactions::TRANSACTION_TOPIC;
use crate::logs::{PartitionUsers, creations, hosting};
use crate::settings::told_changes::tell_changes;
use controller::MetadataChange;
use coordinator::group::DeletedTopic;
use metadata::{ConfigResourceType, MetadataDelta, MetadataImage, Topic};
use model::LeaderEpoch;
use replication::{Partition, PartitionKey};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Every publisher of a broker.
pub(super) fn all(broker: &Arc<Broker>) -> Vec<Box<dyn MetadataPublisher>> {
    let weak = || Arc::downgrade(broker);
    vec![
        Box::new(Settings(weak())),
        Box::new(Logs(weak())),
        Box::new(Coordinators(weak())),
        Box::new(Requests(weak())),
        Box::new(Registration(weak())),
    ]
}

/// Ends the process when the metadata cannot go on, unless the server stops anyway.
pub(super) fn halt(broker: &Arc<Broker>) -> Arc<dyn Fn(String) + Send + Sync> {
    let weak = Arc::downgrade(broker);
    Arc::new(move |reason| {
        let broker = weak.upgrade();
        if let Some(broker) = broker.filter(|broker| !*broker.node.stop.borrow()) {
            broker.node.halt(reason);
        }
    })
}

fn has_changed(delta: &MetadataDelta, kind: ConfigResourceType) -> bool {
    let mut changed = delta.configs();
    changed.any(|one| one.key.resource_type == kind)
}

/// The configuration of this broker.
struct Settings(Weak<Broker>);

impl MetadataPublisher for Settings {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        tell_changes(&change.delta);
        if has_changed(&change.delta, ConfigResourceType::Broker) {
            broker.reconfigure(&change.delta.after);
        }
    }
}

/// The partitions that are here, and their logs.
struct Logs(Weak<Broker>);

impl MetadataPublisher for Logs {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        hosting::apply(&broker.logs, &change.delta);
    }

    fn revisit(&self, image: &Arc<MetadataImage>) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        creations::create_missing(&broker.logs, image);
    }
}

/// Groups and transactions.
struct Coordinators(Weak<Broker>);

impl MetadataPublisher for Coordinators {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        let (delta, image) = (&change.delta, &change.delta.after);
        let kinds = [ConfigResourceType::Broker, ConfigResourceType::Group];
        let is_of_offsets = |name: &str| name == OFFSETS_TOPIC;
        let mut topics = delta.configs();
        if kinds.into_iter().any(|kind| has_changed(delta, kind))
            || topics.any(|one| {
                one.key.resource_type == ConfigResourceType::Topic && is_of_offsets(&one.key.name)
            })
        {
            broker.coordinators.configure_groups(image);
        }
        broker.coordinators.groups.follow(image);
        broker.coordinators.transactions.follow(image);
    }
}

/// The image that requests are answered from.
struct Requests(Weak<Broker>);

impl MetadataPublisher for Requests {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        broker
            .node
            .kraft_version
            .store(change.kraft_version, Ordering::Release);
        broker.publish(change.delta.after.clone());
    }
}

/// What the controller is to know of this broker.
struct Registration(Weak<Broker>);

impl MetadataPublisher for Registration {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        note_places(&broker);
        if let Some(change) = broker.logs.cordoning_change(&change.delta.after) {
            let controller = broker.controller.clone();
            broker.node.runtime.spawn(async move {
                if let Ok(Err(error)) = controller.request(change).await {
                    tracing::error!(%error, "the controller does not take which log directories are cordoned");
                }
            });
        }
    }
    fn revisit(&self, _image: &Arc<MetadataImage>) {
        if let Some(broker) = self.0.upgrade() {
            note_places(&broker);
        }
    }
}

/// The controller decides after this thread has gone on.
fn note_places(broker: &Arc<Broker>) {
    if broker.logs.creations.ask_to_tell() {
        let logs = broker.logs.clone();
        let runtime = &broker.node.runtime;
        runtime.spawn(async move { creations::note_places(&logs).await });
    }
}

/// What coordinators keep in partitions.
#[derive(Debug)]
pub(super) struct State(pub(super) Weak<Broker>);

impl PartitionUsers for State {
    fn led(&self, partition: Arc<Partition>, leader_epoch: LeaderEpoch) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        let coordinators = &broker.coordinators;
        match &*partition.topic_partition().topic {
            OFFSETS_TOPIC => coordinators.groups.load(partition, leader_epoch),
            TRANSACTION_TOPIC => coordinators.transactions.load(partition, leader_epoch),
            _ => {}
        }
    }

    fn left(&self, topic: &str, key: PartitionKey, leader_epoch: LeaderEpoch) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        let coordinators = &broker.coordinators;
        match topic {
            OFFSETS_TOPIC => coordinators.groups.unload(key, leader_epoch),
            TRANSACTION_TOPIC => coordinators.transactions.unload(key, leader_epoch),
            _ => {}
        }
    }

    fn topics_deleted(&self, image: &Arc<MetadataImage>, topics: &[&Topic]) -> BTreeSet<usize> {
        let deleted = topics.iter().map(|topic| DeletedTopic {
            name: &topic.name,
            topic_id: topic.id,
        });
        let deleted: Vec<_> = deleted.collect();
        let broker = self.0.upgrade();
        broker.map_or_else(BTreeSet::new, |broker| {
            broker
                .coordinators
                .groups
                .note_deleted_topics(image, &deleted)
        })
    }

    fn forget_deleted(&self, directory: &str) {
        if let Some(broker) = self.0.upgrade() {
            broker.coordinators.groups.delete_noted_offsets(directory);
        }
    }
}
