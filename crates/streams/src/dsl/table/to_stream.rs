//! `KTable::to_stream`: the changes of a table as records.

use super::KTable;
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, KStream, Written};
use crate::record::{Change, Data, Record};
use crate::serde::nullable;
use crate::topology::{Topology, stateless_factory};
use std::sync::Arc;

impl<K: Data, V: Data> KTable<K, V> {
    /// The changes as a stream of new values; none says that a key was deleted.
    pub fn to_stream(&self) -> KStream<K, Option<V>> {
        self.streamed(None)
    }

    /// As `to_stream`; the node has this name.
    pub fn to_stream_named(&self, name: &str) -> KStream<K, Option<V>> {
        self.streamed(Some(name))
    }

    /// The changes as a stream of new values, under a key that `mapper` makes of each.
    pub fn to_stream_by<K2: Data>(
        &self,
        mapper: impl Fn(&K, &Option<V>) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, Option<V>> {
        self.to_stream().select_key(mapper)
    }

    fn streamed(&self, name: Option<&str>) -> KStream<K, Option<V>> {
        let name = self.builder.node_name(name, "KTABLE-TOSTREAM-");
        let factory = stateless_factory(
            |context: &mut _,
             record: Record<K, Change<V>>,
             outputs: &crate::processor::Outputs<K, Option<V>>| {
                let record = Record {
                    key: record.key,
                    value: record.value.new,
                    timestamp_ms: record.timestamp_ms,
                    headers: record.headers,
                };
                outputs.forward(context, record)
            },
        );
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        let node = self.builder.add(node, &[self.node]);
        let serdes = (
            self.key_serde.clone(),
            self.value_serde.clone().map(nullable),
        );
        KStream::new(&self.builder, &name, node, (*self.sources).clone(), serdes)
    }
}
