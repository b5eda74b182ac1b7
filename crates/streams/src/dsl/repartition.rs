//! Repartition: a stream is written to a topic of the application's own and read again, so that records of one key are
//! in one partition.

use super::graph::{GraphTraits, MakeMerged};
use super::{Builder, GraphNode, Written};
use crate::processor::{Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::topology::{
    Consumed, InternalTopic, Produced, SinkTopic, SourceTopics, StreamPartitioner,
    TimestampExtractor, Topology, TopologyError, check_name, stateless_factory,
};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What the names of repartition topics end with.
const SUFFIX: &str = "-repartition";

/// A repartition that is to be added to the graph.
pub(crate) struct Repartition<K, V> {
    pub(crate) topic: Arc<str>,
    pub(crate) sink: Arc<str>,
    pub(crate) filter: Arc<str>,
    pub(crate) source: Arc<str>,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) partitions: Option<i32>,
    pub(crate) partitioner: Option<StreamPartitioner<K, V>>,
    /// The application has asked for it, so it keeps its topic.
    pub(crate) is_asked_for: bool,
}

impl<K: Data, V: Data> Repartition<K, V> {
    /// Draws the names of a repartition whose topic is named after `base`.
    pub(crate) fn new(
        builder: &Builder,
        base: &str,
        (key_serde, value_serde): (SerdeRef<K>, SerdeRef<V>),
    ) -> Self {
        let topic = match base.ends_with(SUFFIX) {
            true => base.to_owned(),
            false => format!("{base}{SUFFIX}"),
        };
        builder.check(check_name(&topic));
        let generated = (
            builder.new_name("KSTREAM-SINK-"),
            builder.new_name("KSTREAM-FILTER-"),
            builder.new_name("KSTREAM-SOURCE-"),
        );
        let named = Self::of_topic(&topic, (key_serde, value_serde));
        match is_generated(base) {
            true => {
                let (sink, filter, source) = generated;
                Self {
                    sink,
                    filter,
                    source,
                    ..named
                }
            }
            false => named,
        }
    }

    /// A repartition whose nodes are named after its topic.
    fn of_topic(topic: &str, (key_serde, value_serde): (SerdeRef<K>, SerdeRef<V>)) -> Self {
        Self {
            topic: Arc::from(topic),
            sink: Arc::from(format!("{topic}-sink")),
            filter: Arc::from(format!("{topic}-filter")),
            source: Arc::from(format!("{topic}-source")),
            key_serde,
            value_serde,
            partitions: None,
            partitioner: None,
            is_asked_for: false,
        }
    }

    /// The node of the graph. Its children stand below the source that reads the topic.
    pub(crate) fn into_graph_node(self) -> GraphNode {
        let traits = GraphTraits {
            is_repartition: true,
            ..GraphTraits::default()
        };
        let name = Arc::clone(&self.source);
        let merged = (!self.is_asked_for).then(|| self.make_merged());
        let mut node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| self.write(topology, written),
        );
        node.merged = merged;
        node.giving::<K, V>()
    }

    /// What makes the repartition that stands for this one and others, if the topology is optimized.
    fn make_merged(&self) -> MakeMerged {
        let topic = Arc::clone(&self.topic);
        let serdes = (Arc::clone(&self.key_serde), Arc::clone(&self.value_serde));
        Rc::new(move || Self::of_topic(&topic, serdes.clone()).into_graph_node())
    }

    fn write(&self, topology: &mut Topology, written: &Written<'_>) -> Result<(), TopologyError> {
        topology.add_internal_topic(
            &self.topic,
            InternalTopic {
                partitions: self.partitions,
                configs: topic_configs(),
            },
        );
        let key_serde = Arc::clone(&self.key_serde);
        let null_keys_needed = written.null_keys_needed;
        let factory = stateless_factory(
            move |context: &mut TaskContext, record: Record<K, V>, outputs: &Outputs<K, V>| {
                match null_keys_needed || !key_serde.is_null(&record.key) {
                    true => outputs.forward(context, record),
                    false => Ok(()),
                }
            },
        );
        let filter = topology.add_processor_node(&self.filter, written.parents, factory)?;
        let mut produced =
            Produced::with(Arc::clone(&self.key_serde), Arc::clone(&self.value_serde));
        produced.partitioner = self.partitioner.clone();
        topology.add_sink_node(
            &self.sink,
            SinkTopic::Named(Arc::clone(&self.topic)),
            None,
            produced,
            &[filter],
        )?;
        // The application has written these records: their times are good.
        let consumed = Consumed::with(Arc::clone(&self.key_serde), Arc::clone(&self.value_serde))
            .with_timestamp_extractor(TimestampExtractor::FailOnInvalidTimestamp);
        topology
            .add_source(
                &self.source,
                SourceTopics::Named(vec![Arc::clone(&self.topic)]),
                consumed,
            )
            .map(|_| ())
    }
}

/// What a repartition topic is made with.
pub(crate) fn topic_configs() -> BTreeMap<String, String> {
    [
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "CreateTime"),
        ("retention.ms", "-1"),
        ("segment.bytes", "52428800"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// Whether the library has made this name: `KSTREAM`, anything, `-` and ten digits.
fn is_generated(name: &str) -> bool {
    const DIGITS: usize = 10;
    name.starts_with("KSTREAM")
        && name.len() > DIGITS
        && name.is_char_boundary(name.len() - DIGITS)
        && name[..name.len() - DIGITS].ends_with('-')
        && name[name.len() - DIGITS..]
            .bytes()
            .all(|byte| byte.is_ascii_digit())
}
