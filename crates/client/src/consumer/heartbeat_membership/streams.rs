//! A member of a streams group: tasks instead of partitions, and what the coordinator says of the whole group.

use super::super::membership::Event;
use super::super::streams_group::{
    StreamsEndpoint, StreamsMember, StreamsStatus, StreamsTasks, StreamsTopology, TaskSet,
};
use super::protocol::Protocol;
use super::{HeartbeatMembership, HeartbeatSettings};
use model::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A streams group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamsGroup {
    topology: Arc<StreamsTopology>,
    /// How many partitions topics have that active tasks read.
    counts: BTreeMap<String, i32>,
    /// Which endpoints of the group the member knows, as the coordinator counts.
    endpoint_information_epoch: i32,
    shuts_down_application: bool,
    /// What the application has heard last, and how often the coordinator wanted to hear of the member then.
    statuses: (Vec<StreamsStatus>, i64),
}

/// What every heartbeat tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamsBeside {
    pub(crate) endpoint_information_epoch: i32,
    pub(crate) shuts_down_application: bool,
}

/// What an answer tells beside tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamsNews {
    pub(crate) statuses: Vec<StreamsStatus>,
    pub(crate) heartbeat_interval_ms: i64,
    pub(crate) endpoint_information_epoch: i32,
    /// Where members answer; none when that is what the member knows.
    pub(crate) endpoints: Option<Vec<StreamsEndpoint>>,
}

impl StreamsGroup {
    fn inputs_of<'a>(&'a self, tasks: &'a TaskSet) -> impl Iterator<Item = &'a String> {
        tasks
            .keys()
            .flat_map(|id| StreamsMember::inputs(&self.topology, id))
    }

    /// How many tasks a sub-topology has: one for each partition of its largest input. None while an input is unknown;
    /// of no end where there is nothing to be known.
    fn task_count(&self, subtopology: &str) -> Option<i32> {
        let mut most = None;
        for topic in StreamsMember::inputs(&self.topology, subtopology) {
            most = most.max(Some(*self.counts.get(topic)?));
        }
        Some(most.unwrap_or(i32::MAX))
    }
}

impl Protocol for StreamsGroup {
    type Interest = Arc<StreamsTopology>;
    type Assignment = StreamsTasks;
    type News = StreamsNews;
    type Beside = StreamsBeside;

    const REPEATS_ASSIGNMENT: bool = false;

    fn beside(&self) -> StreamsBeside {
        StreamsBeside {
            endpoint_information_epoch: self.endpoint_information_epoch,
            shuts_down_application: self.shuts_down_application,
        }
    }

    fn needs_topics(&self, target: &StreamsTasks) -> bool {
        let is_known = |(id, numbers): (&String, &BTreeSet<i32>)| {
            let count = self.task_count(id);
            count.is_some_and(|count| numbers.last().is_none_or(|last| *last < count))
        };
        !target.active.iter().all(is_known)
    }

    fn readable(&self, target: &StreamsTasks) -> StreamsTasks {
        let mut readable = target.clone();
        for (id, numbers) in &mut readable.active {
            // The coordinator may know of new partitions before the member does.
            let count = self.task_count(id).unwrap_or(0);
            numbers.retain(|number| *number < count);
        }
        for tasks in [
            &mut readable.active,
            &mut readable.standby,
            &mut readable.warmup,
        ] {
            tasks.retain(|_, partitions| !partitions.is_empty());
        }
        readable
    }

    /// A task reads the partition of its number of each input that has it.
    fn partitions(&self, tasks: &StreamsTasks) -> BTreeSet<TopicPartition> {
        let mut partitions = BTreeSet::new();
        for (id, numbers) in &tasks.active {
            for topic in StreamsMember::inputs(&self.topology, id) {
                let count = self.counts.get(topic).copied().unwrap_or(0);
                let there = numbers.range(0..count.max(0));
                partitions.extend(there.map(|number| TopicPartition::new(topic.as_str(), *number)));
            }
        }
        partitions
    }

    fn forget_others(&mut self, target: &StreamsTasks, owned: &StreamsTasks) {
        let needed: BTreeSet<String> = self
            .inputs_of(&target.active)
            .chain(self.inputs_of(&owned.active))
            .cloned()
            .collect();
        self.counts.retain(|topic, _| needed.contains(topic));
    }

    /// A task that stands by here stays open until it is to process.
    fn announcement(&self, next: &StreamsTasks, target: &StreamsTasks) -> Option<Event> {
        Some(Event::Tasks(StreamsTasks {
            active: target.active.clone(),
            ..next.clone()
        }))
    }

    fn handle_news(&mut self, news: StreamsNews) -> Vec<Event> {
        self.endpoint_information_epoch = news.endpoint_information_epoch;
        let mut events = Vec::new();
        let heard = (news.statuses, news.heartbeat_interval_ms);
        let has_nothing_to_say = self.statuses.0.is_empty() && heard.0.is_empty();
        if self.statuses != heard && !has_nothing_to_say {
            events.push(Event::Statuses(heard.0.clone(), heard.1));
        }
        self.statuses = heard;
        events.extend(news.endpoints.map(Event::Endpoints));
        events
    }

    fn handle_loss(&mut self) -> Option<Event> {
        self.endpoint_information_epoch = -1;
        self.statuses.0.clear();
        Some(Event::Tasks(StreamsTasks::default()))
    }
}

impl HeartbeatMembership<StreamsGroup> {
    /// A member that runs `topology`.
    pub(crate) fn of_streams_group(
        settings: HeartbeatSettings,
        topology: StreamsTopology,
        now_ms: i64,
    ) -> Self {
        let topology = Arc::new(topology);
        let group = StreamsGroup {
            topology: Arc::clone(&topology),
            counts: BTreeMap::new(),
            endpoint_information_epoch: -1,
            shuts_down_application: false,
            statuses: (Vec::new(), 0),
        };
        let mut member = Self::with(settings, group, now_ms);
        member.subscribe(topology);
        member
    }

    /// Learns how many partitions topics have. They never become fewer: a topic that was made anew with fewer is not
    /// the one that is read.
    pub(crate) fn handle_counts(&mut self, count_of: impl Fn(&str) -> Option<i32>) {
        let topics: BTreeSet<&String> = self.protocol.inputs_of(&self.target.active).collect();
        let learned: Vec<(String, i32)> = topics
            .into_iter()
            .filter_map(|topic| Some((topic.clone(), count_of(topic)?)))
            .filter(|(topic, count)| {
                let known = self.protocol.counts.get(topic);
                known.is_none_or(|known| known < count)
            })
            .collect();
        self.protocol.counts.extend(learned);
        self.reconcile();
    }

    /// The topics whose numbers of partitions matter.
    pub(crate) fn watched_topics(&self) -> impl Iterator<Item = &String> {
        self.protocol.inputs_of(&self.target.active)
    }

    /// Asks all members to end.
    pub(crate) fn shut_down_application(&mut self) {
        self.protocol.shuts_down_application = true;
        self.heartbeat_due_ms = i64::MIN;
    }
}

#[cfg(test)]
mod tests;
