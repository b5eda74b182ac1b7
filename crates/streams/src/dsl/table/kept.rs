//! The store of a table, if it has one: it may get one late, when a join or a grouping needs it.

use crate::dsl::materialized::TableOf;
use crate::dsl::stored_values::stored_values;
use crate::dsl::stores::key_value_store;
use crate::dsl::table_output::TableOutput;
use crate::dsl::table_view::{TableGetter, TableSwitches, ValueGetter};
use crate::dsl::{Materialized, Written};
use crate::error::{Failure, StreamsError};
use crate::processor::{Outputs, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::state::{
    KeyValueStore, Timestamped, VersionedKeyValueStore, VersionedPut, VersionedRecord,
};
use crate::topology::{Instantiation, Topology, TopologyError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A table's store, as the graph describes it.
pub(crate) struct Kept<K, V> {
    pub(crate) store: KeptStore,
    materialized: Materialized<K, V>,
}

/// What nodes know of a table's store.
#[derive(Clone)]
pub(crate) struct KeptStore {
    pub(crate) name: Arc<str>,
    pub(crate) switches: Arc<TableSwitches>,
    pub(crate) is_versioned: bool,
}

impl<K, V> Clone for Kept<K, V> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            materialized: self.materialized.clone(),
        }
    }
}

impl<K: Data, V: Data> Kept<K, V> {
    /// A store that the table gets now, or once its switches say so.
    pub(crate) fn new(name: &Arc<str>, materialized: Materialized<K, V>, now: bool) -> Self {
        Self {
            store: KeptStore {
                name: Arc::clone(name),
                switches: TableSwitches::new(now),
                is_versioned: materialized.history_retention_ms.is_some(),
            },
            materialized,
        }
    }

    /// Adds the store to `topology` for `node`, if the table is kept.
    pub(crate) fn write(
        &self,
        topology: &mut Topology,
        written: &Written<'_>,
        node: &str,
    ) -> Result<(), TopologyError> {
        if !self.store.switches.is_materialized() {
            return Ok(());
        }
        let materialized = &self.materialized;
        let key_serde = materialized.key_serde.as_ref();
        let key_serde = key_serde.ok_or_else(|| TopologyError::no_serde::<K>(node))?;
        let value_serde = materialized.value_serde.as_ref();
        let value_serde = value_serde.ok_or_else(|| TopologyError::no_serde::<V>(node))?;
        materialized.check(node, TableOf::Keys)?;
        let make_store = key_value_store(&self.store.name, materialized, key_serde, value_serde);
        topology.add_state_store(make_store(written.stores), &[node])
    }
}

impl KeptStore {
    /// The store of a table that is always in one.
    pub(crate) fn of_table<K, V>(name: &Arc<str>, materialized: &Materialized<K, V>) -> Self {
        Self {
            name: Arc::clone(name),
            switches: TableSwitches::new(true),
            is_versioned: materialized.history_retention_ms.is_some(),
        }
    }

    /// What a node writes the table to: its store if it has one, and its children.
    pub(crate) fn table<K: Data, V: Data>(
        &self,
        instantiation: &Instantiation<'_>,
    ) -> Result<KeptTable<K, V>, StreamsError> {
        let outputs = instantiation.outputs::<K, Change<V>>()?;
        let sends_old_values = self.switches.sends_old_values();
        if !self.switches.is_materialized() {
            return Ok(KeptTable::Nowhere {
                outputs,
                sends_old_values,
            });
        }
        if self.is_versioned {
            return Ok(KeptTable::Versions {
                store: instantiation.store(&self.name)?,
                outputs,
                sends_old_values,
            });
        }
        let store = instantiation.store(&self.name)?;
        let output = TableOutput::new(&store, outputs, sends_old_values);
        Ok(KeptTable::Newest { store, output })
    }

    /// How nodes read the store.
    pub(crate) fn getter<K: Data, V: Data>(&self) -> TableGetter<K, V> {
        let (name, is_versioned) = (Arc::clone(&self.name), self.is_versioned);
        TableGetter {
            stores: vec![Arc::clone(&self.name)],
            make: Arc::new(
                move |instantiation| -> Result<Box<dyn ValueGetter<K, V>>, StreamsError> {
                    Ok(match is_versioned {
                        true => Box::new(StoredVersions(instantiation.store(&name)?)),
                        false => Box::new(stored_values(instantiation, &name)?),
                    })
                },
            ),
        }
    }
}

