//! What a fetch asks for.

use super::{FOLLOWERS_VERSION, FUTURE_REPLICA, Follower, Limits, READ_COMMITTED};
use crate::api::ANSWER_MAX_BYTES;
use crate::api::broker::Broker;
use crate::scheduling::clock::monotonic;
use controller::topic_name;
use model::{BrokerEpoch, LeaderEpoch, Offset, Uuid};
use replication::{FetchPartition, Isolation, SessionTopic, TopicRef};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::messages::FetchRequest;

/// What of a request holds for all of its partitions.
pub(super) fn limits(broker: &Broker, version: i16, message: &FetchRequest<'_>) -> Limits {
    let (replica_id, replica_epoch) = match version {
        15.. => (
            message.replica_state.replica_id,
            message.replica_state.replica_epoch,
        ),
        _ => (message.replica_id, BrokerEpoch::NONE),
    };
    let follower = (!replica_id.is_none()).then(|| Follower {
        replica: (replica_id, replica_epoch),
        now: monotonic(),
        session: None,
        has_waited: false,
        throttle: broker.node.leader_throttle.clone(),
    });
    if let Some(follower) = &follower {
        broker.logs.host.leaders().note_time(follower.now);
    }
    let is_rack_aware = broker.node.config.replication.is_rack_aware;
    let has_rack = is_rack_aware && version >= FOLLOWERS_VERSION && follower.is_none();
    let max_bytes = message
        .max_bytes
        .min(broker.node.config.network.fetch_max_bytes)
        .min(ANSWER_MAX_BYTES as i32 / 2)
        .max(0);
    Limits {
        max_bytes: max_bytes as usize,
        min_bytes: message.min_bytes.min(max_bytes).max(0) as usize,
        max_wait: Duration::from_millis(message.max_wait_ms.max(0) as u64),
        isolation: match message.isolation_level {
            _ if !replica_id.is_none() || replica_id == FUTURE_REPLICA => Isolation::LogEnd,
            READ_COMMITTED => Isolation::LastStableOffset,
            _ => Isolation::HighWatermark,
        },
        rack: (has_rack && !message.rack_id.is_empty()).then(|| message.rack_id.to_owned()),
        is_leader_asked: version < FOLLOWERS_VERSION || replica_id == FUTURE_REPLICA,
        follower,
        node_id: broker.node.id,
    }
}

/// Whether a session may remember all topics that the request names: a text that is too long for a
/// name stays nowhere.
pub(super) fn has_session(message: &FetchRequest<'_>) -> bool {
    let mut topics = message.topics.iter();
    topics.all(|topic| topic.topic.len() <= topic_name::LENGTH_MAX)
}

/// The partitions that the request names.
pub(super) fn asked<'f, 'm>(
    message: &'m FetchRequest<'f>,
    version: i16,
) -> impl Iterator<Item = (TopicRef<'f>, i32, FetchPartition)> + use<'f, 'm> {
    message.topics.iter().flat_map(move |topic| {
        let name = topic_ref(topic.topic, topic.topic_id, version);
        topic.partitions.into_iter().map(move |asked| {
            let request = FetchPartition {
                // In a fetch any negative number stands for none.
                current_leader_epoch: LeaderEpoch(asked.current_leader_epoch)
                    .max(LeaderEpoch::NONE),
                fetch_offset: Offset(asked.fetch_offset),
                last_fetched_epoch: LeaderEpoch(asked.last_fetched_epoch),
                log_start_offset: Offset(asked.log_start_offset),
                max_bytes: asked.partition_max_bytes,
            };
            (name, asked.partition, request)
        })
    })
}

/// The partitions that the request names, each once and as it is named last.
pub(super) fn asked_once<'f>(
    message: &FetchRequest<'f>,
    version: i16,
) -> Vec<(TopicRef<'f>, i32, FetchPartition)> {
    let mut all: Vec<_> = asked(message, version).collect();
    if all.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)) {
        return all;
    }
    let mut last = BTreeMap::new();
    for (topic, index, request) in &all {
        last.insert((*topic, *index), *request);
    }
    all.retain_mut(|(topic, index, request)| {
        let found = last.remove(&(*topic, *index));
        found.map(|last| *request = last).is_some()
    });
    all
}

/// The partitions that the session is to forget.
pub(super) fn forgotten<'f, 'm>(
    message: &'m FetchRequest<'f>,
    version: i16,
) -> impl Iterator<Item = (TopicRef<'f>, i32)> + use<'f, 'm> {
    message.forgotten_topics_data.iter().flat_map(move |topic| {
        let name = topic_ref(topic.topic, topic.topic_id, version);
        topic.partitions.into_iter().map(move |index| (name, index))
    })
}

pub(super) fn topic_ref(name: &str, id: Uuid, version: i16) -> TopicRef<'_> {
    if version >= 13 {
        TopicRef::Id(id)
    } else {
        TopicRef::Name(name)
    }
}

/// Owns topics one after the other. The partitions of one share its name, which may be as long as the request.
#[derive(Default)]
pub(super) struct OwnedTopics {
    last: Option<SessionTopic>,
}

impl OwnedTopics {
    pub(super) fn owned(&mut self, topic: TopicRef<'_>) -> SessionTopic {
        match &self.last {
            Some(last) if last.as_ref() == topic => last.clone(),
            _ => {
                let owned = match topic {
                    TopicRef::Id(id) => SessionTopic::Id(id),
                    TopicRef::Name(name) => SessionTopic::Name(name.into()),
                };
                self.last.insert(owned).clone()
            }
        }
    }
}
