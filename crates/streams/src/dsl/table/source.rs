//! Tables that are made of records: of a topic (`StreamsBuilder::table`), of a stream (`KStream::to_table`), of what a
//! foreign-key join answers.

use super::KTable;
use super::kept::{Kept, KeptStore, KeptTable};
use crate::dsl::graph::GraphTraits;
use crate::dsl::table_view::{TableGetter, TableView};
use crate::dsl::{GraphNode, Materialized, Nullable, StreamsBuilder, Written};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::{DefaultSerde, SerdeRef, nullable};
use crate::topology::{
    Consumed, NodeFactory, SourceTopics, TimestampExtractor, Topology, check_name,
};
use std::rc::Rc;
use std::sync::Arc;

impl StreamsBuilder {
    /// A table of the newest value of each key of `topic`. Records without a key are dropped; one without a value
    /// deletes its key.
    pub fn table<K: Data + DefaultSerde, V: Data + DefaultSerde>(
        &self,
        topic: &str,
    ) -> KTable<K, V> {
        self.table_with(topic, Consumed::default(), Materialized::default())
    }

    /// As `table`, read as `consumed` and kept as `materialized` says. A timestamp extractor of the application's own
    /// is not asked about records without a key or a value.
    pub fn table_with<K: Data, V: Data>(
        &self,
        topic: &str,
        consumed: Consumed<K, V>,
        materialized: Materialized<K, V>,
    ) -> KTable<K, V> {
        let names = SourceNames::draw(self, topic, consumed.name.as_deref(), &materialized);
        let queryable_store = materialized.name.as_deref().map(Arc::from);
        let is_kept = queryable_store.is_some();
        let materialized = with_serdes(materialized, &consumed);
        let serdes = (
            materialized.key_serde.clone(),
            materialized.value_serde.clone(),
        );
        let kept = Kept::new(&names.store, materialized, is_kept);
        let view = SourceView(kept.clone());
        let factory = table_source::<Option<K>, Option<V>, K, V>(&kept.store, serdes.clone());
        let (topic, consumed) = (Arc::from(topic), nullable_records(consumed));
        let (source, table) = (Arc::clone(&names.source), Arc::clone(&names.table));
        let node = GraphNode::new(
            &names.table,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                let topics = SourceTopics::Named(vec![Arc::clone(&topic)]);
                topology.add_source(&source, topics, consumed.clone())?;
                let parents = [Arc::clone(&source)];
                topology.add_processor_node(&table, &parents, Arc::clone(&factory))?;
                kept.write(topology, written, &table)?;
                if written.optimization.reuse_ktable_source_topics {
                    topology.set_source_topic(&kept.store.name, &topic);
                }
                Ok(())
            },
        );
        KTable {
            builder: self.builder.clone(),
            name: names.table,
            node: self.builder.add(node, &[]),
            sources: Arc::new([names.source].into()),
            key_serde: serdes.0,
            value_serde: serdes.1,
            queryable_store,
            view: Rc::new(view),
        }
    }
}

/// The names of a table's store and nodes.
pub(crate) struct SourceNames {
    pub(crate) store: Arc<str>,
    pub(crate) source: Arc<str>,
    pub(crate) table: Arc<str>,
}

impl SourceNames {
    /// Draws them for a table of `topic`.
    pub(crate) fn draw<K, V>(
        builder: &StreamsBuilder,
        topic: &str,
        name: Option<&str>,
        materialized: &Materialized<K, V>,
    ) -> Self {
        let builder = &builder.builder;
        let store = match &materialized.name {
            Some(name) => {
                builder.check(check_name(name));
                Arc::from(name.as_str())
            }
            None => builder.new_store_name(&format!("{topic}-")),
        };
        let source = name.map(|name| format!("{name}-source"));
        Self {
            store,
            source: builder.node_name(source.as_deref(), "KSTREAM-SOURCE-"),
            table: builder.node_name(name, "KTABLE-SOURCE-"),
        }
    }
}

/// `materialized` with the serdes that a topic is read by where it has none of its own.
pub(crate) fn with_serdes<K, V>(
    mut materialized: Materialized<K, V>,
    consumed: &Consumed<K, V>,
) -> Materialized<K, V> {
    materialized
        .key_serde
        .get_or_insert_with(|| Arc::clone(&consumed.key_serde));
    materialized
        .value_serde
        .get_or_insert_with(|| Arc::clone(&consumed.value_serde));
    materialized
}

