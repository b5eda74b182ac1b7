//! Whether a move may still be given up.

use std::sync::atomic::{AtomicU8, Ordering};

const CANCELLED: u8 = 1;
const COMPLETING: u8 = 2;

/// Who comes first: whoever cancels a move, or the task that puts the copy in the place of the log.
#[derive(Debug, Default)]
pub(super) struct Claim(AtomicU8);

impl Claim {
    /// Cancels the move. Whether its copy never becomes the log then; else it may do so yet.
    pub(super) fn cancel(&self) -> bool {
        self.0.fetch_or(CANCELLED, Ordering::AcqRel) & COMPLETING == 0
    }

    /// Begins to put the copy in the place of the log, unless the move is cancelled.
    pub(super) fn complete(&self) -> bool {
        let claimed = self
            .0
            .compare_exchange(0, COMPLETING, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }
}
