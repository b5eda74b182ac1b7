//! What the streams and tables of one application share while they are put together: the graph, and its names.

use super::config::check_explicit_names;
use super::graph::Graph;
use super::{GraphNode, GraphNodeId, TopologyConfig};
use crate::error::BoxError;
use crate::headers::Headers;
use crate::serde::{Serde, SerdeRef};
use crate::topology::{NodeKind, SourceTopics, Topology, TopologyError, check_name};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What the streams and tables of one application share while they are put together.
#[derive(Clone, Default)]
pub(crate) struct Builder(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    graph: Graph,
    /// The number of the next name.
    next_index: u32,
    /// All names that were made with a number.
    generated: BTreeSet<Arc<str>>,
    first_error: Option<TopologyError>,
    /// Repartitions that the joins without a name share, by the node of their stream.
    join_repartitions: BTreeMap<GraphNodeId, JoinRepartition>,
}

impl Builder {
    /// A name with the next number.
    pub(crate) fn new_name(&self, prefix: &str) -> Arc<str> {
        let mut inner = self.0.borrow_mut();
        let index = inner.next_index;
        inner.next_index += 1;
        let name: Arc<str> = Arc::from(format!("{prefix}{index:010}"));
        inner.generated.insert(Arc::clone(&name));
        name
    }

    /// `name`, or one with the next number. The number is drawn in any case, so that later names stay.
    pub(crate) fn node_name(&self, name: Option<&str>, prefix: &str) -> Arc<str> {
        let generated = self.new_name(prefix);
        match name {
            Some(name) => {
                self.check(check_name(name));
                Arc::from(name)
            }
            None => generated,
        }
    }

    /// A store's name with the next number.
    pub(crate) fn new_store_name(&self, prefix: &str) -> Arc<str> {
        self.new_name(&format!("{prefix}STATE-STORE-"))
    }

    pub(crate) fn add(&self, node: GraphNode, parents: &[GraphNodeId]) -> GraphNodeId {
        self.0.borrow_mut().graph.add(node, parents)
    }

    /// Remembers what is wrong, for `build`.
    pub(crate) fn check<T>(&self, checked: Result<T, TopologyError>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.borrow_mut().first_error.get_or_insert(error);
                None
            }
        }
    }

    /// A serde that `operator` cannot do without. Without one there will be no topology, and what stands in for it is
    /// never called.
    pub(crate) fn required<T: 'static>(
        &self,
        operator: &str,
        serde: Option<SerdeRef<T>>,
    ) -> SerdeRef<T> {
        serde.unwrap_or_else(|| {
            self.check::<()>(Err(TopologyError::no_serde::<T>(operator)));
            Arc::new(Missing)
        })
    }

    /// See `Graph::set_window_grace_ms`.
    pub(crate) fn set_window_grace_ms(&self, node: GraphNodeId, grace_ms: i64) {
        self.0
            .borrow_mut()
            .graph
            .set_window_grace_ms(node, grace_ms);
    }

    /// See `Graph::window_grace_ms`.
    pub(crate) fn window_grace_ms(&self, node: GraphNodeId) -> Option<i64> {
        self.0.borrow().graph.window_grace_ms(node)
    }

    /// The repartition that the joins of the stream of `node` share.
    pub(crate) fn join_repartition(&self, node: GraphNodeId) -> Option<JoinRepartition> {
        self.0.borrow().join_repartitions.get(&node).cloned()
    }

    /// See `join_repartition`.
    pub(crate) fn share_join_repartition(&self, node: GraphNodeId, shared: JoinRepartition) {
        self.0.borrow_mut().join_repartitions.insert(node, shared);
    }

    /// Whether both are parts of one application.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn build(&self, config: &TopologyConfig) -> Result<Topology, TopologyError> {
        let mut inner = self.0.borrow_mut();
        if let Some(error) = &inner.first_error {
            return Err(error.clone());
        }
        inner.graph.merge_sources()?;
        if config.optimization.merge_repartition_topics {
            inner.graph.merge_repartitions();
        }
        if config.optimization.single_store_self_join {
            inner.graph.merge_self_joins();
        }
        let mut topology = Topology::new();
        topology.built_with = config.pairs();
        inner.graph.write(&mut topology, config)?;
        check_partitions(&topology)?;
        if config.ensure_explicit_internal_resource_naming {
            check_explicit_names(&topology, &inner.generated)?;
        }
        Ok(topology)
    }
}

/// Repartition topics whose records meet have as many partitions each, if the application says how many.
fn check_partitions(topology: &Topology) -> Result<(), TopologyError> {
    for sources in &topology.copartitioned {
        let names = sources
            .iter()
            .filter_map(|index| match &topology.nodes[*index].kind {
                NodeKind::Source {
                    topics: SourceTopics::Named(names),
                    ..
                } => Some(names),
                _ => None,
            });
        let mut counts = names.flatten().filter_map(|name| {
            let topic = topology.internal_topics.get(name)?;
            Some((name, topic.partitions?))
        });
        let Some((first, count)) = counts.next() else {
            continue;
        };
        if let Some((other, other_count)) = counts.find(|(_, other_count)| *other_count != count) {
            return Err(TopologyError::Operator {
                operator: first.to_string(),
                problem: format!(
                    "it is to have {count} partitions, and `{other}`, whose records meet its own, {other_count}; \
                     give both the same number"
                ),
            });
        }
    }
    Ok(())
}

/// The last repartition of the joins of a stream, which joins without a name share.
#[derive(Clone)]
pub(crate) struct JoinRepartition {
    pub(crate) node: GraphNodeId,
    pub(crate) source: Arc<str>,
}

/// Stands where a serde is missing.
struct Missing;

impl<T> Serde<T> for Missing {
    fn serialize(
        &self,
        _: &str,
        _: &mut Headers,
        _: &T,
        _: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        Err("there is no serde".into())
    }

    fn deserialize(&self, _: &str, _: &Headers, _: Option<&[u8]>) -> Result<T, BoxError> {
        Err("there is no serde".into())
    }
}
