//! What the children of a table ask of it, how nodes read its values, and what is decided about it late.

use crate::error::{Failure, StreamsError};
use crate::processor::TaskContext;
use crate::record::ValueAndTimestamp;
use crate::topology::Instantiation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
