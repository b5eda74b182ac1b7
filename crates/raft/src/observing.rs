//! What an observer does: it fetches the log of a leader that others elect, and asks around when it knows none.
//!
//! ```text
//!   poll_request ──> Fetch to the leader ──> records      append, flush, high watermark
//!        ▲                                   diverging    cut, fetch from there
//!        │                                   snapshot id  FetchSnapshot … ──> in the log's place
//!        │                                   other leader follow that one
//!        └── next_deadline: an answer is late, or it is time to ask again
//! ```
//!
//! One request is under way at a time, and an answer counts only while it does: not after its time
//! is over, nor when the leader has changed meanwhile. What was fetched is flushed before it counts
//! as committed and before more is fetched, which a voter must do and costs an observer little.
//!
//! A leader that votes alone, and has lost records unnoticed, may have led anew through as many epochs as were lost: by
//! offsets and epochs alone its log looks like the observer's. So an observer that starts, or could not reach its
//! leader, fetches its own last batch once more, and compares.

use crate::damage;
use crate::download::{Download, discard};
use crate::error::{AppendError, ObserverError, ReadError};
use crate::messages::{Answer, Content, LeaderAndEpoch, Recipient, Request, SnapshotPiece, Wanted};
use crate::observer::{Observer, UnderWay};
use crate::quorum_state_file;
use crate::replica::{QuorumMembership, Replica, RoleState};
use metadata::{QuorumRecord, SnapshotId, is_compressed, read_quorum_records};
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset};
use record::{Batches, RecordBatch};
use storage::disk::Disk;
use storage::leader_epochs::LeaderEpochEnd;

/// What is to be done with an answer whose sender and epoch are known.
enum Reply {
    /// It is what the leader of this epoch says.
    Counts,
    /// It has told who leads, or nothing at all.
    Done,
}

impl<D: Disk> Replica<D> {
    /// Learns of a leader or of an epoch from elsewhere, as from the answer to another request.
    ///
    /// # Errors
    /// When that cannot be, or cannot be written down: then it is not followed.
    pub fn handle_leader(&mut self, leader: LeaderAndEpoch, now: Now) -> Result<(), ObserverError> {
        self.follow(leader, now.monotonic)
    }

