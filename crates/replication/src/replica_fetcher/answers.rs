//! How a fetcher takes an answer: read as a whole first, then done partition by partition.
//!
//! ```text
//!   NONE                   ──> records, high watermark, log start: append
//!   a diverging epoch      ──> truncate, ask again
//!   OFFSET_OUT_OF_RANGE    ──> ListOffsets: end below ours ──> truncate; start above ──> begin anew
//!   FENCED_LEADER_EPOCH    ──> failed, until the metadata have the next epoch
//!   any other error        ──> asked for again after a while
//! ```

use super::answered::{AnswerError, Answered, Told};
use super::followed::{Followed, Stage};
use super::messages::{AnswerHead, Misread, PartitionAnswer, read_fetch, read_list_offsets};
use super::session::Session;
use super::step::{Step, StepAction, StepOutcome, StepToken};
use super::{InFlight, ReplicaFetcher};
use crate::fetch_session_cache::INVALID_SESSION_ID;
use crate::following::{FetchPosition, FetchedRecords};
use model::{ErrorCode, MonotonicTime};

/// What is told of a partition by an answer in which all is well.
#[inline]
fn told(answer: &PartitionAnswer) -> Told {
    if answer.error != ErrorCode::None {
        return Told::Error(answer.error);
    }
    match answer.diverging_epoch {
        Some((epoch, end_offset)) => Told::Diverging(epoch, end_offset),
        None => Told::Records {
            start: answer.records.0,
            length: answer.records.1,
            high_watermark: answer.high_watermark,
            log_start_offset: answer.log_start_offset,
        },
    }
}

