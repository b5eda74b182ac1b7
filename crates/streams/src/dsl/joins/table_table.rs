//! Joins of two tables by their keys.
//!
//! Two nodes, one below each table, read the other table's value and give joined changes to a third, which merges them
//! and keeps the result if it is to be kept.

use super::{both_parents, same_builder};
use crate::dsl::graph::GraphTraits;
use crate::dsl::table::{KTable, Kept, KeptStore, KeptTable, TableSettings};
use crate::dsl::table_view::{MakeGetter, TableGetter, TableSwitches, TableView, ValueGetter};
use crate::dsl::{GraphNode, Nullable, Written};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::topology::{NodeFactory, Topology, TopologyError, check_name};
use std::rc::Rc;
use std::sync::Arc;

/// The joined value of what the left and the right table have; none when that joins to nothing.
type Joiner<V1, V2, V> = Arc<dyn Fn(Option<&V1>, Option<&V2>) -> Option<V> + Send + Sync>;

/// Which side must have a value.
#[derive(Debug, Clone, Copy)]
struct Needs {
    left: bool,
    right: bool,
}

impl<K: Data, V: Data> KTable<K, V> {
    /// The keys that both tables have, with the value that `joiner` makes of both values. Where a joiner gives `None`
    /// the key has no value; then the type of the values must be named, as with `map_values`.
    pub fn join<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(&V, &V2) -> N + Send + Sync + 'static,
    ) -> KTable<K, V3> {
        self.join_with(other, joiner, TableSettings::default())
    }

    /// As `join`, named and kept as `settings` say. A store needs a serde of the values.
    pub fn join_with<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(&V, &V2) -> N + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V3>>,
    ) -> KTable<K, V3> {
        let needs = Needs {
            left: true,
            right: true,
        };
        let joiner: Joiner<V, V2, V3> =
            Arc::new(move |left, right| joiner(left?, right?).into_option());
        self.joined(other, needs, joiner, settings.into())
    }

    /// The keys of this table, with the value that `joiner` makes of its value and of the other's, if it has one.
    pub fn left_join<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(&V, Option<&V2>) -> N + Send + Sync + 'static,
    ) -> KTable<K, V3> {
        self.left_join_with(other, joiner, TableSettings::default())
    }

    /// As `left_join`, named and kept as `settings` say. A store needs a serde of the values.
    pub fn left_join_with<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(&V, Option<&V2>) -> N + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V3>>,
    ) -> KTable<K, V3> {
        let needs = Needs {
            left: true,
            right: false,
        };
        let joiner: Joiner<V, V2, V3> =
            Arc::new(move |left, right| joiner(left?, right).into_option());
        self.joined(other, needs, joiner, settings.into())
    }

    /// The keys that one of the tables has at least, with the value that `joiner` makes of the values that there are.
    pub fn outer_join<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(Option<&V>, Option<&V2>) -> N + Send + Sync + 'static,
    ) -> KTable<K, V3> {
        self.outer_join_with(other, joiner, TableSettings::default())
    }

    /// As `outer_join`, named and kept as `settings` say. A store needs a serde of the values.
    pub fn outer_join_with<V2: Data, V3: Data, N: Nullable<V3>>(
        &self,
        other: &KTable<K, V2>,
        joiner: impl Fn(Option<&V>, Option<&V2>) -> N + Send + Sync + 'static,
        settings: impl Into<TableSettings<K, V3>>,
    ) -> KTable<K, V3> {
        let needs = Needs {
            left: false,
            right: false,
        };
        let joiner: Joiner<V, V2, V3> = Arc::new(move |left, right| {
            let is_there = left.is_some() || right.is_some();
            is_there
                .then(|| joiner(left, right))
                .and_then(N::into_option)
        });
        self.joined(other, needs, joiner, settings.into())
    }

    fn joined<V2: Data, V3: Data>(
        &self,
        other: &KTable<K, V2>,
        needs: Needs,
        joiner: Joiner<V, V2, V3>,
        settings: TableSettings<K, V3>,
    ) -> KTable<K, V3> {
        const MERGE: &str = "KTABLE-MERGE-";
        let (name, mut materialized) = (settings.name, settings.materialized);
        let mut store = None;
        if let Some(materialized) = &mut materialized {
            store = Some(match &materialized.name {
                Some(name) => {
                    self.builder.check(check_name(name));
                    Arc::from(name.as_str())
                }
                None => self.builder.new_store_name(MERGE),
            });
            if materialized.key_serde.is_none() {
                materialized.key_serde.clone_from(&self.key_serde);
            }
        }
        let merge = self.builder.node_name(name.as_deref(), MERGE);
        same_builder(&self.builder, &other.builder, &merge);
        let side = |suffix: &str, prefix: &str| {
            let name = name.as_ref().map(|name| format!("{name}{suffix}"));
            self.builder.node_name(name.as_deref(), prefix)
        };
        let names = JoinNames {
            this: side("-join-this", "KTABLE-JOINTHIS-"),
            other: side("-join-other", "KTABLE-JOINOTHER-"),
            merge: Arc::clone(&merge),
        };
        // A side that may be missing joins to a value, so its end must be told from its never having been there.
        if !needs.right {
            self.view.send_old_values(true);
        }
        if !needs.left {
            other.view.send_old_values(true);
        }
        let serdes = materialized.as_ref().map_or_else(
            || (self.key_serde.clone(), None),
            |materialized| {
                let values = materialized.value_serde.clone();
                (materialized.key_serde.clone(), values)
            },
        );
        let queryable_store = materialized
            .as_ref()
            .and_then(|materialized| materialized.name.as_deref())
            .map(Arc::from);
        let kept = store
            .zip(materialized)
            .map(|(store, materialized)| Kept::new(&store, materialized, true));
        let view = JoinedView {
            left: Rc::clone(&self.view),
            right: Rc::clone(&other.view),
            switches: kept.as_ref().map_or_else(
                || TableSwitches::new(false),
                |kept| Arc::clone(&kept.store.switches),
            ),
            kept,
            joiner,
        };
        let sources = self.sources.union(&other.sources).cloned().collect();
        let sources = Arc::new(sources);
        let write = view.write(names, needs, Arc::clone(&sources));
        let node = GraphNode::new(&merge, GraphTraits::default(), write);
        KTable {
            builder: self.builder.clone(),
            name: merge,
            node: self.builder.add(node, &[self.node, other.node]),
            sources,
            key_serde: serdes.0,
            value_serde: serdes.1,
            queryable_store,
            view: Rc::new(view),
        }
    }
}

