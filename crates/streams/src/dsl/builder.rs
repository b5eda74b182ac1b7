//! `StreamsBuilder`: where streams and tables begin, and where the topology comes from.

use super::graph::{GraphSource, GraphTraits};
use super::{Builder, GraphNode, KStream, TopologyConfig, Written};
use crate::processor::Processor;
use crate::record::Data;
use crate::serde::DefaultSerde;
use crate::state::StoreBuilder;
use crate::topology::{Consumed, SourceTopics, StoreSource, Topology, TopologyError};
use std::fmt;
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