    /// The next request, if this node observes and it is time for one. What has been answered by
    /// nobody until [`Self::next_deadline`] is asked again. A log that was torn is mended before, as
    /// soon as that can be.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        let RoleState::Observer(observer) = &mut self.role else {
            return None;
        };
        observer.pass_time(now.monotonic);
        if observer.under_way.is_some() || now.monotonic < observer.retry_at {
            return None;
        }
        let mended = self.mend(now.wall_ms);
        let (fetch_offset, last_fetched_epoch) = self.fetch_position();
        let wanted_log = Wanted::Log {
            fetch_offset,
            last_fetched_epoch,
            high_watermark: self.high_watermark(),
        };
        let RoleState::Observer(observer) = &mut self.role else {
            return None;
        };
        if mended.is_err() {
            observer.back_off(now.monotonic);
            return None;
        }
        let (to, wanted) = match (observer.leader_id, &observer.download) {
            (Some(leader_id), Some(download)) if !observer.is_asking_around => {
                let (id, position) = (download.id, download.position);
                let wanted = Wanted::Snapshot { id, position };
                (Recipient::Leader(leader_id), wanted)
            }
            (Some(leader_id), None) if !observer.is_asking_around => {
                (Recipient::Leader(leader_id), wanted_log)
            }
            _ => (Recipient::Anyone, wanted_log),
        };
        observer.request_count += 1;
        let request = Request {
            number: observer.request_count,
            to,
            leader_epoch: self.epoch,
            wanted,
        };
        observer.under_way = Some(UnderWay {
            request,
            deadline: now.monotonic.plus_ms(observer.timeouts.request_ms),
        });
        Some(request)
    }

    /// When [`Self::poll_request`] may have something without an answer having come; `None` if this
    /// node does not observe.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        match &self.role {
            RoleState::Observer(_) if self.has_failed() => None,
            RoleState::Observer(observer) => Some(match observer.under_way {
                Some(asked) => asked.deadline,
                None => observer.retry_at,
            }),
            _ => None,
        }
    }

    /// Whether all is here that the leader of this epoch had committed when it was last heard of: what is
    /// known of the cluster is not old. Whoever does not observe knows it all.
    pub fn has_caught_up(&self) -> bool {
        match &self.role {
            RoleState::Observer(observer) => observer
                .leader_high_watermark
                .is_some_and(|high_watermark| self.high_watermark() >= high_watermark),
            _ => true,
        }
    }

    /// Takes the answer to the request of this number. One that is late, or of another epoch than
    /// the present one, is left unread.
    ///
    /// # Errors
    /// What the answer asks for that cannot be, or what the disk refuses. Unless [`Self::has_failed`]
    /// the observer goes on asking, after a moment.
    pub fn handle_answer(
        &mut self,
        number: u64,
        answer: Answer<'_>,
        now: Now,
    ) -> Result<(), ObserverError> {
        let RoleState::Observer(observer) = &mut self.role else {
            return Ok(());
        };
        observer.pass_time(now.monotonic);
        let is_awaited = |asked: &mut UnderWay| asked.request.number == number;
        let Some(UnderWay { request, .. }) = observer.under_way.take_if(is_awaited) else {
            return Ok(());
        };
        let Answer::Answer {
            error,
            leader,
            content,
        } = answer
        else {
            // The leader may be gone for good: somebody else knows who is next.
            observer.is_asking_around |= matches!(request.to, Recipient::Leader(_));
            observer.is_compared = false;
            observer.back_off(now.monotonic);
            return Ok(());
        };
        let outcome = match self.read_head(error, leader, now.monotonic) {
            Ok(Reply::Counts) => self.read_content(&request.wanted, content, now),
            Ok(Reply::Done) => Ok(()),
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            self.give_up_download();
            if let RoleState::Observer(observer) = &mut self.role {
                observer.back_off(now.monotonic);
            }
        }
        outcome
    }

    /// What an answer says of leader and epoch, and whether the rest of it counts.
    fn read_head(
        &mut self,
        error: ErrorCode,
        leader: LeaderAndEpoch,
        now: MonotonicTime,
    ) -> Result<Reply, ObserverError> {
        let (epoch_before, is_older) = (self.epoch, leader.epoch < self.epoch);
        if error == ErrorCode::InvalidRequest {
            return Err(ObserverError::Refused(error));
        }
        self.follow(leader, now)?;
        let RoleState::Observer(observer) = &mut self.role else {
            return Ok(Reply::Done);
        };
        if self.epoch != epoch_before {
            // It answers what was asked in another epoch.
            return Ok(Reply::Done);
        }
        if !is_older && leader.leader_id.is_some() {
            // Whoever was asked: the leader is next, and has its time again.
            if std::mem::take(&mut observer.is_asking_around) {
                observer.heard_at = now;
            }
        }
        match error {
            ErrorCode::None if !is_older && leader.leader_id.is_some() => {
                observer.heard_at = now;
                observer.retry_at = MonotonicTime::MIN;
                Ok(Reply::Counts)
            }
            ErrorCode::SnapshotNotFound | ErrorCode::PositionOutOfRange => {
                observer.back_off(now);
                self.give_up_download();
                Ok(Reply::Done)
            }
            _ => {
                observer.back_off(now);
                Ok(Reply::Done)
            }
        }
    }

    /// Follows the leader of the present epoch or of a later one, which is written down before.
    fn follow(&mut self, leader: LeaderAndEpoch, now: MonotonicTime) -> Result<(), ObserverError> {
        let QuorumMembership::Observer { id, timeouts } = self.standing else {
            return Ok(());
        };
        let RoleState::Observer(observer) = &self.role else {
            return Ok(());
        };
        // Nobody follows itself.
        let named = leader.leader_id.filter(|named| *named != id);
        match (observer.leader_id, named) {
            _ if leader.epoch < self.epoch => return Ok(()),
            _ if leader.epoch > self.epoch => {}
            (None, Some(_)) => {}
            (Some(known), Some(named)) if known != named => {
                return Err(ObserverError::TwoLeaders {
                    epoch: self.epoch,
                    known,
                    named,
                });
            }
            _ => return Ok(()),
        }
        let is_fixed = !self.voters().can_change();
        let fixed_voters = is_fixed.then(|| self.fixed_voters.clone().unwrap_or_default());
        quorum_state_file::write(
            &self.log.disk,
            &self.log.folder,
            (named, leader.epoch),
            fixed_voters,
        )?;
        self.give_up_download();
        let RoleState::Observer(observer) = &mut self.role else {
            return Ok(());
        };
        let (request_count, noted) = (observer.request_count, observer.noted);
        // Who leads in a later epoch may have another log.
        let is_compared = observer.is_compared && leader.epoch == self.epoch;
        *observer = Observer {
            request_count,
            is_compared,
            noted,
            ..Observer::new(timeouts, named, now)
        };
        self.epoch = leader.epoch;
        Ok(())
    }

    fn read_content(
        &mut self,
        wanted: &Wanted,
        content: Content<'_>,
        now: Now,
    ) -> Result<(), ObserverError> {
        let RoleState::Observer(observer) = &self.role else {
            return Ok(());
        };
        match (wanted, content) {
            // The question was only who leads.
            (Wanted::Log { .. }, _) if observer.download.is_some() => Ok(()),
            (
                Wanted::Log { fetch_offset, .. },
                Content::Records {
                    bytes,
                    high_watermark,
                },
            ) => {
                self.mend(now.wall_ms)?;
                match self.compare(*fetch_offset, bytes, now.wall_ms)? {
                    Some(news) => self.take_records(news, high_watermark, now.wall_ms),
                    None => Ok(()),
                }
            }
            // The leader does not have that batch any more. What comes after it may be there.
            (Wanted::Log { fetch_offset, .. }, Content::SnapshotId(_))
                if *fetch_offset < self.log.log.log_end_offset() =>
            {
                self.end_comparison();
                Ok(())
            }
            (Wanted::Log { .. }, Content::Diverging(end)) => self.cut_where_logs_part(end, now),
            (Wanted::Log { .. }, Content::SnapshotId(id)) => self.begin_download(id, now),
            (Wanted::Snapshot { .. }, Content::Piece(piece)) => self.take_piece(&piece, now),
            _ => Err(ObserverError::Records(
                "an answer to another question".to_owned(),
            )),
        }
    }

    /// Where the next fetch begins, and the epoch of the batch before: at the end of the log, unless the last batch has
    /// yet to be compared.
    fn fetch_position(&self) -> (Offset, LeaderEpoch) {
        let log = &self.log;
        let end = (log.log.log_end_offset(), log.last_epoch());
        let is_compared =
            matches!(&self.role, RoleState::Observer(observer) if observer.is_compared);
        if is_compared || !self.has_one_voter() {
            return end;
        }
        let last_batch = log.batch_start(end.0 - 1).ok();
        // Before the first one there is a snapshot, or nothing.
        let last_batch = last_batch.filter(|start| *start > log.log.log_start_offset());
        let epochs = log.log.leader_epochs();
        let position =
            last_batch.and_then(|start| Some((start, epochs.epoch_for_offset(start - 1)?)));
        position.unwrap_or(end)
    }

    /// Whether a leader could be elected without anybody else, so that nobody else would have what it loses.
    fn has_one_voter(&self) -> bool {
        let voters = self.voters();
        let count = match voters.can_change() {
            true => voters.voters.as_ref().map(Vec::len),
            false => self.fixed_voters.as_ref().map(Vec::len),
        };
        count == Some(1)
    }

    /// Compares the last batch here with the leader's, if that was asked for, and gives what comes after it; `None`
    /// when there is nothing to compare it with, and the next fetch from the end of the log tells.
    ///
    /// # Errors
    /// When the leader has another batch, and this one is committed; when one of the two is damaged.
    fn compare<'a>(
        &mut self,
        fetch_offset: Offset,
        bytes: &'a [u8],
        now_ms: i64,
    ) -> Result<Option<&'a [u8]>, ObserverError> {
        let log = &mut self.log;
        let log_end_offset = log.log.log_end_offset();
        let mut news = Some(bytes);
        if fetch_offset < log_end_offset {
            let mut own = Vec::new();
            let read = log.log.read_into(fetch_offset, 1, log_end_offset, &mut own);
            read.map_err(|error| AppendError::Log(error.to_string()))?;
            let first = first_batch(bytes).map_err(ObserverError::Records)?;
            let size_bytes = first.map(|batch| batch.size_in_bytes());
            news = size_bytes.map(|size| bytes.split_at(size).1);
            let is_same = |size: usize| own.get(..size) == bytes.get(..size);
            if !size_bytes.is_none_or(is_same) {
                if fetch_offset < log.high_watermark() {
                    return Err(match first_batch(&own) {
                        Ok(_) => self.below_high_watermark(fetch_offset),
                        Err(damage) => log.fail_damaged(&damage),
                    });
                }
                log.truncate_to(fetch_offset, now_ms)?;
                news = Some(bytes);
            }
        }
        self.end_comparison();
        Ok(news)
    }

    /// From here on the log is fetched from its end.
    const fn end_comparison(&mut self) {
        if let RoleState::Observer(observer) = &mut self.role {
            observer.is_compared = true;
        }
    }

    fn take_records(
        &mut self,
        bytes: &[u8],
        high_watermark: Offset,
        now_ms: i64,
    ) -> Result<(), ObserverError> {
        let log = &mut self.log;
        let changes = quorum_records(bytes, log.log.log_end_offset())?;
        match log.write(bytes, self.epoch, now_ms) {
            Ok(()) => log.flush(now_ms)?,
            Err(storage::AppendError::Empty) => {}
            Err(storage::AppendError::Storage(error)) => return Err(error.into()),
            Err(storage::AppendError::Offline) => return Err(AppendError::Failed.into()),
            Err(error) => return Err(ObserverError::Records(error.to_string())),
        }
        let end_offset = log.log.log_end_offset();
        for (at, records) in changes {
            if at <= end_offset {
                log.voters.replay(at, &records);
            }
        }
        // Only whole batches are committed, so that what is above can be cut.
        let committed = log.batch_start(high_watermark.min(end_offset));
        let committed = committed.map_err(of_read)?;
        if committed > log.high_watermark() {
            let RoleState::Observer(observer) = &mut self.role else {
                return Ok(());
            };
            // Before anybody lives by it: the next start must not take it for something that may be cut.
            let before = observer.noted.take();
            damage::move_note(&log.disk, &log.folder, before, committed)?;
            observer.noted = Some(committed);
        }
        log.commit(committed);
        if let RoleState::Observer(observer) = &mut self.role {
            observer.leader_high_watermark =
                Some(high_watermark).filter(|known| *known >= Offset::ZERO);
        }
        Ok(())
    }

    /// Cuts what the leader does not have (KIP-320 as KIP-595 has it for Fetch).
    fn cut_where_logs_part(&mut self, end: LeaderEpochEnd, now: Now) -> Result<(), ObserverError> {
        self.mend(now.wall_ms)?;
        let log = &mut self.log;
        let log_end_offset = log.log.log_end_offset();
        // Where the leader's last epoch that is not above that one ends here.
        let offset = match log.log.offset_for_leader_epoch(end.leader_epoch) {
            Some(own) if own.leader_epoch == end.leader_epoch => own.end_offset.min(end.end_offset),
            Some(own) => own.end_offset,
            None => end.end_offset,
        };
        let high_watermark = log.high_watermark();
        // A batch goes as a whole, and a snapshot may end within one.
        let offset = match offset < high_watermark {
            true => offset,
            false => log.batch_start(offset).map_err(of_read)?,
        };
        if offset < high_watermark {
            return Err(self.below_high_watermark(offset));
        }
        if offset < log_end_offset {
            log.truncate_to(offset, now.wall_ms)?;
        } else if let RoleState::Observer(observer) = &mut self.role {
            // There is nothing to cut: asking the same at once would be of no use.
            observer.back_off(now.monotonic);
            observer.is_compared = true;
        }
        Ok(())
    }

    /// What a leader is answered that lacks what is committed. The next start has to know it too: a
    /// supervisor makes one at once.
    fn below_high_watermark(&self, offset: Offset) -> ObserverError {
        // It is left again when the log is closed, and whoever closes it hears of a failure.
        let _ = self.note_committed();
        ObserverError::BelowHighWatermark {
            offset,
            high_watermark: self.high_watermark(),
            directory: self.log.folder.clone(),
        }
    }

    fn begin_download(&mut self, id: SnapshotId, now: Now) -> Result<(), ObserverError> {
        self.mend(now.wall_ms)?;
        if id.end_offset < self.high_watermark() {
            return Err(self.below_high_watermark(id.end_offset));
        }
        let is_stored = self.log.snapshots.newest() >= Some(id);
        if is_stored && id.end_offset > self.log.log.log_end_offset() {
            return self.log.take_over(id, now.wall_ms);
        }
        let RoleState::Observer(observer) = &mut self.role else {
            return Ok(());
        };
        if is_stored {
            observer.back_off(now.monotonic);
            return Ok(());
        }
        observer.download = Some(Download::begin(&self.log, id)?);
        Ok(())
    }

    fn take_piece(&mut self, piece: &SnapshotPiece<'_>, now: Now) -> Result<(), ObserverError> {
        let RoleState::Observer(observer) = &mut self.role else {
            return Ok(());
        };
        let Some(download) = &mut observer.download else {
            return Ok(());
        };
        if !download.add(&self.log, piece)? {
            return Ok(());
        }
        let Some(whole) = observer.download.take() else {
            return Ok(());
        };
        let id = whole.id;
        let installed = self.log.install(whole, now.wall_ms);
        if installed.is_err() {
            discard(&self.log, id);
        }
        installed
    }

    fn give_up_download(&mut self) {
        if let RoleState::Observer(observer) = &mut self.role
            && let Some(download) = observer.download.take()
        {
            discard(&self.log, download.id);
        }
    }
}

