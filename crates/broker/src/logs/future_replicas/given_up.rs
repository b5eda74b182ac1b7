//! Moves that end since their topic is deleted.

use super::Move;
use crate::logs::log_directories::LogDirectory;
use std::sync::Arc;

/// A move that was given up, of which a copy may be left.
#[derive(Debug)]
pub(crate) struct GivenUp {
    one: Arc<Move>,
    /// Whether the copy may still become the log.
    may_complete: bool,
}

impl GivenUp {
    pub(super) const fn new(one: Arc<Move>, may_complete: bool) -> Self {
        Self { one, may_complete }
    }

    /// The log directory that the copy is in.
    pub(crate) fn directory(&self) -> &LogDirectory {
        &self.one.destination
    }

    /// The place of the log directory that the log may be leaving at this moment.
    pub(crate) fn directory_index_to_leave(&self) -> Option<usize> {
        self.may_complete.then_some(self.one.source_directory_index)
    }

    /// Waits while the copy may become the log: not at all, but where that has begun.
    pub(crate) fn wait_until_decided(&self) {
        if self.may_complete {
            drop(self.one.copy.lock());
        }
    }

    /// Removes the copy, if it has not become the log. Does not wait for a task that has the copy in
    /// hand, and may read from another disk that is stuck: that removes it, as the move is cancelled.
    pub(crate) fn discard(&self) {
        if let Some(mut copy) = self.one.copy.try_lock() {
            let left = copy.take();
            drop(copy);
            super::discard(left);
        }
    }
}
