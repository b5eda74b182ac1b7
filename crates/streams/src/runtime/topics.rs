//! The topics of an application: how many partitions its inputs have, and its own topics, which are made before it
//! starts.

#[cfg(test)]
mod tests;

use super::failure::client_error;
use super::{GroupProtocol, StreamsConfig};
use crate::assignor::InputTopics;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::topology::{
    NodeKind, SinkTopic, SourceTopics, Topology, changelog_topic, hash_code, in_hash_order,
    whole_names,
};
use regex_lite::Regex;
use riverrun_client::admin::{Admin, NewTopic};
use riverrun_client::consumer::Consumer;
use riverrun_client::{Error, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How many partitions topics have.
pub(super) type Counts = BTreeMap<Arc<str>, i32>;

/// Why the topics of an application are not there.
pub(super) enum NotMade {
    /// Brokers do not answer now.
    Later(Error),
    /// That will not change by itself.
    Failed(StreamsError),
}

impl From<StreamsError> for NotMade {
    fn from(error: StreamsError) -> Self {
        Self::Failed(error)
    }
}

impl NotMade {
    fn of(error: Error, told: impl FnOnce(Error) -> StreamsError) -> Self {
        match error.is_retriable() {
            true => Self::Later(error),
            false => Self::Failed(told(error)),
        }
    }
}

/// The topics of a topology, under their full names.
#[derive(Debug, Clone, Default)]
pub(super) struct ApplicationTopics {
    /// Input topics of each sub-topology that has tasks.
    pub(super) inputs: InputTopics,
    /// Patterns of sources, with their sub-topologies.
    pub(super) patterns: Vec<(i32, Regex)>,
    /// How the names of the application's own topics begin.
    own_prefix: String,
    /// Topics that fill global stores.
    pub(super) globals: BTreeSet<String>,
    /// Topics that each sub-topology writes.
    pub(super) outputs: BTreeMap<i32, BTreeSet<String>>,
    /// Repartition topics: how many partitions they must have, and their configuration.
    pub(super) repartitions: BTreeMap<String, (Option<i32>, BTreeMap<String, String>)>,
    /// Input topics that must have as many partitions each: their records of one key meet.
    pub(super) copartitioned: Vec<BTreeSet<String>>,
    /// Changelogs of each sub-topology, with their configuration.
    pub(super) changelogs: BTreeMap<i32, BTreeMap<String, BTreeMap<String, String>>>,
    /// Inputs that are changelogs too, with the configuration that a changelog would have.
    pub(super) input_changelogs: BTreeMap<i32, BTreeMap<String, BTreeMap<String, String>>>,
}

impl ApplicationTopics {
    /// The topics of `topology`.
    pub(super) fn of(topology: &Topology, config: &StreamsConfig) -> Result<Self, StreamsError> {
        let application_id = &config.application_id;
        let mut topics = Self {
            own_prefix: format!("{application_id}-"),
            ..Self::default()
        };
        for (name, internal) in &topology.internal_topics {
            topics.repartitions.insert(
                format!("{application_id}-{name}"),
                (internal.partitions, internal.configs.clone()),
            );
        }
        topics.copartitioned = copartitioned(topology, application_id);
        for subtopology in topology.subtopologies() {
            if subtopology.is_global {
                let names = topology.source_topics(&subtopology);
                topics.globals.extend(names.map(|name| name.to_string()));
                continue;
            }
            let number = subtopology.number;
            for index in &subtopology.nodes {
                match &topology.nodes[*index].kind {
                    NodeKind::Source {
                        topics: SourceTopics::Named(names),
                        ..
                    } => topics.inputs.entry(number).or_default().extend(
                        names
                            .iter()
                            .map(|name| topology.full_topic(application_id, name).to_string()),
                    ),
                    NodeKind::Source {
                        topics: SourceTopics::Pattern(pattern),
                        ..
                    } => {
                        let pattern = whole_names(pattern)
                            .map_err(|error| StreamsError::Other(error.to_string()))?;
                        topics.patterns.push((number, pattern));
                    }
                    NodeKind::Sink(SinkTopic::Named(name)) => {
                        topics
                            .outputs
                            .entry(number)
                            .or_default()
                            .insert(topology.full_topic(application_id, name).to_string());
                    }
                    NodeKind::Sink(SinkTopic::Extracted(_)) | NodeKind::Processor => {}
                }
            }
            for store in &subtopology.stores {
                topics.add_changelog(topology, config, number, store);
            }
        }
        Ok(topics)
    }

    /// Adds the topic that has the changes of a store, if there is one.
    fn add_changelog(
        &mut self,
        topology: &Topology,
        config: &StreamsConfig,
        subtopology: i32,
        store: &Arc<str>,
    ) {
        let application_id = &config.application_id;
        let definition = &topology.stores[store];
        let Some(changelog) = definition.builder.changelog() else {
            return;
        };
        let configs = changelog.topic_configs(
            config.windowstore_changelog_additional_retention_ms,
            &config.overrides.topic,
        );
        let (changelogs, topic) = match &definition.source_topic {
            Some(topic) => (
                &mut self.input_changelogs,
                topology.full_topic(application_id, topic),
            ),
            None => (&mut self.changelogs, changelog_topic(application_id, store)),
        };
        let changelogs = changelogs.entry(subtopology).or_default();
        changelogs.insert(topic.to_string(), configs);
    }

    /// Whether there is nothing to read but global topics.
    pub(super) fn has_no_tasks(&self) -> bool {
        self.inputs.is_empty() && self.patterns.is_empty()
    }

    fn has_subtopology(&self, number: i32) -> bool {
        let mut of_patterns = self.patterns.iter();
        self.inputs.contains_key(&number) || of_patterns.any(|(of, _)| *of == number)
    }

    /// Whether tasks of a sub-topology have something to follow while they stand by.
    pub(super) fn is_followed(&self, subtopology: i32) -> bool {
        self.changelogs.contains_key(&subtopology)
            || self.input_changelogs.contains_key(&subtopology)
    }

    /// Whether the application makes the topic to partition records anew.
    pub(super) fn is_repartition(&self, topic: &str) -> bool {
        self.repartitions.contains_key(topic)
    }

    /// Sub-topologies that have stores with changelogs.
    pub(super) fn stateful(&self) -> BTreeSet<i32> {
        let of_inputs = self.input_changelogs.keys();
        self.changelogs.keys().chain(of_inputs).copied().collect()
    }

    /// The changelogs of a sub-topology's stores, and whether each is an input too.
    pub(super) fn changelogs_of(&self, subtopology: i32) -> impl Iterator<Item = (&String, bool)> {
        let changelogs = self.changelogs.get(&subtopology).into_iter().flatten();
        let of_inputs = self.input_changelogs.get(&subtopology);
        let of_inputs = of_inputs.into_iter().flatten();
        let changelogs = changelogs.map(|(topic, _)| (topic, false));
        changelogs.chain(of_inputs.map(|(topic, _)| (topic, true)))
    }

    /// Subscribes to the inputs: by names, or by a pattern, so that topics that are made later come with a rebalance.
    pub(super) fn subscribe(&self, consumer: &mut Consumer) -> Result<(), Error> {
        if self.patterns.is_empty() {
            return consumer.subscribe(self.subscription());
        }
        let names = self.subscription();
        let names = names.iter().map(|name| regex_lite::escape(name));
        let patterns = self.patterns.iter();
        let patterns = patterns.map(|(_, pattern)| pattern.as_str().to_owned());
        let alternatives: Vec<String> = names.chain(patterns).collect();
        consumer.subscribe_pattern(&alternatives.join("|"))
    }

    /// The sub-topology that reads a topic.
    pub(super) fn subtopology_of(&self, topic: &str) -> Option<i32> {
        let mut named = self.inputs.iter();
        if let Some((number, _)) = named.find(|(_, topics)| topics.contains(topic)) {
            return Some(*number);
        }
        let is_own = topic
            .strip_prefix(&self.own_prefix)
            .is_some_and(|name| name.ends_with("-changelog") || name.ends_with("-repartition"));
        if is_own || self.globals.contains(topic) {
            return None;
        }
        let mut patterns = self.patterns.iter();
        let matching = patterns.find(|(_, pattern)| pattern.is_match(topic));
        matching.map(|(number, _)| *number)
    }

    /// The input topics of each sub-topology, with those of `existing` that match a pattern.
    pub(super) fn inputs_among<'a>(
        &self,
        existing: impl IntoIterator<Item = &'a String>,
    ) -> InputTopics {
        let mut inputs = self.inputs.clone();
        if self.patterns.is_empty() {
            return inputs;
        }
        for topic in existing {
            if let Some(number) = self.subtopology_of(topic) {
                inputs.entry(number).or_default().insert(topic.clone());
            }
        }
        inputs
    }

    /// All input topics.
    fn subscription(&self) -> BTreeSet<String> {
        self.inputs.values().flatten().cloned().collect()
    }

    /// Makes the topics that the application needs for itself, unless its group's coordinator does. Those that are
    /// there must have the right number of partitions.
    pub(super) async fn create(
        &self,
        admin: &Admin,
        config: &StreamsConfig,
    ) -> Result<Counts, NotMade> {
        if self.patterns.is_empty() {
            return self.create_for_inputs(admin, config).await;
        }
        let existing = admin.list_topics().await;
        let existing = existing.map_err(|error| NotMade::of(error, client_error))?;
        let existing: Vec<String> = existing
            .into_iter()
            .filter(|topic| !topic.is_internal)
            .map(|topic| topic.name)
            .collect();
        let with_matching = Self {
            inputs: self.inputs_among(&existing),
            ..self.clone()
        };
        with_matching.create_for_inputs(admin, config).await
    }

    async fn create_for_inputs(
        &self,
        admin: &Admin,
        config: &StreamsConfig,
    ) -> Result<Counts, NotMade> {
        let mut counts = self.input_counts(admin).await?;
        self.count_repartitions(&mut counts)?;
        let mut wanted: Vec<NewTopic> = Vec::new();
        for (name, (_, configs)) in &self.repartitions {
            let of_all = &config.overrides.topic;
            let configs = configs.iter().chain(of_all);
            let configs = configs.map(|(key, value)| (key.clone(), value.clone()));
            wanted.push(new_topic(name, counts[name], configs.collect(), config));
        }
        for (number, changelogs) in &self.changelogs {
            let tasks = self
                .inputs
                .get(number)
                .into_iter()
                .flatten()
                .filter_map(|topic| counts.get(topic))
                .max();
            let pattern = self.patterns.iter().find(|(of, _)| of == number);
            if let (None, Some((_, pattern)), Some(name)) =
                (tasks, pattern, changelogs.keys().next())
            {
                return Err(NotMade::Failed(StreamsError::Other(format!(
                    "no topic matches `{pattern}` yet, so that nobody knows how many partitions `{name}` needs; make \
                     a topic before the application starts"
                ))));
            }
            let count = tasks.copied().unwrap_or(1);
            for (name, configs) in changelogs {
                wanted.push(new_topic(name, count, configs.clone(), config));
            }
        }
        for topic in &wanted {
            let count = topic.partition_count.unwrap_or(1);
            counts.insert(topic.name.clone(), count);
        }
        // With the protocol `streams` the broker makes them.
        if config.group_protocol == GroupProtocol::Classic {
            create_internal(admin, &wanted).await?;
        }
        Ok(counts
            .into_iter()
            .map(|(name, count)| (Arc::from(name), count))
            .collect())
    }

    /// How many partitions the input topics have that the application does not make itself.
    async fn input_counts(&self, admin: &Admin) -> Result<BTreeMap<String, i32>, NotMade> {
        let subscription = self.subscription();
        let names: Vec<&str> = subscription
            .union(&self.globals)
            .filter(|topic| !self.repartitions.contains_key(*topic))
            .map(String::as_str)
            .collect();
        let described = admin.describe_topics(&names).await;
        let mut counts = BTreeMap::new();
        let mut missing = Vec::new();
        for (name, described) in described {
            let kind = match self.globals.contains(&name) {
                true => "global",
                false => "input",
            };
            let shown = format!("{kind} topic `{name}`");
            match described {
                Ok(described) => {
                    let count = i32::try_from(described.partitions.len()).unwrap_or(i32::MAX);
                    counts.insert(name, count);
                }
                Err(Error::Refused {
                    code: ErrorCode::UnknownTopicOrPartition,
                    ..
                }) => missing.push(shown),
                Err(error) => {
                    return Err(NotMade::of(error, |error| {
                        StreamsError::Other(format!("{shown}: {error}"))
                    }));
                }
            }
        }
        match missing.is_empty() {
            true => Ok(counts),
            false => Err(not_there(&missing).into()),
        }
    }

    /// Repartition topics have as many partitions as the inputs of the sub-topology that writes them, unless the
    /// application says otherwise.
    fn count_repartitions(&self, counts: &mut BTreeMap<String, i32>) -> Result<(), StreamsError> {
        for (name, (partitions, _)) in &self.repartitions {
            if let Some(partitions) = partitions {
                counts.insert(name.clone(), *partitions);
            }
        }
        // One repartition may feed the writer of another.
        loop {
            let known_count = counts.len();
            for inputs in self.inputs.values() {
                let read: Vec<&String> = inputs
                    .iter()
                    .filter(|topic| self.repartitions.contains_key(*topic))
                    .collect();
                for topic in in_hash_order(read, |topic| hash_code(topic)) {
                    if !counts.contains_key(topic)
                        && let Some(most) = self.most_before(topic, counts)
                    {
                        counts.insert(topic.clone(), most);
                    }
                }
            }
            if counts.len() == known_count {
                break;
            }
        }
        self.copartition(counts)?;
        match self
            .repartitions
            .keys()
            .find(|name| !counts.contains_key(*name))
        {
            Some(name) => Err(StreamsError::Other(format!(
                "cannot tell how many partitions `{name}` needs; give it a number with `Repartitioned`"
            ))),
            None => Ok(()),
        }
    }

    /// The most partitions of the inputs of sub-topologies that write `topic`. Those that are not known yet are left
    /// out, as by Kafka Streams: a sub-topology may read what it writes itself.
    fn most_before(&self, topic: &str, counts: &BTreeMap<String, i32>) -> Option<i32> {
        let writers = self.outputs.iter();
        let writers = writers.filter(|(_, outputs)| outputs.contains(topic));
        let inputs = writers.filter_map(|(number, _)| self.inputs.get(number));
        let counts = inputs.flatten().filter_map(|input| counts.get(input));
        counts.copied().max()
    }

    /// Topics whose records meet have as many partitions each. The application's own follow those of others, or the
    /// one of them that has the most.
    fn copartition(&self, counts: &mut BTreeMap<String, i32>) -> Result<(), StreamsError> {
        for topics in &self.copartitioned {
            let is_fixed = |topic: &&String| {
                self.repartitions
                    .get(*topic)
                    .is_none_or(|(partitions, _)| partitions.is_some())
            };
            let fixed: BTreeMap<&String, i32> = topics
                .iter()
                .filter(is_fixed)
                .filter_map(|topic| Some((topic, *counts.get(topic)?)))
                .collect();
            let least = fixed.iter().min_by_key(|(_, count)| **count);
            let most = fixed.iter().max_by_key(|(_, count)| **count);
            if let (Some((small, few)), Some((large, many))) = (least, most)
                && few != many
            {
                return Err(StreamsError::Other(format!(
                    "topics `{small}` and `{large}` are joined or grouped together, and have {few} and {many} \
                     partitions; give them the same number, or use `repartition` with a number of partitions"
                )));
            }
            let of_own = topics
                .iter()
                .filter_map(|topic| counts.get(topic).copied())
                .max();
            let Some(count) = most.map(|(_, count)| *count).or(of_own) else {
                continue;
            };
            for topic in topics {
                counts.insert(topic.clone(), count);
            }
        }
        Ok(())
    }
}