fn of_read(error: ReadError) -> ObserverError {
    match error {
        ReadError::Storage(error) => error.into(),
        ReadError::Log(reason) => AppendError::Log(reason).into(),
    }
}

/// The first of batches; `None` where there are no bytes.
///
/// # Errors
/// Why it is not as its leader has written it.
fn first_batch(bytes: &[u8]) -> Result<Option<RecordBatch<'_>>, String> {
    match Batches::new(bytes).next() {
        None if bytes.is_empty() => Ok(None),
        None => Err("there is no whole batch".to_owned()),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(batch)) => check_sum(&batch).map(|()| Some(batch)),
    }
}

/// Checks that a batch is as it was written.
fn check_sum(batch: &RecordBatch<'_>) -> Result<(), String> {
    match batch.is_crc_valid() {
        true => Ok(()),
        false => Err(format!(
            "the batch at offset {} does not match its checksum",
            batch.base_offset()
        )),
    }
}

/// The control records of batches, each with the offset after its batch. The first batch begins at
/// `offset`, and none is left out: a partition's log may have gaps, the quorum's has none. What is no
/// batch is found by the log.
fn quorum_records(
    bytes: &[u8],
    mut offset: Offset,
) -> Result<Vec<(Offset, Vec<QuorumRecord>)>, ObserverError> {
    let mut found = Vec::new();
    for batch in Batches::new(bytes).map_while(Result::ok) {
        let base_offset = batch.base_offset();
        if base_offset != offset {
            let reason = format!("offset {base_offset} does not follow {offset}");
            return Err(ObserverError::Records(reason));
        }
        // What was damaged on its way comes whole the next time.
        check_sum(&batch).map_err(ObserverError::Records)?;
        // It would be read by nobody, now or at the next start.
        if is_compressed(&batch) {
            let reason = format!("the batch at offset {base_offset} is compressed");
            return Err(ObserverError::Records(reason));
        }
        offset = batch.next_offset();
        if batch.is_control() {
            found.push((offset, read_quorum_records(&batch)?));
        }
    }
    Ok(found)
}
