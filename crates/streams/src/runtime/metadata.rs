//! Where keys are: which instances of an application have which stores, as the group's leader has told the threads of
//! this one. An instance is known by its `application.server`.

use super::HostInfo;
use super::StreamsConfig;
use super::invalid_state_store::InvalidStateStore;
use super::preparation::Preparation;
use super::topics::Counts;
use crate::error::StreamsError;
use crate::formats::group::HostPartitions;
use crate::topology::{SourceTopics, Topology, whole_names};
use parking_lot::RwLock;
use regex_lite::Regex;
use riverrun_client::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

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
pub(super) struct Hosts(RwLock<Option<Arc<Told>>>);

/// What the group's leader has told.
#[derive(Debug)]
struct Told {
    active: Partitions,
    standby: Partitions,
    /// Made by who asks first: the leader may have told of many partitions, and of none that anybody asks for.
    table: OnceLock<Table>,
}

/// What is looked up.
#[derive(Debug, Default)]
struct Table {
    all: Vec<StreamsMetadata>,
    active: Places,
    standby: Places,
}

/// Which of all instances have each partition of each store.
type Places = BTreeMap<Arc<str>, BTreeMap<i32, BTreeSet<usize>>>;

/// The stores that the records of each topic come to.
type Readers<'a> = BTreeMap<&'a str, Vec<&'a Arc<str>>>;

/// Notes where an instance has parts of stores, by the input partitions of its tasks, and tells the stores.
fn place(
    places: &mut Places,
    readers: &Readers<'_>,
    index: usize,
    partitions: &BTreeSet<TopicPartition>,
) -> BTreeSet<Arc<str>> {
    let mut stores = BTreeSet::new();
    for TopicPartition { topic, partition } in partitions {
        for store in &readers[topic.as_str()] {
            stores.insert(Arc::clone(store));
            let of_store = places.entry(Arc::clone(store)).or_default();
            of_store.entry(*partition).or_default().insert(index);
        }
    }
    stores
}

impl Hosts {
    /// The leader has told.
    pub(super) fn hear(&self, active: &[HostPartitions<'_>], standby: &[HostPartitions<'_>]) {
        let (active, standby) = (partitions(active), partitions(standby));
        // Each thread of the instance hears the same.
        let is_known = |told: Arc<Told>| told.active == active && told.standby == standby;
        if self.told().is_some_and(is_known) {
            return;
        }
        let told = Arc::new(Told {
            active,
            standby,
            table: OnceLock::new(),
        });
        let before = self.0.write().replace(told);
        // Not under the lock, for it is large.
        drop(before);
    }

    fn told(&self) -> Option<Arc<Told>> {
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

/// A topic and how many partitions it has.
type Counted = (Arc<str>, i32);

/// The topics that the records of a store come of, under their full names.
struct StoreTopics {
    named: BTreeSet<Arc<str>>,
    patterns: Vec<Regex>,
    /// The one with the most partitions, by these counts.
    largest: RwLock<Option<(Arc<Counts>, Option<Counted>)>>,
}

impl StoreTopics {
    fn new(sources: Vec<SourceTopics>, full: impl Fn(&Arc<str>) -> Arc<str>) -> Self {
        let mut topics = Self {
            named: BTreeSet::new(),
            patterns: Vec::new(),
            largest: RwLock::default(),
        };
        for source in sources {
            match source {
                SourceTopics::Named(names) => topics.named.extend(names.iter().map(&full)),
                SourceTopics::Pattern(pattern) => topics.patterns.extend(whole_names(&pattern)),
            }
        }
        topics
    }

    fn has(&self, topic: &str) -> bool {
        self.named.contains(topic) || self.patterns.iter().any(|pattern| pattern.is_match(topic))
    }

    fn largest(&self, counts: Arc<Counts>) -> Option<Counted> {
        if let Some((of, largest)) = &*self.largest.read()
            && Arc::ptr_eq(of, &counts)
        {
            return largest.clone();
        }
        let of_these = counts.iter().filter(|(topic, _)| self.has(topic));
        let largest = of_these.max_by_key(|(_, count)| **count);
        let largest = largest.map(|(topic, count)| (Arc::clone(topic), *count));
        *self.largest.write() = Some((counts, largest.clone()));
        largest
    }
}

/// What an instance needs to tell where keys are. What does not change is looked up once.
pub(super) struct Located {
    topology: Arc<Topology>,
    own: Option<HostInfo>,
    hosts: Arc<Hosts>,
    preparation: Arc<Preparation>,
    /// Of each store but the global ones.
    topics: BTreeMap<Arc<str>, StoreTopics>,
}

impl Located {
    pub(super) fn new(
        topology: &Arc<Topology>,
        config: &StreamsConfig,
        hosts: &Arc<Hosts>,
        preparation: &Arc<Preparation>,
    ) -> Self {
        let full = |topic: &Arc<str>| topology.full_topic(&config.application_id, topic);
        let stores = topology.stores.iter().filter(|(_, store)| !store.is_global);
        let topics = stores.map(|(name, _)| {
            let sources = topology.sources_of_store(name);
            (Arc::clone(name), StoreTopics::new(sources, full))
        });
        Self {
            topics: topics.collect(),
            topology: Arc::clone(topology),
            own: config.application_server.clone(),
            hosts: Arc::clone(hosts),
            preparation: Arc::clone(preparation),
        }
    }

    /// What each instance has; nothing before the group's leader has told.
    pub(super) fn all(&self) -> Vec<StreamsMetadata> {
        self.those(|_| true)
    }

    pub(super) fn those(
        &self,
        is_asked_for: impl Fn(&StreamsMetadata) -> bool,
    ) -> Vec<StreamsMetadata> {
        let Some(told) = self.hosts.told() else {
            return Vec::new();
        };
        let all = self.table(&told).all.iter();
        all.filter(|one| is_asked_for(one)).cloned().collect()
    }

    fn table<'a>(&self, told: &'a Told) -> &'a Table {
        told.table.get_or_init(|| {
            let all = told.active.values().chain(told.standby.values());
            self.preparation.note(all.flatten());
            self.tabulate(told)
        })
    }

