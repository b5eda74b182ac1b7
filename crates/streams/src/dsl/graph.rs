//! The logical graph: what the calls of an application have asked for, before it is written into a topology.

use super::stores::DslStores;
use crate::topology::{Topology, TopologyError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
}

/// A node of the logical graph: one or several nodes of the topology.
pub(crate) struct GraphNode {
    /// The name of the node of the topology that its children stand below.
    pub(crate) name: Arc<str>,
    /// What it does with keys and values, which decides what may move past it.
    pub(crate) traits: GraphTraits,
    pub(crate) write: WriteNode,
    parents: Vec<GraphNodeId>,
    children: Vec<GraphNodeId>,
    is_written: bool,
    /// How long after its end a window takes records, if the node aggregates by windows.
    window_grace_ms: Option<i64>,
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
            parents: Vec::new(),
            children: Vec::new(),
            is_written: false,
            window_grace_ms: None,
        }
    }
}

/// The nodes, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<GraphNode>,
}

impl Graph {
    /// Adds `node` below `parents`; a source has none.
    pub(crate) fn add(&mut self, mut node: GraphNode, parents: &[GraphNodeId]) -> GraphNodeId {
        let id = GraphNodeId(self.nodes.len());
        node.parents = parents.to_vec();
        for parent in parents {
            self.nodes[parent.0].children.push(id);
        }
        self.nodes.push(node);
        id
    }

    /// Writes all nodes: of those whose parents are written, the one that was added first is next.
    pub(crate) fn write(
        &mut self,
        topology: &mut Topology,
        stores: &DslStores,
    ) -> Result<(), TopologyError> {
        let mut waiting: BinaryHeap<Reverse<GraphNodeId>> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.parents.is_empty())
            .map(|(index, _)| Reverse(GraphNodeId(index)))
            .collect();
        while let Some(Reverse(id)) = waiting.pop() {
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
                stores,
            };
            (node.write)(topology, &written)?;
            self.nodes[id.0].is_written = true;
            waiting.extend(self.nodes[id.0].children.iter().copied().map(Reverse));
        }
        Ok(())
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
