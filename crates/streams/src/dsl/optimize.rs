//! What `build()` changes in the logical graph before it is written.
//!
//! ```text
//!   always                      streams of the same topics get one source
//!   merge.repartition.topics    repartitions of one key get one topic, directly below the node that makes the key
//!   single.store.self.join      a stream that is joined with itself is kept once
//! ```

use super::graph::{Graph, GraphNodeId};
use crate::topology::{SourceTopics, TopologyError};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// A node that makes keys, and the repartitions by these keys that stand below it.
struct OfOneKey {
    makes_key: GraphNodeId,
    repartitions: Vec<GraphNodeId>,
}

/// How records come to a repartition.
#[derive(Default)]
struct Ways {
    /// The children of the node that makes the key, on the ways from there.
    children: Vec<GraphNodeId>,
    /// What reads topics on the other ways. Keys stay as they are read.
    others: Vec<GraphNodeId>,
}

impl Graph {
    /// Streams of the same topics, or of the same pattern, stand below the first one's source.
    pub(crate) fn merge_sources(&mut self) -> Result<(), TopologyError> {
        let mut by_topic: BTreeMap<Arc<str>, GraphNodeId> = BTreeMap::new();
        let mut by_pattern: BTreeMap<Arc<str>, GraphNodeId> = BTreeMap::new();
        for id in self.ids() {
            let first = match self.node(id).source.as_ref().map(|source| &source.topics) {
                None => continue,
                Some(SourceTopics::Pattern(pattern)) => {
                    *by_pattern.entry(Arc::clone(pattern)).or_insert(id)
                }
                Some(SourceTopics::Named(topics)) => {
                    let first = topics.iter().find_map(|topic| by_topic.get(topic)).copied();
                    by_topic.extend(
                        topics
                            .iter()
                            .map(|topic| (Arc::clone(topic), first.unwrap_or(id))),
                    );
                    first.unwrap_or(id)
                }
            };
            if first != id {
                self.check_same_source(first, id)?;
                self.replace(id, first);
            }
        }
        Ok(())
    }

    fn check_same_source(
        &self,
        first: GraphNodeId,
        other: GraphNodeId,
    ) -> Result<(), TopologyError> {
        let (first, other) = (self.node(first), self.node(other));
        let (Some(one), Some(two)) = (&first.source, &other.source) else {
            return Ok(());
        };
        let topics = |topics: &SourceTopics| match topics {
            SourceTopics::Named(topics) => topics.iter().cloned().collect::<BTreeSet<_>>(),
            SourceTopics::Pattern(_) => BTreeSet::new(),
        };
        let problem = if topics(&one.topics) != topics(&two.topics) {
            "reads some topics of the other one and not all; read the same topics, or each topic once"
        } else if one.auto_offset_reset != two.auto_offset_reset {
            "reads the topics of the other one with another `AutoOffsetReset`; use the same one"
        } else if first.types != other.types {
            "reads the topics of the other one as other types; read them once and use the stream twice"
        } else {
            return Ok(());
        };
        Err(TopologyError::Operator {
            operator: other.name.to_string(),
            problem: format!("it {problem} (`{}`)", first.name),
        })
    }

    /// The children of `old` stand below `new`.
    fn replace(&mut self, old: GraphNodeId, new: GraphNodeId) {
        for child in self.node(old).children().to_vec() {
            self.remove_edge(old, child);
            self.add_edge(new, child);
        }
        self.remove(old, new);
    }

    /// Repartitions of one key become one, named after the first.
    pub(crate) fn merge_repartitions(&mut self) {
        for of_one_key in self.repartitions_by_key() {
            self.merge_repartitions_of(&of_one_key);
        }
    }

    fn repartitions_by_key(&self) -> Vec<OfOneKey> {
        let mut by_key: Vec<OfOneKey> = Vec::new();
        let mut merges = Vec::new();
        for id in self.ids() {
            let node = self.node(id);
            if node.traits.changes_keys {
                by_key.push(OfOneKey {
                    makes_key: id,
                    repartitions: Vec::new(),
                });
            } else if node.merged.is_some() {
                let makes_key = self.makes_key(id);
                let of_one_key = by_key
                    .iter_mut()
                    .find(|one| Some(one.makes_key) == makes_key);
                if let Some(of_one_key) = of_one_key {
                    of_one_key.repartitions.push(id);
                }
            } else if node.traits.is_merge {
                merges.push(id);
            }
        }
        self.move_below_merges(by_key, &merges)
    }

    /// The node that makes the key of a repartition, if no values are changed between the two: those might be what the
    /// repartition is for.
    fn makes_key(&self, repartition: GraphNodeId) -> Option<GraphNodeId> {
        let changes = |id: GraphNodeId| {
            let traits = self.node(id).traits;
            traits.changes_keys || traits.changes_values
        };
        let changes_keys = |id: GraphNodeId| self.node(id).traits.changes_keys;
        let nearest = self.find_above(repartition, &changes)?;
        (self.find_above(repartition, &changes_keys)? == nearest).then_some(nearest)
    }