/// Where a node of a task writes a table to.
pub(crate) enum KeptTable<K: Data, V: Data> {
    /// The newest value of each key is in a store.
    Newest {
        store: Rc<RefCell<KeyValueStore<K, V>>>,
        output: TableOutput<KeyValueStore<K, V>>,
    },
    /// A store has older values too.
    Versions {
        store: Rc<RefCell<VersionedKeyValueStore<K, V>>>,
        outputs: Outputs<K, Change<V>>,
        sends_old_values: bool,
    },
    /// The table is in no store.
    Nowhere {
        outputs: Outputs<K, Change<V>>,
        sends_old_values: bool,
    },
}

impl<K: Data, V: Data> KeptTable<K, V> {
    /// A table that is in `store`, or in none.
    pub(crate) fn of(
        store: Option<&KeptStore>,
        switches: &TableSwitches,
        instantiation: &Instantiation<'_>,
    ) -> Result<Self, StreamsError> {
        match store {
            Some(store) => store.table(instantiation),
            None => Ok(Self::Nowhere {
                outputs: instantiation.outputs()?,
                sends_old_values: switches.sends_old_values(),
            }),
        }
    }

    pub(crate) const fn is_stored(&self) -> bool {
        !matches!(self, Self::Nowhere { .. })
    }

    /// Whether children want the old values.
    pub(crate) const fn sends_old_values(&self) -> bool {
        match self {
            Self::Newest { output, .. } => output.sends_old_values(),
            Self::Versions {
                sends_old_values, ..
            }
            | Self::Nowhere {
                sends_old_values, ..
            } => *sends_old_values,
        }
    }

    /// What the store has of `key`.
    pub(crate) fn stored(&self, key: &K) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        match self {
            Self::Newest { store, .. } => Ok(store.borrow_mut().get_as::<Timestamped>(key)?),
            Self::Versions { store, .. } => Ok(store.borrow_mut().get(key)?.map(newest)),
            Self::Nowhere { .. } => Ok(None),
        }
    }

    /// Puts the new value into the store, if there is one, and gives the change to the children.
    pub(crate) fn change(
        &self,
        context: &mut TaskContext,
        mut record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        let (key, new) = (&record.key, record.value.new.as_ref());
        let (outputs, sends_old_values) = match self {
            Self::Newest { store, output } => {
                store
                    .borrow_mut()
                    .put_timestamped(context, key, new, record.timestamp_ms)?;
                record.value.is_latest = true;
                return output.changed(context, record);
            }
            Self::Versions {
                store,
                outputs,
                sends_old_values,
            } => {
                let put = store
                    .borrow_mut()
                    .put(context, key, new, record.timestamp_ms)?;
                record.value.is_latest = match put {
                    VersionedPut::NotPut => return Ok(()),
                    VersionedPut::ValidTo(_) => false,
                    VersionedPut::Latest => true,
                };
                (outputs, sends_old_values)
            }
            Self::Nowhere {
                outputs,
                sends_old_values,
            } => (outputs, sends_old_values),
        };
        if !sends_old_values {
            record.value.old = None;
        }
        outputs.forward(context, record)
    }

    /// Gives on what the store's cache holds.
    pub(crate) fn flush(&self, context: &mut TaskContext) -> Result<(), Failure> {
        match self {
            Self::Newest { output, .. } => output.flush(context),
            Self::Versions { .. } | Self::Nowhere { .. } => Ok(()),
        }
    }
}

fn newest<V>(record: VersionedRecord<V>) -> ValueAndTimestamp<V> {
    ValueAndTimestamp {
        value: record.value,
        timestamp_ms: record.timestamp_ms,
    }
}

/// Reads a versioned store.
struct StoredVersions<K, V>(Rc<RefCell<VersionedKeyValueStore<K, V>>>);

impl<K: Data, V: Data> ValueGetter<K, V> for StoredVersions<K, V> {
    fn get(
        &mut self,
        _: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        Ok(self.0.borrow_mut().get(key)?.map(newest))
    }

    fn get_as_of(
        &mut self,
        _: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        Ok(self.0.borrow_mut().get_at(key, timestamp_ms)?.map(newest))
    }
}
