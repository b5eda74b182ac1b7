//! Reading a partition: who may, from where to where, and what a leader learns from a follower that reads.
//!
//! ```text
//!   consumer ──> read ────────────> this broker leads, or may answer as a follower ─┐
//!   follower ──> read_as_follower ─> this broker leads, it is a replica ─> noted ───┴─> FileSlice
//! ```

use crate::error::ReadError;
use crate::follower::{FollowerFetch, SessionTime};
use crate::isolation::Isolation;
use crate::log_state::LogState;
use crate::partition::Partition;
use crate::partition_offsets::PartitionOffsets;
use crate::state::{LockedState, State};
use crate::timestamp_search::TimestampSearch;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, ProducerId};
use std::sync::Arc;
use storage::{Disk, FileSlice, LogSlice, RealDisk, RecordSearch};

/// What to read of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The epoch of the leader that the reader knows; -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// Where to begin.
    pub fetch_offset: Offset,
    /// The epoch of the reader's last record; -1 for none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Most bytes.
    pub max_bytes: usize,
    /// One whole batch even if it is larger than `max_bytes`.
    pub at_least_one_batch: bool,
    /// Up to where the reader may see.
    pub isolation: Isolation,
    /// Whether a follower may not answer.
    pub is_leader_asked: bool,
}

/// What a read has found.
#[derive(Debug)]
pub struct ReadResult<D: Disk = RealDisk> {
    /// The offsets when it was read.
    pub offsets: PartitionOffsets,
    /// The records, as a range of a file; `None` for none.
    pub records: Option<FileSlice<D::File>>,
    /// Producer id and first offset of the aborted transactions among them; `None` unless the
    /// reader wants committed records.
    pub aborted_transactions: Option<Vec<(ProducerId, Offset)>>,
    /// Where the reader's log leaves this one: epoch and end offset.
    pub diverging_epoch: Option<(LeaderEpoch, Offset)>,
    /// The reader is a follower that is out of sync, or may be: it is by its fetches that it comes to be in sync, so
    /// each of them has to be seen here, also those of its session that do not name the partition.
    pub is_out_of_sync: bool,
}

