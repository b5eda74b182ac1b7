//! Tables whose values are computed of another table's, each on its own: what `filter` and `map_values` make.

use super::kept::{Kept, KeptStore, KeptTable};
use super::{KTable, TableSettings};
use crate::dsl::graph::GraphTraits;
use crate::dsl::table_view::{MakeGetter, TableGetter, TableSwitches, TableView, ValueGetter};
use crate::dsl::{GraphNode, Written};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::serde::SerdeRef;
use crate::topology::{NodeFactory, Topology};
use std::rc::Rc;
use std::sync::Arc;

/// The value of a key, made of another table's; none when the key is to have none.
pub(crate) type Compute<K, V, V2> = Arc<dyn Fn(&K, V) -> Result<Option<V2>, Failure> + Send + Sync>;

/// An operator that makes a computed table.
pub(crate) struct Computing<'a, K, V, V2> {
    pub(crate) prefix: &'a str,
    pub(crate) settings: TableSettings<K, V2>,
    /// The serde of the values if the settings have none.
    pub(crate) value_serde: Option<SerdeRef<V2>>,
    pub(crate) compute: Compute<K, V, V2>,
    /// A change from no value to no value is not given on.
    pub(crate) skips_nothing: bool,
}

impl<K: Data, V: Data> KTable<K, V> {
    /// Adds a node that computes a table of this one.
    pub(crate) fn computed<V2: Data>(&self, computing: Computing<'_, K, V, V2>) -> KTable<K, V2> {
        let settled = self.settled(computing.prefix, computing.settings, computing.value_serde);
        let switches = settled.switches();
        // Where old values are to be had for nothing, they save tombstones of keys that never had a value.
        if computing.skips_nothing && self.view.send_old_values(false) {
            switches.send_old_values();
        }
        let factory = ComputedFactory {
            store: settled.kept.as_ref().map(|kept| kept.store.clone()),
            switches: Arc::clone(&switches),
            compute: Arc::clone(&computing.compute),
            skips_nothing: computing.skips_nothing && !self.view.is_versioned(),
        };
        let view = ComputedView {
            parent: Rc::clone(&self.view),
            kept: settled.kept.clone(),
            is_versioned: settled.is_versioned,
            switches,
            compute: computing.compute,
        };
        self.add_table(settled, factory.make(), view)
    }
}

/// A table that is about to be added: its name, its serdes and its store.
pub(crate) struct Settled<K, V> {
    pub(crate) name: Arc<str>,
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
    pub(crate) queryable_store: Option<Arc<str>>,
    pub(crate) kept: Option<Kept<K, V>>,
    /// Whether the table tells of older versions, as its `Materialized` says; none if that is for the parent to say.
    pub(crate) is_versioned: Option<bool>,
}

impl<K, V> Settled<K, V> {
    pub(crate) fn switches(&self) -> Arc<TableSwitches> {
        match &self.kept {
            Some(kept) => Arc::clone(&kept.store.switches),
            None => TableSwitches::new(false),
        }
    }
}

impl<K: Data, V: Data> KTable<K, V> {
    /// Draws the name of a table below this one. It is kept only under a name of the application's.
    pub(crate) fn settled<V2: Data>(
        &self,
        prefix: &str,
        settings: TableSettings<K, V2>,
        value_serde: Option<SerdeRef<V2>>,
    ) -> Settled<K, V2> {
        let mut materialized = settings.materialized;
        if let Some(materialized) = &mut materialized {
            if materialized.name.is_none() {
                // Kafka Streams draws a number here that it does not use.
                self.builder.new_store_name(prefix);
            }
            if materialized.key_serde.is_none() {
                materialized.key_serde.clone_from(&self.key_serde);
            }
            if materialized.value_serde.is_none() {
                materialized.value_serde = value_serde.clone();
            }
        }
        let name = self.builder.node_name(settings.name.as_deref(), prefix);
        self.settled_as(name, materialized, value_serde)
    }

    /// As `settled`, of a name and a store that are drawn.
    pub(crate) fn settled_as<V2: Data>(
        &self,
        name: Arc<str>,
        materialized: Option<crate::dsl::Materialized<K, V2>>,
        value_serde: Option<SerdeRef<V2>>,
    ) -> Settled<K, V2> {
        let serdes = materialized.as_ref().map_or_else(
            || (self.key_serde.clone(), value_serde),
            |materialized| {
                (
                    materialized.key_serde.clone(),
                    materialized.value_serde.clone(),
                )
            },
        );
        // A `Materialized` without the name of a store decides it, though nothing is kept.
        let is_versioned = materialized
            .as_ref()
            .map(|materialized| materialized.history_retention_ms.is_some());
        let kept = materialized.and_then(|materialized| {
            let store: Arc<str> = Arc::from(materialized.name.as_deref()?);
            self.builder.check(crate::topology::check_name(&store));
            Some(Kept::new(&store, materialized, true))
        });
        Settled {
            name,
            key_serde: serdes.0,
            value_serde: serdes.1,
            queryable_store: kept.as_ref().map(|kept| Arc::clone(&kept.store.name)),
            kept,
            is_versioned,
        }
    }

    /// Adds the node of a table below this one.
    pub(crate) fn add_table<V2: Data>(
        &self,
        settled: Settled<K, V2>,
        factory: NodeFactory,
        view: impl TableView<K, V2> + 'static,
    ) -> KTable<K, V2> {
        self.add_connected_table(settled, factory, view, Vec::new())
    }

