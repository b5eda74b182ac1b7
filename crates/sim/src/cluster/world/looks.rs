//! Looks at the nodes of a cluster's world from outside: after each event at the one that it was about, each second
//! at all logs, and in the end whether all is at rest.

use super::{CALM_MS, Event, LOOK_MS, Running, World};
use crate::cluster::broker::BrokerNode;
use crate::cluster::judge::{Log, Replicas};
use crate::cluster::schedule::{BROKERS, CHAOS_MS, NodeId};
use metadata::MetadataImage;
use model::BrokerId;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The session of a broker, and what the controller may take to end it.
const SILENCE_MS: i64 = 6_000;

impl World {
    /// Judges what a node is after an event.
    pub(super) fn look_at(&mut self, place: NodeId) {
        let Some(image) = self.controller_image() else {
            return;
        };
        match &self.places[place].node {
            Some(Running::Controller(_)) => {
                self.show_partitions(&image);
                self.judge.controller(&image);
            }
            Some(Running::Broker(node)) => {
                let views = node.views();
                self.judge.replicas(&views, &image);
            }
            None => {}
        }
    }

    /// Lines of what the controller has decided, if lines are wanted.
    pub(super) fn show_partitions(&mut self, image: &MetadataImage) {
        if self.history.lines.is_none() {
            return;
        }
        let mut shown = String::new();
        for broker in image.cluster.brokers().values() {
            let fenced = if broker.is_fenced { " fenced" } else { "" };
            let _ = write!(shown, "{} epoch {}{fenced}; ", broker.id, broker.epoch);
        }
        for topic in image.topics.iter() {
            for (index, one) in topic.partitions.iter() {
                let _ = write!(
                    shown,
                    "{}-{index}: {:?} isr {:?} elr {:?} leader {} epochs {}, {}; ",
                    topic.name,
                    one.replicas,
                    one.isr,
                    one.eligible_leader_replicas,
                    one.leader,
                    one.leader_epoch,
                    one.partition_epoch,
                );
            }
        }
        if shown != self.shown {
            self.history.show(self.now_ms, format_args!("{shown}"));
            self.shown = shown;
        }
    }

    pub(super) fn brokers(&self) -> impl Iterator<Item = &BrokerNode> {
        self.places.iter().filter_map(|place| match &place.node {
            Some(Running::Broker(node)) => Some(&**node),
            _ => None,
        })
    }

    /// Compares logs, and looks whether all is at rest.
    pub(super) fn look(&mut self) {
        let views: Vec<_> = self.brokers().flat_map(BrokerNode::views).collect();
        let logs: BTreeSet<Log> = views.iter().map(|view| view.log).collect();
        let mut compared: Vec<(Log, Replicas)> = Vec::new();
        let mut unreadable = None;
        for log in logs {
            let mut replicas = Vec::new();
            for broker in self.brokers() {
                let Some(view) = broker.views().into_iter().find(|view| view.log == log) else {
                    continue;
                };
                match broker.records(log) {
                    Ok(records) => replicas.push((view.broker, view.high_watermark, records)),
                    Err(reason) => {
                        unreadable = Some(format!("{log:?} of {}: {reason}", view.broker))
                    }
                }
            }
            compared.push((log, replicas));
        }
        if let Some(detail) = unreadable {
            return self.judge.broken("records can be read", detail);
        }
        for (log, replicas) in &compared {
            for (at, one) in replicas.iter().enumerate() {
                for other in &replicas[at + 1..] {
                    let (one, other) = ((one.0, one.1, &*one.2), (other.0, other.1, &*other.2));
                    self.judge.matching(*log, one, other);
                }
            }
        }
        self.look_for_silent_brokers();
        if self.is_calm {
            self.look_for_rest(&compared);
        }
        if !self.is_over {
            self.after(LOOK_MS, Event::Look);
        }
    }

    /// A broker that has been down for long is fenced, if there was a controller meanwhile.
    fn look_for_silent_brokers(&mut self) {
        let Some(image) = self.controller_image() else {
            return;
        };
        let controller = &self.places[0];
        let since = controller.changed_at.max(controller.paused_until);
        for place in 1..=BROKERS {
            let one = &self.places[place];
            let silent_since = since.max(one.changed_at).max(one.heard_at);
            let is_silent = one.node.is_none() && silent_since + SILENCE_MS < self.now_ms;
            let broker = image.cluster.broker(BrokerId(place as i32));
            if is_silent && broker.is_some_and(|broker| !broker.is_fenced) {
                let detail = format!("broker {place} has ended at {}", one.changed_at);
                return self
                    .judge
                    .broken("a broker that is silent is fenced", detail);
            }
        }
    }

    pub(super) fn look_for_rest(&mut self, compared: &[(Log, Replicas)]) {
        let restless = self.restless();
        let Some(reason) = restless else {
            self.note(format_args!("at rest"));
            self.is_over = true;
            for (log, replicas) in compared {
                for (_, _, records) in replicas {
                    self.judge.close(*log, records);
                }
            }
            return;
        };
        if self.now_ms > CHAOS_MS + CALM_MS {
            self.judge.broken("all comes to rest", reason);
        }
    }

    /// What is not at rest yet.
    pub(super) fn restless(&self) -> Option<String> {
        let image = self.controller_image();
        let Some(image) = image else {
            return Some("there is no controller".to_owned());
        };
        for place in 1..=BROKERS {
            if !self.is_broker_running(place) {
                return Some(format!(
                    "broker {place} does not run: {:?}",
                    self.places[place].node
                ));
            }
        }
        if let Some(node) = self.brokers().find(|node| !node.is_at_rest()) {
            return Some(format!("{:?}", node.views()));
        }
        if let Some(client) = self.clients.iter().find(|client| !client.is_at_rest()) {
            return Some(format!("{client:?}").chars().take(600).collect());
        }
        for topic in image.topics.iter() {
            for (index, partition) in topic.partitions.iter() {
                let is_whole = partition.isr.len() == partition.replicas.len()
                    && partition.leader.0 > 0
                    && partition.adding_replicas.is_empty()
                    && partition.removing_replicas.is_empty();
                if !is_whole {
                    return Some(format!("{} {index}: {partition:?}", topic.name));
                }
                let log = (topic.id, *index);
                let views: Vec<_> = self
                    .brokers()
                    .flat_map(BrokerNode::views)
                    .filter(|view| view.log == log)
                    .collect();
                let ends: BTreeSet<_> = views
                    .iter()
                    .map(|view| (view.high_watermark, view.log_end_offset, view.leader_epoch))
                    .collect();
                if ends.len() != 1
                    || views.len() != partition.replicas.len()
                    || views
                        .iter()
                        .any(|view| view.high_watermark != view.log_end_offset)
                {
                    return Some(format!("{} {index}: {views:?}", topic.name));
                }
            }
        }
        None
    }
}
