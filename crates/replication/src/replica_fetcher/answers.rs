//! How a fetcher takes an answer: read as a whole first, then done partition by partition.
//!
//! ```text
//!   NONE                   ──> records, high watermark, log start: append
//!   a diverging epoch      ──> truncate, ask again
//!   OFFSET_OUT_OF_RANGE    ──> ListOffsets: end below ours ──> truncate; start above ──> begin anew
//!   FENCED_LEADER_EPOCH    ──> failed, until the metadata have the next epoch
//!   any other error        ──> asked for again after a while
//! ```

use super::answered::{AnswerError, AnsweredAt, AnsweredPartition, PartitionOutcome};
use super::followed::{Followed, InSession, Stage};
use super::messages::{AnswerHead, Misread, read_fetch, read_list_offsets, records_at, told_at};
use super::session::Session;
use super::step::{Step, StepAction, StepOutcome, StepToken};
use super::{InFlight, ReplicaFetcher};
use crate::fetch_session_cache::INVALID_SESSION_ID;
use crate::following::{FetchPosition, FetchedRecords};
use model::{ErrorCode, MonotonicTime, Offset};
use std::collections::BTreeSet;

/// So many answers of one session that were of use are followed by another one that is.
const USEFUL_IN_A_ROW: u32 = 10;

impl<R> ReplicaFetcher<R> {
    /// Takes the answer to the last request: the body of the response, in the version that was asked for. What is
    /// to be done then is done by [`Self::take_steps`].
    ///
    /// # Errors
    /// Why the answer is not taken. What was asked for is asked for again.
    pub fn handle_response(
        &mut self,
        body: &[u8],
        version: i16,
        now: MonotonicTime,
    ) -> Result<(), AnswerError> {
        let asked = self.in_flight.take().ok_or(AnswerError::NotAsked)?;
        self.begin_answer();
        self.answer_version = (asked != InFlight::ListOffsets).then_some(version);
        let taken = match asked {
            InFlight::ListOffsets => self.take_list_offsets(body, version),
            InFlight::IncrementalFetch => self.take_fetch(body, version, None),
            InFlight::FullFetch { partition_count } => {
                self.take_fetch(body, version, Some(partition_count))
            }
        };
        match taken {
            Ok(()) => self.note_useful(asked),
            Err(error) => {
                self.clear_answer();
                self.useful_count = 0;
                self.useless_count = self.useless_count.saturating_add(1);
                if must_wait(error) || self.useless_count > 1 {
                    self.retry_at = now.plus_ms(self.settings.backoff_ms);
                }
            }
        }
        taken
    }

    /// Answers that were of no use are forgotten once a session has lasted for a while: that one begins says nothing
    /// of the next answer in it.
    const fn note_useful(&mut self, asked: InFlight) {
        if matches!(asked, InFlight::IncrementalFetch) {
            self.useful_count = self.useful_count.saturating_add(1);
            if self.useful_count >= USEFUL_IN_A_ROW {
                self.useless_count = 0;
            }
        }
    }

    /// Has up to `count_max` things done with logs as the last answer says, whose bytes `body` is; whether there
    /// are more. `follow` does each, and says what has come of it.
    #[inline]
    pub fn take_steps(
        &mut self,
        body: &[u8],
        count_max: usize,
        now: MonotonicTime,
        mut follow: impl FnMut(&Step<'_, '_, R>) -> StepOutcome,
    ) -> bool {
        let is_fetch = self.answer_version.is_some();
        let start = self.done_count;
        let end = self.answered.len().min(start.saturating_add(count_max));
        for number in start..end {
            let AnsweredPartition { slot, at } = self.answered[number];
            self.done_count = number + 1;
            let fetched = is_fetch.then(|| records_at(body, at)).flatten();
            let Some((records, high_watermark, log_start_offset)) = fetched else {
                self.take_rare_step((body, at), slot, now, &mut follow);
                continue;
            };
            let partition = &mut self.partitions[slot as usize];
            partition.is_answered = false;
            if !partition.is_as_asked() {
                continue;
            }
            partition.leader_high_watermark = high_watermark.max(Offset::ZERO);
            let action = StepAction::Append(FetchedRecords {
                leader_epoch: partition.leader_epoch,
                fetch_offset: partition.fetch_offset(),
                records,
                high_watermark,
                log_start_offset,
            });
            if !records.is_empty() {
                self.served_last = slot;
            }
            let token = StepToken {
                slot,
                generation: partition.generation,
            };
            let position = match follow(&self.names[slot as usize].step(token, action)) {
                StepOutcome::Done(position) => position,
                outcome => {
                    self.end_step(slot, Stage::Appending, outcome, now);
                    continue;
                }
            };
            if partition.end_append(position, self.is_over_quota) {
                self.listed.push(slot);
            }
            if self.refused_count > 0 {
                self.set_refusals(slot, 0);
            }
        }
        self.done_count < self.answered.len()
    }

