//! `KTable::group_by`: the changes of a table under other keys, for a `KGroupedTable`.

use super::KTable;
use super::grouped::KGroupedTable;
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, Grouped, Written};
use crate::error::Failure;
use crate::processor::{Outputs, TaskContext, UpgradeFrom};
use crate::record::{Change, Data, Record};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::{NodeFactory, Topology, stateless_factory};
use std::sync::Arc;

impl<K: Data, V: Data> KTable<K, V> {
    /// The keys and values under another key and value that `mapper` makes of each, to be counted, reduced or
    /// aggregated. A key or a value that is null is left out.
    pub fn group_by<K2, V2>(
        &self,
        mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
    ) -> KGroupedTable<K2, V2>
    where
        K2: Data + DefaultSerde + PartialEq,
        V2: Data + DefaultSerde,
    {
        self.group_by_with(mapper, Grouped::default())
    }

    /// As `group_by`, with these serdes and this name.
    pub fn group_by_with<K2, V2>(
        &self,
        mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
        grouped: Grouped<K2, V2>,
    ) -> KGroupedTable<K2, V2>
    where
        K2: Data + PartialEq,
        V2: Data,
    {
        self.view.send_old_values(true);
        let name = self
            .builder
            .node_name(grouped.name.as_deref(), "KTABLE-SELECT-");
        let serdes = (
            Arc::clone(&grouped.key_serde),
            Arc::clone(&grouped.value_serde),
        );
        let factory = selection(mapper, serdes, self.view.is_versioned());
        let written_name = Arc::clone(&name);
        let traits = GraphTraits {
            changes_keys: true,
            ..GraphTraits::default()
        };
        let node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        let node = self.builder.add(node, &[self.node]);
        KGroupedTable::new(&self.builder, node, grouped)
    }
}

/// Makes the node that selects keys and values.
fn selection<K: Data, V: Data, K2: Data + PartialEq, V2: Data>(
    mapper: impl Fn(&K, &V) -> (K2, V2) + Send + Sync + 'static,
    (key_serde, value_serde): (SerdeRef<K2>, SerdeRef<V2>),
    is_versioned: bool,
) -> NodeFactory {
    let select = move |key: &K, value: Option<V>| {
        value
            .map(|value| mapper(key, &value))
            .filter(|(key, value)| !key_serde.is_null(key) && !value_serde.is_null(value))
    };
    stateless_factory(
        move |context: &mut TaskContext,
              record: Record<K, Change<V>>,
              outputs: &Outputs<K2, Change<V2>>| {
            let change = record.value;
            // What is not the newest value of its key is not in the aggregate, and is not to be.
            if is_versioned && !change.is_latest {
                return Ok(());
            }
            let parts_changes = context.upgrade_from.is_some_and(UpgradeFrom::parts_changes);
            let new = select(&record.key, change.new);
            let old = select(&record.key, change.old);
            let mut forward = |key, new, old| -> Result<(), Failure> {
                let record = Record {
                    key,
                    value: Change {
                        new,
                        old,
                        is_latest: change.is_latest,
                    },
                    timestamp_ms: record.timestamp_ms,
                    headers: record.headers.clone(),
                };
                outputs.forward(context, record)
            };
            match (new, old) {
                (Some((key, new)), Some((old_key, old))) if key == old_key && !parts_changes => {
                    forward(key, Some(new), Some(old))
                }
                (new, old) => {
                    if let Some((key, old)) = old {
                        forward(key, None, Some(old))?;
                    }
                    match new {
                        Some((key, new)) => forward(key, Some(new), None),
                        None => Ok(()),
                    }
                }
            }
        },
    )
}
