//! The logical graph: what the calls of an application have asked for, before it is written into a topology.

use super::{DslStores, Optimization, TopologyConfig};
use crate::record::Data;
use crate::topology::{AutoOffsetReset, SourceTopics, Topology, TopologyError};
use std::any::TypeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

/// A node of the logical graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GraphNodeId(usize);

/// Writes a node into a topology, below the nodes of these names.
pub(crate) type WriteNode = Rc<dyn Fn(&mut Topology, &Written<'_>) -> Result<(), TopologyError>>;

/// What a node knows when it is written.
pub(crate) struct Written<'a> {
    /// Names of the nodes that it stands below.
    pub(crate) parents: &'a [Arc<str>],
    /// A join that takes null keys of its left side stands below it (KIP-962).
    pub(crate) null_keys_needed: bool,
    /// What the application configures for the stores of its operators.
    pub(crate) stores: &'a DslStores,
    /// What is made better about the topology.
    pub(crate) optimization: Optimization,
}

/// A node of the logical graph: one or several nodes of the topology.
pub(crate) struct GraphNode {
    /// The name of the node of the topology that its children stand below.
    pub(crate) name: Arc<str>,
    /// What it does with keys and values, which decides what may move past it.
    pub(crate) traits: GraphTraits,
    pub(crate) write: WriteNode,
    /// It reads topics, and may read them for others too.
    pub(crate) source: Option<GraphSource>,
    /// It is a repartition that may become one with others: makes the one that stands for all of them.
    pub(crate) merged: Option<MakeMerged>,
    /// It is a join of two streams: how it is written if they are one, below the first of the nodes that keep them.
    pub(crate) self_join: Option<WriteNode>,
    /// The types of the keys and values that its children take.
    pub(crate) types: Option<TypeId>,
    parents: Vec<GraphNodeId>,
    children: Vec<GraphNodeId>,
    /// Of nodes that can be written the one with the smallest is next.
    priority: usize,
    is_written: bool,
    /// How long after its end a window takes records, if the node aggregates by windows.
    window_grace_ms: Option<i64>,
    is_removed: bool,
}

/// Makes a repartition that stands for others.
pub(crate) type MakeMerged = Rc<dyn Fn() -> GraphNode>;

/// What a source reads.
pub(crate) struct GraphSource {
    pub(crate) topics: SourceTopics,
    pub(crate) auto_offset_reset: Option<AutoOffsetReset>,
}

/// What a node does with keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GraphTraits {
    pub(crate) changes_keys: bool,
    pub(crate) changes_values: bool,
    pub(crate) is_merge: bool,
    pub(crate) is_repartition: bool,
    /// It takes null keys of its left side (KIP-962).
    pub(crate) takes_null_keys: bool,
}

impl GraphNode {
    pub(crate) fn new(
        name: &Arc<str>,
        traits: GraphTraits,
        write: impl Fn(&mut Topology, &Written<'_>) -> Result<(), TopologyError> + 'static,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            traits,
            write: Rc::new(write),
            source: None,
            merged: None,
            self_join: None,
            types: None,
            parents: Vec::new(),
            children: Vec::new(),
            priority: 0,
            is_written: false,
            window_grace_ms: None,
            is_removed: false,
        }
    }

    /// Its children take keys of `K` and values of `V`.
    pub(crate) fn giving<K: Data, V: Data>(mut self) -> Self {
        self.types = Some(TypeId::of::<(K, V)>());
        self
    }

    /// It is written so if it joins a stream with itself.
    pub(crate) fn with_self_join(mut self, write: WriteNode) -> Self {
        self.self_join = Some(write);
        self
    }

    pub(crate) fn parents(&self) -> &[GraphNodeId] {
        &self.parents
    }

    pub(crate) fn children(&self) -> &[GraphNodeId] {
        &self.children
    }

    pub(crate) const fn priority(&self) -> usize {
        self.priority
    }
}

/// The nodes, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<GraphNode>,
    /// Sources that others stand for, by name.
    replaced_sources: BTreeMap<Arc<str>, Arc<str>>,
    /// Names of sources whose records meet below a merge, because of a merged repartition.
    copartitioned: Vec<Vec<Arc<str>>>,
}

impl Graph {
    /// Adds `node` below `parents`; a source has none.
    pub(crate) fn add(&mut self, node: GraphNode, parents: &[GraphNodeId]) -> GraphNodeId {
        let id = self.add_with_priority(node, self.nodes.len());
        for parent in parents {
            self.add_edge(*parent, id);
        }
        id
    }

    pub(crate) fn add_with_priority(
        &mut self,
        mut node: GraphNode,
        priority: usize,
    ) -> GraphNodeId {
        let id = GraphNodeId(self.nodes.len());
        node.priority = priority;
        self.nodes.push(node);
        id
    }

