//! Whether the log of a partition is open or idle.

use storage::{Disk, IdleLog, Log};

/// Where the log of a partition is.
pub(crate) enum LogState<D: Disk> {
    Open(Box<Log<D>>),
    Idle(IdleLog),
}

impl<D: Disk> LogState<D> {
    /// Whether a write to the log has failed since it was opened.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, Self::Open(log) if log.is_failed())
    }
}
