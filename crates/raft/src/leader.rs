//! The leader of a quorum of one voter: it has won as soon as that is written down.
//!
//! The epoch is one above all that `quorum-state`, the log and its snapshots know. With one voter
//! the high watermark is the end of what is flushed.

use crate::damage;
use crate::error::{AppendError, OpenError};
use crate::quorum_log::{LogState, WrittenBatch};
use crate::quorum_state_file;
use crate::replica::{Leading, QuorumMembership, Replica, RoleState};
use crate::staged::{Unit, parsed};
use metadata::{BatchPlace, QuorumRecord, quorum_batch};
use model::Offset;
use storage::disk::Disk;

impl<D: Disk> Replica<D> {
    /// Wins the election of the one voter and begins its epoch with what the quorum has to know;
    /// flushed on return.
    ///
    /// # Errors
    /// When the disk fails.
    ///
    /// # Panics
    /// When this node is no voter, or leads already.
    pub fn lead(&mut self, now_ms: i64) -> Result<(), OpenError> {
        let QuorumMembership::Voter(local) = self.standing.clone() else {
            panic!("only a voter can lead");
        };
        assert!(
            !matches!(self.role, RoleState::Leader(_)),
            "an epoch is led once"
        );
        let leader_epoch = self.epoch.next();
        let voters = self.log.voters.newest().clone();
        quorum_state_file::write(
            &self.log.disk,
            &self.log.folder,
            (Some(local.id), leader_epoch),
            (!voters.can_change()).then(|| vec![local.id]),
        )?;
        self.epoch = leader_epoch;
        self.role = RoleState::Leader(Leading::default());
        self.append_quorum_records(&local.epoch_start(&voters), now_ms)?;
        let (disk, folder) = (&self.log.disk, &self.log.folder);
        // What speaks of the log stays until there is another note, in case this start fails yet.
        if damage::note(disk, damage::directory_of(folder), self.high_watermark()).is_ok() {
            damage::forget_notes(disk, folder)?;
        }
        Ok(())
    }

    /// Where the next batch goes: behind all that were appended, flushed or not.
    pub fn next_place(&self, now_ms: i64) -> BatchPlace {
        BatchPlace {
            base_offset: self.end_offset(),
            leader_epoch: self.epoch,
            timestamp_ms: now_ms,
        }
    }

    /// Takes batches that begin at [`Self::next_place`] and count together or not at all; returns
    /// the offset after their last record. They are written and committed by [`Self::flush`], those
    /// of several appends at once.
    ///
    /// # Errors
    /// When this node does not lead, or the log takes nothing; nothing is taken then.
    pub fn append(&mut self, batches: Vec<Vec<u8>>, now_ms: i64) -> Result<Offset, AppendError> {
        self.mend(now_ms)?;
        let mut end_offset = self.end_offset();
        for batch in &batches {
            let batch = parsed(batch);
            assert!(
                batch.base_offset() == end_offset && batch.partition_leader_epoch() == self.epoch,
                "batches follow one another in the leader's epoch"
            );
            end_offset = batch.next_offset();
        }
        let RoleState::Leader(Leading { staged, .. }) = &mut self.role else {
            return Err(AppendError::NotLeader);
        };
        if !batches.is_empty() {
            staged.push(Unit {
                batches,
                end_offset,
            });
        }
        Ok(end_offset)
    }

    /// Writes what was appended and makes it durable; returns the high watermark, which is behind
    /// all of it.
    ///
    /// # Errors
    /// When the disk has no room or the process no file descriptor left, a later append may succeed;
    /// when the disk fails, only the next start tells what was written. What is not below the high
    /// watermark then is not in the log, and was never appended.
    pub fn flush(&mut self, now_ms: i64) -> Result<Offset, AppendError> {
        let RoleState::Leader(Leading { staged, .. }) = &mut self.role else {
            return Err(AppendError::NotLeader);
        };
        let units = staged.take();
        self.mend(now_ms)?;
        for unit in units {
            self.write_unit(unit, now_ms)?;
        }
        Ok(self.high_watermark())
    }

    fn write_unit(&mut self, unit: Unit, now_ms: i64) -> Result<(), AppendError> {
        let log = &mut self.log;
        // One at a time: what is damaged before a whole batch was damaged by no crash.
        for batch in &unit.batches {
            let written = log.write(batch, self.epoch, now_ms);
            if let Err(error) = written {
                if log.state == LogState::Open {
                    // What this program has built was refused: nobody knows what else is wrong.
                    log.state = LogState::Failed;
                }
                return Err(AppendError::Log(error.to_string()));
            }
            log.flush(now_ms)
                .map_err(|error| AppendError::Log(error.to_string()))?;
        }
        log.commit(unit.end_offset);
        for bytes in unit.batches {
            let batch = parsed(&bytes);
            let (base_offset, end_offset) = (batch.base_offset(), batch.next_offset());
            log.written.push_back(WrittenBatch {
                base_offset,
                end_offset,
                bytes,
            });
        }
        Ok(())
    }

    /// Raises `kraft.version` to `level`, flushed on return: from now on the log itself holds the
    /// voters, whatever configuration says of them (KIP-853).
    ///
    /// # Errors
    /// As those of [`Self::flush`]; the level stays as it was then.
    pub fn raise_kraft_version(&mut self, level: i16, now_ms: i64) -> Result<(), AppendError> {
        let QuorumMembership::Voter(local) = &self.standing else {
            return Err(AppendError::NotLeader);
        };
        let records = local.level_and_voters(level);
        self.append_quorum_records(&records, now_ms)
    }

    /// Appends control records as one batch, and flushes them with all that was appended before.
    fn append_quorum_records(
        &mut self,
        records: &[QuorumRecord],
        now_ms: i64,
    ) -> Result<(), AppendError> {
        self.mend(now_ms)?;
        let batch = quorum_batch(records, self.next_place(now_ms));
        let end_offset = self.append(vec![batch], now_ms)?;
        self.flush(now_ms)?;
        self.log.voters.replay(end_offset, records);
        Ok(())
    }
}