    /// `child` stands below `parent`, once.
    pub(crate) fn add_edge(&mut self, parent: GraphNodeId, child: GraphNodeId) {
        if !self.nodes[parent.0].children.contains(&child) {
            self.nodes[parent.0].children.push(child);
            self.nodes[child.0].parents.push(parent);
        }
    }

    pub(crate) fn remove_edge(&mut self, parent: GraphNodeId, child: GraphNodeId) {
        self.nodes[parent.0].children.retain(|one| *one != child);
        self.nodes[child.0].parents.retain(|one| *one != parent);
    }

    /// `node` is not written; `instead` stands for it.
    pub(crate) fn remove(&mut self, node: GraphNodeId, instead: GraphNodeId) {
        for parent in std::mem::take(&mut self.nodes[node.0].parents) {
            self.remove_edge(parent, node);
        }
        self.nodes[node.0].is_removed = true;
        let name = Arc::clone(self.name(node));
        self.replaced_sources
            .insert(name, Arc::clone(self.name(instead)));
    }

    /// The topics of `source` and `others` have as many partitions each.
    pub(crate) fn copartition(&mut self, source: GraphNodeId, others: &[GraphNodeId]) {
        if !others.is_empty() {
            let all = std::iter::once(&source).chain(others);
            let names = all.map(|id| Arc::clone(self.name(*id))).collect();
            self.copartitioned.push(names);
        }
    }

    /// The nodes that are not removed, in the order in which they were added.
    pub(crate) fn ids(&self) -> Vec<GraphNodeId> {
        let ids = (0..self.nodes.len()).map(GraphNodeId);
        ids.filter(|id| !self.nodes[id.0].is_removed).collect()
    }

    pub(crate) fn node_mut(&mut self, id: GraphNodeId) -> &mut GraphNode {
        &mut self.nodes[id.0]
    }

    pub(crate) fn node(&self, id: GraphNodeId) -> &GraphNode {
        &self.nodes[id.0]
    }

    /// Writes all nodes: of those whose parents are written, the one that was added first is next.
    pub(crate) fn write(
        &mut self,
        topology: &mut Topology,
        config: &TopologyConfig,
    ) -> Result<(), TopologyError> {
        topology.replace_sources(&self.replaced_sources);
        for node in &mut self.nodes {
            node.is_written = false;
        }
        let mut waiting: BinaryHeap<Reverse<(usize, GraphNodeId)>> = self
            .ids()
            .into_iter()
            .filter(|id| self.nodes[id.0].parents.is_empty())
            .map(|id| self.in_turn(id))
            .collect();
        while let Some(Reverse((_, id))) = waiting.pop() {
            let node = &self.nodes[id.0];
            let parents_are_written = node
                .parents
                .iter()
                .all(|parent| self.nodes[parent.0].is_written);
            if node.is_written || !parents_are_written {
                continue;
            }
            let parents: Vec<Arc<str>> = node
                .parents
                .iter()
                .map(|parent| Arc::clone(&self.nodes[parent.0].name))
                .collect();
            let written = Written {
                parents: &parents,
                null_keys_needed: self.is_above_null_keys(id),
                stores: &config.stores,
                optimization: config.optimization,
            };
            (node.write)(topology, &written)?;
            self.nodes[id.0].is_written = true;
            let children = self.nodes[id.0].children.iter();
            waiting.extend(children.map(|child| self.in_turn(*child)));
        }
        let mut copartitioned = self.copartitioned.iter();
        copartitioned.try_for_each(|sources| topology.copartition(sources))
    }

    fn in_turn(&self, id: GraphNodeId) -> Reverse<(usize, GraphNodeId)> {
        Reverse((self.nodes[id.0].priority, id))
    }

    /// Whether a join that takes null keys stands below.
    fn is_above_null_keys(&self, id: GraphNodeId) -> bool {
        let mut below = self.nodes[id.0].children.clone();
        while let Some(id) = below.pop() {
            let node = &self.nodes[id.0];
            if node.traits.takes_null_keys {
                return true;
            }
            below.extend(&node.children);
        }
        false
    }

    /// `id` aggregates by windows, which take records until so long after their ends.
    pub(crate) fn set_window_grace_ms(&mut self, id: GraphNodeId, grace_ms: i64) {
        self.nodes[id.0].window_grace_ms = Some(grace_ms);
    }

    /// How long after their ends the windows take records that `id` aggregates by, or else the nodes above it: the
    /// longest, if there are several.
    pub(crate) fn window_grace_ms(&self, id: GraphNodeId) -> Option<i64> {
        let node = &self.nodes[id.0];
        node.window_grace_ms.or_else(|| {
            let above = node.parents.iter();
            above
                .filter_map(|parent| self.window_grace_ms(*parent))
                .max()
        })
    }

    pub(crate) fn name(&self, id: GraphNodeId) -> &Arc<str> {
        &self.nodes[id.0].name
    }
}
