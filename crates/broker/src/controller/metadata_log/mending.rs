//! A metadata log that has met a full disk or a lack of file descriptors, and goes on.
//!
//! ```text
//!   append fails for lack of room     [batch][batch][bat      torn: nothing is taken
//!   the next append, or the close     [batch][batch]          checked from the disk and cut, then open
//!   damage in what was durable        [batch][b?tch][bat      nothing is cut: failed
//!   any other failure, and any sync   ?                       failed: only a restart tells
//! ```

use super::load::log_opening;
use super::{AppendMetadataError, MetadataLog, OpenMetadataLogError, damage};
use storage::disk::Disk;
use storage::{Log, StorageError};

/// Whether the log takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogState {
    /// It does.
    Open,
    /// The last append has failed for a reason that may pass, and part of it may be in the file.
    Torn,
    /// Nobody knows what is on the disk; or the log is closed.
    Failed,
}

impl LogState {
    /// The state that a failure of the disk leaves.
    pub(super) fn after(error: &StorageError) -> Self {
        match error.is_passing() {
            true => Self::Torn,
            false => Self::Failed,
        }
    }
}

impl<D: Disk> MetadataLog<D> {
    /// Makes the log what its image says, if an append was torn.
    ///
    /// # Errors
    /// When it cannot be cut yet, or never.
    pub(super) fn mend(&mut self, now_ms: i64) -> Result<(), AppendMetadataError> {
        match self.state {
            LogState::Open => return Ok(()),
            LogState::Failed => return Err(AppendMetadataError::Failed),
            LogState::Torn => {}
        }
        match self.reopen(now_ms) {
            Ok(log) => {
                self.log = log;
                self.state = LogState::Open;
                Ok(())
            }
            Err((state, reason)) => {
                self.state = state;
                Err(AppendMetadataError::Log(reason))
            }
        }
    }

    /// Opens the log as after a crash, which checks every batch, and cuts what the image does not
    /// know. The state is the one to be in when that fails.
    ///
    /// Opening cuts a log at its first damaged batch, so what the image knows is checked before.
    fn reopen(&self, now_ms: i64) -> Result<Log<D>, (LogState, String)> {
        let of_disk = |error: StorageError| (LogState::after(&error), error.to_string());
        let end_offset = self.image.provenance.last_offset + 1;
        match damage::check_below(&self.disk, &self.folder, end_offset) {
            Ok(()) => {}
            Err(OpenMetadataLogError::Storage(error)) => return Err(of_disk(error)),
            Err(error) => {
                if let Err(error) = damage::note(&self.disk, &self.folder, end_offset) {
                    let folder = self.folder.display();
                    tracing::error!(%folder, %error, "keep a copy: the next start may cut the log");
                }
                return Err((LogState::Failed, error.to_string()));
            }
        }
        let opening = log_opening(&self.disk, &self.folder, &self.config, now_ms);
        let mut log = match Log::open(opening) {
            Ok(opened) => opened.log,
            Err(storage::OpenError::Storage(error)) => return Err(of_disk(error)),
            Err(error) => return Err((LogState::Failed, error.to_string())),
        };
        match log.truncate_to(end_offset, now_ms) {
            Ok(_) => {}
            Err(storage::TruncateError::Storage(error)) => return Err(of_disk(error)),
            Err(error) => return Err((LogState::Torn, error.to_string())),
        }
        log.flush(now_ms).map_err(of_disk)?;
        let found = log.log_end_offset();
        if found != end_offset {
            let reason = format!("the log ends at {found}, not at {end_offset}");
            return Err((LogState::Failed, reason));
        }
        Ok(log)
    }
}
