//! The node that keeps the records of one side of a stream-stream join, for those of the other side to find.

use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::state::WindowStore;
use crate::topology::NodeFactory;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Makes the node that fills `store`.
pub(super) fn window_node_factory<K: Data, V: Data>(
    store: &Arc<str>,
    key_serde: &SerdeRef<K>,
) -> NodeFactory {
    let (store, key_serde) = (Arc::clone(store), Arc::clone(key_serde));
    Arc::new(move |instantiation| {
        let node = WindowNode::<K, V> {
            store: instantiation.store(&store)?,
            key_serde: Arc::clone(&key_serde),
            outputs: instantiation.outputs()?,
        };
        Ok(instantiation.node::<K, V>(node))
    })
}

struct WindowNode<K, V> {
    store: Rc<RefCell<WindowStore<K, V>>>,
    key_serde: SerdeRef<K>,
    outputs: Outputs<K, V>,
}

impl<K: Data, V: Data> NodeLife for WindowNode<K, V> {}

impl<K: Data, V: Data> Node<K, V> for WindowNode<K, V> {
    /// The join comes first: a record is no partner of its own.
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        if self.key_serde.is_null(&record.key) {
            return self.outputs.forward(context, record);
        }
        self.outputs.forward(context, record.clone())?;
        self.store.borrow_mut().put_with_headers(
            context,
            &record.key,
            Some(&record.value),
            record.timestamp_ms,
            &record.headers,
            record.timestamp_ms,
        )?;
        Ok(())
    }
}
