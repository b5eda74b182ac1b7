//! What a topology is: its nodes, edges and stores, and where the factories of its nodes are called. The two belong
//! together: a factory takes the place where it is called, and that place knows the node.

use super::{AutoOffsetReset, SourceQueue};
use crate::error::StreamsError;
use crate::processor::{BuiltNode, Link, Node, Outputs, TaskStores};
use crate::record::Data;
use crate::state::StoreBuilder;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Nodes with their edges, and state stores: what tasks are made of.
///
/// `StreamsBuilder` makes one of operators. With the Processor API an application adds each node itself:
///
/// ```
/// use riverrun_streams::Failure;
/// use riverrun_streams::processor::{Processor, ProcessorContext, StoreHandle};
/// use riverrun_streams::record::Record;
/// use riverrun_streams::serde::DefaultSerde;
/// use riverrun_streams::state::{KeyValueStore, Stores};
/// use riverrun_streams::test_driver::TopologyTestDriver;
/// use riverrun_streams::topology::{Consumed, Produced, SourceTopics, Topology};
/// use std::sync::Arc;
///
/// /// Sends the first record of each key to the child `first`, the others to `again`.
/// #[derive(Default)]
/// struct First {
///     seen: Option<StoreHandle<KeyValueStore<String, bool>>>,
/// }
///
/// impl Processor<String, String, String, String> for First {
///     fn init(&mut self, context: &mut ProcessorContext<'_, String, String>) -> Result<(), Failure> {
///         self.seen = Some(context.store("seen")?);
///         Ok(())
///     }
///
///     fn process(
///         &mut self,
///         context: &mut ProcessorContext<'_, String, String>,
///         record: Record<String, String>,
///     ) -> Result<(), Failure> {
///         let seen = self.seen.as_ref().expect("`init` comes first");
///         let before = seen.borrow().put_if_absent(context.task(), &record.key, Some(&true))?;
///         let child = if before.is_some() { "again" } else { "first" };
///         context.forward_to(child, record)
///     }
/// }
///
/// let mut topology = Topology::new();
/// let visits = SourceTopics::Named(vec![Arc::from("visits")]);
/// let source = topology.add_source::<String, String>("source", visits, Consumed::default())?;
/// let split = topology.add_processor("split", First::default, &[&source])?;
/// topology.add_sink("first", "first-visits", Produced::default(), &[&split])?;
/// topology.add_sink("again", "other-visits", Produced::default(), &[&split])?;
/// let store = Stores::in_memory_key_value_store("seen");
/// let store = Stores::key_value_store_builder(store, String::serde(), bool::serde());
/// topology.add_state_store(Arc::new(store), &["split"])?;
///
/// let driver = TopologyTestDriver::new(&topology)?;
/// let visits = driver.input_topic::<String, String>("visits");
/// visits.pipe("anna".to_owned(), "home".to_owned(), 0)?;
/// visits.pipe("anna".to_owned(), "shop".to_owned(), 1)?;
/// let again = driver.output_topic::<String, String>("other-visits");
/// assert_eq!(again.read_key_values()?, [("anna".to_owned(), "shop".to_owned())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Topology {
    /// Parents stand before their children.
    pub(crate) nodes: Vec<NodeDefinition>,
    pub(super) by_name: BTreeMap<Arc<str>, usize>,
    pub(crate) stores: BTreeMap<Arc<str>, StoreDefinition>,
    pub(crate) internal_topics: BTreeMap<Arc<str>, InternalTopic>,
    /// Sources that must read as many partitions each.
    pub(crate) copartitioned: Vec<BTreeSet<usize>>,
    /// Names of sources that there are none of, as others read for them.
    pub(super) replaced_sources: BTreeMap<Arc<str>, Arc<str>>,
    /// What the operators of the DSL were configured with, by Kafka Streams' names; nothing without them.
    pub(crate) built_with: BTreeMap<&'static str, String>,
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("nodes", &self.nodes)
            .field("stores", &self.stores.keys())
            .finish_non_exhaustive()
    }
}

/// A topic that the application makes for itself; its full name starts with `application.id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InternalTopic {
    /// How many partitions it must have; as many as its writers' inputs when there is none.
    pub partitions: Option<i32>,
    /// The topic's configuration.
    pub configs: BTreeMap<String, String>,
}

