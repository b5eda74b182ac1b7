//! `GlobalKTable`: a table of all partitions of a topic, which every instance has as a whole.

use super::kept::Kept;
use super::source::{SourceNames, nullable_records, table_source, with_serdes};
use crate::dsl::table_view::TableGetter;
use crate::dsl::{Builder, GraphNode, Materialized, StreamsBuilder, Written};
use crate::record::Data;
use crate::serde::DefaultSerde;
use crate::topology::{Consumed, SourceTopics, Topology};
use std::fmt;
use std::sync::Arc;

/// The newest value of each key of a topic, as a whole in every instance of the application: streams join it by any
/// key. Nothing comes of its changes.
pub struct GlobalKTable<K, V> {
    pub(crate) builder: Builder,
    pub(crate) store: Arc<str>,
    queryable_store: Option<Arc<str>>,
    pub(crate) getter: TableGetter<K, V>,
}

impl<K, V> Clone for GlobalKTable<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            store: Arc::clone(&self.store),
            queryable_store: self.queryable_store.clone(),
            getter: self.getter.clone(),
        }
    }
}

impl<K, V> fmt::Debug for GlobalKTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalKTable")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<K, V> GlobalKTable<K, V> {
    /// The store that interactive queries read, if the application has named it.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable_store.as_deref()
    }
}

impl StreamsBuilder {
    /// A table of the newest value of each key of all partitions of `topic`.
    pub fn global_table<K: Data + DefaultSerde, V: Data + DefaultSerde>(
        &self,
        topic: &str,
    ) -> GlobalKTable<K, V> {
        self.global_table_with(topic, Consumed::default(), Materialized::default())
    }

    /// As `global_table`, read as `consumed` and kept as `materialized` says. The topic is its changelog.
    pub fn global_table_with<K: Data, V: Data>(
        &self,
        topic: &str,
        consumed: Consumed<K, V>,
        materialized: Materialized<K, V>,
    ) -> GlobalKTable<K, V> {
        let names = SourceNames::draw(self, topic, consumed.name.as_deref(), &materialized);
        let queryable_store = materialized.name.as_deref().map(Arc::from);
        let materialized = with_serdes(materialized, &consumed)
            .with_logging_disabled()
            .with_caching_disabled();
        let serdes = (
            materialized.key_serde.clone(),
            materialized.value_serde.clone(),
        );
        let kept = Kept::new(&names.store, materialized, true);
        let getter = kept.store.getter();
        let factory = table_source::<Option<K>, Option<V>, K, V>(&kept.store, serdes);
        let (topic, consumed) = (Arc::from(topic), nullable_records(consumed));
        let (source, table) = (names.source, Arc::clone(&names.table));
        let node = GraphNode::new(
            &names.table,
            crate::dsl::graph::GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                let topics = SourceTopics::Named(vec![Arc::clone(&topic)]);
                topology.add_source(&source, topics, consumed.clone())?;
                let parents = [Arc::clone(&source)];
                topology.add_processor_node(&table, &parents, Arc::clone(&factory))?;
                kept.write(topology, written, &table)?;
                topology.set_global(&source, &table, &kept.store.name)
            },
        );
        self.builder.add(node, &[]);
        GlobalKTable {
            builder: self.builder.clone(),
            store: names.store,
            queryable_store,
            getter,
        }
    }
}