    fn tabulate(&self, told: &Told) -> Table {
        let globals = self.topology.stores.iter();
        let globals: BTreeSet<Arc<str>> = globals
            .filter(|(_, store)| store.is_global)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let readers = self.readers(told);
        let hosts: BTreeSet<&HostInfo> = told.active.keys().chain(told.standby.keys()).collect();
        let mut table = Table::default();
        for (index, host) in hosts.into_iter().enumerate() {
            let of = |told: &Partitions| told.get(host).cloned().unwrap_or_default();
            let (active, standby) = (of(&told.active), of(&told.standby));
            let mut stores = place(&mut table.active, &readers, index, &active);
            stores.extend(globals.iter().cloned());
            table.all.push(StreamsMetadata {
                host: host.clone(),
                state_store_names: stores,
                topic_partitions: active,
                standby_state_store_names: place(&mut table.standby, &readers, index, &standby),
                standby_topic_partitions: standby,
            });
        }
        table
    }

    fn readers<'a>(&'a self, told: &'a Told) -> Readers<'a> {
        let mut readers = Readers::new();
        let partitions = told.active.values().chain(told.standby.values()).flatten();
        for TopicPartition { topic, .. } in partitions {
            readers.entry(topic).or_insert_with(|| {
                let stores = self.topics.iter();
                let stores = stores.filter(|(_, topics)| topics.has(topic));
                stores.map(|(store, _)| store).collect()
            });
        }
        readers
    }

    /// The topic with the most partitions of those that the records of a store come of.
    fn largest(&self, store: &str) -> Option<Counted> {
        self.topics.get(store)?.largest(self.preparation.counts())
    }

    /// Where a key is that `partition_of` finds the partition of, given a topic and how many partitions it has.
    pub(super) fn locate(
        &self,
        store: &str,
        partition_of: impl FnOnce(&str, i32) -> Result<i32, StreamsError>,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        let told = self.hosts.told();
        let table = told.as_ref().map(|told| self.table(told));
        if self.topology.stores[store].is_global {
            let first = table.and_then(|table| table.all.first());
            let first = first.map(|metadata| metadata.host.clone());
            return Ok(Some(KeyQueryMetadata {
                active_host: self.own.clone().or(first),
                standby_hosts: BTreeSet::new(),
                partition: -1,
            }));
        }
        let Some((topic, count)) = self.largest(store) else {
            return Ok(None);
        };
        let partition = partition_of(&topic, count)?;
        let hosts = |of: fn(&Table) -> &Places| -> BTreeSet<HostInfo> {
            let of_partition =
                table.and_then(|table| Some((table, of(table).get(store)?.get(&partition)?)));
            let Some((table, indexes)) = of_partition else {
                return BTreeSet::new();
            };
            let indexes = indexes.iter();
            indexes
                .map(|index| table.all[*index].host.clone())
                .collect()
        };
        Ok(Some(KeyQueryMetadata {
            active_host: hosts(|table| &table.active).pop_first(),
            standby_hosts: hosts(|table| &table.standby),
            partition,
        }))
    }

    /// Whether a store has a partition; none while that is not known.
    pub(super) fn has_partition(&self, store: &str, partition: i32) -> Option<bool> {
        if let Some(told) = self.hosts.told() {
            self.table(&told);
        }
        let (_, count) = self.largest(store)?;
        Some((0..count).contains(&partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::{Materialized, StreamsBuilder};
    use crate::formats::group::AssignedPartition;
    use crate::runtime::topics::ApplicationTopics;
    use crate::topology::Consumed;

    type Failed = Box<dyn std::error::Error>;

    /// Of an application with one store of a topic by name, and one of topics by a pattern.
    fn located() -> Result<Located, Failed> {
        let builder = StreamsBuilder::new();
        let words = builder.stream::<String, String>("words").group_by_key();
        words.count_with(Materialized::named("counts"));
        let others = builder.stream_pattern::<String, String>("other-.*", Consumed::default());
        others
            .group_by_key()
            .count_with(Materialized::named("others"));
        let topology = Arc::new(builder.build()?);
        let config = Arc::new(StreamsConfig::new("app", "localhost:1")?);
        let topics = Arc::new(ApplicationTopics::of(&topology, &config)?);
        let preparation = Arc::new(Preparation::new(&topics, &config, &Arc::default()));
        let counts = [("other-1", 2), ("other-2", 3), ("words", 4)];
        let counts = counts.map(|(topic, count)| (Arc::<str>::from(topic), count));
        preparation.tell(Counts::from(counts));
        let hosts = Arc::default();
        Ok(Located::new(&topology, &config, &hosts, &preparation))
    }

    fn host(host: &'static str, partitions: &[(&'static str, i32)]) -> HostPartitions<'static> {
        let partitions = partitions.iter();
        let partitions =
            partitions.map(|&(topic, partition)| AssignedPartition { topic, partition });
        HostPartitions {
            host,
            port: 1,
            partitions: partitions.collect(),
        }
    }

