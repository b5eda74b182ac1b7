//! How the log of a partition is opened, and becomes idle.

use crate::leaders::Leaders;
use crate::log_state::LogState;
use crate::partition::Partition;
use crate::partition_key::PartitionKey;
use crate::partition_offsets::PartitionOffsets;
use crate::role::Role;
use crate::state::{LockedState, State};
use model::Offset;
use parking_lot::MutexGuard;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::settled_logs::SettledLog;
use storage::{Context, Disk, Log, LogOpening, OpenFiles, StorageError};

impl<D: Disk> State<D> {
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.residence, LogState::Idle(_))
    }

    /// The log, which has been opened, for what changes nothing.
    pub(crate) fn open_log(&self) -> &Log<D> {
        match &self.residence {
            LogState::Open(log) => log,
            LogState::Idle(_) => unreachable!("the log was opened under the same lock"),
        }
    }

    /// The log, which has been opened.
    pub(crate) fn log(&mut self) -> &mut Log<D> {
        match &mut self.residence {
            LogState::Open(log) => log,
            LogState::Idle(_) => unreachable!("the log was opened under the same lock"),
        }
    }

    pub(crate) fn log_end_offset(&self) -> Offset {
        match &self.residence {
            LogState::Open(log) => log.log_end_offset(),
            LogState::Idle(idle) => idle.log_end_offset,
        }
    }

    pub(crate) fn log_start_offset(&self) -> Offset {
        match &self.residence {
            LogState::Open(log) => log.log_start_offset(),
            LogState::Idle(idle) => idle.log_start_offset,
        }
    }

    pub(crate) fn recovery_point(&self) -> Offset {
        match &self.residence {
            LogState::Open(log) => log.recovery_point(),
            LogState::Idle(idle) => idle.recovery_point,
        }
    }

    #[cold]
    fn fail(&mut self, leaders: &Arc<Leaders>, key: PartitionKey) {
        self.is_failed = true;
        self.set_role(Role::None, leaders, key);
        if let LogState::Open(log) = &mut self.residence {
            log.fail();
        }
    }

    pub(crate) fn offsets(&self) -> PartitionOffsets {
        let (log_start_offset, first_unstable) = match &self.residence {
            LogState::Open(log) => (
                log.log_start_offset(),
                log.producer_state().first_unstable_offset(),
            ),
            LogState::Idle(idle) => (idle.log_start_offset, None),
        };
        // Records of an open transaction may have been deleted.
        let first_unstable =
            first_unstable.map_or(Offset::MAX, |offset| offset.max(log_start_offset));
        PartitionOffsets {
            log_start_offset,
            last_stable_offset: first_unstable.min(self.high_watermark),
            high_watermark: self.high_watermark,
            log_end_offset: self.log_end_offset(),
            leader_epoch: self.leader_epoch,
        }
    }
}

impl<D: Disk> Partition<D> {
    /// The topic's id and the index.
    pub const fn key(&self) -> PartitionKey {
        (self.topic_id, self.index())
    }

