//! What the cluster looks like, as its answers to Metadata requests tell.
//!
//! Pure: time is an argument, in milliseconds of any clock that does not go back. The shell asks
//! [`Metadata::refresh_at_ms`] when to send the next request and [`Metadata::begin_refresh`] what to
//! ask for, and brings the answer to [`Metadata::update`].
//!
//! A partition's leader never goes back to an older leader epoch of the same topic: brokers learn of
//! elections at different times, and the slower one does not win.

#[cfg(test)]
mod tests;

use crate::config::Endpoint;
use model::{BrokerId, ErrorCode, LeaderEpoch, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::messages::MetadataResponse;
use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

/// A broker that the metadata names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Where it advertises that it listens.
    pub endpoint: Endpoint,
    /// Where it stands, if it says.
    pub rack: Option<Arc<str>>,
}

/// The leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leader {
    /// The broker.
    pub(crate) id: BrokerId,
    /// The epoch that it leads in; -1 when the broker is too old to tell.
    pub(crate) epoch: LeaderEpoch,
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its index within the topic.
    pub index: i32,
    /// Who leads it, if anyone.
    pub leader: Option<BrokerId>,
    /// The epoch of the leader; -1 when the broker is too old to tell.
    pub leader_epoch: i32,
    /// The brokers that have a replica.
    pub replicas: Vec<BrokerId>,
    /// Those of them that are in sync.
    pub in_sync_replicas: Vec<BrokerId>,
    /// Those of them that are offline.
    pub offline_replicas: Vec<BrokerId>,
}

impl Partition {
    /// What an answer to Metadata says of a partition.
    pub(crate) fn of(said: &MetadataResponsePartition<'_>) -> Self {
        Self {
            index: said.partition_index,
            leader: Some(said.leader_id).filter(|id| !id.is_none()),
            leader_epoch: said.leader_epoch,
            replicas: said.replica_nodes.iter().collect(),
            in_sync_replicas: said.isr_nodes.iter().collect(),
            offline_replicas: said.offline_replicas.iter().collect(),
        }
    }
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; zero when the broker is too old to tell.
    pub id: Uuid,
    /// Whether Kafka itself uses it.
    pub is_internal: bool,
    /// Its partitions by index: the one at `i` has index `i`.
    pub partitions: Vec<Partition>,
}

/// Which topics to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// These; possibly none.
    Topics(Vec<Arc<str>>),
}

/// The cluster as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    brokers: BTreeMap<BrokerId, Broker>,
    cluster_id: Option<Arc<str>>,
    topics: BTreeMap<Arc<str>, Arc<Topic>>,
    names: BTreeMap<Uuid, Arc<str>>,
    /// Why the last answer had nothing for a topic.
    errors: BTreeMap<Arc<str>, ErrorCode>,
    /// The topics that are asked for, and when each was last used.
    wanted: BTreeMap<Arc<str>, u64>,
    wants_all: bool,
    /// Counts the answers; zero before the first one.
    updates: u64,
    /// Counts the requests that were begun, and which of them was answered last.
    begun: u64,
    answered: u64,
    updated_at_ms: u64,
    is_requested: bool,
    /// Whether the request need not wait for the backoff after the last one.
    is_urgent: bool,
    max_age_ms: u64,
    /// How long a wanted topic may go unused; `None` for ever.
    max_idle_ms: Option<u64>,
}

impl Metadata {
    /// Nothing is known yet. Metadata is asked for again at an age of `max_age_ms`; topics that are
    /// not used for `max_idle_ms` are not wanted any more.
    pub(crate) const fn new(max_age_ms: u64, max_idle_ms: Option<u64>) -> Self {
        Self {
            brokers: BTreeMap::new(),
            cluster_id: None,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            errors: BTreeMap::new(),
            wanted: BTreeMap::new(),
            wants_all: false,
            updates: 0,
            begun: 0,
            answered: 0,
            updated_at_ms: 0,
            is_requested: true,
            is_urgent: true,
            max_age_ms,
            max_idle_ms,
        }
    }

