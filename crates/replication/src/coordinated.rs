//! What a coordinator writes to the partition that its state is of: only while this broker has led it without a
//! pause since the state was read. What another leader has written meanwhile, the state would not know.

use crate::error::AppendError;
use crate::leadership::Leadership;
use crate::partition::{Acks, Partition};
use record::ValidatedBatch;
use storage::{AppendOptions, Appended, Disk, VerificationGuard};

impl<D: Disk> Partition<D> {
    /// [`Self::append_transactional_as_coordinator`] of a coordinator that has read the log in `leadership`.
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_as_coordinator_in(
        &self,
        leadership: Leadership,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.append_in(
            leadership,
            batch,
            |options| AppendOptions {
                verification,
                ..options
            },
            now_ms,
        )
    }

    /// [`Self::append_marker`] of a coordinator that has read the log in `leadership`.
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_marker_in(
        &self,
        leadership: Leadership,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.append_in(
            leadership,
            batch,
            |options| AppendOptions {
                transaction_version,
                ..options
            },
            now_ms,
        )
    }

    fn append_in(
        &self,
        leadership: Leadership,
        batch: &mut ValidatedBatch<'_>,
        with: impl FnOnce(AppendOptions) -> AppendOptions,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.opened_for_append(Acks::All)?;
        if state.leadership != leadership {
            return Err(AppendError::NotLeader);
        }
        let options = with(AppendOptions::coordinator(state.leader_epoch, now_ms));
        self.append(state, batch, options)
    }
}
