//! `StreamsBuilder`: where streams and tables begin, and where the topology comes from.

use super::config::check_explicit_names;
use super::graph::{Graph, GraphSource, GraphTraits};
use super::repartition::JoinRepartition;
use super::{GraphNode, GraphNodeId, KStream, TopologyConfig, Written};
use crate::error::BoxError;
use crate::headers::Headers;
use crate::processor::Processor;
use crate::record::Data;
use crate::serde::{DefaultSerde, Serde, SerdeRef};
use crate::state::StoreBuilder;
use crate::topology::{Consumed, SourceTopics, StoreSource, Topology, TopologyError, check_name};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Collects what an application wants of its streams and tables.
///
/// ```
/// use riverrun_streams::dsl::StreamsBuilder;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream::<Option<String>, String>("lines")
///     .map_values(|line| line.to_uppercase())
///     .to("loud-lines");
/// let topology = builder.build()?;
/// # Ok::<(), riverrun_streams::topology::TopologyError>(())
/// ```
#[derive(Clone, Default)]
pub struct StreamsBuilder {
    pub(crate) builder: Builder,
}

impl fmt::Debug for StreamsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsBuilder").finish_non_exhaustive()
    }
}

impl StreamsBuilder {
    /// No streams and no tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// A stream of the records of `topic`.
    pub fn stream<K: Data + DefaultSerde, V: Data + DefaultSerde>(
        &self,
        topic: &str,
    ) -> KStream<K, V> {
        self.stream_with(&[topic], Consumed::default())
    }

    /// A stream of the records of `topics`, read as `consumed` says.
    pub fn stream_with<K: Data, V: Data>(
        &self,
        topics: &[&str],
        consumed: Consumed<K, V>,
    ) -> KStream<K, V> {
        let topics = topics.iter().copied().map(Arc::from).collect();
        self.add_stream(SourceTopics::Named(topics), consumed)
    }

    /// A stream of the records of the topics whose whole names match a regular expression.
    pub fn stream_pattern<K: Data, V: Data>(
        &self,
        pattern: &str,
        consumed: Consumed<K, V>,
    ) -> KStream<K, V> {
        self.add_stream(SourceTopics::Pattern(Arc::from(pattern)), consumed)
    }

    fn add_stream<K: Data, V: Data>(
        &self,
        topics: SourceTopics,
        consumed: Consumed<K, V>,
    ) -> KStream<K, V> {
        let name = self
            .builder
            .node_name(consumed.name.as_deref(), "KSTREAM-SOURCE-");
        let (key_serde, value_serde) = (
            Arc::clone(&consumed.key_serde),
            Arc::clone(&consumed.value_serde),
        );
        let source = GraphSource {
            topics: topics.clone(),
            auto_offset_reset: consumed.auto_offset_reset,
        };
        let written_name = Arc::clone(&name);
        let mut node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, _: &Written<'_>| {
                topology
                    .add_source(&written_name, topics.clone(), consumed.clone())
                    .map(|_| ())
            },
        );
        node.source = Some(source);
        let node = self.builder.add(node.giving::<K, V>(), &[]);
        KStream::new(
            &self.builder,
            &name,
            node,
            [Arc::clone(&name)].into(),
            (Some(key_serde), Some(value_serde)),
        )
    }

    /// Adds a state store, for processors to connect to.
    pub fn add_state_store(&self, store: Arc<dyn StoreBuilder>) {
        let name: Arc<str> = Arc::clone(store.name());
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, _: &Written<'_>| {
                topology.add_state_store(Arc::clone(&store), &[])
            },
        );
        self.builder.add(node, &[]);
    }

    /// Adds a store that every instance fills from all partitions of `topic`, by a processor of the application that
    /// puts into it what it is given. Every processor may read it, without being connected to it.
    pub fn add_global_store<K: Data, V: Data, P>(
        &self,
        store: Arc<dyn StoreBuilder>,
        topic: &str,
        consumed: Consumed<K, V>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
    ) where
        P: Processor<K, V, (), ()> + 'static,
    {
        let name = consumed.name.as_deref();
        let source = name.map(|name| format!("{name}-source"));
        let source = self.builder.node_name(source.as_deref(), "KSTREAM-SOURCE-");
        let processor = self.builder.node_name(name, "KTABLE-SOURCE-");
        let topic = topic.to_owned();
        let supplier = Arc::new(supplier);
        let written_name = Arc::clone(&processor);
        let node = GraphNode::new(
            &processor,
            GraphTraits::default(),
            move |topology: &mut Topology, _: &Written<'_>| {
                let from = StoreSource {
                    source: &source,
                    topic: &topic,
                    processor: &written_name,
                };
                let supplier = Arc::clone(&supplier);
                let supply = move || supplier();
                topology.add_global_store(Arc::clone(&store), from, consumed.clone(), supply)
            },
        );
        self.builder.add(node, &[]);
    }

    /// The topology of everything that was asked for.
    ///
    /// # Errors
    /// What is wrong with a call, the first one if there are several.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.build_with(&TopologyConfig::default())
    }

    /// The topology of everything that was asked for, as the application configures it.
    ///
    /// # Errors
    /// As `build`, or the configuration asks for what the topology does not have.
    pub fn build_with(&self, config: &TopologyConfig) -> Result<Topology, TopologyError> {
        self.builder.build(config)
    }
}

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
    /// Repartitions that the joins of a stream share, by the stream's node.
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

    fn build(&self, config: &TopologyConfig) -> Result<Topology, TopologyError> {
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
        if config.ensure_explicit_internal_resource_naming {
            check_explicit_names(&topology, &inner.generated)?;
        }
        Ok(topology)
    }
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
