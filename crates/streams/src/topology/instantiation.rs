//! A task's nodes and stores, made from the topology: children first, so that each node finds the links to its own.

use super::builder::{Built, SourceFactory};
use super::{NodeDefinition, NodeKind, SourceTopics, Subtopology, TaskStores, Topology};
use crate::error::StreamsError;
use crate::processor::{BuiltNode, Link, Node, NodeLife, Outputs, TaskId};
use crate::record::Data;
use crate::state::{BuiltStore, StateStore, StoreBuilding, StoreMeter, TaskStorage};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The nodes and stores of one task.
pub(crate) struct BuiltTask {
    /// In the order of the topology: parents first.
    pub(crate) nodes: Vec<TaskNode>,
    /// Sources by the topics that they read.
    pub(crate) sources: Vec<(SourceTopics, SourceFactory)>,
    pub(crate) stores: BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>>,
    /// The same stores, by the types that nodes ask for.
    pub(crate) typed_stores: TaskStores,
    /// What is measured of them, where that is wanted.
    pub(crate) meters: Vec<Rc<StoreMeter>>,
}

/// A node of a task.
pub(crate) struct TaskNode {
    pub(crate) name: Arc<str>,
    /// Its index in the topology.
    pub(crate) index: usize,
    /// None of a source, which has nothing to do but to read.
    pub(crate) life: Option<Rc<RefCell<dyn NodeLife>>>,
    /// How many records it was given.
    pub(crate) count: Rc<Cell<u64>>,
}

/// Where a factory of a node is called.
pub(crate) struct Instantiation<'a> {
    topology: &'a Topology,
    application_id: &'a Arc<str>,
    index: usize,
    /// Links to the nodes that are made, by index.
    links: BTreeMap<usize, Box<dyn Any>>,
    typed_stores: TaskStores,
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
        self.typed_stores
            .typed::<S>(name)
            .ok_or_else(|| StreamsError::NoSuchStore {
                node: Arc::clone(self.name()),
                store: Arc::from(name),
                kind: std::any::type_name::<S>(),
            })
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

impl Topology {
    /// Makes the nodes and stores of a task of `subtopology`; `storage` is what its stores share.
    pub(crate) fn instantiate(
        &self,
        application_id: &Arc<str>,
        subtopology: &Subtopology,
        task_id: TaskId,
        storage: &TaskStorage,
        global_stores: &TaskStores,
    ) -> Result<BuiltTask, StreamsError> {
        let mut stores = BTreeMap::new();
        let mut typed_stores = global_stores.clone();
        for name in &subtopology.stores {
            let built = self.build_store(application_id, name, task_id, storage)?;
            typed_stores.insert(Arc::clone(name), built.typed);
            stores.insert(Arc::clone(name), built.store);
        }
        let mut instantiation = Instantiation {
            topology: self,
            application_id,
            index: 0,
            links: BTreeMap::new(),
            typed_stores,
        };
        let mut nodes = Vec::new();
        let mut sources = Vec::new();
        for index in subtopology.nodes.iter().rev().copied() {
            instantiation.index = index;
            let definition = &self.nodes[index];
            let name = Arc::clone(&definition.name);
            match (definition.factory)(&mut instantiation)? {
                Built::Node(node) => {
                    instantiation.links.insert(index, node.link);
                    nodes.push(TaskNode {
                        name,
                        index,
                        life: Some(node.life),
                        count: node.count,
                    });
                }
                Built::Source(factory) => {
                    if let NodeKind::Source { topics, .. } = &definition.kind {
                        sources.push((self.full_topics(application_id, topics), factory));
                    }
                    nodes.push(TaskNode {
                        name,
                        index,
                        life: None,
                        count: Rc::default(),
                    });
                }
            }
        }
        nodes.reverse();
        sources.reverse();
        Ok(BuiltTask {
            nodes,
            sources,
            stores,
            typed_stores: instantiation.typed_stores,
            meters: storage.meters(),
        })
    }

    /// Makes a store of a task.
    pub(crate) fn build_store(
        &self,
        application_id: &Arc<str>,
        name: &str,
        task_id: TaskId,
        storage: &TaskStorage,
    ) -> Result<BuiltStore, StreamsError> {
        let building = StoreBuilding {
            task_id,
            application_id: Arc::clone(application_id),
            changelog: self.logged_changelog(application_id, name, task_id.partition),
            storage: storage.clone(),
        };
        self.stores[name].builder.build(&building)
    }

    fn full_topics(&self, application_id: &str, topics: &SourceTopics) -> SourceTopics {
        match topics {
            SourceTopics::Named(topics) => SourceTopics::Named(
                topics
                    .iter()
                    .map(|topic| self.full_topic(application_id, topic))
                    .collect(),
            ),
            pattern => pattern.clone(),
        }
    }

    /// Topic and partition that `store` logs its changes to; none when it logs none, or a source topic has them.
    fn logged_changelog(
        &self,
        application_id: &str,
        store: &str,
        partition: i32,
    ) -> Option<(Arc<str>, i32)> {
        let definition = self.stores.get(store)?;
        if definition.is_global || definition.source_topic.is_some() {
            return None;
        }
        definition.builder.changelog()?;
        Some((changelog_topic(application_id, store), partition))
    }
}

/// The full name of a store's changelog topic.
pub(crate) fn changelog_topic(application_id: &str, store: &str) -> Arc<str> {
    Arc::from(format!("{application_id}-{store}-changelog"))
}
