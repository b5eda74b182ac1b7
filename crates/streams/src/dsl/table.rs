//! `KTable`: the newest value of each key, and the changes of it.
//!
//! A table is a node whose children take [`Change`]s. Whether its values are kept in a store is decided late, by what
//! the application does with it: a join reads them, a grouped table needs the old ones. So a table is described by its
//! [`TableView`], which children ask while the graph is put together; nodes read what was decided when they are made.

mod change_serde;
mod computed;
mod filter;
mod global;
mod group_by;
mod grouped;
mod grouped_aggregate;
mod kept;
mod map_values;
mod settings;
mod source;
mod to_stream;
mod to_table;
mod transform_values;

use super::stream::SourceNames;
use super::{Builder, GraphNodeId};
use crate::error::{Failure, StreamsError};
use crate::processor::TaskContext;
use crate::record::ValueAndTimestamp;
use crate::serde::SerdeRef;
use crate::topology::Instantiation;
pub use global::GlobalKTable;
pub use grouped::KGroupedTable;
pub(crate) use kept::{Kept, KeptStore, KeptTable};
pub use settings::{Named, TableSettings};
pub(crate) use source::{SourceView, table_source};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
pub use transform_values::{TransformContext, ValueTransformer};

/// The newest value of each key.
pub struct KTable<K, V> {
    pub(crate) builder: Builder,
    pub(crate) name: Arc<str>,
    pub(crate) node: GraphNodeId,
    pub(crate) sources: SourceNames,
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
    /// The store that interactive queries read, if the application has named it.
    pub(crate) queryable_store: Option<Arc<str>>,
    pub(crate) view: Rc<dyn TableView<K, V>>,
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            name: Arc::clone(&self.name),
            node: self.node,
            sources: Arc::clone(&self.sources),
            key_serde: self.key_serde.clone(),
            value_serde: self.value_serde.clone(),
            queryable_store: self.queryable_store.clone(),
            view: Rc::clone(&self.view),
        }
    }
}

impl<K, V> fmt::Debug for KTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KTable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K, V> KTable<K, V> {
    /// The store that interactive queries read, if the application has named it.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable_store.as_deref()
    }
}

/// What the children of a table ask of it, while the graph is put together.
pub(crate) trait TableView<K, V> {
    /// The table's changes shall carry the old values. `force` puts the table in a store if there is no other way.
    /// Whether they will.
    fn send_old_values(&self, force: bool) -> bool;

    /// How nodes read the table's values.
    fn getter(&self) -> TableGetter<K, V>;

    /// Whether the table tells of older versions than the newest.
    fn is_versioned(&self) -> bool {
        false
    }
}

/// How nodes read a table's values.
pub(crate) struct TableGetter<K, V> {
    /// The stores that the node must be connected to.
    pub(crate) stores: Vec<Arc<str>>,
    pub(crate) make: MakeGetter<K, V>,
}

/// Makes a getter for a node.
pub(crate) type MakeGetter<K, V> = Arc<
    dyn Fn(&mut Instantiation<'_>) -> Result<Box<dyn ValueGetter<K, V>>, StreamsError>
        + Send
        + Sync,
>;

impl<K, V> Clone for TableGetter<K, V> {
    fn clone(&self) -> Self {
        Self {
            stores: self.stores.clone(),
            make: Arc::clone(&self.make),
        }
    }
}

/// Reads the values of a table, for a node of a task.
pub(crate) trait ValueGetter<K, V> {
    /// The newest value of `key`.
    fn get(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure>;

    /// The value that `key` had at `timestamp_ms`; only versioned tables know.
    fn get_as_of(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        let _ = timestamp_ms;
        self.get(context, key)
    }
}

/// What is decided about a table late; shared by its handles and its factory.
#[derive(Debug, Default)]
pub(crate) struct TableSwitches {
    old_values: AtomicBool,
    materialized: AtomicBool,
}

impl TableSwitches {
    /// Switches of a table that is in a store from the beginning, or not.
    pub(crate) fn new(materialized: bool) -> Arc<Self> {
        let switches = Self::default();
        switches.materialized.store(materialized, Ordering::Relaxed);
        Arc::new(switches)
    }

    pub(crate) fn send_old_values(&self) {
        self.old_values.store(true, Ordering::Relaxed);
    }

    pub(crate) fn materialize(&self) {
        self.materialized.store(true, Ordering::Relaxed);
    }

    pub(crate) fn sends_old_values(&self) -> bool {
        self.old_values.load(Ordering::Relaxed)
    }

    pub(crate) fn is_materialized(&self) -> bool {
        self.materialized.load(Ordering::Relaxed)
    }
}