impl<R> ReplicaFetcher<R> {
    /// Takes the answer to the last request: the body of the response, in the version that was asked for. What is
    /// to be done then comes by [`Self::next_step`].
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
        self.answered_at = now;
        self.begin_answer();
        let taken = match asked {
            InFlight::ListOffsets => self.take_list_offsets(body, version),
            InFlight::IncrementalFetch => self.take_fetch(body, version, None),
            InFlight::FullFetch { partition_count } => {
                self.take_fetch(body, version, Some(partition_count))
            }
        };
        match taken {
            Ok(()) => self.useless_count = 0,
            Err(error) => {
                self.answered.clear();
                self.useless_count = self.useless_count.saturating_add(1);
                if must_wait(error) || self.useless_count > 1 {
                    self.retry_at = now.plus_ms(self.settings.backoff_ms);
                }
            }
        }
        taken
    }

    /// The next thing to do with a log as the last answer says. `body` is its bytes.
    #[inline]
    pub fn next_step<'a>(&mut self, body: &'a [u8]) -> Option<Step<'_, 'a, R>> {
        let (slot, action) = self.next_action(body)?;
        let partition = &self.partitions[slot as usize];
        let replica = partition.replica.as_ref();
        Some(Step {
            token: StepToken {
                slot,
                generation: partition.generation,
            },
            replica: replica.expect("what has left is not acted on"),
            action,
            is_throttled: partition.is_throttled,
        })
    }

    #[inline]
    fn next_action<'a>(&mut self, body: &'a [u8]) -> Option<(u32, StepAction<'a>)> {
        loop {
            let Answered { slot, told } = *self.answered.get(self.done_count)?;
            self.done_count += 1;
            let partition = &mut self.partitions[slot as usize];
            let Told::Records {
                start,
                length,
                high_watermark,
                log_start_offset,
            } = told
            else {
                match self.rare_action(slot, told) {
                    Some(action) => return Some((slot, action)),
                    None => continue,
                }
            };
            if !partition.is_as_asked() {
                continue;
            }
            partition.stage = Stage::Appending;
            partition.leader_high_watermark = high_watermark.max(0);
            if length > 0 {
                self.served_last = Some(partition.key());
            }
            let records = body.get(start as usize..);
            let records = records.and_then(|from| from.get(..length as usize));
            let fetched = FetchedRecords {
                leader_epoch: partition.leader_epoch,
                fetch_offset: partition.position.fetch_offset,
                records: records.unwrap_or_default(),
                high_watermark,
                log_start_offset,
            };
            return Some((slot, StepAction::Append(fetched)));
        }
    }

    /// What came of a step.
    #[inline]
    pub fn complete(&mut self, token: StepToken, outcome: StepOutcome, now: MonotonicTime) {
        let partition = &mut self.partitions[token.slot as usize];
        let is_due = matches!(partition.stage, Stage::Appending | Stage::Truncating);
        if partition.generation != token.generation || !is_due {
            return;
        }
        match (outcome, partition.stage) {
            (StepOutcome::Done(position), Stage::Appending) => {
                partition.stage = Stage::Fetching;
                partition.refusal_count = 0;
                let has_moved = position.is_some_and(|position| partition.move_to(position));
                // One that is held for its lag, or was left out meanwhile, is looked at again.
                if has_moved || partition.is_throttled || !partition.is_in_session {
                    self.list(token.slot);
                }
            }
            (StepOutcome::Done(position), _) => {
                partition.stage = Stage::Fetching;
                let has_moved = position.is_some_and(|position| partition.move_to(position));
                // The leader has told its high watermark already, to a log that was not cut yet.
                partition.must_return = partition.is_in_session;
                match has_moved {
                    true => self.list(token.slot),
                    // The same question has the same answer.
                    false => self.delay(token.slot, now),
                }
            }
            (StepOutcome::Delayed(position), _) => {
                if let Some(position) = position {
                    partition.move_to(position);
                }
                self.delay(token.slot, now);
            }
            (StepOutcome::Failed, _) => self.fail(token.slot),
        }
    }

    /// What comes of a step is told after the next request.
    pub fn defer(&mut self, token: StepToken) {
        self.list(token.slot);
    }

    fn begin_answer(&mut self) {
        self.answered.clear();
        self.errors.clear();
        self.done_count = 0;
        self.answer_number = self.answer_number.wrapping_add(1);
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
        let (answered, number) = (&mut self.answered, self.answer_number);
        let (mut guess, first_slot) = (self.first_slot, &mut self.first_slot);
        let mut before = None;
        read_fetch(body, version, |key, answer| {
            let is_guessed = |one: &Followed<R>| one.key() == key && one.stage != Stage::Vacant;
            let slot = match partitions.get(guess as usize) {
                Some(one) if is_guessed(one) => guess,
                _ => {
                    let key_of = |slot: u32| partitions[slot as usize].key();
                    let found = index.find(key, key_of).ok_or(Misread::Partition(key))?;
                    match before {
                        Some(before) => partitions[before as usize].next_slot = found,
                        None => *first_slot = found,
                    }
                    found
                }
            };
            let partition = &mut partitions[slot as usize];
            let is_twice = std::mem::replace(&mut partition.answer_number, number) == number;
            if is_twice || !partition.is_in_session {
                return Err(Misread::Partition(key));
            }
            (guess, before) = (partition.next_slot, Some(slot));
            answered.push(Answered {
                slot,
                told: told(answer),
            });
            Ok(())
        })
    }

    fn take_list_offsets(&mut self, body: &[u8], version: i16) -> Result<(), AnswerError> {
        let (partitions, asked) = (&self.partitions, &self.asked);
        let answered = &mut self.answered;
        let read = read_list_offsets(body, version, |topic, index, offset| {
            let of = |slot: &u32| {
                let partition = &partitions[*slot as usize];
                (&*partition.topic, partition.index)
            };
            let Ok(at) = asked.binary_search_by(|slot| of(slot).cmp(&(topic, index))) else {
                return;
            };
            let slot = asked[at];
            let told = match (offset, partitions[slot as usize].stage) {
                (Err(error), Stage::AskingEnd | Stage::AskingStart) => Told::Error(error),
                (Ok(offset @ 0..), Stage::AskingEnd) => Told::End(offset),
                (Ok(offset @ 0..), Stage::AskingStart) => Told::Start(offset),
                (Ok(_), Stage::AskingEnd | Stage::AskingStart) => {
                    Told::Error(ErrorCode::UnknownServerError)
                }
                _ => return,
            };
            answered.push(Answered { slot, told });
        });
        let told = self.answered.iter().map(|one| one.slot);
        match read {
            Err(Misread::Malformed(error)) => {
                self.asking.append(&mut self.asked);
                Err(AnswerError::Malformed(error))
            }
            _ => {
                // What was not answered is asked for again after a while.
                let told: std::collections::BTreeSet<u32> = told.collect();
                let stage = |slot: &u32| self.partitions[*slot as usize].stage;
                let is_asking =
                    |slot: &&u32| matches!(stage(slot), Stage::AskingEnd | Stage::AskingStart);
                let missing = self.asked.iter().filter(is_asking);
                let missing = missing.filter(|slot| !told.contains(slot));
                let missing = missing.map(|slot| Answered {
                    slot: *slot,
                    told: Told::Error(ErrorCode::UnknownServerError),
                });
                let missing: Vec<_> = missing.collect();
                self.answered.extend(missing);
                self.asked.clear();
                Ok(())
            }
        }
    }

    /// What to do where there is more to it than to append.
    #[cold]
    fn rare_action<'a>(&mut self, slot: u32, told: Told) -> Option<StepAction<'a>> {
        let now = self.answered_at;
        let partition = &mut self.partitions[slot as usize];
        let leader_epoch = partition.leader_epoch;
        let log_end_offset = partition.position.fetch_offset;
        match (told, partition.stage) {
            (Told::Diverging(epoch, end_offset), _) if partition.is_as_asked() => {
                partition.stage = Stage::Truncating;
                let end = (epoch, end_offset);
                Some(StepAction::TruncateToLeader { leader_epoch, end })
            }
            (Told::End(offset), Stage::AskingEnd) if offset < log_end_offset => {
                partition.stage = Stage::Truncating;
                Some(StepAction::TruncateTo {
                    leader_epoch,
                    offset,
                })
            }
            (Told::End(_), Stage::AskingEnd) => {
                partition.stage = Stage::AskingStart;
                self.asking.push(slot);
                None
            }
            (Told::Start(offset), Stage::AskingStart) if offset > log_end_offset => {
                partition.stage = Stage::Truncating;
                Some(StepAction::RestartAt {
                    leader_epoch,
                    offset,
                })
            }
            // The leader has what it was asked for, by now.
            (Told::Start(_), Stage::AskingStart) => {
                self.delay(slot, now);
                None
            }
            (Told::Error(error), stage)
                if partition.is_as_asked()
                    || matches!(stage, Stage::AskingEnd | Stage::AskingStart) =>
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
        let partition = &mut self.partitions[slot as usize];
        let doublings = partition.refusal_count;
        partition.refusal_count = doublings.saturating_add(1);
        match error {
            ErrorCode::UnknownLeaderEpoch
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId => (RACE_DELAY_MS << doublings.min(16)).min(backoff_ms),
            _ => backoff_ms,
        }
    }
}

impl<R> Followed<R> {
    /// Whether that is another place.
    #[inline]
    fn move_to(&mut self, position: FetchPosition) -> bool {
        let before = std::mem::replace(&mut self.position, position);
        before != position
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
