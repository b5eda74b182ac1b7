//! Who learns of new metadata, in which order.
//!
//! ```text
//!   start ──┬─> settings ─> fetchers ─> coordinators ─> logs ─> what requests see ─> registration
//!   change ─┘
//! ```
//!
//! Settings come first, as logs are made with them. Coordinators know of a change before they take over what is
//! led by it: the state of a partition may be about topics that came with the same change, and to metadata
//! without them, these would be deleted ones. Requests see a topic when its log is there.
//!
//! A start is one change, from the empty image, and who does something else with it says so in
//! [`Publisher::publish_start`]: nobody can connect yet.

use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::controller::metadata_loader::MetadataPublisher;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::coordinators::transactions::TRANSACTION_TOPIC;
use crate::logs::found_logs::Places;
use crate::logs::{LeadershipListener, metadata_changes, new_partitions, opening};
use crate::net::connection_limits;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use crate::settings::told_changes::{
    tell_changes, tell_overruled_min_isr, tell_what_has_no_effect,
};
use controller::MetadataChange;
use coordinator::group::DeletedTopic;
use metadata::{ConfigResourceType, MetadataDelta, MetadataImage, Topic};
use model::LeaderEpoch;
use parking_lot::Mutex;
use replication::{Partition, PartitionKey, Role};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Who learns of new metadata, and before of those that a start finds.
pub(super) trait Publisher: MetadataPublisher {
    /// Does what a start asks for, which gives everything as one change from the empty image.
    ///
    /// # Errors
    /// Why the server cannot start.
    fn publish_start(&self, change: &MetadataChange) -> Result<(), StartError> {
        self.publish(change);
        Ok(())
    }
}

/// Every publisher of a broker whose logs are in these places.
pub(super) fn all(broker: &Arc<Broker>, places: Places) -> Vec<Box<dyn Publisher>> {
    let weak = || Arc::downgrade(broker);
    let node = || Arc::downgrade(&broker.cluster_node);
    vec![
        Box::new(Settings(node())),
        Box::new(Fetchers(weak())),
        Box::new(Coordinators(weak())),
        Box::new(Logs {
            broker: weak(),
            found: Mutex::new(places),
        }),
        Box::new(Requests(node())),
        Box::new(Registration(weak())),
    ]
}

/// Every publisher of a controller alone.
pub(super) fn of_controller(node: &Arc<ClusterNode>) -> Vec<Box<dyn Publisher>> {
    let weak = || Arc::downgrade(node);
    vec![Box::new(Settings(weak())), Box::new(Requests(weak()))]
}

/// Ends the process when the metadata cannot go on, unless the server stops anyway.
pub(super) fn halt(node: &Arc<Node>) -> Arc<dyn Fn(String) + Send + Sync> {
    let weak = Arc::downgrade(node);
    Arc::new(move |reason| {
        let node = weak.upgrade();
        if let Some(node) = node.filter(|node| !*node.stop.borrow()) {
            node.halt(reason);
        }
    })
}

fn has_changed(delta: &MetadataDelta, kind: ConfigResourceType) -> bool {
    let mut changed = delta.configs();
    changed.any(|one| one.key.resource_type == kind)
}

/// The configuration of this node.
struct Settings(Weak<ClusterNode>);

impl MetadataPublisher for Settings {
    fn publish(&self, change: &MetadataChange) {
        let Some(node) = self.0.upgrade() else {
            return;
        };
        tell_changes(&change.delta);
        reconfigure(&node, &change.delta);
    }
}

impl Publisher for Settings {
    /// Tells of no change, but of what has no effect.
    fn publish_start(&self, change: &MetadataChange) -> Result<(), StartError> {
        if let Some(node) = self.0.upgrade() {
            tell_what_has_no_effect(&change.delta.after);
            tell_overruled_min_isr(&node.node.config.values, &change.delta.after);
            reconfigure(&node, &change.delta);
        }
        Ok(())
    }
}

