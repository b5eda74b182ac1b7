//! `KStream::to_table`: the records of a stream as changes of a table.

use super::kept::Kept;
use super::source::{SourceView, table_source};
use super::{KTable, TableSettings};
use crate::dsl::graph::GraphTraits;
use crate::dsl::nullable::{or_null, present};
use crate::dsl::stream::SourceNames;
use crate::dsl::{GraphNode, GraphNodeId, KStream, Materialized, Nullable, Repartition, Written};
use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::{Topology, check_name};
use std::rc::Rc;
use std::sync::Arc;

const PREFIX: &str = "KSTREAM-TOTABLE-";

impl<K: Data, V: Data> KStream<K, V> {
    /// A table of the newest value of each key. Records without a key are dropped; one without a value deletes its key.
    ///
    /// The table's types are not null: a `KStream<String, Option<i64>>` becomes a `KTable<String, i64>`.
    pub fn to_table<KT, VT>(&self) -> KTable<KT, VT>
    where
        K: Nullable<KT> + DefaultSerde,
        V: Nullable<VT> + DefaultSerde,
        KT: Data,
        VT: Data,
    {
        let mut stream = self.clone();
        stream.key_serde = Some(self.keys());
        stream.value_serde = Some(self.values());
        stream.to_table_with(TableSettings::default())
    }

    /// As `to_table`, named and kept as `settings` say, which must have serdes if the stream has none.
    pub fn to_table_with<KT, VT>(
        &self,
        settings: impl Into<TableSettings<KT, VT>>,
    ) -> KTable<KT, VT>
    where
        K: Nullable<KT>,
        V: Nullable<VT>,
        KT: Data,
        VT: Data,
    {
        let settings = settings.into();
        let name = self.builder.node_name(settings.name.as_deref(), PREFIX);
        let mut materialized = settings.materialized.unwrap_or_default();
        let queryable_store: Option<Arc<str>> = materialized.name.as_deref().map(Arc::from);
        let store = match &queryable_store {
            Some(store) => {
                self.builder.check(check_name(store));
                Arc::clone(store)
            }
            None => self.builder.new_store_name(PREFIX),
        };
        let (parent, sources) = self.repartitioned_for_table(&name, &materialized);
        let own = self.key_serde.clone().map(present);
        let key_serde = materialized.key_serde.take().or(own);
        let own = self.value_serde.clone().map(present);
        let value_serde = materialized.value_serde.take().or(own);
        materialized.key_serde.clone_from(&key_serde);
        materialized.value_serde.clone_from(&value_serde);
        let kept = Kept::new(&store, materialized, queryable_store.is_some());
        let view = SourceView(kept.clone());
        let serdes = (key_serde.clone(), value_serde.clone());
        let factory = table_source::<K, V, KT, VT>(&kept.store, serdes);
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                let factory = Arc::clone(&factory);
                topology.add_processor_node(&written_name, written.parents, factory)?;
                kept.write(topology, written, &written_name)
            },
        );
        KTable {
            builder: self.builder.clone(),
            name,
            node: self.builder.add(node, &[parent]),
            sources,
            key_serde,
            value_serde,
            queryable_store,
            view: Rc::new(view),
        }
    }

    /// The node that a table stands below: the stream's, or a repartition of it.
    fn repartitioned_for_table<KT, VT>(
        &self,
        name: &str,
        materialized: &Materialized<KT, VT>,
    ) -> (GraphNodeId, SourceNames)
    where
        K: Nullable<KT>,
        V: Nullable<VT>,
        KT: Data,
        VT: Data,
    {
        if !self.repartition_required {
            return (self.node, Arc::clone(&self.sources));
        }
        let keys: Option<SerdeRef<K>> = materialized.key_serde.clone().map(or_null);
        let values: Option<SerdeRef<V>> = materialized.value_serde.clone().map(or_null);
        let serdes = (
            self.builder
                .required(name, keys.or_else(|| self.key_serde.clone())),
            self.builder
                .required(name, values.or_else(|| self.value_serde.clone())),
        );
        let repartition = Repartition::new(&self.builder, name, serdes);
        let sources = Arc::new([Arc::clone(&repartition.source)].into());
        let node = repartition.into_graph_node();
        (self.builder.add(node, &[self.node]), sources)
    }
}