/// What is said of topics that an application needs and nobody has made.
pub(super) fn not_there(topics: &[String]) -> StreamsError {
    let (verb, them) = match topics {
        [_] => ("does", "it"),
        _ => ("do", "them"),
    };
    StreamsError::Other(format!(
        "{} {verb} not exist; create {them} before the application starts",
        topics.join(", ")
    ))
}

/// The full names of the topics whose records meet.
fn copartitioned(topology: &Topology, application_id: &str) -> Vec<BTreeSet<String>> {
    let names = |index: &usize| match &topology.nodes[*index].kind {
        NodeKind::Source {
            topics: SourceTopics::Named(names),
            ..
        } => names.clone(),
        _ => Vec::new(),
    };
    topology
        .copartitioned
        .iter()
        .map(|sources| {
            sources
                .iter()
                .flat_map(names)
                .map(|name| topology.full_topic(application_id, &name).to_string())
                .collect()
        })
        .collect()
}

/// Whether there can be a task: the topology has its sub-topology, and there are changelogs of its partition, which a
/// topic that was made later may need. Whoever tells of tasks has another topology otherwise.
pub(super) fn check_task(
    topics: &ApplicationTopics,
    counts: &BTreeMap<Arc<str>, i32>,
    task_id: TaskId,
) -> Result<(), StreamsError> {
    if task_id.partition < 0 || !topics.has_subtopology(task_id.subtopology) {
        return Err(unknown_task(task_id));
    }
    let changelogs = topics.changelogs.get(&task_id.subtopology);
    for name in changelogs.into_iter().flat_map(BTreeMap::keys) {
        let Some(count) = counts.get(name.as_str()) else {
            continue;
        };
        if task_id.partition >= *count {
            return Err(StreamsError::Other(format!(
                "an input topic has partition {}, and internal topic `{name}` has {count} partitions only; give the inputs \
                 as many as at the first start, or start anew with another `application.id`",
                task_id.partition
            )));
        }
    }
    Ok(())
}