    /// The brokers by id.
    pub(crate) fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    /// The broker with this id.
    pub(crate) fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// The cluster's id, once it is known.
    pub(crate) fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The topics that are known, by name.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// The topic of this name.
    pub(crate) fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    /// The topic of this id.
    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.names.get(&id).and_then(|name| self.topics.get(name))
    }

    /// Why the last answer about a topic had nothing for it.
    pub(crate) fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    /// The partition `index` of the topic `name`.
    pub(crate) fn partition(&self, name: &str, index: i32) -> Option<&Partition> {
        let index = usize::try_from(index).ok()?;
        self.topics.get(name)?.partitions.get(index)
    }

    /// How many partitions a topic has.
    pub(crate) fn partition_count(&self, name: &str) -> Option<usize> {
        self.topics.get(name).map(|topic| topic.partitions.len())
    }

    /// Who leads a partition, if that is known and the leader is a known broker.
    pub(crate) fn leader(&self, name: &str, index: i32) -> Option<Leader> {
        let partition = self.partition(name, index)?;
        let id = partition.leader?;
        self.brokers.contains_key(&id).then_some(Leader {
            id,
            epoch: LeaderEpoch(partition.leader_epoch),
        })
    }

    /// Counts the answers that came in; zero before the first one.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }

    /// Which request is the next to be begun; [`Metadata::has_answered`] tells of its answer.
    pub(crate) const fn next_refresh(&self) -> u64 {
        self.begun + 1
    }

    /// Whether that request, or one after it, was answered.
    pub(crate) const fn has_answered(&self, refresh: u64) -> bool {
        self.answered >= refresh
    }

    /// When the last answer came in.
    pub(crate) const fn updated_at_ms(&self) -> u64 {
        self.updated_at_ms
    }

    /// Asks for `topic` from here on; using it again keeps it wanted. Returns whether it is new,
    /// and then requests a refresh.
    pub(crate) fn want(&mut self, topic: &str, now_ms: u64) -> bool {
        if let Some(used_at_ms) = self.wanted.get_mut(topic) {
            *used_at_ms = now_ms;
            return false;
        }
        self.wanted.insert(topic.into(), now_ms);
        self.request_refresh_now();
        true
    }

    /// Asks for exactly these topics, and requests a refresh if one of them is new.
    pub(crate) fn want_only<'a>(
        &mut self,
        topics: impl IntoIterator<Item = &'a str>,
        now_ms: u64,
    ) -> bool {
        let wanted: BTreeMap<Arc<str>, u64> =
            topics.into_iter().map(|t| (t.into(), now_ms)).collect();
        let is_new = wanted.keys().any(|topic| !self.wanted.contains_key(topic));
        self.wanted = wanted;
        if is_new {
            self.request_refresh_now();
        }
        is_new
    }

    /// Asks for every topic, or only for the wanted ones.
    pub(crate) const fn want_all(&mut self, wants_all: bool) {
        if wants_all && !self.wants_all {
            self.request_refresh_now();
        }
        self.wants_all = wants_all;
    }

    /// What the request that is sent now asks for; topics that were not used for long are left out
    /// from here on. A refresh that is requested after this needs another request.
    pub(crate) fn begin_refresh(&mut self, now_ms: u64) -> Wanted {
        self.is_requested = false;
        self.is_urgent = false;
        self.begun += 1;
        if self.wants_all {
            return Wanted::All;
        }
        if let Some(max_idle_ms) = self.max_idle_ms {
            self.wanted
                .retain(|_, used_at_ms| now_ms.saturating_sub(*used_at_ms) < max_idle_ms);
        }
        Wanted::Topics(self.wanted.keys().cloned().collect())
    }

    /// Asks for a refresh: something was found to be out of date.
    pub(crate) const fn request_refresh(&mut self) {
        self.is_requested = true;
    }

    /// Asks for a refresh without a backoff: something is needed that was never asked for.
    pub(crate) const fn request_refresh_now(&mut self) {
        self.is_requested = true;
        self.is_urgent = true;
    }

    /// When the next request is due: at once if it is urgent, `backoff_ms` after the last answer if
    /// one was asked for, else when that is too old.
    pub(crate) const fn refresh_at_ms(&self, backoff_ms: u64) -> u64 {
        if self.is_urgent || self.updates == 0 {
            return 0;
        }
        let wait_ms = if self.is_requested {
            backoff_ms
        } else {
            self.max_age_ms
        };
        self.updated_at_ms.saturating_add(wait_ms)
    }

    /// Forgets the brokers, and that anything was ever answered by them; the topics stay.
    pub(crate) fn forget_brokers(&mut self) {
        self.brokers.clear();
        self.request_refresh_now();
    }

    /// Takes a leader that another answer than Metadata's told of (KIP-951), for the topic of this
    /// name and id; zero for an answer that has no ids. Returns whether it is news; what is known of
    /// its broker stays.
    pub(crate) fn update_leader(
        &mut self,
        (topic, topic_id): (&str, Uuid),
        index: i32,
        leader: Leader,
    ) -> bool {
        let Some(known) = self.topics.get_mut(topic) else {
            return false;
        };
        if is_another(known.id, topic_id) {
            return false;
        }
        let at = usize::try_from(index).ok();
        let is_news = at
            .and_then(|at| known.partitions.get(at))
            .is_some_and(|partition| partition.leader_epoch < leader.epoch.0);
        if let (true, Some(at)) = (is_news, at) {
            let partition = &mut Arc::make_mut(known).partitions[at];
            partition.leader = Some(leader.id);
            partition.leader_epoch = leader.epoch.0;
        }
        is_news
    }

    /// Takes a broker that another answer than Metadata's told of (KIP-951).
    pub(crate) fn update_broker(&mut self, broker: Broker) {
        self.brokers.insert(broker.id, broker);
    }

    /// Takes the answer to a request for `asked`.
    pub(crate) fn update(&mut self, response: &MetadataResponse<'_>, asked: &Wanted, now_ms: u64) {
        self.brokers = response.brokers.iter().filter_map(broker).collect();
        if let Some(cluster_id) = response.cluster_id {
            self.cluster_id = Some(cluster_id.into());
        }
        self.errors.clear();
        let mut answered = BTreeSet::new();
        for topic in response.topics.iter() {
            if let Some(name) = self.update_topic(&topic) {
                answered.insert(name);
            }
        }
        match asked {
            // What an answer about all topics does not name is gone.
            Wanted::All => self.topics.retain(|name, _| answered.contains(name)),
            Wanted::Topics(asked) => {
                let wanted = &self.wanted;
                let gone: BTreeSet<&Arc<str>> =
                    asked.iter().filter(|t| !answered.contains(*t)).collect();
                self.topics.retain(|name, _| {
                    !gone.contains(name) && (wanted.contains_key(name) || answered.contains(name))
                });
            }
        }
        self.names = self
            .topics
            .values()
            .filter(|topic| !topic.id.is_zero())
            .map(|topic| (topic.id, topic.name.clone()))
            .collect();
        self.updates += 1;
        self.answered = self.begun;
        self.updated_at_ms = now_ms;
    }

    /// Takes what an answer says of one topic, and returns its name if it has one.
    fn update_topic(&mut self, topic: &MetadataResponseTopic<'_>) -> Option<Arc<str>> {
        let name: Arc<str> = topic.name?.into();
        let code = ErrorCode::from_code(topic.error_code);
        if !code.is_none() {
            self.errors.insert(name.clone(), code);
            // A leader that is not there yet is no reason to forget the topic.
            if code != ErrorCode::LeaderNotAvailable {
                self.topics.remove(&name);
            }
            return Some(name);
        }
        let known = self.topics.get(&name);
        let known = known.filter(|known| !is_another(known.id, topic.topic_id));
        let known = known.map_or(&[][..], |known| &known.partitions);
        let mut partitions: Vec<Partition> = topic
            .partitions
            .iter()
            .map(|new| newer(known, &new))
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        partitions.dedup_by_key(|partition| partition.index);
        // An index stands for a place in the vector, so what follows a gap cannot be told.
        let contiguous = partitions
            .iter()
            .enumerate()
            .take_while(|(at, partition)| i32::try_from(*at) == Ok(partition.index))
            .count();
        partitions.truncate(contiguous);
        let topic = Topic {
            name: name.clone(),
            id: topic.topic_id,
            is_internal: topic.is_internal,
            partitions,
        };
        self.topics.insert(name.clone(), Arc::new(topic));
        Some(name)
    }
}

/// Whether two ids are of different topics, whatever their names; zero is of any.
pub(crate) fn is_another(one: Uuid, other: Uuid) -> bool {
    one != other && !one.is_zero() && !other.is_zero()
}

/// A broker whose address can be connected to.
fn broker(
    broker: wire::messages::metadata_response::MetadataResponseBroker<'_>,
) -> Option<(BrokerId, Broker)> {
    let port = u16::try_from(broker.port).ok()?;
    let known = Broker {
        id: broker.node_id,
        endpoint: Endpoint::new(broker.host, port),
        rack: broker.rack.map(Arc::from),
    };
    Some((broker.node_id, known))
}

/// What an answer says of a partition, unless something newer is known.
fn newer(known: &[Partition], new: &MetadataResponsePartition<'_>) -> Partition {
    let same = usize::try_from(new.partition_index)
        .ok()
        .and_then(|index| known.get(index));
    if let Some(known) = same.filter(|known| new.leader_epoch < known.leader_epoch)
        && new.leader_epoch >= 0
    {
        return known.clone();
    }
    Partition::of(new)
}