struct JoinNames {
    this: Arc<str>,
    other: Arc<str>,
    merge: Arc<str>,
}

struct JoinedView<K, V1, V2, V> {
    left: Rc<dyn TableView<K, V1>>,
    right: Rc<dyn TableView<K, V2>>,
    kept: Option<Kept<K, V>>,
    switches: Arc<TableSwitches>,
    joiner: Joiner<V1, V2, V>,
}

impl<K: Data, V1: Data, V2: Data, V: Data> JoinedView<K, V1, V2, V> {
    /// Writes the three nodes.
    fn write(
        &self,
        names: JoinNames,
        needs: Needs,
        sources: crate::dsl::stream::SourceNames,
    ) -> impl Fn(&mut Topology, &Written<'_>) -> Result<(), TopologyError> + use<K, V1, V2, V> {
        let (left, right) = (self.left.getter(), self.right.getter());
        let (from_left, from_right) = (Arc::clone(&self.joiner), Arc::clone(&self.joiner));
        let this = SideFactory {
            getter: Arc::clone(&right.make),
            join: Arc::new(move |own, other| from_left(own, other)),
            needs_other: needs.right,
            is_versioned: self.left.is_versioned(),
            switches: Arc::clone(&self.switches),
        };
        let other = SideFactory {
            getter: Arc::clone(&left.make),
            join: Arc::new(move |own, other| from_right(other, own)),
            needs_other: needs.left,
            is_versioned: self.right.is_versioned(),
            switches: Arc::clone(&self.switches),
        };
        let store = self.kept.as_ref().map(|kept| kept.store.clone());
        let (this, other) = (this.factory(), other.factory());
        let merge = merge_factory::<K, V>(store, Arc::clone(&self.switches));
        let kept = self.kept.clone();
        move |topology, written| {
            let (left_parent, right_parent) = both_parents(written);
            let parents = [Arc::clone(left_parent)];
            topology.add_processor_node(&names.this, &parents, Arc::clone(&this))?;
            let parents = [Arc::clone(right_parent)];
            topology.add_processor_node(&names.other, &parents, Arc::clone(&other))?;
            let parents = [Arc::clone(&names.this), Arc::clone(&names.other)];
            topology.add_processor_node(&names.merge, &parents, Arc::clone(&merge))?;
            for store in &right.stores {
                topology.connect(&names.this, store)?;
            }
            for store in &left.stores {
                topology.connect(&names.other, store)?;
            }
            let sources: Vec<Arc<str>> = sources.iter().cloned().collect();
            topology.copartition(&sources)?;
            kept.as_ref()
                .map_or(Ok(()), |kept| kept.write(topology, written, &names.merge))
        }
    }
}

impl<K: Data, V1: Data, V2: Data, V: Data> TableView<K, V> for JoinedView<K, V1, V2, V> {
    fn send_old_values(&self, _: bool) -> bool {
        self.left.send_old_values(true);
        self.right.send_old_values(true);
        self.switches.send_old_values();
        true
    }