    /// What came of a step for which that was to be told later.
    pub fn complete(&mut self, token: StepToken, outcome: StepOutcome, now: MonotonicTime) {
        let partition = &mut self.partitions[token.slot as usize];
        let stage = partition.stage;
        let is_due = matches!(stage, Stage::Appending | Stage::Truncating);
        if partition.generation == token.generation && is_due {
            partition.stage = Stage::Fetching;
            self.end_step(token.slot, stage, outcome, now);
        }
    }

    /// A log has taken what was fetched for it.
    fn end_append(&mut self, slot: u32, position: Option<FetchPosition>) {
        let partition = &mut self.partitions[slot as usize];
        if partition.end_append(position, self.is_over_quota) {
            self.listed.push(slot);
        }
        if self.refused_count > 0 {
            self.set_refusals(slot, 0);
        }
    }

    /// What came of a step, where it is not a matter of course.
    #[cold]
    fn end_step(&mut self, slot: u32, stage: Stage, outcome: StepOutcome, now: MonotonicTime) {
        let partition = &mut self.partitions[slot as usize];
        match outcome {
            StepOutcome::Later => {
                partition.stage = stage;
                self.list(slot);
            }
            StepOutcome::Done(position) if stage == Stage::Appending => {
                self.end_append(slot, position);
            }
            StepOutcome::Done(position) => {
                let has_moved = position.is_some_and(|position| partition.move_to(position));
                // The leader has told its high watermark already, to a log that was not cut yet.
                partition.begin_fetching_anew();
                match has_moved {
                    true => self.list(slot),
                    // The same question has the same answer.
                    false => self.delay(slot, now),
                }
            }
            StepOutcome::Delayed(position) => {
                if let Some(position) = position {
                    partition.move_to(position);
                }
                self.delay(slot, now);
            }
            StepOutcome::Failed => self.fail(slot),
        }
    }

    /// A step where there is more to it than to append.
    #[cold]
    fn take_rare_step(
        &mut self,
        (body, at): (&[u8], AnsweredAt),
        slot: u32,
        now: MonotonicTime,
        follow: &mut impl FnMut(&Step<'_, '_, R>) -> StepOutcome,
    ) {
        let told = match self.answer_version {
            Some(version) => told_at(body, at, version),
            None => self.offsets[at.as_number()],
        };
        self.partitions[slot as usize].is_answered = false;
        if let Some(action) = self.rare_action(slot, told, now) {
            let partition = &mut self.partitions[slot as usize];
            partition.stage = Stage::Fetching;
            let token = StepToken {
                slot,
                generation: partition.generation,
            };
            let outcome = follow(&self.names[slot as usize].step(token, action));
            self.end_step(slot, Stage::Truncating, outcome, now);
        }
    }

    fn begin_answer(&mut self) {
        self.clear_answer();
        self.errors.clear();
    }

    /// What the answer says is not looked at any further.
    fn clear_answer(&mut self) {
        for answered in &self.answered[self.done_count..] {
            self.partitions[answered.slot as usize].is_answered = false;
        }
        self.answered.clear();
        self.done_count = 0;
    }

