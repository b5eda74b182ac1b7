//! Nodes, edges and stores, as the DSL and the Processor API add them.

use super::definition::{
    Built, InternalTopic, NodeDefinition, NodeFactory, NodeKind, SinkTopic, SourceTopics,
    StoreDefinition, Topology,
};
use super::sink::{Sink, SinkTarget};
use super::source::whole_names;
use super::{Consumed, Produced, TopicNameExtractor, TopologyError, TypedSource};
use crate::processor::{FnNode, Outputs, Processor, ProcessorNode, TypedProcessorNode};
use crate::record::Data;
use crate::state::StoreBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A node whose children take records of `K` and `V`.
#[derive(Debug)]
pub struct NodeHandle<K, V> {
    name: Arc<str>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> NodeHandle<K, V> {
    const fn new(name: Arc<str>) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }

    /// The node's name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl<K, V> Clone for NodeHandle<K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.name))
    }
}

/// Kafka's rules for names of topics, which stores and nodes follow.
pub(crate) fn check_name(name: &str) -> Result<(), TopologyError> {
    const LONGEST: usize = 249;
    let valid = !name.is_empty()
        && name.len() <= LONGEST
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    match valid {
        true => Ok(()),
        false => Err(TopologyError::InvalidName {
            name: name.to_owned(),
        }),
    }
}

impl Topology {
    /// A topology of no nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source that reads `topics`.
    ///
    /// # Errors
    /// The name or a topic is taken, or there is no topic.
    pub fn add_source<K: Data, V: Data>(
        &mut self,
        name: &str,
        topics: SourceTopics,
        consumed: Consumed<K, V>,
    ) -> Result<NodeHandle<K, V>, TopologyError> {
        self.check_topics(name, &topics)?;
        let kind = NodeKind::Source {
            topics,
            auto_offset_reset: consumed.auto_offset_reset,
        };
        let factory: NodeFactory = Arc::new(move |instantiation| {
            let name = Arc::clone(instantiation.name());
            let outputs = Rc::new(instantiation.outputs::<K, V>()?);
            let consumed = Rc::new(consumed.clone());
            let queue = move || -> Box<dyn super::SourceQueue> {
                Box::new(TypedSource {
                    name: Arc::clone(&name),
                    consumed: Rc::clone(&consumed),
                    outputs: Rc::clone(&outputs),
                    head: None,
                })
            };
            Ok(Built::Source(Rc::new(queue)))
        });
        self.add_node(name, kind, &[], factory).map(NodeHandle::new)
    }

    /// Adds a processor below `parents`; `supplier` makes one for each task.
    ///
    /// # Errors
    /// The name is taken, or there is no parent.
    pub fn add_processor<KIn, VIn, KOut, VOut, P>(
        &mut self,
        name: &str,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        parents: &[&NodeHandle<KIn, VIn>],
    ) -> Result<NodeHandle<KOut, VOut>, TopologyError>
    where
        KIn: Data,
        VIn: Data,
        KOut: Data,
        VOut: Data,
        P: Processor<KIn, VIn, KOut, VOut> + 'static,
    {
        let parents: Vec<_> = parents
            .iter()
            .map(|parent| Arc::clone(&parent.name))
            .collect();
        self.add_processor_node(name, &parents, processor_factory(supplier))
            .map(NodeHandle::new)
    }

    /// Adds a sink below `parents`, which writes `topic`.
    ///
    /// # Errors
    /// The name is taken, or there is no parent.
    pub fn add_sink<K: Data, V: Data>(
        &mut self,
        name: &str,
        topic: &str,
        produced: Produced<K, V>,
        parents: &[&NodeHandle<K, V>],
    ) -> Result<(), TopologyError> {
        let parents: Vec<_> = parents
            .iter()
            .map(|parent| Arc::clone(&parent.name))
            .collect();
        self.add_sink_node(
            name,
            SinkTopic::Named(Arc::from(topic)),
            None,
            produced,
            &parents,
        )
    }

    /// Adds a sink below `parents`, which writes each record to the topic that `extractor` says; `describe()` shows it
    /// as `shown`.
    ///
    /// # Errors
    /// The name is taken, or there is no parent.
    pub fn add_extracted_sink<K: Data, V: Data>(
        &mut self,
        name: &str,
        shown: &str,
        extractor: TopicNameExtractor<K, V>,
        produced: Produced<K, V>,
        parents: &[&NodeHandle<K, V>],
    ) -> Result<(), TopologyError> {
        let parents: Vec<_> = parents
            .iter()
            .map(|parent| Arc::clone(&parent.name))
            .collect();
        let topic = SinkTopic::Extracted(Arc::from(shown));
        self.add_sink_node(name, topic, Some(extractor), produced, &parents)
    }

