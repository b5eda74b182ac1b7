//! Joins of a stream with a global table, by any key.

use super::lookup::{Lookup, LookupJoiner, TableKey};
use super::same_builder;
use crate::dsl::graph::GraphTraits;
use crate::dsl::table::GlobalKTable;
use crate::dsl::{GraphNode, KStream, Nullable, Written};
use crate::record::Data;
use crate::topology::Topology;
use std::sync::Arc;

/// Inner joins too have this prefix in Kafka Streams.
const PREFIX: &str = "KSTREAM-LEFTJOIN-";

impl<K: Data, VIn: Data> KStream<K, VIn> {
    /// The records for which `table` has the key that `key_of` makes of key and value, with the value that `joiner`
    /// makes of key and both values. Records without a value or without a key of the table are dropped. The table is as
    /// new as it is: it may be ahead of the record.
    pub fn join_global_table<V, KG, KM, V2, VOut>(
        &self,
        table: &GlobalKTable<KG, V2>,
        key_of: impl Fn(&K, &V) -> KM + Send + Sync + 'static,
        joiner: impl Fn(&K, &V, &V2) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        VIn: Nullable<V>,
        V: Data,
        KG: Data,
        KM: Nullable<KG>,
        V2: Data,
        VOut: Data,
    {
        self.joined_with_global(table, None, false, key_of, inner(joiner))
    }

    /// As `join_global_table`; the node has this name.
    pub fn join_global_table_named<V, KG, KM, V2, VOut>(
        &self,
        name: &str,
        table: &GlobalKTable<KG, V2>,
        key_of: impl Fn(&K, &V) -> KM + Send + Sync + 'static,
        joiner: impl Fn(&K, &V, &V2) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        VIn: Nullable<V>,
        V: Data,
        KG: Data,
        KM: Nullable<KG>,
        V2: Data,
        VOut: Data,
    {
        self.joined_with_global(table, Some(name), false, key_of, inner(joiner))
    }

    /// All records, with the value that `joiner` makes of key and value and of the table's value for the key that
    /// `key_of` makes, if it makes one and the table has one. Records without a value are dropped.
    pub fn left_join_global_table<V, KG, KM, V2, VOut>(
        &self,
        table: &GlobalKTable<KG, V2>,
        key_of: impl Fn(&K, &V) -> KM + Send + Sync + 'static,
        joiner: impl Fn(&K, &V, Option<&V2>) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        VIn: Nullable<V>,
        V: Data,
        KG: Data,
        KM: Nullable<KG>,
        V2: Data,
        VOut: Data,
    {
        self.joined_with_global(table, None, true, key_of, left(joiner))
    }

    /// As `left_join_global_table`; the node has this name.
    pub fn left_join_global_table_named<V, KG, KM, V2, VOut>(
        &self,
        name: &str,
        table: &GlobalKTable<KG, V2>,
        key_of: impl Fn(&K, &V) -> KM + Send + Sync + 'static,
        joiner: impl Fn(&K, &V, Option<&V2>) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        VIn: Nullable<V>,
        V: Data,
        KG: Data,
        KM: Nullable<KG>,
        V2: Data,
        VOut: Data,
    {
        self.joined_with_global(table, Some(name), true, key_of, left(joiner))
    }

    fn joined_with_global<V, KG, KM, V2, VOut>(
        &self,
        table: &GlobalKTable<KG, V2>,
        name: Option<&str>,
        takes_null_keys: bool,
        key_of: impl Fn(&K, &V) -> KM + Send + Sync + 'static,
        joiner: LookupJoiner<K, V, V2, VOut>,
    ) -> KStream<K, VOut>
    where
        VIn: Nullable<V>,
        V: Data,
        KG: Data,
        KM: Nullable<KG>,
        V2: Data,
        VOut: Data,
    {
        let name = self.builder.node_name(name, PREFIX);
        same_builder(&self.builder, &table.builder, &name);
        let lookup = Lookup {
            getter: Arc::clone(&table.getter.make),
            table_key: TableKey::Mapped(Arc::new(move |key: &K, value: &V| {
                key_of(key, value).into_option()
            })),
            takes_null_keys,
            value_serde: self.value_serde.clone(),
            joiner,
            buffer: None,
        };
        let factory = lookup.factory();
        let traits = GraphTraits {
            takes_null_keys,
            ..GraphTraits::default()
        };
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            traits,
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        KStream {
            builder: self.builder.clone(),
            name,
            node: self.builder.add(node, &[self.node]),
            sources: Arc::clone(&self.sources),
            repartition_required: self.repartition_required,
            key_serde: self.key_serde.clone(),
            value_serde: None,
        }
    }
}

fn inner<K, V, V2, VOut>(
    joiner: impl Fn(&K, &V, &V2) -> VOut + Send + Sync + 'static,
) -> LookupJoiner<K, V, V2, VOut> {
    Arc::new(move |key, value, found| Some(joiner(key, value, found?)))
}

fn left<K, V, V2, VOut>(
    joiner: impl Fn(&K, &V, Option<&V2>) -> VOut + Send + Sync + 'static,
) -> LookupJoiner<K, V, V2, VOut> {
    Arc::new(move |key, value, found| Some(joiner(key, value, found)))
}