    /// `full_count` is how many partitions were asked for, where all were named.
    fn take_fetch(
        &mut self,
        body: &[u8],
        version: i16,
        full_count: Option<usize>,
    ) -> Result<(), AnswerError> {
        let head = match self.read_fetch(body, version) {
            Ok(head) => head,
            Err(Misread::Malformed(error)) => {
                self.session.renew();
                return Err(AnswerError::Malformed(error));
            }
            Err(Misread::Partition(key)) => {
                match full_count {
                    Some(_) => self.session.forget(),
                    None => self.session.renew(),
                }
                return Err(AnswerError::OtherPartitions(Some(key)));
            }
        };
        if head.error != ErrorCode::None {
            match head.error {
                ErrorCode::FetchSessionIdNotFound => self.session.forget(),
                _ => self.session.renew(),
            }
            return Err(AnswerError::Refused(head.error));
        }
        if full_count.is_some_and(|count| count != self.answered.len()) {
            self.session.forget();
            return Err(AnswerError::OtherPartitions(None));
        }
        if let Session::Incremental { id, .. } = self.session
            && ![id, INVALID_SESSION_ID].contains(&head.session_id)
        {
            self.session.renew();
            return Err(AnswerError::OtherSession {
                found: head.session_id,
                expected: id,
            });
        }
        self.session.answered(head.session_id);
        Ok(())
    }

    fn read_fetch(&mut self, body: &[u8], version: i16) -> Result<AnswerHead, Misread> {
        let (partitions, index) = (&mut self.partitions, &self.index);
        let answered = &mut self.answered;
        let (mut guess, first_slot) = (self.first_slot, &mut self.first_slot);
        read_fetch(body, version, |key, at| {
            let is_guessed = |one: &&mut Followed| one.index == key.1 && one.topic_id == key.0;
            let guessed = partitions.get_mut(guess as usize).filter(is_guessed);
            let partition = match guessed {
                Some(guessed) => guessed,
                None => {
                    let key_of = |slot: u32| partitions[slot as usize].key();
                    guess = index.find(key, key_of).ok_or(Misread::Partition(key))?;
                    match answered.last() {
                        Some(before) => partitions[before.slot as usize].next_slot = guess,
                        None => *first_slot = guess,
                    }
                    &mut partitions[guess as usize]
                }
            };
            let is_twice = std::mem::replace(&mut partition.is_answered, true);
            if is_twice || partition.session == InSession::Absent {
                partition.is_answered = is_twice;
                return Err(Misread::Partition(key));
            }
            let slot = std::mem::replace(&mut guess, partition.next_slot);
            answered.push(AnsweredPartition { slot, at });
            Ok(())
        })
    }

    fn take_list_offsets(&mut self, body: &[u8], version: i16) -> Result<(), AnswerError> {
        let (partitions, asked) = (&self.partitions, &self.asked);
        let names = &self.names;
        let mut told_all: Vec<(u32, PartitionOutcome)> = Vec::new();
        let read = read_list_offsets(body, version, |topic, index, offset| {
            let of = |slot: &u32| {
                let slot = *slot as usize;
                (&*names[slot].topic, partitions[slot].index)
            };
            let Ok(at) = asked.binary_search_by(|slot| of(slot).cmp(&(topic, index))) else {
                return;
            };
            let slot = asked[at];
            let told = match (offset, partitions[slot as usize].stage) {
                (Err(error), Stage::AskingEnd | Stage::AskingStart) => {
                    PartitionOutcome::Error(error)
                }
                (Ok(offset), Stage::AskingEnd) if !offset.is_none() => {
                    PartitionOutcome::End(offset)
                }
                (Ok(offset), Stage::AskingStart) if !offset.is_none() => {
                    PartitionOutcome::Start(offset)
                }
                (Ok(_), Stage::AskingEnd | Stage::AskingStart) => {
                    PartitionOutcome::Error(ErrorCode::UnknownServerError)
                }
                _ => return,
            };
            told_all.push((slot, told));
        });
        match read {
            Err(Misread::Malformed(error)) => {
                self.asking.append(&mut self.asked);
                Err(AnswerError::Malformed(error))
            }
            _ => {
                // What was not answered is asked for again after a while.
                let told: BTreeSet<u32> = told_all.iter().map(|(slot, _)| *slot).collect();
                let is_asking = |slot: &&u32| self.partitions[**slot as usize].is_asking();
                let missing = self.asked.iter().filter(is_asking);
                let missing = missing.filter(|slot| !told.contains(slot));
                let unanswered = PartitionOutcome::Error(ErrorCode::UnknownServerError);
                told_all.extend(missing.map(|slot| (*slot, unanswered)));
                let numbered = (0..)
                    .zip(&told_all)
                    .map(|(number, (slot, _))| AnsweredPartition {
                        slot: *slot,
                        at: AnsweredAt::number(number),
                    });
                self.answered.extend(numbered);
                self.offsets = told_all.into_iter().map(|(_, told)| told).collect();
                self.asked.clear();
                Ok(())
            }
        }
    }

