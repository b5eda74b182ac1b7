//! A log that goes from one log directory to another.
//!
//! ```text
//!   place       from │ to                                │ from        │ to
//!   locked           │ the copy gets the rest, its name  │ old log     │
//! ```
//!
//! The log is locked at the end of a move, for as long as the disk it waits for may be stuck: that of the
//! copy first, and then that of the old log. Whoever uses the log meanwhile waits for the same disk. So the
//! partition says that it is there: calls wait with those of that directory, its upkeep is done with that
//! directory's, and nobody waits who uses the other one.

use crate::moved_log::MovedLog;
use crate::partition::Partition;
use crate::partition_offsets::PartitionOffsets;
use crate::state::State;
use model::Offset;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::{Disk, Log, StorageError};

/// How often it is looked whether the lock of a log that is asked for is held for a move.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A log that is locked while it is moved.
pub struct Moving<'a, D: Disk> {
    partition: &'a Partition<D>,
    from: usize,
    to: usize,
    has_moved: Cell<bool>,
}

impl<'a, D: Disk> Moving<'a, D> {
    fn begin(partition: &'a Partition<D>, state: &State<D>, to: usize) -> Self {
        let from = partition.directory_index();
        let leaving = MovedLog {
            directory_index: from,
            recovery_point: state.recovery_point(),
            offsets: state.offsets(),
        };
        *partition.leaving.lock() = Some(Box::new(leaving));
        // A log that has failed goes nowhere, and whoever is about to say so names its directory.
        if !state.is_failed && !state.residence.is_failed() {
            partition.directory_index.store(to, Ordering::SeqCst);
        }
        Self {
            partition,
            from,
            to,
            has_moved: Cell::new(false),
        }
    }

    /// The copy is complete; what is waited for from here on is the disk of the old log.
    pub fn leaves(&self) {
        self.partition
            .directory_index
            .store(self.from, Ordering::SeqCst);
    }
}

impl<D: Disk> fmt::Debug for Moving<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moving")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Drop for Moving<'_, D> {
    fn drop(&mut self) {
        let directory_index = match self.has_moved.get() {
            true => self.to,
            false => self.from,
        };
        self.partition
            .directory_index
            .store(directory_index, Ordering::SeqCst);
        *self.partition.leaving.lock() = None;
    }
}

impl<D: Disk> Partition<D> {
    /// Puts a copy of the log, from another log directory, in its place; returns what was there
    /// before. `complete` gets the log while nobody else has it and makes the copy equal to it.
    ///
    /// # Errors
    /// Those of `complete`, and that the log cannot be opened; nothing has changed then.
    pub fn move_log<E: From<StorageError>>(
        &self,
        log_directory: &Arc<str>,
        complete: impl FnOnce(&mut Log<D>, &Moving<'_, D>) -> Result<Log<D>, E>,
    ) -> Result<Log<D>, E> {
        let to = self.host.directory_index_of(log_directory);
        // A flush says something about the files that it has synced only.
        let _flushing = self.flushing.lock();
        let mut state = self.opened()?;
        let moving = Moving::begin(self, &state, to);
        let mut copy = complete(state.log(), &moving)?;
        assert_eq!(
            copy.log_end_offset(),
            state.log_end_offset(),
            "a copy takes the place of a log when it has all of it"
        );
        copy.take_place_of(state.log());
        let old = std::mem::replace(state.log(), copy);
        moving.has_moved.set(true);
        drop(moving);
        state.advance_high_watermark();
        drop(state);
        self.notify();
        Ok(old)
    }

    /// The recovery point and the offsets, if the log is in this log directory. Does not wait for a log
    /// that is on its way to another one, whose disk may be stuck.
    pub fn checkpoint_in(&self, log_directory: &str) -> Option<(Offset, PartitionOffsets)> {
        loop {
            if *self.log_directory() != *log_directory {
                let leaving = (*self.leaving.lock()).as_deref().copied()?;
                let is_there = *self.host.directory_at(leaving.directory_index) == *log_directory;
                return is_there.then_some((leaving.recovery_point, leaving.offsets));
            }
            let Some(state) = self.state.try_lock_for(LOOK_INTERVAL) else {
                continue;
            };
            let state = self.locked(state);
            let is_there = *self.log_directory() == *log_directory;
            return is_there.then(|| (state.recovery_point(), state.offsets()));
        }
    }
}
