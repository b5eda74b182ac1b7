//! Which nodes belong together: those that edges or state stores connect. Each partition of such a group is a task.

use super::{NodeKind, SourceTopics, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtopology {
    /// Its number, in the order in which Kafka Streams counts.
    pub number: i32,
    /// Indices of its nodes in the topology, parents first.
    pub(crate) nodes: Vec<usize>,
    /// The stores that it fills.
    pub(crate) stores: BTreeSet<Arc<str>>,
    /// It fills a global store: no tasks are made of it.
    pub is_global: bool,
}

impl Subtopology {
    /// The nodes and stores of all `parts` as one: who has one task for them has one stream time.
    pub(crate) fn joined(number: i32, parts: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self {
            number,
            nodes: Vec::new(),
            stores: BTreeSet::new(),
            is_global: false,
        };
        for part in parts {
            joined.nodes.extend(part.nodes);
            joined.stores.extend(part.stores);
            joined.is_global |= part.is_global;
        }
        joined.nodes.sort_unstable();
        joined
    }
}

impl Topology {
    /// The topics that the sources of a part name.
    pub(crate) fn source_topics(&self, part: &Subtopology) -> impl Iterator<Item = Arc<str>> {
        part.nodes
            .iter()
            .filter_map(|index| match &self.nodes[*index].kind {
                NodeKind::Source {
                    topics: SourceTopics::Named(names),
                    ..
                } => Some(names.clone()),
                _ => None,
            })
            .flatten()
    }

    /// What the sources read from which records come to the nodes that use a store.
    pub(crate) fn sources_of_store(&self, store: &str) -> Vec<SourceTopics> {
        let users = self.stores.get(store).map(|store| &store.users);
        let mut above: BTreeSet<usize> = users.into_iter().flatten().copied().collect();
        let mut sources = Vec::new();
        // Parents stand before their children.
        while let Some(index) = above.pop_last() {
            let node = &self.nodes[index];
            above.extend(&node.parents);
            if let NodeKind::Source { topics, .. } = &node.kind {
                sources.push(topics.clone());
            }
        }
        sources
    }

    /// The groups of nodes that belong together. Groups are counted in the order of their first nodes, as Kafka Streams
    /// counts.
    pub fn subtopologies(&self) -> Vec<Subtopology> {
        let mut group_of: Vec<usize> = (0..self.nodes.len()).collect();
        for (index, node) in self.nodes.iter().enumerate() {
            for parent in &node.parents {
                join(&mut group_of, index, *parent);
            }
        }
        for store in self.stores.values() {
            let mut users = store.users.iter();
            if let Some(first) = users.next() {
                for user in users {
                    join(&mut group_of, *first, *user);
                }
            }
        }
        // A group's first node stands for it, so that the numbers follow the order of the nodes.
        let mut numbers: BTreeMap<usize, i32> = BTreeMap::new();
        for index in 0..self.nodes.len() {
            let next = i32::try_from(numbers.len()).unwrap_or(i32::MAX);
            numbers
                .entry(representative(&group_of, index))
                .or_insert(next);
        }
        let mut subtopologies: Vec<Subtopology> = Vec::new();
        for (group, number) in &numbers {
            let nodes: Vec<usize> = (0..self.nodes.len())
                .filter(|index| representative(&group_of, *index) == *group)
                .collect();
            let stores = nodes
                .iter()
                .flat_map(|index| &self.nodes[*index].stores)
                .filter(|name| {
                    !self.stores[*name].is_global
                        || nodes.iter().any(|index| {
                            self.nodes[*index].is_global
                                && self.nodes[*index].stores.contains(*name)
                        })
                })
                .cloned()
                .collect();
            let is_global = nodes.iter().any(|index| self.nodes[*index].is_global);
            subtopologies.push(Subtopology {
                number: *number,
                nodes,
                stores,
                is_global,
            });
        }
        subtopologies
    }
}

fn representative(group_of: &[usize], mut index: usize) -> usize {
    while group_of[index] != index {
        index = group_of[index];
    }
    index
}

fn join(group_of: &mut [usize], left: usize, right: usize) {
    let left = representative(group_of, left);
    let right = representative(group_of, right);
    // The smaller index stands for both, so that the order of the nodes decides.
    group_of[left.max(right)] = left.min(right);
}