/// What is said of a task that there cannot be.
pub(super) fn unknown_task(task: impl fmt::Display) -> StreamsError {
    StreamsError::Other(format!(
        "the group has told of task {task}, which the topology does not have; start all instances of an \
         `application.id` with the same topology"
    ))
}

fn new_topic(
    name: &str,
    partitions: i32,
    configs: BTreeMap<String, String>,
    config: &StreamsConfig,
) -> NewTopic {
    NewTopic {
        replication_factor: config.replication_factor,
        configs: configs.into_iter().collect(),
        ..NewTopic::new(name).partitions(partitions)
    }
}

async fn create_internal(admin: &Admin, wanted: &[NewTopic]) -> Result<(), NotMade> {
    let created = admin.create_topics(wanted).await;
    for topic in wanted {
        if let Some(created) = created.get(&topic.name) {
            check_created(admin, topic, created).await?;
        }
    }
    Ok(())
}

/// A topic that the application needs was made, or was there with as many partitions.
async fn check_created<T>(
    admin: &Admin,
    topic: &NewTopic,
    created: &Result<T, Error>,
) -> Result<(), NotMade> {
    match created {
        Ok(_)
        | Err(Error::Refused {
            code: ErrorCode::TopicAlreadyExists,
            ..
        }) => check_count(admin, topic).await,
        Err(error) => Err(NotMade::of(error.clone(), |error| {
            StreamsError::Other(format!(
                "cannot make internal topic `{}`: {error}",
                topic.name
            ))
        })),
    }
}

/// A topic has the right number of partitions. One that was made just now, here or by another instance, may not be
/// known to every broker: whoever leads the group would miss it.
async fn check_count(admin: &Admin, topic: &NewTopic) -> Result<(), NotMade> {
    let mut described = admin.describe_topics(&[&topic.name]).await;
    let Some(described) = described.remove(&topic.name) else {
        return Ok(());
    };
    let described = described.map_err(|error| NotMade::of(error, client_error))?;
    let count = i32::try_from(described.partitions.len()).unwrap_or(i32::MAX);
    match topic.partition_count {
        Some(wanted) if wanted != count => Err(NotMade::Failed(StreamsError::Other(format!(
            "internal topic `{}` has {count} partitions and needs {wanted}, for the inputs have other numbers of partitions \
             than at the first start; give them the same, or start anew with another `application.id`",
            topic.name
        )))),
        _ => Ok(()),
    }
}
