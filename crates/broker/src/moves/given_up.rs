//! Moves that end since their topic is deleted.

use super::Move;
use crate::log_directories::LogDirectory;
use std::sync::Arc;

/// A move that was given up, of which a copy may be left.
#[derive(Debug)]
pub(crate) struct GivenUp(pub(super) Arc<Move>);

impl GivenUp {
    /// The log directory that the copy is in.
    pub(crate) fn directory(&self) -> &LogDirectory {
        &self.0.destination
    }

    /// Removes the copy, if it has not become the log. Does not wait for a task that has the copy in
    /// hand, and may read from another disk that is stuck: that removes it, as the move is cancelled.
    pub(crate) fn discard(&self) {
        if let Some(mut copy) = self.0.copy.try_lock() {
            let left = copy.take();
            drop(copy);
            super::discard(left);
        }
    }
}