impl<D: Disk> Partition<D> {
    /// Reads records for a consumer or a follower.
    ///
    /// # Errors
    /// Why there is nothing to read: who leads, or an offset out of range.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        let state = self.lock();
        let epoch = request.current_leader_epoch;
        let checked = match request.is_leader_asked {
            true => state.check_leader(epoch),
            false => state.check_replica(epoch),
        };
        checked.map_err(ReadError::NotLeader)?;
        self.read_from(state, request, None)
    }

    /// Reads records for a follower, which says by it how far it is: that is noted, unless the answer sends it
    /// back. What is replicated by it is in the offsets of the answer.
    ///
    /// # Errors
    /// Why there is nothing to read: who leads, first; then `UnknownLeaderEpoch` for a broker that is no
    /// replica as far as is known here, or `NotLeaderOrFollower` if it names no epoch; an offset out of range;
    /// and `NotLeaderOrFollower` for a run of a broker that has registered again.
    pub fn read_as_follower(
        &self,
        request: &ReadRequest,
        fetch: &FollowerFetch<'_>,
    ) -> Result<ReadResult<D>, ReadError> {
        let state = self.lock();
        let epoch = request.current_leader_epoch;
        let checked = state.check_leader(epoch).and_then(|()| {
            let in_sync = state.in_sync.as_ref();
            let is_replica = in_sync.is_some_and(|one| one.follower(fetch.broker_id).is_some());
            match is_replica {
                true => Ok(()),
                false if epoch.is_none() => Err(ErrorCode::NotLeaderOrFollower),
                false => Err(ErrorCode::UnknownLeaderEpoch),
            }
        });
        let read = match checked {
            Ok(()) => self.read_from(state, request, Some(fetch)),
            Err(error) => {
                drop(state);
                Err(ReadError::NotLeader(error))
            }
        };
        let is_sent_back = |read: &ReadResult<D>| read.diverging_epoch.is_some();
        if !fetch.has_waited && read.as_ref().map_or(true, is_sent_back) {
            fetch
                .session
                .inspect(|session| self.leave_session(fetch.broker_id, session));
        }
        read
    }

    /// A session of a follower, which may speak for this partition as well, does so no more: it has let go of
    /// it.
    pub fn leave_session(&self, follower: BrokerId, session: &Arc<SessionTime>) {
        if let Some(in_sync) = &mut self.lock().in_sync {
            in_sync.leave_session(follower, session);
        }
    }

    /// The same whoever leads, for who copies the log: all of it.
    ///
    /// # Errors
    /// Why there is nothing to read.
    pub fn read_copy(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        self.read_from(self.lock(), request, None)
    }

    fn read_from(
        &self,
        mut state: LockedState<'_, D>,
        request: &ReadRequest,
        fetch: Option<&FollowerFetch<'_>>,
    ) -> Result<ReadResult<D>, ReadError> {
        let is_at_end = request.fetch_offset == state.log_end_offset();
        let last_epoch = request.last_fetched_epoch;
        // At the end of an idle log there is nothing to read.
        if !is_at_end || (last_epoch != LeaderEpoch::NONE && !state.leads_in(last_epoch)) {
            if state.is_idle() {
                self.open(&mut state)?;
            }
            state.is_used.set(true);
        }
        check_log_start(&state, request)?;
        if let Some(diverging) = diverging_epoch(&state, request)? {
            return Ok(ReadResult {
                offsets: state.offsets(),
                records: None,
                aborted_transactions: None,
                diverging_epoch: Some(diverging),
                is_out_of_sync: false,
            });
        }
        let (mut is_withheld, mut is_out_of_sync) = (false, false);
        if let Some(fetch) = fetch {
            is_withheld = fetch.is_throttled && !state.is_in_sync(fetch.broker_id);
            if !fetch.has_waited {
                self.note_fetch(&mut state, request.fetch_offset, fetch)?;
            }
            is_out_of_sync = !state.stays_in_sync(fetch.broker_id);
        }
        let offsets = state.offsets();
        let upper_bound = match request.isolation {
            Isolation::LogEnd => offsets.log_end_offset,
            Isolation::HighWatermark => offsets.high_watermark,
            Isolation::LastStableOffset => offsets.last_stable_offset,
        };
        if is_at_end || is_withheld {
            return Ok(ReadResult {
                offsets,
                records: None,
                aborted_transactions: (request.isolation == Isolation::LastStableOffset)
                    .then(Vec::new),
                diverging_epoch: None,
                is_out_of_sync,
            });
        }
        let slice = self.find_slice(state, request, upper_bound)?;
        let aborted_transactions = match request.isolation {
            Isolation::LastStableOffset if slice.length() > 0 => {
                Some(self.aborted_transactions(request.fetch_offset, &slice)?)
            }
            Isolation::LastStableOffset => Some(Vec::new()),
            _ => None,
        };
        let records = slice.slice.filter(|slice| slice.length > 0);
        Ok(ReadResult {
            offsets,
            records,
            aborted_transactions,
            diverging_epoch: None,
            is_out_of_sync,
        })
    }

    /// What a follower says by its fetch; it may be that replicas are in sync by it, and more is replicated.
    fn note_fetch(
        &self,
        state: &mut State<D>,
        fetch_offset: Offset,
        fetch: &FollowerFetch<'_>,
    ) -> Result<(), ReadError> {
        if fetch_offset > state.log_end_offset() {
            return Err(out_of_range(state, fetch_offset));
        }
        let noted = state.note_fetch(fetch_offset, fetch);
        if noted.map_err(ReadError::NotLeader)? {
            self.host.note_change();
        }
        Ok(())
    }

    /// Finds the range of a file. The log is locked for what memory tells; indexes and headers are
    /// read without the lock, so a cold page holds up nobody who appends.
    fn find_slice<'s>(
        &'s self,
        mut state: LockedState<'s, D>,
        request: &ReadRequest,
        upper_bound: Offset,
    ) -> Result<LogSlice<D>, ReadError> {
        let ReadRequest {
            max_bytes,
            at_least_one_batch,
            ..
        } = *request;
        let mut offset = request.fetch_offset;
        loop {
            let log = state.open_log();
            let prepared = log.prepare_read(offset, max_bytes, upper_bound, at_least_one_batch)?;
            drop(state);
            let next = prepared.next_segment_offset();
            match (prepared.finish()?, next) {
                (Some(slice), _) => return Ok(slice),
                // Compaction has left nothing in the rest of the segment.
                (None, Some(next)) => offset = next,
                (None, None) => unreachable!("the last segment always answers"),
            }
            state = self.opened()?;
        }
    }

    /// Producer id and first offset of the aborted transactions that a slice may have records of.
    fn aborted_transactions(
        &self,
        offset: Offset,
        slice: &LogSlice<D>,
    ) -> Result<Vec<(ProducerId, Offset)>, ReadError> {
        let mut state = self.opened()?;
        let aborted = state.log().aborted_transactions_in(offset, slice)?;
        let aborted = aborted.iter();
        Ok(aborted
            .map(|one| (one.producer_id, one.first_offset))
            .collect())
    }

    /// Whole batches from `offset` on, at least one if there is one; for coordinators that load.
    ///
    /// # Errors
    /// As [`Partition::read`].
    pub fn read_bytes(&self, offset: Offset, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        let mut state = self.opened()?;
        let mut bytes = Vec::new();
        let end = state.log_end_offset();
        state.log().read_into(offset, max_bytes, end, &mut bytes)?;
        Ok(bytes)
    }

    /// The first record that is not older than `timestamp_ms`. The log is not locked while records
    /// are read.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        bytes_max: usize,
    ) -> Result<TimestampSearch, ReadError> {
        let mut from_offset = Offset::ZERO;
        loop {
            let mut opened = self.opened()?;
            let batch = opened
                .log()
                .batch_for_timestamp(timestamp_ms, from_offset)?;
            drop(opened);
            let Some(batch) = batch else {
                return Ok(TimestampSearch::Ended(None));
            };
            match batch.search(bytes_max)? {
                RecordSearch::Found(found) => return Ok(TimestampSearch::Ended(Some(found))),
                RecordSearch::Absent { next_offset } => from_offset = next_offset,
                RecordSearch::TooLarge => return Ok(TimestampSearch::TooLarge),
            }
        }
    }

    /// The record with the largest timestamp. The log is not locked while records are read.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_of_max_timestamp(&self, bytes_max: usize) -> Result<TimestampSearch, ReadError> {
        let batch = self.opened()?.log().batch_of_max_timestamp()?;
        let Some(batch) = batch else {
            return Ok(TimestampSearch::Ended(None));
        };
        Ok(match batch.search(bytes_max)? {
            RecordSearch::Found(found) => TimestampSearch::Ended(Some(found)),
            RecordSearch::Absent { .. } => TimestampSearch::Ended(None),
            RecordSearch::TooLarge => TimestampSearch::TooLarge,
        })
    }

    /// The leader epoch in which `offset` was, or will be, written.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn leader_epoch_at(&self, offset: Offset) -> Result<Option<LeaderEpoch>, ReadError> {
        let mut state = self.lock();
        if matches!(&state.residence, LogState::Idle(idle) if offset >= idle.log_end_offset) {
            return Ok(Some(state.leader_epoch));
        }
        self.open(&mut state)?;
        Ok(state.log().leader_epochs().epoch_for_offset(offset))
    }

    /// The largest epoch that is not above `leader_epoch`, and where it ended.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn end_offset_of_epoch(
        &self,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<(LeaderEpoch, Offset)>, ReadError> {
        let mut state = self.lock();
        if state.is_idle() && !state.leads_in(leader_epoch) {
            self.open(&mut state)?;
        }
        Ok(end_offset_of_epoch(&state, leader_epoch))
    }
}