    /// As `add_table`; the node is connected to `stores`.
    pub(crate) fn add_connected_table<V2: Data>(
        &self,
        settled: Settled<K, V2>,
        factory: NodeFactory,
        view: impl TableView<K, V2> + 'static,
        stores: Vec<Arc<str>>,
    ) -> KTable<K, V2> {
        let (name, kept) = (Arc::clone(&settled.name), settled.kept);
        let node = GraphNode::new(
            &settled.name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_processor_node(&name, written.parents, Arc::clone(&factory))?;
                for store in &stores {
                    topology.connect(&name, store)?;
                }
                kept.as_ref()
                    .map_or(Ok(()), |kept| kept.write(topology, written, &name))
            },
        );
        KTable {
            builder: self.builder.clone(),
            name: settled.name,
            node: self.builder.add(node, &[self.node]),
            sources: Arc::clone(&self.sources),
            key_serde: settled.key_serde,
            value_serde: settled.value_serde,
            queryable_store: settled.queryable_store,
            view: Rc::new(view),
        }
    }
}

struct ComputedView<K, V, V2> {
    parent: Rc<dyn TableView<K, V>>,
    kept: Option<Kept<K, V2>>,
    is_versioned: Option<bool>,
    switches: Arc<TableSwitches>,
    compute: Compute<K, V, V2>,
}

impl<K: Data, V: Data, V2: Data> TableView<K, V2> for ComputedView<K, V, V2> {
    fn send_old_values(&self, force: bool) -> bool {
        let sends = self.kept.is_some() || self.parent.send_old_values(force);
        if sends {
            self.switches.send_old_values();
        }
        sends
    }

    fn getter(&self) -> TableGetter<K, V2> {
        if let Some(kept) = &self.kept {
            return kept.store.getter();
        }
        let parent = self.parent.getter();
        let compute = Arc::clone(&self.compute);
        let make: MakeGetter<K, V2> = Arc::new(move |instantiation| {
            Ok(Box::new(ComputedValues {
                parent: (parent.make)(instantiation)?,
                compute: Arc::clone(&compute),
            }))
        });
        TableGetter {
            stores: parent.stores,
            make,
        }
    }

    fn is_versioned(&self) -> bool {
        self.is_versioned
            .unwrap_or_else(|| self.parent.is_versioned())
    }
}

struct ComputedValues<K, V, V2> {
    parent: Box<dyn ValueGetter<K, V>>,
    compute: Compute<K, V, V2>,
}

impl<K, V, V2> ComputedValues<K, V, V2> {
    fn computed(
        &self,
        key: &K,
        value: Option<ValueAndTimestamp<V>>,
    ) -> Result<Option<ValueAndTimestamp<V2>>, Failure> {
        let Some(ValueAndTimestamp {
            value,
            timestamp_ms,
        }) = value
        else {
            return Ok(None);
        };
        let value = (self.compute)(key, value)?;
        Ok(value.map(|value| ValueAndTimestamp {
            value,
            timestamp_ms,
        }))
    }
}

impl<K: Data, V: Data, V2: Data> ValueGetter<K, V2> for ComputedValues<K, V, V2> {
    fn get(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V2>>, Failure> {
        let value = self.parent.get(context, key)?;
        self.computed(key, value)
    }

    fn get_as_of(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<ValueAndTimestamp<V2>>, Failure> {
        let value = self.parent.get_as_of(context, key, timestamp_ms)?;
        self.computed(key, value)
    }
}

struct ComputedFactory<K, V, V2> {
    store: Option<KeptStore>,
    switches: Arc<TableSwitches>,
    compute: Compute<K, V, V2>,
    skips_nothing: bool,
}

impl<K: Data, V: Data, V2: Data> ComputedFactory<K, V, V2> {
    fn make(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let table = KeptTable::of(self.store.as_ref(), &self.switches, instantiation)?;
            Ok(instantiation.node::<K, Change<V>>(ComputedNode {
                table,
                compute: Arc::clone(&self.compute),
                skips_nothing: self.skips_nothing,
            }))
        })
    }
}

struct ComputedNode<K: Data, V, V2: Data> {
    table: KeptTable<K, V2>,
    compute: Compute<K, V, V2>,
    skips_nothing: bool,
}

impl<K: Data, V: Data, V2: Data> ComputedNode<K, V, V2> {
    fn computed(&self, key: &K, value: Option<V>) -> Result<Option<V2>, Failure> {
        match value {
            Some(value) => (self.compute)(key, value),
            None => Ok(None),
        }
    }
}

impl<K: Data, V: Data, V2: Data> NodeLife for ComputedNode<K, V, V2> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }
}

impl<K: Data, V: Data, V2: Data> Node<K, Change<V>> for ComputedNode<K, V, V2> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        let Record {
            key,
            value: change,
            timestamp_ms,
            headers,
        } = record;
        let new = self.computed(&key, change.new)?;
        let old = match (self.table.sends_old_values(), self.table.is_stored()) {
            (false, _) => None,
            (true, true) => self.table.stored(&key)?.map(|stored| stored.value),
            (true, false) => self.computed(&key, change.old)?,
        };
        let sends_old_values = self.table.sends_old_values();
        if self.skips_nothing && sends_old_values && old.is_none() && new.is_none() {
            return Ok(());
        }
        let change = Change {
            new,
            old,
            is_latest: change.is_latest,
        };
        let record = Record {
            key,
            value: change,
            timestamp_ms,
            headers,
        };
        self.table.change(context, record)
    }
}