    fn getter(&self) -> TableGetter<K, V> {
        if let Some(kept) = &self.kept {
            return kept.store.getter();
        }
        let (left, right) = (self.left.getter(), self.right.getter());
        let joiner = Arc::clone(&self.joiner);
        let mut stores = left.stores;
        stores.extend(right.stores);
        let make: MakeGetter<K, V> = Arc::new(move |instantiation| {
            Ok(Box::new(JoinedValues {
                left: (left.make)(instantiation)?,
                right: (right.make)(instantiation)?,
                joiner: Arc::clone(&joiner),
            }))
        });
        TableGetter { stores, make }
    }

    fn is_versioned(&self) -> bool {
        self.kept
            .as_ref()
            .is_some_and(|kept| kept.store.is_versioned)
    }
}

/// Joins when it is asked.
struct JoinedValues<K, V1, V2, V> {
    left: Box<dyn ValueGetter<K, V1>>,
    right: Box<dyn ValueGetter<K, V2>>,
    joiner: Joiner<V1, V2, V>,
}

impl<K: Data, V1: Data, V2: Data, V: Data> ValueGetter<K, V> for JoinedValues<K, V1, V2, V> {
    fn get(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        let left = self.left.get(context, key)?;
        let right = self.right.get(context, key)?;
        let times = (
            left.as_ref().map(|left| left.timestamp_ms),
            right.as_ref().map(|right| right.timestamp_ms),
        );
        let value = (self.joiner)(
            left.as_ref().map(|left| &left.value),
            right.as_ref().map(|right| &right.value),
        );
        // The later of both; one that is missing has no time.
        let timestamp_ms = times.0.max(times.1);
        Ok(value
            .zip(timestamp_ms)
            .map(|(value, timestamp_ms)| ValueAndTimestamp {
                value,
                timestamp_ms,
            }))
    }
}

/// Makes the node below one table, which reads the other.
struct SideFactory<K, Own, Other, V> {
    getter: MakeGetter<K, Other>,
    join: Joiner<Own, Other, V>,
    needs_other: bool,
    /// Whether the own table tells of older versions.
    is_versioned: bool,
    switches: Arc<TableSwitches>,
}

impl<K: Data, Own: Data, Other: Data, V: Data> SideFactory<K, Own, Other, V> {
    fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let node = SideNode {
                getter: (self.getter)(instantiation)?,
                join: Arc::clone(&self.join),
                needs_other: self.needs_other,
                is_versioned: self.is_versioned,
                sends_old_values: self.switches.sends_old_values(),
                outputs: instantiation.outputs::<K, Change<V>>()?,
            };
            Ok(instantiation.node::<K, Change<Own>>(node))
        })
    }
}

struct SideNode<K, Own, Other, V> {
    getter: Box<dyn ValueGetter<K, Other>>,
    join: Joiner<Own, Other, V>,
    needs_other: bool,
    is_versioned: bool,
    sends_old_values: bool,
    outputs: Outputs<K, Change<V>>,
}

impl<K, Own, Other, V> NodeLife for SideNode<K, Own, Other, V> {}

impl<K: Data, Own: Data, Other: Data, V: Data> Node<K, Change<Own>> for SideNode<K, Own, Other, V> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<Own>>,
    ) -> Result<(), Failure> {
        let change = &record.value;
        // An older version joins with what is no longer there.
        if self.is_versioned && !change.is_latest {
            context.drop_record();
            return Ok(());
        }
        let other = self.getter.get(context, &record.key)?;
        let is_nothing = change.new.is_none() && change.old.is_none();
        if other.is_none() && (self.needs_other || is_nothing) {
            return Ok(());
        }
        let value = other.as_ref().map(|other| &other.value);
        let new = (self.join)(change.new.as_ref(), value);
        let old = match self.sends_old_values {
            true => (self.join)(change.old.as_ref(), value),
            false => None,
        };
        let timestamp_ms = other.as_ref().map_or(record.timestamp_ms, |other| {
            other.timestamp_ms.max(record.timestamp_ms)
        });
        let joined = Record {
            key: record.key,
            value: Change {
                new,
                old,
                is_latest: change.is_latest,
            },
            timestamp_ms,
            headers: record.headers,
        };
        self.outputs.forward(context, joined)
    }
}

/// Makes the node below both, which keeps the result if it is to be kept.
fn merge_factory<K: Data, V: Data>(
    store: Option<KeptStore>,
    switches: Arc<TableSwitches>,
) -> NodeFactory {
    Arc::new(move |instantiation| {
        let table = KeptTable::<K, V>::of(store.as_ref(), &switches, instantiation)?;
        Ok(instantiation.node::<K, Change<V>>(MergeNode { table }))
    })
}

struct MergeNode<K: Data, V: Data> {
    table: KeptTable<K, V>,
}

impl<K: Data, V: Data> NodeLife for MergeNode<K, V> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }
}

impl<K: Data, V: Data> Node<K, Change<V>> for MergeNode<K, V> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        self.table.change(context, record)
    }
}
