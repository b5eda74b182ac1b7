//! Stores that are filled from a topic by a processor of the application.

use super::{Consumed, NodeHandle, SourceTopics, Topology, TopologyError};
use crate::processor::Processor;
use crate::record::Data;
use crate::state::StoreBuilder;
use std::sync::Arc;

/// The topic that a store is filled from, and the nodes that fill it.
#[derive(Debug, Clone, Copy)]
pub struct StoreSource<'a> {
    /// The name of the source.
    pub source: &'a str,
    /// The topic. It is the store's changelog too.
    pub topic: &'a str,
    /// The name of the processor, which must put into the store what it is given.
    pub processor: &'a str,
}

impl Topology {
    /// Adds a store that every instance of the application fills from all partitions of a topic. Every processor may
    /// read it, without being connected to it.
    ///
    /// # Errors
    /// A name or the topic is taken, or the store would log its changes.
    pub fn add_global_store<K: Data, V: Data, P>(
        &mut self,
        store: Arc<dyn StoreBuilder>,
        from: StoreSource<'_>,
        consumed: Consumed<K, V>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
    ) -> Result<(), TopologyError>
    where
        P: Processor<K, V, (), ()> + 'static,
    {
        if store.changelog().is_some() {
            return Err(TopologyError::Operator {
                operator: store.name().to_string(),
                problem: "the topic of a global store is its changelog; switch its logging off"
                    .to_owned(),
            });
        }
        let name = Arc::clone(store.name());
        self.add_filled_store(store, from, consumed, supplier)?;
        self.set_global(from.source, from.processor, &name)
    }

    /// Adds a store that each task fills from its partitions of a topic. The topic is the store's changelog.
    ///
    /// # Errors
    /// A name or the topic is taken.
    pub fn add_read_only_state_store<K: Data, V: Data, P>(
        &mut self,
        store: Arc<dyn StoreBuilder>,
        from: StoreSource<'_>,
        consumed: Consumed<K, V>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
    ) -> Result<(), TopologyError>
    where
        P: Processor<K, V, (), ()> + 'static,
    {
        let name = Arc::clone(store.name());
        self.add_filled_store(store, from, consumed, supplier)?;
        self.set_source_topic(&name, &Arc::from(from.topic));
        Ok(())
    }

    fn add_filled_store<K: Data, V: Data, P>(
        &mut self,
        store: Arc<dyn StoreBuilder>,
        from: StoreSource<'_>,
        consumed: Consumed<K, V>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
    ) -> Result<(), TopologyError>
    where
        P: Processor<K, V, (), ()> + 'static,
    {
        let topics = SourceTopics::Named(vec![Arc::from(from.topic)]);
        let source = self.add_source(from.source, topics, consumed)?;
        let _: NodeHandle<(), ()> = self.add_processor(from.processor, supplier, &[&source])?;
        self.add_state_store(store, &[from.processor])
    }
}
