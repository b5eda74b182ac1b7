//! Looks at the nodes of a cluster's world from outside: after each event at the one that it was about, each second
//! at all logs, and in the end whether all is at rest.

use super::{CALM_MS, Event, LOOK_MS, Running, World};
use crate::clients::offset_key;
use crate::cluster::broker::BrokerNode;
use crate::cluster::judge::{Log, Replicas};
use crate::cluster::schedule::{BROKERS, CHAOS_MS, NodeId, PARTITIONS, TOPICS};
use crate::schedule::TRANSACTIONAL;
use metadata::MetadataImage;
use model::{BrokerId, LeaderEpoch, Offset};
use std::collections::BTreeSet;
use std::fmt::Write as _;

impl World {
    /// Judges what a node is after an event.
    pub(super) fn look_at(&mut self, place: NodeId) {
        let image = self.controller_image();
        match (&self.places[place].node, image) {
            (Some(Running::Controller(_)), Some(image)) => {
                self.show_partitions(&image);
                self.judge.controller(&image);
            }
            (Some(Running::Broker(node)), image) => {
                let views = node.views();
                let broker = BrokerId(place as i32);
                self.judge.replicas(broker, &views, image.as_deref());
            }
            _ => {}
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
            return self.judge.promises.unreadable(detail);
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
            if one.node.is_none() {
                self.judge
                    .silent(BrokerId(place as i32), silent_since, &image);
            }
        }
    }

    pub(super) fn look_for_rest(&mut self, compared: &[(Log, Replicas)]) {
        let deadline_ms = CHAOS_MS + CALM_MS;
        let client = self.clients.iter().find(|client| !client.is_at_rest());
        if let Some(client) = client {
            let shown = format!("{client:?}").chars().take(600).collect();
            self.judge.promises.restless(None, shown, deadline_ms);
            // An answer that was on its way has taken a member's rest: they go on.
            if std::mem::take(&mut self.is_quiet) {
                (0..self.clients.len()).for_each(|client| self.act(client));
            }
            return;
        }
        let promises = &mut self.judge.promises;
        if let Some(fault) = promises.group_fault(PARTITIONS) {
            return promises.restless(Some(fault), String::new(), deadline_ms);
        }
        // Members of groups would go on for ever.
        self.is_quiet = true;
        if let Some(reason) = self.restless_broker() {
            let promises = &mut self.judge.promises;
            return promises.restless(None, reason, deadline_ms);
        }
        self.note(format_args!("at rest"));
        self.is_over = true;
        self.scan(compared);
    }

    /// All is at rest: what is acknowledged has to be there, for whoever reads, on whatever broker.
    fn scan(&mut self, compared: &[(Log, Replicas)]) {
        let Some(image) = self.controller_image() else {
            return;
        };
        for (log, _) in compared {
            let topic = image.topics.by_id(log.0);
            let Some(topic) = topic.filter(|topic| TOPICS.contains(&&*topic.name)) else {
                continue;
            };
            let leader = topic.partition(log.1).map(|partition| partition.leader);
            for is_committed in [false, true] {
                self.scan_log(*log, leader.unwrap_or_default(), is_committed);
            }
        }
        let topic_id = image.topics.id_of(TOPICS[0]).unwrap_or_default();
        for client in TRANSACTIONAL {
            let key = offset_key(client, topic_id);
            let brokers = self
                .places
                .iter_mut()
                .filter_map(|place| match &mut place.node {
                    Some(Running::Broker(node)) => Some(node),
                    _ => None,
                });
            let committed: Vec<_> = brokers
                .filter_map(|node| node.committed_offset(&key))
                .collect();
            self.judge.promises.coordinated(key, &committed);
        }
        self.judge.promises.close();
    }

    fn scan_log(&mut self, log: Log, leader: BrokerId, is_committed: bool) {
        let Some(Running::Broker(node)) = &self.places[leader.0.max(0) as usize].node else {
            return;
        };
        let view = node.views().into_iter().find(|view| view.log == log);
        let Some(view) = view else {
            return;
        };
        let promises = &mut self.judge.promises;
        let mut offset = view.log_start_offset;
        while offset < view.high_watermark {
            let fetched = node.fetch(log, LeaderEpoch::NONE, Offset(offset), is_committed);
            if fetched.error != model::ErrorCode::None {
                let detail = format!("{log:?} {offset}: {:?}", fetched.error);
                promises.unreadable(detail);
                break;
            }
            let floor = promises.floor(log);
            let next = promises.read((log, offset), &fetched, floor, is_committed, true);
            if next <= offset {
                break;
            }
            offset = next;
        }
        promises.scanned(log, offset, view.high_watermark);
    }

    /// What is not at rest yet of the brokers.
    fn restless_broker(&self) -> Option<String> {
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
                    || views.iter().any(|view| {
                        // Brokers may not have heard yet who leads.
                        view.is_leader != (view.broker == partition.leader)
                            || view.high_watermark != view.log_end_offset
                            || view.is_leader && view.last_stable_offset != view.log_end_offset
                    })
                {
                    return Some(format!("{} {index}: {views:?}", topic.name));
                }
            }
        }
        None
    }
}
