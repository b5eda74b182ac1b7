//! Why a node cannot go on.

/// The node cannot go on: its disk has failed, or holds what it cannot read.
#[derive(Debug)]
pub(crate) struct Halted {
    pub(crate) reason: String,
    /// Whether a start may succeed once there is room, or a descriptor.
    pub(crate) is_passing: bool,
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Halted {
    fn from(error: E) -> Self {
        let error = error.into();
        let storage = error.downcast_ref::<storage::StorageError>();
        Self {
            is_passing: storage.is_some_and(storage::StorageError::is_passing),
            reason: error.to_string(),
        }
    }
}