    /// Repartitions below a merge of several keys are one below the merge.
    fn move_below_merges(
        &self,
        mut by_key: Vec<OfOneKey>,
        merges: &[GraphNodeId],
    ) -> Vec<OfOneKey> {
        let mut merged: BTreeSet<GraphNodeId> = BTreeSet::new();
        let mut below_merges = Vec::new();
        for merge in merges {
            let is_merged = |one: &&OfOneKey| {
                let are_below = one
                    .repartitions
                    .iter()
                    .all(|repartition| self.child_above(*merge, *repartition).is_some());
                are_below && self.child_above(one.makes_key, *merge).is_some()
            };
            let mut repartitions: Vec<GraphNodeId> = Vec::new();
            for one in by_key.iter().filter(is_merged) {
                merged.insert(one.makes_key);
                repartitions.extend(&one.repartitions);
            }
            below_merges.push(OfOneKey {
                makes_key: *merge,
                repartitions,
            });
        }
        by_key.retain(|one| !merged.contains(&one.makes_key));
        by_key.extend(below_merges);
        by_key
    }

    fn merge_repartitions_of(&mut self, of_one_key: &OfOneKey) {
        let makes_key = of_one_key.makes_key;
        let mut repartitions: Vec<GraphNodeId> = Vec::new();
        let mut ways = Ways::default();
        for repartition in &of_one_key.repartitions {
            // A topic has records of one type: that of a join between the two may be another.
            if self.node(*repartition).types != self.node(makes_key).types {
                continue;
            }
            if let Some(found) = self.ways(makes_key, *repartition, &repartitions) {
                repartitions.push(*repartition);
                ways.children.extend(found.children);
                ways.others.extend(found.others);
            }
        }
        let first = repartitions.first();
        let Some(merged) = first.and_then(|first| self.node(*first).merged.clone()) else {
            return;
        };
        let priority = self.node(makes_key).priority();
        let merged = self.add_with_priority(merged(), priority);
        self.copartition(merged, &ways.others);
        for child in ways.children {
            self.add_edge(merged, child);
            self.remove_edge(makes_key, child);
        }
        for repartition in repartitions {
            let parents = self.node(repartition).parents().to_vec();
            for child in self.node(repartition).children().to_vec() {
                self.remove_edge(repartition, child);
                for parent in &parents {
                    self.add_edge(*parent, child);
                }
            }
            self.remove(repartition, merged);
        }
        self.add_edge(makes_key, merged);
    }

    /// How records come to `repartition` if those of `merged` are gone. None if one may come with a key that another
    /// node makes than `makes_key`: then nothing but `repartition` brings it to the partition of its key.
    fn ways(
        &self,
        makes_key: GraphNodeId,
        repartition: GraphNodeId,
        merged: &[GraphNodeId],
    ) -> Option<Ways> {
        let mut ways = Ways::default();
        let mut seen = BTreeSet::new();
        let mut below = vec![repartition];
        while let Some(id) = below.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = self.node(id);
            let stays = node.traits.is_repartition && id != repartition && !merged.contains(&id);
            if node.source.is_some() || stays {
                ways.others.push(id);
                continue;
            }
            let parents = match node.traits.is_merge {
                true => node.parents(),
                // Streams that are joined have the same partitions: one side tells.
                false => &node.parents()[..node.parents().len().min(1)],
            };
            if node.traits.changes_keys || parents.is_empty() {
                return None;
            }
            for parent in parents {
                match *parent == makes_key {
                    true => ways.children.push(id),
                    false => below.push(*parent),
                }
            }
        }
        (!ways.children.is_empty()).then_some(ways)
    }

    /// A join of a stream with itself stands below one node that keeps the stream.
    pub(crate) fn merge_self_joins(&mut self) {
        for id in self.ids() {
            let node = self.node(id);
            let (Some(write), [this, other]) = (&node.self_join, node.parents()) else {
                continue;
            };
            let (write, this, other) = (Rc::clone(write), *this, *other);
            if self.node(this).parents() != self.node(other).parents() {
                continue;
            }
            self.remove_edge(other, id);
            self.remove(other, this);
            self.node_mut(id).write = write;
        }
    }

    /// The child of `above` on the way to `below`, which may be `below` itself.
    fn child_above(&self, above: GraphNodeId, below: GraphNodeId) -> Option<GraphNodeId> {
        self.find_above(below, &|id| self.node(id).parents().contains(&above))
    }

    /// `start`, or the first node above it that `is_meant`: a branch is looked through before the next one, as in Kafka
    /// Streams.
    fn find_above(
        &self,
        start: GraphNodeId,
        is_meant: &dyn Fn(GraphNodeId) -> bool,
    ) -> Option<GraphNodeId> {
        if is_meant(start) {
            return Some(start);
        }
        let mut parents = self.node(start).parents().iter();
        parents.find_map(|parent| self.find_above(*parent, is_meant))
    }
}
