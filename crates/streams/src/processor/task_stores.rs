//! The state stores of a task, by name and type.

use crate::error::StreamsError;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The stores that a node is connected to.
#[derive(Clone, Default)]
pub struct TaskStores(BTreeMap<Arc<str>, Rc<dyn Any>>);

impl fmt::Debug for TaskStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl TaskStores {
    /// Adds a store: an `Rc<RefCell<S>>`.
    pub(crate) fn insert(&mut self, name: Arc<str>, store: Rc<dyn Any>) {
        self.0.insert(name, store);
    }

    pub(crate) fn any(&self, name: &str) -> Option<&Rc<dyn Any>> {
        self.0.get(name)
    }

    /// The store of this name, of type `S`, that `node` asks for.
    ///
    /// # Errors
    /// The node is not connected to it, or it is of another type.
    pub(crate) fn asked<S: 'static>(
        &self,
        node: &Arc<str>,
        name: &str,
    ) -> Result<Rc<RefCell<S>>, StreamsError> {
        self.typed::<S>(name).ok_or_else(|| {
            let (node, store) = (Arc::clone(node), Arc::from(name));
            match self.any(name) {
                Some(_) => StreamsError::OtherStoreType {
                    node,
                    store,
                    kind: std::any::type_name::<S>(),
                },
                None => StreamsError::NotConnected { node, store },
            }
        })
    }

    /// The store of this name, if it is an `S`.
    pub(crate) fn typed<S: 'static>(&self, name: &str) -> Option<Rc<RefCell<S>>> {
        self.0.get(name)?.downcast_ref::<Rc<RefCell<S>>>().cloned()
    }
}