/// The log is open unless it is about the epoch that this broker leads in.
fn end_offset_of_epoch<D: Disk>(
    state: &State<D>,
    leader_epoch: LeaderEpoch,
) -> Option<(LeaderEpoch, Offset)> {
    if state.leads_in(leader_epoch) {
        return Some((leader_epoch, state.log_end_offset()));
    }
    let end = state.open_log().offset_for_leader_epoch(leader_epoch)?;
    Some((end.leader_epoch, end.end_offset))
}

/// What is below the log's start is not there, whatever the epochs say.
fn check_log_start<D: Disk>(state: &State<D>, request: &ReadRequest) -> Result<(), ReadError> {
    let log_start_offset = state.log_start_offset();
    match request.fetch_offset < log_start_offset {
        true => Err(out_of_range(state, request.fetch_offset)),
        false => Ok(()),
    }
}

fn out_of_range<D: Disk>(state: &State<D>, offset: Offset) -> ReadError {
    ReadError::Log(storage::ReadError::OffsetOutOfRange {
        offset,
        log_start_offset: state.log_start_offset(),
        log_end_offset: state.log_end_offset(),
    })
}

/// Where the reader's log leaves this one, if its last epoch and offset are not of this history.
fn diverging_epoch<D: Disk>(
    state: &State<D>,
    request: &ReadRequest,
) -> Result<Option<(LeaderEpoch, Offset)>, ReadError> {
    let last_fetched_epoch = request.last_fetched_epoch;
    if last_fetched_epoch.is_none() {
        return Ok(None);
    }
    let end = end_offset_of_epoch(state, last_fetched_epoch)
        .ok_or(ReadError::UnknownLastEpoch(last_fetched_epoch))?;
    let diverges = end.0 < last_fetched_epoch || end.1 < request.fetch_offset;
    Ok(diverges.then_some(end))
}