/// Reads records that may have no key and no value.
pub(crate) fn nullable_records<K: Data, V: Data>(
    consumed: Consumed<K, V>,
) -> Consumed<Option<K>, Option<V>> {
    Consumed {
        key_serde: nullable(consumed.key_serde),
        value_serde: nullable(consumed.value_serde),
        timestamp_extractor: consumed.timestamp_extractor.map(nullable_extractor),
        auto_offset_reset: consumed.auto_offset_reset,
        name: consumed.name,
    }
}

/// An extractor of records with a key and a value; without one of them a record has its own time.
fn nullable_extractor<K: Data, V: Data>(
    extractor: TimestampExtractor<K, V>,
) -> TimestampExtractor<Option<K>, Option<V>> {
    match extractor {
        TimestampExtractor::FailOnInvalidTimestamp => TimestampExtractor::FailOnInvalidTimestamp,
        TimestampExtractor::LogAndSkipOnInvalidTimestamp => {
            TimestampExtractor::LogAndSkipOnInvalidTimestamp
        }
        TimestampExtractor::UsePartitionTimeOnInvalidTimestamp => {
            TimestampExtractor::UsePartitionTimeOnInvalidTimestamp
        }
        TimestampExtractor::WallclockTimestampExtractor => {
            TimestampExtractor::WallclockTimestampExtractor
        }
        TimestampExtractor::Custom(function) => TimestampExtractor::Custom(Arc::new(
            move |record: &Record<Option<K>, Option<V>>, partition_time_ms| {
                let (Some(key), Some(value)) = (&record.key, &record.value) else {
                    return record.timestamp_ms;
                };
                let record = record.clone().with_key(key.clone());
                function(&record.with_value(value.clone()), partition_time_ms)
            },
        )),
    }
}

/// A table whose node is fed with records.
pub(crate) struct SourceView<K, V>(pub(crate) Kept<K, V>);

impl<K: Data, V: Data> TableView<K, V> for SourceView<K, V> {
    fn send_old_values(&self, force: bool) -> bool {
        let switches = &self.0.store.switches;
        if !force && !switches.is_materialized() {
            return false;
        }
        switches.materialize();
        switches.send_old_values();
        true
    }

    fn getter(&self) -> TableGetter<K, V> {
        self.0.store.switches.materialize();
        self.0.store.getter()
    }

    fn is_versioned(&self) -> bool {
        self.0.store.is_versioned
    }
}

/// Makes the node of a table that is fed with records of `KIn` and `VIn`.
pub(crate) fn table_source<KIn, VIn, K, V>(
    store: &KeptStore,
    (key_serde, value_serde): (Option<SerdeRef<K>>, Option<SerdeRef<V>>),
) -> NodeFactory
where
    KIn: Data + Nullable<K>,
    VIn: Data + Nullable<V>,
    K: Data,
    V: Data,
{
    let store = store.clone();
    Arc::new(move |instantiation| {
        Ok(instantiation.node::<KIn, VIn>(TableSource {
            table: store.table(instantiation)?,
            key_serde: key_serde.clone(),
            value_serde: value_serde.clone(),
        }))
    })
}

struct TableSource<K: Data, V: Data> {
    table: KeptTable<K, V>,
    key_serde: Option<SerdeRef<K>>,
    value_serde: Option<SerdeRef<V>>,
}

impl<K: Data, V: Data> NodeLife for TableSource<K, V> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }
}

impl<KIn, VIn, K, V> Node<KIn, VIn> for TableSource<K, V>
where
    KIn: Nullable<K>,
    VIn: Nullable<V>,
    K: Data,
    V: Data,
{
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<KIn, VIn>,
    ) -> Result<(), Failure> {
        let Some(key) = not_null(record.key, self.key_serde.as_ref()) else {
            context.drop_record();
            return Ok(());
        };
        let new = not_null(record.value, self.value_serde.as_ref());
        let old = match self.table.sends_old_values() {
            true => self.table.stored(&key)?.map(|stored| stored.value),
            false => None,
        };
        let change = Record {
            key,
            value: Change::new(new, old),
            timestamp_ms: record.timestamp_ms,
            headers: record.headers,
        };
        self.table.change(context, change)
    }
}

/// What is neither null by its type nor by its serde.
pub(crate) fn not_null<T>(value: impl Nullable<T>, serde: Option<&SerdeRef<T>>) -> Option<T> {
    value
        .into_option()
        .filter(|value| !serde.is_some_and(|serde| serde.is_null(value)))
}