/// Makes a node for a task.
pub(crate) type NodeFactory =
    Arc<dyn Fn(&mut Instantiation<'_>) -> Result<Built, StreamsError> + Send + Sync>;

/// What a factory makes.
pub(crate) enum Built {
    Node(BuiltNode),
    /// Makes the queue of one input partition.
    Source(SourceFactory),
}

pub(crate) type SourceFactory = Rc<dyn Fn() -> Box<dyn SourceQueue>>;

/// A node of the topology.
#[derive(Clone)]
pub(crate) struct NodeDefinition {
    pub(crate) name: Arc<str>,
    pub(crate) kind: NodeKind,
    pub(crate) parents: Vec<usize>,
    /// In the order in which they were added.
    pub(crate) children: Vec<usize>,
    /// In the order in which they were connected, each once.
    pub(crate) stores: Vec<Arc<str>>,
    /// It belongs to a global store: every instance reads all partitions.
    pub(crate) is_global: bool,
    pub(crate) factory: NodeFactory,
}

impl fmt::Debug for NodeDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeDefinition")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("parents", &self.parents)
            .finish_non_exhaustive()
    }
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Source {
        topics: SourceTopics,
        auto_offset_reset: Option<AutoOffsetReset>,
    },
    Processor,
    Sink(SinkTopic),
}

/// What a source reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceTopics {
    /// These topics; names of internal ones without the application id.
    Named(Vec<Arc<str>>),
    /// Topics whose whole names match this regular expression.
    Pattern(Arc<str>),
}

/// What a sink writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkTopic {
    /// This topic; the name of an internal one without the application id.
    Named(Arc<str>),
    /// A topic that each record chooses; the text is what `describe()` shows of the extractor.
    Extracted(Arc<str>),
}

/// A state store and who uses it.
#[derive(Clone)]
pub(crate) struct StoreDefinition {
    pub(crate) builder: Arc<dyn StoreBuilder>,
    pub(crate) users: BTreeSet<usize>,
    /// A source topic that is the store's changelog.
    pub(crate) source_topic: Option<Arc<str>>,
    pub(crate) is_global: bool,
}

/// Where a factory of a node is called.
pub(crate) struct Instantiation<'a> {
    pub(super) topology: &'a Topology,
    pub(super) application_id: &'a Arc<str>,
    pub(super) index: usize,
    /// Links to the nodes that are made, by index.
    pub(super) links: BTreeMap<usize, Box<dyn Any>>,
    pub(super) typed_stores: TaskStores,
}

impl Instantiation<'_> {
    fn definition(&self) -> &NodeDefinition {
        &self.topology.nodes[self.index]
    }

    /// The node's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.topology.nodes[self.index].name
    }

    /// Its index in the topology.
    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    /// The links to its children.
    pub(crate) fn outputs<K: Data, V: Data>(&self) -> Result<Outputs<K, V>, StreamsError> {
        let links = self
            .definition()
            .children
            .iter()
            .map(|child| {
                self.links
                    .get(child)
                    .and_then(|link| link.downcast_ref::<Link<K, V>>())
                    .cloned()
                    .ok_or_else(|| {
                        StreamsError::Other(format!(
                            "node `{}` takes other types than its parent `{}` gives",
                            self.topology.nodes[*child].name,
                            self.name()
                        ))
                    })
            })
            .collect::<Result<_, _>>()?;
        Ok(Outputs::new(links))
    }

    /// The stores that it is connected to, and the global ones.
    pub(crate) fn stores(&self) -> TaskStores {
        let mut stores = TaskStores::default();
        let globals = self.topology.stores.iter();
        let globals = globals.filter_map(|(name, store)| store.is_global.then_some(name));
        for name in self.definition().stores.iter().chain(globals) {
            if let Some(store) = self.typed_stores.any(name) {
                stores.insert(Arc::clone(name), Rc::clone(store));
            }
        }
        stores
    }

    /// A store that it is connected to.
    pub(crate) fn store<S: 'static>(&self, name: &str) -> Result<Rc<RefCell<S>>, StreamsError> {
        self.typed_stores.asked(self.name(), name)
    }

    /// The name of a topic in the cluster.
    pub(crate) fn full_topic(&self, topic: &Arc<str>) -> Arc<str> {
        self.topology.full_topic(self.application_id, topic)
    }

    /// The node is made.
    pub(crate) fn node<K: Data, V: Data>(&self, node: impl Node<K, V> + 'static) -> Built {
        Built::Node(BuiltNode::new::<K, V>(self.name(), node))
    }
}
