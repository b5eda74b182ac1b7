//! How nodes read what is in a store of keys and values.

use super::table_view::ValueGetter;
use crate::error::{Failure, StreamsError};
use crate::processor::TaskContext;
use crate::record::{Data, ValueAndTimestamp};
use crate::state::{KeyValueStore, Timestamped};
use crate::topology::Instantiation;
use std::cell::RefCell;
use std::rc::Rc;

/// Reads a store of keys and values.
pub(crate) struct StoredValues<K, V>(Rc<RefCell<KeyValueStore<K, V>>>);

/// The values of the store of this name, for a node that is connected to it.
pub(crate) fn stored_values<K: Data, V: Data>(
    instantiation: &Instantiation<'_>,
    store: &str,
) -> Result<StoredValues<K, V>, StreamsError> {
    instantiation.store(store).map(StoredValues)
}

impl<K: Data, V: Data> ValueGetter<K, V> for StoredValues<K, V> {
    fn get(
        &mut self,
        _: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        Ok(self.0.borrow_mut().get_as::<Timestamped>(key)?)
    }
}
