//! `KStream`: records, each a fact of its own, and what is done with one record at a time.

mod branches;
mod fallible;
mod named;
mod printed;
mod process;
mod repartitioned;
mod stateless;

use super::graph::GraphTraits;
use super::{Builder, GraphNode, GraphNodeId, Repartition, Repartitioned, Written};
use crate::error::Failure;
use crate::processor::{Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::{
    NodeFactory, Produced, SinkTopic, TopicNameExtractor, Topology, TopologyError,
    stateless_factory,
};
pub use branches::{Branched, BranchedKStream};
pub use printed::Printed;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The names of the sources that a stream or table comes from.
pub(crate) type SourceNames = Arc<BTreeSet<Arc<str>>>;

/// Records, each a fact of its own.
///
/// Keys and values that may be null have an `Option` type; a serde of a type without one refuses null.
pub struct KStream<K, V> {
    pub(crate) builder: Builder,
    pub(crate) name: Arc<str>,
    pub(crate) node: GraphNodeId,
    pub(crate) sources: SourceNames,
    /// The key may have changed since the records were partitioned by it.
    pub(crate) repartition_required: bool,
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
}

impl<K, V> Clone for KStream<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            name: Arc::clone(&self.name),
            node: self.node,
            sources: Arc::clone(&self.sources),
            repartition_required: self.repartition_required,
            key_serde: self.key_serde.clone(),
            value_serde: self.value_serde.clone(),
        }
    }
}

impl<K, V> fmt::Debug for KStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KStream")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How a node without state is named, and what it does with keys and values.
pub(crate) struct Stateless<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) traits: GraphTraits,
}

impl<K: Data, V: Data> KStream<K, V> {
    pub(crate) fn new(
        builder: &Builder,
        name: &Arc<str>,
        node: GraphNodeId,
        sources: BTreeSet<Arc<str>>,
        (key_serde, value_serde): (Option<SerdeRef<K>>, Option<SerdeRef<V>>),
    ) -> Self {
        Self {
            builder: builder.clone(),
            name: Arc::clone(name),
            node,
            sources: Arc::new(sources),
            repartition_required: false,
            key_serde,
            value_serde,
        }
    }

    /// Adds a node below this stream that is `process` for each record.
    pub(crate) fn stateless<K2: Data, V2: Data>(
        &self,
        node: Stateless<'_>,
        (key_serde, value_serde): (Option<SerdeRef<K2>>, Option<SerdeRef<V2>>),
        process: impl Fn(&mut TaskContext, Record<K, V>, &Outputs<K2, V2>) -> Result<(), Failure>
        + Send
        + Sync
        + 'static,
    ) -> KStream<K2, V2> {
        self.below(node, (key_serde, value_serde), stateless_factory(process))
    }

    /// Adds a node below this stream that `factory` makes.
    fn below<K2: Data, V2: Data>(
        &self,
        node: Stateless<'_>,
        (key_serde, value_serde): (Option<SerdeRef<K2>>, Option<SerdeRef<V2>>),
        factory: NodeFactory,
    ) -> KStream<K2, V2> {
        let name = self.builder.node_name(node.name, node.prefix);
        let written_name = Arc::clone(&name);
        let graph_node = GraphNode::new(
            &name,
            node.traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        let graph_node = self
            .builder
            .add(graph_node.giving::<K2, V2>(), &[self.node]);
        KStream {
            builder: self.builder.clone(),
            name,
            node: graph_node,
            sources: Arc::clone(&self.sources),
            repartition_required: self.repartition_required || node.traits.changes_keys,
            key_serde,
            value_serde,
        }
    }

    /// The serde of the keys: the stream's own, or their type's.
    pub(crate) fn keys(&self) -> SerdeRef<K>
    where
        K: DefaultSerde,
    {
        self.key_serde.clone().unwrap_or_else(K::serde)
    }

    /// The serde of the values: the stream's own, or their type's.
    pub(crate) fn values(&self) -> SerdeRef<V>
    where
        V: DefaultSerde,
    {
        self.value_serde.clone().unwrap_or_else(V::serde)
    }

    /// Writes every record to `topic`.
    pub fn to(&self, topic: &str)
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.to_with(topic, Produced::with(self.keys(), self.values()));
    }

    /// Writes every record to `topic`, as `produced` says.
    pub fn to_with(&self, topic: &str, produced: Produced<K, V>) {
        self.write(SinkTopic::Named(Arc::from(topic)), None, produced);
    }

    /// Writes every record to the topic that `extractor` says.
    pub fn to_extracted(&self, extractor: TopicNameExtractor<K, V>, produced: Produced<K, V>) {
        self.to_extracted_as("TopicNameExtractor", extractor, produced);
    }

    /// As `to_extracted`; `describe()` shows the extractor as `shown`.
    pub fn to_extracted_as(
        &self,
        shown: &str,
        extractor: TopicNameExtractor<K, V>,
        produced: Produced<K, V>,
    ) {
        let topic = SinkTopic::Extracted(Arc::from(shown));
        self.write(topic, Some(extractor), produced);
    }

    fn write(
        &self,
        topic: SinkTopic,
        extractor: Option<TopicNameExtractor<K, V>>,
        produced: Produced<K, V>,
    ) {
        let name = self
            .builder
            .node_name(produced.name.as_deref(), "KSTREAM-SINK-");
        let sink = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_sink_node(
                    &sink,
                    topic.clone(),
                    extractor.clone(),
                    produced.clone(),
                    written.parents,
                )
            },
        );
        self.builder.add(node, &[self.node]);
    }

    /// Writes every record to a topic of the application's own, by its key, and reads it again.
    pub fn repartition(&self) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        self.repartition_with(Repartitioned::with(self.keys(), self.values()))
    }

    /// Writes every record to a topic of the application's own, as `repartitioned` says, and reads it again.
    pub fn repartition_with(&self, repartitioned: Repartitioned<K, V>) -> Self {
        let base: Arc<str> = match &repartitioned.name {
            Some(name) => Arc::from(name.as_str()),
            None => self.builder.new_name("KSTREAM-REPARTITION-"),
        };
        if repartitioned.partitions.is_some_and(|count| count < 1) {
            self.builder.check::<()>(Err(TopologyError::Operator {
                operator: base.to_string(),
                problem: "a repartition topic needs at least one partition".to_owned(),
            }));
        }
        let serdes = (
            Arc::clone(&repartitioned.key_serde),
            Arc::clone(&repartitioned.value_serde),
        );
        let mut repartition = Repartition::new(&self.builder, &base, serdes.clone());
        repartition.partitions = repartitioned.partitions;
        repartition.partitioner = repartitioned.partitioner;
        repartition.is_asked_for = true;
        self.below_repartition(repartition)
    }

    /// This stream, read from the topic of `repartition`.
    pub(crate) fn below_repartition(&self, repartition: Repartition<K, V>) -> Self {
        let source = Arc::clone(&repartition.source);
        let serdes = (
            Some(Arc::clone(&repartition.key_serde)),
            Some(Arc::clone(&repartition.value_serde)),
        );
        let node = self
            .builder
            .add(repartition.into_graph_node(), &[self.node]);
        Self::new(
            &self.builder,
            &source,
            node,
            [Arc::clone(&source)].into(),
            serdes,
        )
    }
}
