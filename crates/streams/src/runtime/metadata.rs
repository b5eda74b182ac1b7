//! Where keys are: which instances of an application have which stores, as the group's leader has told the threads of
//! this one. An instance is known by its `application.server`.

use super::kafka_streams::KafkaStreams;
use super::preparation::Preparation;
use super::queries::InvalidStateStore;
use super::settings::ConfigError;
use crate::assignor::HOST_BYTES_MAX;
use crate::error::StreamsError;
use crate::formats::group::HostPartitions;
use crate::headers::Headers;
use crate::serde::Serde;
use crate::topology::{SourceTopics, Topology, whole_names};
use parking_lot::RwLock;
use riverrun_client::TopicPartition;
use riverrun_client::producer::partition_of_key;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where an instance answers what others ask it: its `application.server`. What is asked and how is the application's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostInfo {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for HostInfo {
    type Err = ConfigError;

    /// Reads `host:port`, and `[address]:port` of an IPv6 address.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let invalid = || ConfigError::Invalid {
            key: "application.server".to_owned(),
            value: text.to_owned(),
            reason: "it is not `host:port`".to_owned(),
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        // No name is longer, and no leader of a group tells of one that is.
        let is_host =
            (1..=HOST_BYTES_MAX).contains(&host.len()) && (bare.is_some() || !host.contains(':'));
        match port.parse() {
            Ok(port) if is_host => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(invalid()),
        }
    }
}

/// Which instances have a key of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQueryMetadata {
    /// The instance that runs the key's task; none while no instance with an `application.server` does.
    pub active_host: Option<HostInfo>,
    /// The instances that stand by for it.
    pub standby_hosts: BTreeSet<HostInfo>,
    /// The key's partition; -1 of a global store, which every instance has as a whole.
    pub partition: i32,
}

/// What an instance has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsMetadata {
    /// Where it answers.
    pub host: HostInfo,
    /// The stores of the tasks that it runs, and the global ones.
    pub state_store_names: BTreeSet<Arc<str>>,
    /// The input partitions of these tasks.
    pub topic_partitions: BTreeSet<TopicPartition>,
    /// The stores of tasks that it stands by for.
    pub standby_state_store_names: BTreeSet<Arc<str>>,
    /// The input partitions of these tasks.
    pub standby_topic_partitions: BTreeSet<TopicPartition>,
}

/// The input partitions of the tasks that each instance has.
type Partitions = BTreeMap<HostInfo, BTreeSet<TopicPartition>>;

/// What the group's leader has told last of all instances.
#[derive(Debug, Default)]
pub(super) struct Hosts(RwLock<Option<(Partitions, Partitions)>>);

impl Hosts {
    /// The leader has told.
    pub(super) fn hear(&self, active: &[HostPartitions<'_>], standby: &[HostPartitions<'_>]) {
        *self.0.write() = Some((partitions(active), partitions(standby)));
    }

    fn told(&self) -> Option<(Partitions, Partitions)> {
        self.0.read().clone()
    }
}

fn partitions(told: &[HostPartitions<'_>]) -> Partitions {
    let mut partitions = Partitions::new();
    for host in told {
        let Ok(port) = u16::try_from(host.port) else {
            continue;
        };
        let of_host = host.partitions.iter();
        let of_host =
            of_host.map(|partition| TopicPartition::new(partition.topic, partition.partition));
        let host = HostInfo {
            host: host.host.to_owned(),
            port,
        };
        partitions.entry(host).or_default().extend(of_host);
    }
    partitions
}

/// What an instance needs to tell where keys are.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) topology: Arc<Topology>,
    pub(super) application_id: Arc<str>,
    pub(super) own: Option<HostInfo>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) preparation: Arc<Preparation>,
}

impl Located {
    /// What each instance has; nothing before the group's leader has told.
    fn all(&self) -> Vec<StreamsMetadata> {
        let Some((active, standby)) = self.hosts.told() else {
            return Vec::new();
        };
        let hosts: BTreeSet<&HostInfo> = active.keys().chain(standby.keys()).collect();
        let globals = self.topology.stores.iter();
        let globals: BTreeSet<Arc<str>> = globals
            .filter(|(_, store)| store.is_global)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        hosts
            .into_iter()
            .map(|host| {
                let of = |told: &Partitions| told.get(host).cloned().unwrap_or_default();
                let (topic_partitions, standby_topic_partitions) = (of(&active), of(&standby));
                let mut state_store_names = self.stores_of(&topic_partitions);
                state_store_names.extend(globals.iter().cloned());
                StreamsMetadata {
                    host: host.clone(),
                    state_store_names,
                    standby_state_store_names: self.stores_of(&standby_topic_partitions),
                    topic_partitions,
                    standby_topic_partitions,
                }
            })
            .collect()
    }