    #[test]
    fn keys_are_where_their_partitions_are() -> Result<(), Failed> {
        let located = located()?;
        let find = |store: &str, partition: i32| {
            let found = located.locate(store, |topic, count| {
                let expected = if store == "counts" {
                    ("words", 4)
                } else {
                    ("other-2", 3)
                };
                assert_eq!((topic, count), expected);
                Ok(partition)
            });
            let found = found.expect("it is known").expect("the topics are there");
            let standbys = found.standby_hosts.into_iter().map(|one| one.host);
            let active = found.active_host.map(|one| one.host);
            (active, standbys.collect::<Vec<String>>())
        };
        let none = (None, Vec::new());
        assert_eq!(find("counts", 0), none);
        let active = [
            host("a", &[("words", 0), ("other-1", 1)]),
            host("b", &[("words", 1), ("other-2", 1)]),
        ];
        let standby = [
            host("b", &[("words", 0), ("other-1", 1), ("other-2", 1)]),
            host("c", &[("words", 0)]),
        ];
        located.hosts.hear(&active, &standby);
        let some = |active: &str, standbys: &[&str]| {
            let standbys = standbys.iter().map(ToString::to_string);
            (Some(active.to_owned()), standbys.collect::<Vec<String>>())
        };
        assert_eq!(find("counts", 0), some("a", &["b", "c"]));
        assert_eq!(find("counts", 1), some("b", &[]));
        assert_eq!(find("counts", 2), none);
        // Two topics may have it, and the first instance is told.
        assert_eq!(find("others", 1), some("a", &["b"]));
        let names = located.all().into_iter().map(|one| {
            let names = one.state_store_names.iter().map(ToString::to_string);
            names.collect::<Vec<String>>()
        });
        let both = vec!["counts".to_owned(), "others".to_owned()];
        assert_eq!(names.collect::<Vec<_>>(), [both.clone(), both, Vec::new()]);
        assert_eq!(located.has_partition("others", 2), Some(true));
        assert_eq!(located.has_partition("others", 3), Some(false));
        Ok(())
    }

    #[test]
    fn topics_may_have_more_partitions_than_they_had() -> Result<(), Failed> {
        let located = located()?;
        let check = |expected: [(&str, i32); 2]| {
            let of_stores = ["counts", "others"].into_iter().zip(expected);
            for (store, (topic, count)) in of_stores {
                let found = located.locate(store, |of, partitions| {
                    assert_eq!((of, partitions), (topic, count));
                    Ok(0)
                });
                assert!(found.is_ok_and(|found| found.is_some()));
                assert_eq!(located.has_partition(store, count - 1), Some(true));
                assert_eq!(located.has_partition(store, count), Some(false));
            }
        };
        check([("words", 4), ("other-2", 3)]);
        // What this instance reads.
        let read = [
            ("words", 4),
            ("words", 3),
            ("none", 9),
            ("app-x-changelog", 9),
        ];
        let read = read.map(|(topic, partition)| TopicPartition::new(topic, partition));
        located.preparation.note(&read);
        check([("words", 5), ("other-2", 3)]);
        // What others read, of a topic that was not there as well.
        let active = [host("a", &[("words", 5), ("other-3", 3)])];
        located.hosts.hear(&active, &[]);
        assert_eq!(located.has_partition("counts", 5), Some(true));
        check([("words", 6), ("other-3", 4)]);
        Ok(())
    }

    /// Each look at where a key is takes as long as its own store and partition, however much was told.
    #[test]
    fn what_was_told_is_put_in_order_once() -> Result<(), Failed> {
        let located = located()?;
        let active = [host("a", &[("words", 0)])];
        // It is kept, so that no other one comes to its place.
        let looked_up = || {
            located.locate("counts", |_, _| Ok(0)).expect("it is known");
            let told = located.hosts.told().expect("the leader has told");
            let table: *const Table = told.table.get().expect("it is made");
            (table, told)
        };
        located.hosts.hear(&active, &[]);
        let first = looked_up();
        assert_eq!(looked_up().0, first.0);
        // By another thread of the instance.
        located.hosts.hear(&active, &[]);
        assert_eq!(looked_up().0, first.0);
        located.hosts.hear(&[], &active);
        assert_ne!(looked_up().0, first.0);
        Ok(())
    }
}
