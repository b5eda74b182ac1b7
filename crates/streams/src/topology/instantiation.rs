//! A task's nodes and stores, made from the topology: children first, so that each node finds the links to its own.

use super::definition::{Built, Instantiation, NodeKind, SourceFactory, SourceTopics, Topology};
use super::{Subtopology, TaskStores};
use crate::error::StreamsError;
use crate::processor::{NodeLife, TaskId};
use crate::state::{BuiltStore, StateStore, StoreBuilding, StoreMeter, TaskStorage};
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