    /// The stores whose records come of one of these partitions.
    fn stores_of(&self, partitions: &BTreeSet<TopicPartition>) -> BTreeSet<Arc<str>> {
        let topics: BTreeSet<&str> = partitions
            .iter()
            .map(|partition| partition.topic.as_str())
            .collect();
        let stores = self.topology.stores.iter();
        stores
            .filter(|(_, store)| !store.is_global)
            .filter(|(name, _)| {
                let sources = self.sources_of(name);
                topics.iter().any(|topic| is_read(&sources, topic))
            })
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// What the records of a store come of, under the topics' full names.
    fn sources_of(&self, store: &str) -> Vec<SourceTopics> {
        let full = |name: &Arc<str>| self.topology.full_topic(&self.application_id, name);
        let sources = self.topology.sources_of_store(store).into_iter();
        sources
            .map(|topics| match topics {
                SourceTopics::Named(names) => SourceTopics::Named(names.iter().map(full).collect()),
                pattern => pattern,
            })
            .collect()
    }

    /// Where a key is that `partition_of` finds the partition of, given a topic and how many partitions it has.
    fn locate(
        &self,
        store: &str,
        partition_of: impl FnOnce(&str, i32) -> Result<i32, StreamsError>,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        let all = self.all();
        if self.topology.stores[store].is_global {
            let first = all.first().map(|metadata| metadata.host.clone());
            return Ok(Some(KeyQueryMetadata {
                active_host: self.own.clone().or(first),
                standby_hosts: BTreeSet::new(),
                partition: -1,
            }));
        }
        let sources = self.sources_of(store);
        let counts = self.preparation.counts().iter();
        let most = counts
            .filter(|(topic, _)| is_read(&sources, topic))
            .max_by_key(|(_, count)| **count);
        let Some((topic, count)) = most else {
            return Ok(None);
        };
        let partition = partition_of(topic, *count)?;
        let has = |names: &BTreeSet<Arc<str>>, partitions: &BTreeSet<TopicPartition>| {
            names.contains(store)
                && partitions
                    .iter()
                    .any(|one| one.partition == partition && is_read(&sources, &one.topic))
        };
        let active = all
            .iter()
            .find(|one| has(&one.state_store_names, &one.topic_partitions));
        let standby = all.iter().filter(|one| {
            has(
                &one.standby_state_store_names,
                &one.standby_topic_partitions,
            )
        });
        Ok(Some(KeyQueryMetadata {
            active_host: active.map(|one| one.host.clone()),
            standby_hosts: standby.map(|one| one.host.clone()).collect(),
            partition,
        }))
    }
}

fn is_read(sources: &[SourceTopics], topic: &str) -> bool {
    sources.iter().any(|source| match source {
        SourceTopics::Named(names) => names.iter().any(|name| **name == *topic),
        SourceTopics::Pattern(pattern) => {
            whole_names(pattern).is_ok_and(|pattern| pattern.is_match(topic))
        }
    })
}

impl KafkaStreams {
    /// What tells where the keys of a store are.
    fn located_of(&self, store: &str) -> Result<&Located, InvalidStateStore> {
        self.queried(store)?;
        let not_running = || InvalidStateStore::NotRunning(Arc::from(store));
        self.located().ok_or_else(not_running)
    }

    /// Which instances have `key` of a store, if its topics are partitioned by the bytes of their keys, as producers do
    /// (murmur2). None while that is not known: the topics were not looked at yet.
    ///
    /// # Errors
    /// The topology has no such store, the instance does not run, or the key cannot be written.
    pub fn query_metadata_for_key<K>(
        &self,
        store: &str,
        key: &K,
        serde: &dyn Serde<K>,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        self.located_of(store)?.locate(store, |topic, count| {
            let mut bytes = Vec::new();
            let written = serde.serialize(topic, &mut Headers::new(), key, &mut bytes);
            match written {
                Ok(true) => {
                    let count = usize::try_from(count).unwrap_or(0).max(1);
                    let index = partition_of_key(serde.partitioned_bytes(&bytes), count);
                    Ok(i32::try_from(index).unwrap_or(i32::MAX))
                }
                Ok(false) => Err(StreamsError::Other("no store has a null key".to_owned())),
                Err(error) => Err(StreamsError::Other(format!(
                    "the key cannot be written: {error}"
                ))),
            }
        })
    }

    /// As `query_metadata_for_key`, where the application chooses partitions: `partition_of` gets the topic and how
    /// many partitions it has.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn query_metadata_for_partition_of(
        &self,
        store: &str,
        partition_of: impl FnOnce(&str, i32) -> i32,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        let partition_of = |topic: &str, count| Ok(partition_of(topic, count));
        self.located_of(store)?.locate(store, partition_of)
    }

    /// What each instance has that tells where it answers, as the group's leader has told this one last; nothing
    /// before that, and while the instance does not run.
    pub fn metadata_for_all_streams_clients(&self) -> Vec<StreamsMetadata> {
        self.located().map(Located::all).unwrap_or_default()
    }

    /// As `metadata_for_all_streams_clients`, of those that have a part of a store, or stand by for one.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn streams_metadata_for_store(
        &self,
        store: &str,
    ) -> Result<Vec<StreamsMetadata>, InvalidStateStore> {
        let mut all = self.located_of(store)?.all();
        all.retain(|one| {
            one.state_store_names.contains(store) || one.standby_state_store_names.contains(store)
        });
        Ok(all)
    }
}

impl Located {
    /// Whether a store has a partition; none while that is not known.
    pub(super) fn has_partition(&self, store: &str, partition: i32) -> Option<bool> {
        let sources = self.sources_of(store);
        let counts = self.preparation.counts().iter();
        let counts = counts.filter(|(topic, _)| is_read(&sources, topic));
        let most = counts.map(|(_, count)| *count).max()?;
        Some((0..most).contains(&partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let read = text.parse::<HostInfo>().ok();
            let read_parts = read.as_ref().map(|read| (read.host.as_str(), read.port));
            assert_eq!(read_parts, expected, "{text}");
            if let Some(read) = read {
                assert_eq!(read.to_string(), text);
            }
        };
        check("one.example:7070", Some(("one.example", 7070)));
        check("[::1]:1", Some(("::1", 1)));
        check("one.example", None);
        check(&format!("{}:1", "h".repeat(256)), None);
        check(":7070", None);
        check("::1:7070", None);
        check("one.example:70700", None);
        check("one.example:", None);
    }
}
