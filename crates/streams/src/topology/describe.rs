//! What `Topology::describe()` says: sub-topologies with their nodes, in the words and in the order of Kafka Streams.
//!
//! Kafka Streams orders neighbours of a node by how many nodes stand below each, as far as that was known when the two
//! were connected; so nodes are connected here in the order of its maps.

use super::java_hash::{hash_code, in_hash_order};
use super::java_tree::JavaTree;
use super::{NodeKind, SinkTopic, SourceTopics, Subtopology, Topology};
use std::fmt;
use std::sync::Arc;

/// The sub-topologies of a topology. Its text is that of Kafka Streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyDescription {
    /// In the order of their numbers.
    pub subtopologies: Vec<SubtopologyDescription>,
}

/// Nodes that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtopologyDescription {
    /// Its number.
    pub id: i32,
    /// It fills a global store: no tasks are made of it.
    pub is_global: bool,
    /// Its nodes, those with the most nodes below them first.
    pub nodes: Vec<NodeDescription>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDescription {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub kind: DescribedKind,
    /// Nodes that it gives records to.
    pub successors: Vec<Arc<str>>,
    /// Nodes that give it records.
    pub predecessors: Vec<Arc<str>>,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribedKind {
    /// It reads these; internal topics stand without the application id.
    Source(SourceTopics),
    /// It uses these state stores.
    Processor(Vec<Arc<str>>),
    /// It writes this.
    Sink(SinkTopic),
}

impl Topology {
    /// Its sub-topologies and nodes, to look at or to compare with those of Kafka Streams.
    pub fn describe(&self) -> TopologyDescription {
        TopologyDescription {
            subtopologies: self
                .subtopologies()
                .iter()
                .map(|subtopology| self.describe_subtopology(subtopology))
                .collect(),
        }
    }

    fn describe_subtopology(&self, subtopology: &Subtopology) -> SubtopologyDescription {
        let neighbourhood = Neighbourhood::of(self, subtopology);
        let mut order: Vec<usize> = subtopology.nodes.clone();
        order.sort_by(|left, right| neighbourhood.compare(self, *left, *right));
        let names = |tree: &JavaTree| {
            let elements = tree.elements().into_iter();
            elements
                .map(|index| Arc::clone(&self.nodes[index].name))
                .collect()
        };
        let nodes = order
            .into_iter()
            .map(|index| NodeDescription {
                name: Arc::clone(&self.nodes[index].name),
                kind: self.describe_kind(index),
                successors: names(&neighbourhood.nodes[index].successors),
                predecessors: names(&neighbourhood.nodes[index].predecessors),
            })
            .collect();
        SubtopologyDescription {
            id: subtopology.number,
            is_global: subtopology.is_global,
            nodes,
        }
    }

    fn describe_kind(&self, index: usize) -> DescribedKind {
        let in_order = |names: &[Arc<str>]| in_hash_order(names.to_vec(), |name| hash_code(name));
        let node = &self.nodes[index];
        match &node.kind {
            NodeKind::Source { topics, .. } => DescribedKind::Source(match topics {
                SourceTopics::Named(topics) => SourceTopics::Named(in_order(topics)),
                pattern @ SourceTopics::Pattern(_) => pattern.clone(),
            }),
            NodeKind::Processor => DescribedKind::Processor(in_order(&node.stores)),
            NodeKind::Sink(topic) => DescribedKind::Sink(topic.clone()),
        }
    }
}

/// The neighbours of each node, as they are found one after the other.
struct Neighbourhood {
    /// By index in the topology; those of other sub-topologies stay empty.
    nodes: Vec<Neighbours>,
}

#[derive(Default, Clone)]
struct Neighbours {
    successors: JavaTree,
    predecessors: JavaTree,
    /// The node and what stands below it, once for each way to it.
    size: usize,
}

impl Neighbourhood {
    fn of(topology: &Topology, subtopology: &Subtopology) -> Self {
        let one = Neighbours {
            size: 1,
            ..Neighbours::default()
        };
        let mut neighbourhood = Self {
            nodes: vec![one; topology.nodes.len()],
        };
        let is_source =
            |index: &usize| matches!(topology.nodes[*index].kind, NodeKind::Source { .. });
        let (mut added, others): (Vec<usize>, Vec<usize>) =
            subtopology.nodes.iter().partition(|index| is_source(index));
        added.extend(others);
        let name_hash = |index: &usize| hash_code(&topology.nodes[*index].name);
        for index in in_hash_order(added, name_hash) {
            for parent in topology.nodes[index].parents.iter().copied() {
                neighbourhood.connect(topology, parent, index);
            }
        }
        neighbourhood
    }

    fn connect(&mut self, topology: &Topology, parent: usize, child: usize) {
        let mut predecessors = std::mem::take(&mut self.nodes[child].predecessors);
        predecessors.insert(parent, |other| self.compare(topology, parent, other));
        self.nodes[child].predecessors = predecessors;
        let mut successors = std::mem::take(&mut self.nodes[parent].successors);
        successors.insert(child, |other| self.compare(topology, child, other));
        self.nodes[parent].successors = successors;
        self.grow(parent, self.nodes[child].size);
    }

    /// There are more nodes below `index`, and so below those that it is known to stand below.
    fn grow(&mut self, index: usize, more: usize) {
        self.nodes[index].size = self.nodes[index].size.saturating_add(more);
        for parent in self.nodes[index].predecessors.elements() {
            self.grow(parent, more);
        }
    }

    /// The one with more nodes below it is first, else the one with the smaller name.
    fn compare(&self, topology: &Topology, left: usize, right: usize) -> std::cmp::Ordering {
        let size = |index: usize| self.nodes[index].size;
        let name = |index: usize| &topology.nodes[index].name;
        size(right)
            .cmp(&size(left))
            .then_with(|| name(left).cmp(name(right)))
    }
}

impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Topologies:\n ")?;
        for subtopology in &self.subtopologies {
            write!(f, "  {subtopology}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SubtopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sub-topology: {}", self.id)?;
        if self.is_global {
            f.write_str(" for global store (will not generate tasks)")?;
        }
        f.write_str("\n")?;
        for node in &self.nodes {
            writeln!(f, "    {node}")?;
        }
        // Kafka Streams leaves no blank line after a global one.
        match self.is_global {
            true => Ok(()),
            false => f.write_str("\n"),
        }
    }
}

impl fmt::Display for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let successors = list(&self.successors, "none");
        let predecessors = list(&self.predecessors, "none");
        match &self.kind {
            DescribedKind::Source(SourceTopics::Named(topics)) => {
                let topics = list(topics, "");
                write!(
                    f,
                    "Source: {name} (topics: [{topics}])\n      --> {successors}"
                )
            }
            DescribedKind::Source(SourceTopics::Pattern(pattern)) => {
                write!(
                    f,
                    "Source: {name} (topics: {pattern})\n      --> {successors}"
                )
            }
            DescribedKind::Processor(stores) => {
                let stores = list(stores, "");
                write!(
                    f,
                    "Processor: {name} (stores: [{stores}])\n      --> {successors}\n      <-- {predecessors}"
                )
            }
            DescribedKind::Sink(SinkTopic::Named(topic)) => {
                write!(f, "Sink: {name} (topic: {topic})\n      <-- {predecessors}")
            }
            DescribedKind::Sink(SinkTopic::Extracted(extractor)) => {
                write!(
                    f,
                    "Sink: {name} (extractor class: {extractor})\n      <-- {predecessors}"
                )
            }
        }
    }
}

fn list(names: &[Arc<str>], none: &str) -> String {
    match names {
        [] => none.to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