    /// Adds a state store and connects it to processors.
    ///
    /// # Errors
    /// The name is taken, or a processor is not there.
    pub fn add_state_store(
        &mut self,
        builder: Arc<dyn StoreBuilder>,
        processors: &[&str],
    ) -> Result<(), TopologyError> {
        let name = Arc::clone(builder.name());
        check_name(&name)?;
        let taken = self.stores.get(&name);
        if taken.is_some_and(|taken| !Arc::ptr_eq(&taken.builder, &builder)) {
            return Err(TopologyError::NameTaken {
                what: "state store",
                name: name.to_string(),
            });
        }
        self.stores
            .entry(Arc::clone(&name))
            .or_insert(StoreDefinition {
                builder,
                users: BTreeSet::new(),
                source_topic: None,
                is_global: false,
            });
        for processor in processors {
            self.connect(processor, &name)?;
        }
        Ok(())
    }

    /// Connects a processor to a state store.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn connect(&mut self, processor: &str, store: &str) -> Result<(), TopologyError> {
        let index = self.index(processor)?;
        let (name, definition) =
            self.stores
                .get_key_value(store)
                .ok_or_else(|| TopologyError::NoSuchStore {
                    name: store.to_owned(),
                })?;
        let name = Arc::clone(name);
        let is_global = definition.is_global;
        let stores = &mut self.nodes[index].stores;
        if !stores.contains(&name) {
            stores.push(Arc::clone(&name));
        }
        // Every task may read a global store: it holds no sub-topologies together.
        if !is_global && let Some(definition) = self.stores.get_mut(&name) {
            definition.users.insert(index);
        }
        Ok(())
    }

    /// A source topic is the changelog of `store`.
    pub(crate) fn set_source_topic(&mut self, store: &str, topic: &Arc<str>) {
        if let Some(definition) = self.stores.get_mut(store) {
            definition.source_topic = Some(Arc::clone(topic));
        }
    }

    /// `source` and `processor` keep the global store that they fill.
    pub(crate) fn set_global(
        &mut self,
        source: &str,
        processor: &str,
        store: &str,
    ) -> Result<(), TopologyError> {
        for node in [source, processor] {
            let index = self.index(node)?;
            self.nodes[index].is_global = true;
        }
        if let Some(definition) = self.stores.get_mut(store) {
            definition.is_global = true;
        }
        Ok(())
    }

    /// The application makes this topic for itself.
    pub(crate) fn add_internal_topic(&mut self, name: &str, topic: InternalTopic) {
        self.internal_topics.insert(Arc::from(name), topic);
    }

    /// These sources must read as many partitions each.
    pub(crate) fn copartition(&mut self, sources: &[Arc<str>]) -> Result<(), TopologyError> {
        let group = sources
            .iter()
            .map(|source| self.index(self.replaced_sources.get(source).unwrap_or(source)))
            .collect::<Result<_, _>>()?;
        self.copartitioned.push(group);
        Ok(())
    }

    /// Names of sources that others read for, and the names of those.
    pub(crate) fn replace_sources(&mut self, replaced: &BTreeMap<Arc<str>, Arc<str>>) {
        self.replaced_sources.clone_from(replaced);
    }

    pub(crate) fn add_processor_node(
        &mut self,
        name: &str,
        parents: &[Arc<str>],
        factory: NodeFactory,
    ) -> Result<Arc<str>, TopologyError> {
        self.add_node(name, NodeKind::Processor, parents, factory)
    }

    pub(crate) fn add_sink_node<K: Data, V: Data>(
        &mut self,
        name: &str,
        topic: SinkTopic,
        extractor: Option<TopicNameExtractor<K, V>>,
        produced: Produced<K, V>,
        parents: &[Arc<str>],
    ) -> Result<(), TopologyError> {
        let named = match &topic {
            SinkTopic::Named(topic) => Arc::clone(topic),
            SinkTopic::Extracted(_) => Arc::from(""),
        };
        let factory: NodeFactory = Arc::new(move |instantiation| {
            let topic = match &extractor {
                Some(extractor) => SinkTarget::Extracted(Arc::clone(extractor)),
                None => SinkTarget::Topic(instantiation.full_topic(&named)),
            };
            let sink = Sink {
                produced: produced.clone(),
                topic,
            };
            let node = FnNode {
                process: move |context: &mut _, record, _: &Outputs<(), ()>| {
                    sink.write(context, record)
                },
                outputs: Outputs::new(Vec::new()),
            };
            Ok(instantiation.node::<K, V>(node))
        });
        self.add_node(name, NodeKind::Sink(topic), parents, factory)
            .map(|_| ())
    }

    fn add_node(
        &mut self,
        name: &str,
        kind: NodeKind,
        parents: &[Arc<str>],
        factory: NodeFactory,
    ) -> Result<Arc<str>, TopologyError> {
        check_name(name)?;
        if self.by_name.contains_key(name) {
            return Err(TopologyError::NameTaken {
                what: "node",
                name: name.to_owned(),
            });
        }
        if parents.is_empty() && !matches!(kind, NodeKind::Source { .. }) {
            return Err(TopologyError::NoParent {
                name: name.to_owned(),
            });
        }
        let parents = parents
            .iter()
            .map(|parent| self.index(parent))
            .collect::<Result<Vec<_>, _>>()?;
        let index = self.nodes.len();
        for parent in &parents {
            self.nodes[*parent].children.push(index);
        }
        let name: Arc<str> = Arc::from(name);
        self.by_name.insert(Arc::clone(&name), index);
        self.nodes.push(NodeDefinition {
            name: Arc::clone(&name),
            kind,
            parents,
            children: Vec::new(),
            stores: Vec::new(),
            is_global: false,
            factory,
        });
        Ok(name)
    }

    fn check_topics(&self, name: &str, topics: &SourceTopics) -> Result<(), TopologyError> {
        let topics = match topics {
            SourceTopics::Named(topics) => topics,
            SourceTopics::Pattern(pattern) => {
                let matched = whole_names(pattern);
                return matched
                    .map(|_| ())
                    .map_err(|error| TopologyError::Operator {
                        operator: name.to_owned(),
                        problem: format!("`{pattern}` is no regular expression: {error}"),
                    });
            }
        };
        if topics.is_empty() {
            return Err(TopologyError::NoTopics {
                name: name.to_owned(),
            });
        }
        for node in &self.nodes {
            let NodeKind::Source {
                topics: SourceTopics::Named(taken),
                ..
            } = &node.kind
            else {
                continue;
            };
            if let Some(topic) = topics.iter().find(|topic| taken.contains(topic)) {
                return Err(TopologyError::TopicTaken {
                    topic: topic.to_string(),
                    source_name: node.name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The index of the node of this name.
    pub(crate) fn index(&self, name: &str) -> Result<usize, TopologyError> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| TopologyError::NoSuchNode {
                name: name.to_owned(),
            })
    }

    /// The name of a topic in the cluster: that of an internal one starts with the application's.
    pub(crate) fn full_topic(&self, application_id: &str, topic: &Arc<str>) -> Arc<str> {
        match self.internal_topics.contains_key(topic) {
            true => Arc::from(format!("{application_id}-{topic}")),
            false => Arc::clone(topic),
        }
    }
}

/// Makes processors of the application as nodes.
pub(crate) fn processor_factory<KIn, VIn, KOut, VOut, P>(
    supplier: impl Fn() -> P + Send + Sync + 'static,
) -> NodeFactory
where
    KIn: Data,
    VIn: Data,
    KOut: Data,
    VOut: Data,
    P: Processor<KIn, VIn, KOut, VOut> + 'static,
{
    Arc::new(move |instantiation| {
        let node = TypedProcessorNode::<P, KIn, VIn, KOut, VOut> {
            node: ProcessorNode {
                processor: supplier(),
                outputs: instantiation.outputs::<KOut, VOut>()?,
                stores: instantiation.stores(),
                index: instantiation.index(),
                name: Arc::clone(instantiation.name()),
            },
            takes: PhantomData,
        };
        Ok(instantiation.node::<KIn, VIn>(node))
    })
}

/// Makes nodes without state of their own: `process` takes a record and the children.
pub(crate) fn stateless_factory<KIn, VIn, KOut, VOut, F>(process: F) -> NodeFactory
where
    KIn: Data,
    VIn: Data,
    KOut: Data,
    VOut: Data,
    F: Fn(
            &mut crate::processor::TaskContext,
            crate::record::Record<KIn, VIn>,
            &Outputs<KOut, VOut>,
        ) -> Result<(), crate::error::Failure>
        + Send
        + Sync
        + 'static,
{
    let process = Arc::new(process);
    Arc::new(move |instantiation| {
        let process = Arc::clone(&process);
        let node = FnNode {
            process: move |context: &mut _, record, outputs: &_| process(context, record, outputs),
            outputs: instantiation.outputs::<KOut, VOut>()?,
        };
        Ok(instantiation.node::<KIn, VIn>(node))
    })
}
