//! Joins of a stream with a table by the stream's key.

use super::lookup::{Lookup, LookupJoiner, TableKey};
use super::{Joined, same_builder};
use crate::dsl::graph::GraphTraits;
use crate::dsl::table::KTable;
use crate::dsl::table_view::TableGetter;
use crate::dsl::{GraphNode, KStream, Nullable, Written};
use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::buffer_builders::GraceBufferBuilder;
use crate::state::{StoreBuilder, StoreType};
use crate::topology::{NodeFactory, Topology, TopologyError, check_name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const INNER: &str = "KSTREAM-JOIN-";
const LEFT: &str = "KSTREAM-LEFTJOIN-";

impl<K: Data, VIn: Data> KStream<K, VIn> {
    /// The records whose key `table` has, with the value that `joiner` makes of both values. Records without a key or
    /// a value are dropped; changes of the table alone give nothing.
    ///
    /// The stream's keys and values may be of `Option` types where the table's and the joiner's are not.
    ///
    /// ```
    /// use riverrun_streams::dsl::StreamsBuilder;
    ///
    /// let builder = StreamsBuilder::new();
    /// let prices = builder.table::<String, i64>("prices");
    /// builder
    ///     .stream::<Option<String>, i64>("orders")
    ///     .join_table(&prices, |count, price| count * price)
    ///     .to("amounts");
    /// # Ok::<(), riverrun_streams::topology::TopologyError>(())
    /// ```
    pub fn join_table<V, KT, V2, VOut>(
        &self,
        table: &KTable<KT, V2>,
        joiner: impl Fn(&V, &V2) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        K: Nullable<KT> + DefaultSerde,
        VIn: Nullable<V> + DefaultSerde,
        V: Data,
        KT: Data,
        V2: Data,
        VOut: Data,
    {
        let joined = Joined::with(self.keys(), self.values());
        self.join_table_with(table, move |_, left, right| joiner(left, right), joined)
    }

    /// As `join_table`, as `joined` says; `joiner` gets the key too.
    pub fn join_table_with<V, KT, V2, VOut>(
        &self,
        table: &KTable<KT, V2>,
        joiner: impl Fn(&K, &V, &V2) -> VOut + Send + Sync + 'static,
        joined: Joined<K, VIn>,
    ) -> KStream<K, VOut>
    where
        K: Nullable<KT>,
        VIn: Nullable<V>,
        V: Data,
        KT: Data,
        V2: Data,
        VOut: Data,
    {
        let joiner: LookupJoiner<K, V, V2, VOut> =
            Arc::new(move |key, left, right| Some(joiner(key, left, right?)));
        self.joined_with_table(table, INNER, joiner, joined)
    }

    /// All records, with the value that `joiner` makes of the record's value and of the table's, if it has one. Records
    /// without a value are dropped; changes of the table alone give nothing.
    pub fn left_join_table<V, KT, V2, VOut>(
        &self,
        table: &KTable<KT, V2>,
        joiner: impl Fn(&V, Option<&V2>) -> VOut + Send + Sync + 'static,
    ) -> KStream<K, VOut>
    where
        K: Nullable<KT> + DefaultSerde,
        VIn: Nullable<V> + DefaultSerde,
        V: Data,
        KT: Data,
        V2: Data,
        VOut: Data,
    {
        let joined = Joined::with(self.keys(), self.values());
        self.left_join_table_with(table, move |_, left, right| joiner(left, right), joined)
    }

    /// As `left_join_table`, as `joined` says; `joiner` gets the key too.
    pub fn left_join_table_with<V, KT, V2, VOut>(
        &self,
        table: &KTable<KT, V2>,
        joiner: impl Fn(&K, &V, Option<&V2>) -> VOut + Send + Sync + 'static,
        joined: Joined<K, VIn>,
    ) -> KStream<K, VOut>
    where
        K: Nullable<KT>,
        VIn: Nullable<V>,
        V: Data,
        KT: Data,
        V2: Data,
        VOut: Data,
    {
        let joiner: LookupJoiner<K, V, V2, VOut> =
            Arc::new(move |key, left, right| Some(joiner(key, left, right)));
        self.joined_with_table(table, LEFT, joiner, joined)
    }

    fn joined_with_table<V, KT, V2, VOut>(
        &self,
        table: &KTable<KT, V2>,
        prefix: &str,
        joiner: LookupJoiner<K, V, V2, VOut>,
        joined: Joined<K, VIn>,
    ) -> KStream<K, VOut>
    where
        K: Nullable<KT>,
        VIn: Nullable<V>,
        V: Data,
        KT: Data,
        V2: Data,
        VOut: Data,
    {
        let key_serde = joined.key_serde.or_else(|| self.key_serde.clone());
        let value_serde = joined.value_serde.or_else(|| self.value_serde.clone());
        let stream = match self.repartition_required {
            false => self.clone(),
            true => {
                let serdes = (
                    self.builder.required(&self.name, key_serde.clone()),
                    self.builder.required(&self.name, value_serde.clone()),
                );
                self.repartitioned_for_join(joined.name.clone(), serdes)
            }
        };
        let name = self.builder.node_name(joined.name.as_deref(), prefix);
        same_builder(&self.builder, &table.builder, &name);
        let getter = table.view.getter();
        let takes_null_keys = prefix == LEFT;
        let serdes = (key_serde.clone(), value_serde.clone());
        let buffer = joined
            .grace_period_ms
            .map(|grace_ms| self.grace_buffer(&name, table.view.is_versioned(), grace_ms, serdes));
        let lookup = Lookup {
            getter: Arc::clone(&getter.make),
            table_key: TableKey::Own(K::as_option, key_serde.clone()),
            takes_null_keys,
            value_serde,
            joiner,
            buffer: buffer.as_ref().map(|buffer| Arc::clone(buffer.name())),
        };
        let sources: BTreeSet<Arc<str>> = stream.sources.union(&table.sources).cloned().collect();
        let traits = GraphTraits {
            takes_null_keys,
            ..GraphTraits::default()
        };
        let write = write_lookup(&name, (getter, buffer), sources.clone(), lookup.factory());
        let node = GraphNode::new(&name, traits, write);
        let node = self.builder.add(node, &[stream.node]);
        KStream::new(&self.builder, &name, node, sources, (key_serde, None))
    }

    /// The store of the records of a join that waits for its table.
    fn grace_buffer(
        &self,
        name: &str,
        is_versioned: bool,
        grace_ms: i64,
        (key_serde, value_serde): (Option<SerdeRef<K>>, Option<SerdeRef<VIn>>),
    ) -> Arc<dyn StoreBuilder> {
        if !is_versioned {
            self.builder.check::<()>(Err(TopologyError::Operator {
                operator: name.to_owned(),
                problem: "a grace period needs a table whose store is versioned".to_owned(),
            }));
        }
        let store = format!("{name}-Buffer");
        self.builder.check(check_name(&store));
        Arc::new(GraceBufferBuilder::new(
            &store,
            StoreType::Persistent,
            grace_ms,
            self.builder.required(name, key_serde),
            self.builder.required(name, value_serde),
            Some(BTreeMap::new()),
        ))
    }
}

/// Writes the node of a join.
fn write_lookup<KT, V2>(
    name: &Arc<str>,
    (getter, buffer): (TableGetter<KT, V2>, Option<Arc<dyn StoreBuilder>>),
    sources: BTreeSet<Arc<str>>,
    factory: NodeFactory,
) -> impl Fn(&mut Topology, &Written<'_>) -> Result<(), TopologyError> + use<KT, V2> {
    let name = Arc::clone(name);
    let sources: Vec<Arc<str>> = sources.into_iter().collect();
    move |topology, written| {
        topology.add_processor_node(&name, written.parents, Arc::clone(&factory))?;
        // As in Kafka Streams, a processor's own store is connected before those of its table: `describe()` shows names
        // that share a bucket of a hash set in this order.
        if let Some(buffer) = &buffer {
            topology.add_state_store(Arc::clone(buffer), &[&name])?;
        }
        for store in &getter.stores {
            topology.connect(&name, store)?;
        }
        topology.copartition(&sources)
    }
}