    /// The state with the log open.
    pub(crate) fn opened(&self) -> Result<LockedState<'_, D>, StorageError> {
        let mut state = self.lock();
        if state.is_idle() {
            self.open(&mut state)?;
        }
        state.is_used.set(true);
        Ok(state)
    }

    /// Opens the log if it is idle.
    pub(crate) fn open(&self, state: &mut State<D>) -> Result<(), StorageError> {
        let LogState::Idle(idle) = &state.residence else {
            return Ok(());
        };
        let directory = self.directory();
        if state.is_closed {
            return Err(StorageError {
                operation: "open",
                file: directory,
                source: io::Error::other("it is closed"),
            });
        }
        let opening = LogOpening {
            topic_id: Some(self.topic_id),
            config: state.config.clone(),
            open_files: self.host.open_files.clone(),
            ..LogOpening::new(
                self.host.disk.clone(),
                directory.clone(),
                self.topic_partition.clone(),
            )
        };
        let opened = idle.open(opening);
        let opened = opened.map_err(|error| {
            let error = error.into_storage_error(&directory);
            if error.is_log_changed() {
                self.host.note_changed(self.key());
            }
            error
        })?;
        let mut log = opened.log;
        match state.role {
            _ if state.is_failed => log.fail(),
            // A log that cannot note it has failed, and says so to whoever writes. It can be read.
            Role::Leader { leader_epoch, .. } => {
                drop(log.assign_leader_epoch(leader_epoch, log.log_end_offset()));
            }
            Role::None | Role::Follower { .. } => {}
        }
        state.residence = LogState::Open(Box::new(log));
        state.advance_high_watermark();
        self.host.note_open(self.replica(), opened.events);
        Ok(())
    }

    /// Where the log is.
    pub fn directory(&self) -> PathBuf {
        Path::new(&*self.log_directory()).join(self.topic_partition.to_string())
    }

    /// Closes the log if nobody has used it since this was last asked, no producer may send again what it has sent,
    /// and it has nothing to do; see [`Log::idle`]. Whether it is idle now.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn become_idle(&self, now_ms: i64, is_synced: bool) -> Result<bool, StorageError> {
        let Some(_flushing) = self.flushing.try_lock() else {
            return Ok(false);
        };
        let mut state = self.lock();
        // Which transactions have ended, and are not replicated, only an open log knows.
        let is_replicated = state.high_watermark == state.log_end_offset();
        if state.is_used.take() || state.awaits_flush() || !is_replicated {
            return Ok(false);
        }
        let directory = self.directory();
        let LogState::Open(log) = &mut state.residence else {
            return Ok(true);
        };
        if log.directory() != directory || log.awaits_retries(now_ms) {
            return Ok(false);
        }
        let Some(idle) = log.idle(now_ms, is_synced)? else {
            return Ok(false);
        };
        state.rest(idle);
        self.host.note_idle(self.replica(), false);
        Ok(true)
    }

    /// Whether the log is not opened any more.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Closes the log now, synced, if it has nothing to do. For logs that were opened for that.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn rest_synced(&self, now_ms: i64) -> Result<bool, StorageError> {
        self.lock().is_used.set(false);
        self.become_idle(now_ms, true)
    }

    /// Closes the log for good, in order: it is not opened again. Synced as [`Log::idle`] says, but
    /// for a log that cannot be idle, which is synced in any case.
    ///
    /// # Errors
    /// When it cannot be written, or could not be before.
    pub fn close(&self, now_ms: i64, is_synced: bool) -> Result<(), StorageError> {
        let _flushing = self.flushing.lock();
        let mut state = self.lock();
        if let LogState::Idle(idle) = &state.residence
            && is_synced
            && !idle.is_synced
        {
            self.open(&mut state)?;
        }
        state.is_closed = true;
        if let LogState::Open(log) = &mut state.residence {
            match log.idle(now_ms, is_synced)? {
                Some(idle) => {
                    state.rest(idle);
                    self.host.note_idle(self.replica(), false);
                }
                None => log.close(now_ms)?,
            }
        }
        match state.is_failed {
            true => Err(StorageError {
                operation: "close",
                file: self.directory(),
                source: io::Error::other("an earlier write has failed"),
            }),
            false => Ok(()),
        }
    }

    /// Of an idle log that has yet to be settled, which one it is; see [`Self::settle`].
    pub fn unsettled(&self) -> Option<Unsettled> {
        let state = self.lock();
        match &state.residence {
            LogState::Idle(idle) => Some(Unsettled {
                idle_count: state.idle_count,
                is_synced: idle.is_synced,
            }),
            _ => None,
        }
    }

    /// What is noted of an idle log that has changed.
    pub fn changed(&self) -> Option<SettledLog> {
        match &self.lock().residence {
            LogState::Idle(idle) => Some(SettledLog::of_changed(*idle, self.topic_id)),
            LogState::Open(_) => None,
        }
    }

    /// Whether a sync of its file system that has succeeded makes an idle log durable: no other one
    /// has failed meanwhile.
    pub fn is_synced_with_others(&self) -> bool {
        let failed_syncs = self.host.open_files.failed_sync_count();
        match &self.lock().residence {
            LogState::Idle(idle) => idle.is_synced_with_others(failed_syncs),
            LogState::Open(_) => false,
        }
    }

    /// Notes that an idle log is durable, since its file system was synced after `unsettled` was
    /// taken, and looks at its files. `None` when it was opened meanwhile, or changed so lately that
    /// a look says nothing: it is settled later then.
    ///
    /// # Errors
    /// When its files cannot be looked at.
    pub fn settle(
        &self,
        unsettled: Unsettled,
        now_ms: i64,
        has_ended: bool,
    ) -> Result<Option<SettledLog>, StorageError> {
        let mut state = self.lock();
        let directory = self.directory();
        let idle_count = state.idle_count;
        let LogState::Idle(idle) = &mut state.residence else {
            return Ok(None);
        };
        if idle_count != unsettled.idle_count {
            return Ok(None);
        }
        idle.set_synced();
        let settled = SettledLog::of(*idle, self.topic_id, &self.host.disk, &directory)?;
        if settled.is_young(now_ms) && !has_ended {
            return Ok(None);
        }
        self.host.note_idle(self.replica(), true);
        self.host.note_change();
        Ok(Some(settled))
    }

    /// Calls `call` with the log if it is open, and does not count as a use of it.
    pub fn with_open_log<R>(&self, call: impl FnOnce(&mut Log<D>) -> R) -> Option<R> {
        match &mut self.lock().residence {
            LogState::Open(log) => Some(call(log)),
            LogState::Idle(_) => None,
        }
    }

    /// The same, with the offsets, unless somebody else has the log for so long: who has it may be in a
    /// call on a disk that is stuck. `None` then.
    pub fn look_at_open_log<R>(
        &self,
        patience: Duration,
        call: impl FnOnce(&mut Log<D>, PartitionOffsets) -> R,
    ) -> Option<Option<R>> {
        let mut state = self.locked(self.state.try_lock_for(patience)?);
        let offsets = state.offsets();
        Some(match &mut state.residence {
            LogState::Open(log) => Some(call(log, offsets)),
            LogState::Idle(_) => None,
        })
    }

    /// Takes the log out of service if it is in the log directory of this place. Waits for nobody:
    /// who has the lock may be in a call on a disk that is stuck, and whoever has it next finds the
    /// log out of service. Whether it is there; `None` if it may be leaving while it is locked.
    pub fn fail_at(&self, directory_index: usize) -> Option<bool> {
        self.published.fail_at(directory_index);
        let state = self.state.try_lock()?;
        drop(self.locked(state));
        Some(self.directory_index() == directory_index)
    }

    /// The state that was locked, as a failure of its log directory has left it.
    #[inline]
    pub(crate) fn locked<'a>(&'a self, state: MutexGuard<'a, State<D>>) -> LockedState<'a, D> {
        let mut state = LockedState::new(state, &self.published);
        if self.published.is_failing_at(self.directory_index()) && !state.is_failed {
            state.fail(self.host.leaders(), self.key());
        }
        state
    }

    /// What the log directory's checkpoint is to say.
    pub fn recovery_point(&self) -> Offset {
        self.lock().recovery_point()
    }

    /// Where its files are counted.
    pub fn open_files(&self) -> &Arc<OpenFiles<D::File>> {
        &self.host.open_files
    }

    /// Whether retention may have something to remove.
    pub fn is_retention_due(&self, now_ms: i64) -> bool {
        let state = self.lock();
        match &state.residence {
            LogState::Open(_) => true,
            LogState::Idle(idle) => idle.may_be_retained_less(&state.config, now_ms),
        }
    }

    /// Takes the log out of service for good; see [`Log::retire`]. Returns where it is now.
    ///
    /// # Errors
    /// When its directory cannot be renamed.
    pub fn retire(&self, name: &str) -> Result<PathBuf, StorageError> {
        let mut state = self.lock();
        let directory = self.directory();
        state.is_closed = true;
        state.set_role(Role::None, self.host.leaders(), self.key());
        state.idle_count = state.idle_count.wrapping_add(1);
        self.host.forget(self.replica());
        let retired = match &mut state.residence {
            LogState::Open(log) => {
                log.retire(name)?;
                log.directory().to_owned()
            }
            LogState::Idle(_) => {
                let retired = directory.with_file_name(name);
                let renamed = self.host.disk.rename(&directory, &retired);
                renamed.context("rename", &directory)?;
                retired
            }
        };
        Ok(retired)
    }
}

/// An idle log as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsettled {
    idle_count: u32,
    /// Whether it is durable already.
    pub is_synced: bool,
}