    /// What to do where there is more to it than to append.
    fn rare_action(
        &mut self,
        slot: u32,
        told: PartitionOutcome,
        now: MonotonicTime,
    ) -> Option<StepAction<'static>> {
        let partition = &mut self.partitions[slot as usize];
        let leader_epoch = partition.leader_epoch;
        let log_end_offset = partition.fetch_offset();
        match (told, partition.stage) {
            (PartitionOutcome::Diverging(epoch, end_offset), _) if partition.is_as_asked() => {
                let end = (epoch, end_offset);
                Some(StepAction::TruncateToLeader { leader_epoch, end })
            }
            (PartitionOutcome::End(offset), Stage::AskingEnd) if offset < log_end_offset => {
                Some(StepAction::TruncateTo {
                    leader_epoch,
                    offset,
                })
            }
            (PartitionOutcome::End(_), Stage::AskingEnd) => {
                partition.stage = Stage::AskingStart;
                self.asking.push(slot);
                None
            }
            (PartitionOutcome::Start(offset), Stage::AskingStart) if offset > log_end_offset => {
                Some(StepAction::RestartAt {
                    leader_epoch,
                    offset,
                })
            }
            // The leader has what it was asked for, by now.
            (PartitionOutcome::Start(_), Stage::AskingStart) => {
                self.delay(slot, now);
                None
            }
            (PartitionOutcome::Error(error), _)
                if partition.is_as_asked() || partition.is_asking() =>
            {
                self.refuse(slot, error, now);
                None
            }
            _ => None,
        }
    }

    /// The leader has an error for a partition.
    fn refuse(&mut self, slot: u32, error: ErrorCode, now: MonotonicTime) {
        self.errors.push((slot, error));
        let is_fetched = self.partitions[slot as usize].stage == Stage::Fetching;
        match error {
            ErrorCode::OffsetOutOfRange if is_fetched => {
                self.partitions[slot as usize].stage = Stage::AskingEnd;
                self.asking.push(slot);
                self.list(slot);
            }
            ErrorCode::FencedLeaderEpoch => self.fail(slot),
            error => {
                let delay_ms = self.refusal_delay_ms(slot, error);
                self.delay_until(slot, now.plus_ms(delay_ms));
            }
        }
    }
}

/// How long a leader is not asked that may have heard less from the controller than this broker, at first.
const RACE_DELAY_MS: i64 = 50;

impl<R> ReplicaFetcher<R> {
    /// How long a partition is not asked for that the leader has refused. Metadata reach two brokers one after the
    /// other, so a leader that does not know of its role yet is asked again soon at first.
    fn refusal_delay_ms(&mut self, slot: u32, error: ErrorCode) -> i64 {
        let backoff_ms = self.settings.backoff_ms;
        let doublings = self.names[slot as usize].refusal_count;
        self.set_refusals(slot, doublings.saturating_add(1));
        match error {
            ErrorCode::UnknownLeaderEpoch
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId => (RACE_DELAY_MS << doublings.min(16)).min(backoff_ms),
            _ => backoff_ms,
        }
    }
}

/// Whether the same request would have the same answer.
const fn must_wait(error: AnswerError) -> bool {
    matches!(
        error,
        AnswerError::Malformed(_)
            | AnswerError::Refused(
                ErrorCode::FetchSessionTopicIdError
                    | ErrorCode::UnknownTopicId
                    | ErrorCode::InconsistentTopicId
            )
    )
}