/// Puts in force what the image says of brokers, if that is new.
fn reconfigure(server: &ClusterNode, delta: &MetadataDelta) {
    if !has_changed(delta, ConfigResourceType::Broker) {
        return;
    }
    server.node.reconfigure(&delta.after);
    let (limits, unknown) = connection_limits(&server.node.live_config());
    server.sockets.client_limits.set(limits.clone());
    server.sockets.controller_limits.set(limits);
    for error in unknown {
        tracing::warn!(
            %error,
            "this limit of connections has no effect until a configuration of brokers changes"
        );
    }
}

/// Who copies what others lead: where those are is known before the roles that make this broker ask them. Which
/// followers of what this broker leads are throttled is learnt here, too.
struct Fetchers(Weak<Broker>);

impl MetadataPublisher for Fetchers {
    fn publish(&self, change: &MetadataChange) {
        if let Some(broker) = self.0.upgrade() {
            let config = broker.node.live_config();
            broker.node.throttle_followers(&change.delta);
            broker.replica_fetchers.learn(&change.delta, &config);
        }
    }
}

impl Publisher for Fetchers {}

/// The partitions that are here, and their logs.
struct Logs {
    broker: Weak<Broker>,
    /// Where the start has found logs, until it opens them.
    found: Mutex<Places>,
}

impl MetadataPublisher for Logs {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.broker.upgrade() else {
            return;
        };
        metadata_changes::apply(&broker.logs, &change.delta);
    }

    fn revisit(&self, image: &Arc<MetadataImage>) {
        let Some(broker) = self.broker.upgrade() else {
            return;
        };
        new_partitions::create_missing(&broker.logs, image);
    }
}

impl Publisher for Logs {
    /// Opens the logs that are there, and recovers them, on several threads, and waits for all.
    fn publish_start(&self, change: &MetadataChange) -> Result<(), StartError> {
        let Some(broker) = self.broker.upgrade() else {
            return Ok(());
        };
        let places = std::mem::take(&mut *self.found.lock());
        opening::open_all(&broker.logs, &change.delta, places)?;
        // A log that a start opens tells nobody of its role.
        broker.replica_fetchers.begin();
        for name in [OFFSETS_TOPIC, TRANSACTION_TOPIC] {
            let topic = broker.logs.partitions.topic(name);
            for partition in topic.into_iter().flat_map(|topic| topic.partitions()) {
                if let Role::Leader { leader_epoch, .. } = partition.role() {
                    broker.logs.users().led(partition, leader_epoch);
                }
            }
        }
        Ok(())
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

impl Publisher for Coordinators {}

/// The image that requests are answered from.
struct Requests(Weak<ClusterNode>);

impl MetadataPublisher for Requests {
    fn publish(&self, change: &MetadataChange) {
        let Some(server) = self.0.upgrade() else {
            return;
        };
        server
            .node
            .kraft_version
            .store(change.kraft_version, Ordering::Release);
        server.node.set_image(change.delta.after.clone());
    }
}

impl Publisher for Requests {}

/// What the controller is to know of this broker.
struct Registration(Weak<Broker>);

impl MetadataPublisher for Registration {
    fn publish(&self, change: &MetadataChange) {
        let Some(broker) = self.0.upgrade() else {
            return;
        };
        note_places(&broker);
        let config = broker.node.live_config();
        if let Some(change) = broker.logs.cordoning_change(&change.delta.after, &config) {
            let controller = broker.controller.clone();
            broker.node.runtime.spawn(async move {
                if let Ok(Err(error)) = controller.request(change).await {
                    tracing::error!(%error, "the controller refuses `cordoned.log.dirs` of this broker; it is told again at the next change");
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

impl Publisher for Registration {}

/// The controller decides after this thread has gone on.
fn note_places(broker: &Arc<Broker>) {
    if broker.logs.new_partitions.ask_to_tell() {
        let logs = broker.logs.clone();
        let runtime = &broker.node.runtime;
        runtime.spawn(async move { new_partitions::note_places(&logs).await });
    }
}

/// What coordinators keep in partitions.
#[derive(Debug)]
pub(super) struct State(pub(super) Weak<Broker>);

impl LeadershipListener for State {
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
