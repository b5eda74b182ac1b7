//! A log that has met a full disk or a lack of file descriptors, and goes on.
//!
//! ```text
//!   append fails for lack of room     [batch][batch][bat      torn: nothing is taken
//!   the next append, or the close     [batch][batch]          checked from the disk and cut, then open
//!   damage in what was durable        [batch][b?tch][bat      nothing is cut: failed
//!   any other failure, and any sync   ?                       failed: only a restart tells
//! ```
//!
//! What is cut is all above the high watermark. An observer fetches it again.

use crate::damage;
use crate::error::{AppendError, OpenError};
use crate::open::log_opening;
use crate::quorum_log::{LogState, QuorumLog};
use crate::replica::{QuorumMembership, Replica};
use storage::disk::Disk;
use storage::{Log, StorageError};

impl<D: Disk> Replica<D> {
    /// Cuts what is not committed, if an append was torn.
    ///
    /// # Errors
    /// When it cannot be cut yet, or never.
    pub fn mend(&mut self, now_ms: i64) -> Result<(), AppendError> {
        match self.log.state {
            LogState::Open => return Ok(()),
            LogState::Failed => return Err(AppendError::Failed),
            LogState::Torn => {}
        }
        let is_voter = matches!(self.standing, QuorumMembership::Voter(_));
        match self.log.reopen(is_voter, now_ms) {
            Ok(log) => {
                self.log.log = log;
                self.log.voters.truncate_to(self.log.high_watermark());
                self.log.state = LogState::Open;
                Ok(())
            }
            Err((state, reason)) => {
                self.log.state = state;
                Err(AppendError::Log(reason))
            }
        }
    }
}

impl<D: Disk> QuorumLog<D> {
    /// Opens the log as after a crash, which checks every batch, and cuts what is not committed. The
    /// state is the one to be in when that fails.
    ///
    /// Opening cuts a log at its first damaged batch, so what is committed is checked before.
    fn reopen(&self, is_voter: bool, now_ms: i64) -> Result<Log<D>, (LogState, String)> {
        let of_disk = |error: StorageError| (LogState::after(&error), error.to_string());
        let end_offset = self.high_watermark();
        match damage::check_below(&self.disk, &self.folder, end_offset) {
            Ok(()) => {}
            Err(OpenError::Storage(error)) => return Err(of_disk(error)),
            // An observer's next start fetches again what it finds damaged.
            Err(error) if !is_voter => return Err((LogState::Failed, error.to_string())),
            Err(error) => {
                let noted = damage::note(&self.disk, &self.folder, end_offset);
                let advice = noted.err().map_or_else(String::new, |failure| {
                    format!("; keep a copy, the next start may cut the log: {failure}")
                });
                return Err((LogState::Failed, format!("{error}{advice}")));
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
