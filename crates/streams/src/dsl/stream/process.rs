//! Processors of the application below a stream.

use super::KStream;
use super::stateless::{CHANGES_KEYS, CHANGES_VALUES};
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, Written};
use crate::processor::{FixedKey, FixedKeyProcessor, Processor};
use crate::record::Data;
use crate::topology::{NodeFactory, Topology, check_name, processor_factory};
use std::sync::Arc;

impl<K: Data, V: Data> KStream<K, V> {
    /// Gives each record to a processor of the application, which is connected to these stores.
    pub fn process<K2: Data, V2: Data, P>(
        &self,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K2, V2>
    where
        P: Processor<K, V, K2, V2> + 'static,
    {
        let name = self.builder.node_name(None, "KSTREAM-PROCESSOR-");
        self.processed((name, CHANGES_KEYS), processor_factory(supplier), stores)
    }

    /// As `process`; the node has this name.
    pub fn process_named<K2: Data, V2: Data, P>(
        &self,
        name: &str,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K2, V2>
    where
        P: Processor<K, V, K2, V2> + 'static,
    {
        self.builder.check(check_name(name));
        let node = (Arc::from(name), CHANGES_KEYS);
        self.processed(node, processor_factory(supplier), stores)
    }

    /// Gives each record to a processor of the application that keeps the keys, and is connected to these stores.
    pub fn process_values<V2: Data, P>(
        &self,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K, V2>
    where
        P: FixedKeyProcessor<K, V, V2> + 'static,
    {
        let name = self.builder.node_name(None, "KSTREAM-PROCESSVALUES-");
        self.processed_values(name, supplier, stores)
    }

    /// As `process_values`; the node has this name.
    pub fn process_values_named<V2: Data, P>(
        &self,
        name: &str,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K, V2>
    where
        P: FixedKeyProcessor<K, V, V2> + 'static,
    {
        self.builder.check(check_name(name));
        self.processed_values(Arc::from(name), supplier, stores)
    }

    fn processed_values<V2: Data, P>(
        &self,
        name: Arc<str>,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: &[&str],
    ) -> KStream<K, V2>
    where
        P: FixedKeyProcessor<K, V, V2> + 'static,
    {
        let factory = processor_factory::<K, V, K, V2, _>(move || FixedKey(supplier()));
        let processed = self.processed((name, CHANGES_VALUES), factory, stores);
        KStream {
            key_serde: self.key_serde.clone(),
            ..processed
        }
    }

    fn processed<K2: Data, V2: Data>(
        &self,
        (name, traits): (Arc<str>, GraphTraits),
        factory: NodeFactory,
        stores: &[&str],
    ) -> KStream<K2, V2> {
        let stores: Vec<String> = stores.iter().map(|&store| store.to_owned()).collect();
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_processor_node(
                    &written_name,
                    written.parents,
                    Arc::clone(&factory),
                )?;
                stores
                    .iter()
                    .try_for_each(|store| topology.connect(&written_name, store))
            },
        );
        let node = self.builder.add(node.giving::<K2, V2>(), &[self.node]);
        KStream {
            builder: self.builder.clone(),
            name,
            node,
            sources: Arc::clone(&self.sources),
            repartition_required: self.repartition_required || traits.changes_keys,
            key_serde: None,
            value_serde: None,
        }
    }
}
