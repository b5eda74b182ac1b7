//! A hosted partition: its state, who is parked, and which answers wait for the high watermark.

use super::log::batch_of;
use super::{AppendedBatch, CoordinatorLog, TransactionMarker, TransactionalWriter, append_error};
use crate::group::RecordOrigin;
use crate::{CoordinatorRecord, Decision, Reply, Token};
use model::{ErrorCode, MonotonicTime, Now, Offset, ProducerId};
use std::collections::{BTreeMap, VecDeque};

/// A record that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreplayed {
    /// It is left out; the state goes on without what it says.
    Skipped(String),
    /// To go on without it would lose what it says.
    Fatal(String),
}

/// The replicated state of one partition of a coordinator's topic.
pub trait CoordinatorShard: Sized {
    /// The answer of a request that was parked.
    type Response;

    /// Applies a record: while loading, and after a decision's records were appended.
    ///
    /// # Errors
    /// That the record cannot be read. What a shard has written it can read.
    fn replay(
        &mut self,
        now: Now,
        origin: RecordOrigin,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Unreplayed>;

    /// Applies the end of a transaction.
    fn replay_transaction_end(&mut self, producer_id: ProducerId, is_commit: bool);

    /// Ends loading.
    fn start(&mut self, now: Now);

    /// When something is due that nobody asks for.
    fn next_deadline(&self) -> Option<MonotonicTime>;

    /// Takes back a decision whose records were not appended: of one that was split, the part that was not.
    /// Gives the answers of parked requests that are refused.
    fn append_failed<R>(
        &mut self,
        decision: Decision<R, Self::Response>,
        error: ErrorCode,
        now: Now,
    ) -> Vec<(Token, Self::Response)>;

    /// Ends the shard's life with the answers of all requests that are parked.
    fn unload(self) -> Vec<(Token, Self::Response)>;
}

/// Who waits under a token.
pub trait Waiter<S: CoordinatorShard> {
    /// An answer with everything that it needs to leave.
    type Answer;

    /// The answer of a later decision.
    fn released(self, response: S::Response) -> Self::Answer;

    /// There will be no later decision, as the state is gone.
    fn abandoned(self, error: ErrorCode) -> Self::Answer;

    /// What leaves in the place of an answer that may not: what it says could be lost.
    fn refused(answer: Self::Answer, error: ErrorCode) -> Self::Answer;
}

/// Who asks for an `R`.
pub trait Asker<S: CoordinatorShard, R, W: Waiter<S>> {
    /// The answer: of the shard as it is after the decision, or why there is none.
    fn answered(self, outcome: Result<(&S, R), ErrorCode>) -> W::Answer;

    /// Waits for a later decision.
    fn parked(self) -> W;
}

/// A partition of a coordinator's topic.
#[derive(Debug)]
pub struct HostedPartition<S: CoordinatorShard, L, W: Waiter<S>> {
    pub(super) log: L,
    phase: Phase<S>,
    pub(super) parked: BTreeMap<Token, W>,
    /// All that the state has appended, or was loaded from, is below.
    end_offset: Offset,
    /// Answers that wait for the high watermark, in the order in which they were made.
    held: VecDeque<Held<W::Answer>>,
    /// Answers that may leave.
    leaving: VecDeque<W::Answer>,
    is_flush_due: bool,
}

/// An answer that waits for the high watermark.
#[derive(Debug)]
struct Held<A> {
    /// What the high watermark has to reach.
    end_offset: Offset,
    since: MonotonicTime,
    answer: A,
}

#[derive(Debug)]
enum Phase<S> {
    /// The log is being replayed.
    Loading,
    Active(Box<S>),
    /// The log cannot be read, and a human must look; or the partition is not here any more.
    Failed,
}

/// The log did not take a decision's records, or those after the first few.
struct FailedCommit {
    appended_count: usize,
    error: ErrorCode,
}

impl<S, L, W> HostedPartition<S, L, W>
where
    S: CoordinatorShard,
    L: CoordinatorLog,
    W: Waiter<S>,
{
    /// A partition whose log has yet to be replayed.
    pub const fn new(log: L) -> Self {
        Self {
            log,
            phase: Phase::Loading,
            parked: BTreeMap::new(),
            end_offset: Offset::ZERO,
            held: VecDeque::new(),
            leaving: VecDeque::new(),
            is_flush_due: false,
        }
    }

    /// Its log.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Serves `shard`, which has replayed all below `end_offset`; without one, refuses everybody. Does
    /// nothing unless the partition loads.
    pub fn loaded(&mut self, shard: Option<(S, Offset)>, now: Now) {
        if !matches!(self.phase, Phase::Loading) {
            return;
        }
        self.phase = match shard {
            Some((mut shard, end_offset)) => {
                shard.start(now);
                self.end_offset = end_offset;
                Phase::Active(Box::new(shard))
            }
            None => Phase::Failed,
        };
    }

    /// Whether the log is being replayed.
    pub const fn is_loading(&self) -> bool {
        matches!(self.phase, Phase::Loading)
    }

    /// The shard, for what is not replicated.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress` while it loads, `NotCoordinator` when it is not here.
    pub fn shard(&mut self) -> Result<&mut S, ErrorCode> {
        match &mut self.phase {
            Phase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Active(shard) => Ok(shard),
            Phase::Failed => Err(ErrorCode::NotCoordinator),
        }
    }

    /// How many wait for a later decision.
    pub fn parked_count(&self) -> usize {
        self.parked.len()
    }

    /// When the shard has something to do that nobody asks for.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        match &self.phase {
            Phase::Active(shard) => shard.next_deadline(),
            Phase::Loading | Phase::Failed => None,
        }
    }

    /// Lets the shard decide, and carries the decision out.
    pub fn decide<R>(
        &mut self,
        asker: impl Asker<S, R, W>,
        writer: Option<&TransactionalWriter<L::Guard>>,
        now: Now,
        decide: impl FnOnce(&mut S, Now) -> Decision<R, S::Response>,
    ) {
        let answer = self.carry_out(|| asker, false, writer, now, decide);
        debug_assert!(answer.is_none(), "the asker has it");
    }

    /// The same for one who is there to take the answer: gives it if it may leave at once, and makes the asker
    /// who is told later otherwise.
    pub fn decide_at_once<R, A: Asker<S, R, W>>(
        &mut self,
        asker: impl FnOnce() -> A,
        writer: Option<&TransactionalWriter<L::Guard>>,
        now: Now,
        decide: impl FnOnce(&mut S, Now) -> Decision<R, S::Response>,
    ) -> Option<Result<R, ErrorCode>> {
        self.carry_out(asker, true, writer, now, decide)
    }

    /// Asks the shard without changing anything that is replicated.
    pub fn read<R>(
        &mut self,
        asker: impl Asker<S, R, W>,
        now: Now,
        read: impl FnOnce(&mut S, Now) -> R,
    ) {
        self.decide(asker, None, now, |shard, now| {
            Decision::reply(read(shard, now))
        });
    }

    /// Ends a transaction: its marker goes to the log, and what it holds takes effect or is dropped. The
    /// answer is an error of the log, as it is, if that refuses the marker.
    pub fn end_transaction(
        &mut self,
        asker: impl Asker<S, Result<(), ErrorCode>, W>,
        marker: TransactionMarker,
        transaction_version: i16,
        now: Now,
    ) {
        let appended = self.shard().map(drop).map(|()| {
            let mut batch = marker.into_batch(now.wall_ms);
            self.log
                .append_marker(&mut batch, transaction_version, now.wall_ms)
        });
        let outcome = appended.map(|appended| appended.map(|appended| self.note(appended)));
        match (outcome, &mut self.phase) {
            (Ok(outcome), Phase::Active(shard)) => {
                if outcome.is_ok() {
                    shard.replay_transaction_end(marker.producer_id, marker.is_commit);
                }
                let answer = asker.answered(Ok((shard, outcome)));
                self.hold(answer, now);
            }
            (Err(error), _) => self.leaving.push_back(asker.answered(Err(error))),
            (Ok(_), _) => unreachable!("only an active shard ends transactions"),
        }
        self.release();
    }

    /// Lets go what waits for the high watermark and may leave.
    pub fn high_watermark_advanced(&mut self) {
        self.release();
    }

    /// The log has failed, and its high watermark stays where it is: what is held is refused.
    pub fn log_failed(&mut self, error: ErrorCode) {
        self.release();
        let error = append_error(error);
        let refused = self.held.drain(..);
        let refused = refused.map(|held| W::refused(held.answer, error));
        self.leaving.extend(refused);
    }

    /// The answers that were made up to `made_by` have waited too long for the high watermark, and are refused.
    /// What they say may come to be replicated all the same.
    pub fn waited_too_long(&mut self, made_by: MonotonicTime) {
        self.release();
        let error = append_error(ErrorCode::RequestTimedOut);
        while let Some(held) = self.held.pop_front_if(|held| held.since <= made_by) {
            self.leaving.push_back(W::refused(held.answer, error));
        }
    }

    /// The state may differ from what the log says, as after a panic: it is dropped without another look at
    /// it, whoever waits is told this error, and the log is to be replayed.
    pub fn abandon(&mut self, error: ErrorCode) {
        self.log_failed(error);
        let parked = std::mem::take(&mut self.parked).into_values();
        self.leaving.extend(parked.map(|one| one.abandoned(error)));
        if !matches!(self.phase, Phase::Failed) {
            self.phase = Phase::Loading;
        }
    }

    /// The partition is not here any more: whoever waits is told to look elsewhere.
    pub fn unload(&mut self) {
        self.log_failed(ErrorCode::NotCoordinator);
        if let Phase::Active(shard) = std::mem::replace(&mut self.phase, Phase::Failed) {
            for (token, response) in shard.unload() {
                if let Some(waiter) = self.parked.remove(&token) {
                    self.leaving.push_back(waiter.released(response));
                }
            }
        }
        debug_assert!(self.parked.is_empty(), "a shard gives back all its tokens");
    }

    /// The next answer that may leave.
    pub fn poll_answer(&mut self) -> Option<W::Answer> {
        self.leaving.pop_front()
    }

    /// The offset that the high watermark has to reach for all answers to leave; `None` when none waits.
    pub fn awaited_offset(&self) -> Option<Offset> {
        self.held.back().map(|held| held.end_offset)
    }

    /// When the answer was made that waits longest for the high watermark; `None` when none waits.
    pub fn held_since(&self) -> Option<MonotonicTime> {
        self.held.front().map(|held| held.since)
    }

    /// All that the state has appended, or was loaded from, is below this.
    pub const fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// What the log was to be flushed for is not durable: it is to be flushed again, and whoever waits for that
    /// is refused.
    pub fn flush_failed(&mut self, error: ErrorCode) {
        self.is_flush_due = true;
        self.log_failed(error);
    }

    /// Whether the log is to be flushed for the high watermark to move, once.
    pub const fn poll_flush(&mut self) -> bool {
        std::mem::replace(&mut self.is_flush_due, false)
    }

    /// Lets the shard decide, and appends and replays that. Gives what the asker is to be told if that may be
    /// said and is wanted `at_once`; otherwise he is made, and is told or parked.
    fn carry_out<R, A: Asker<S, R, W>>(
        &mut self,
        asker: impl FnOnce() -> A,
        at_once: bool,
        writer: Option<&TransactionalWriter<L::Guard>>,
        now: Now,
        decide: impl FnOnce(&mut S, Now) -> Decision<R, S::Response>,
    ) -> Option<Result<R, ErrorCode>> {
        let mut decision = match self.shard() {
            Ok(shard) => decide(shard, now),
            // No state was seen.
            Err(error) if at_once => return Some(Err(error)),
            Err(error) => {
                self.leaving.push_back(asker().answered(Err(error)));
                self.release();
                return None;
            }
        };
        // Kept apart while the token is known: it is never among those that the decision releases.
        let mut asker = Some(asker);
        if let Reply::Parked(token) = &decision.reply
            && let Some(asker) = asker.take()
        {
            self.parked.insert(*token, asker().parked());
        }
        let committed = self.commit(writer, &decision, now);
        let Phase::Active(shard) = &mut self.phase else {
            unreachable!("only an active shard decides")
        };
        let (outcome, released) = match committed {
            Ok(()) => (decision.reply.now().map(Ok), decision.released),
            Err(failed) => {
                let error = append_error(failed.error);
                decision.records.drain(..failed.appended_count);
                let released = shard.append_failed(decision, error, now);
                (Some(Err(error)), released)
            }
        };
        let mut answer = None;
        if let (Some(asker), Some(outcome)) = (asker, outcome) {
            answer = self.answer(asker, at_once, outcome, now);
        }
        for (token, response) in released {
            if let Some(waiter) = self.parked.remove(&token) {
                let answer = waiter.released(response);
                self.hold(answer, now);
            }
        }
        self.release();
        answer
    }

    /// Gives an outcome back if it is wanted `at_once` and may leave; otherwise the asker is told when it may.
    fn answer<R, A: Asker<S, R, W>>(
        &mut self,
        asker: impl FnOnce() -> A,
        at_once: bool,
        outcome: Result<R, ErrorCode>,
        now: Now,
    ) -> Option<Result<R, ErrorCode>> {
        if at_once && self.end_offset <= self.log.high_watermark() {
            return Some(outcome);
        }
        let Phase::Active(shard) = &self.phase else {
            unreachable!("only an active shard decides")
        };
        let answer = asker().answered(outcome.map(|reply| (&**shard, reply)));
        self.hold(answer, now);
        None
    }

    /// Appends the records and replays them: as one batch, or as several when a decision that need not be
    /// atomic is larger than a batch may be.
    fn commit<R>(
        &mut self,
        writer: Option<&TransactionalWriter<L::Guard>>,
        decision: &Decision<R, S::Response>,
        now: Now,
    ) -> Result<(), FailedCommit> {
        let mut appended_count = 0;
        while appended_count < decision.records.len() {
            let end = match decision.is_atomic {
                true => decision.records.len(),
                false => decision.batch_end(appended_count, self.log.batch_bytes_max()),
            };
            let records = &decision.records[appended_count..end];
            self.append(writer, records, now)
                .map_err(|error| FailedCommit {
                    appended_count,
                    error,
                })?;
            appended_count = end;
        }
        Ok(())
    }

    fn append(
        &mut self,
        writer: Option<&TransactionalWriter<L::Guard>>,
        records: &[CoordinatorRecord],
        now: Now,
    ) -> Result<(), ErrorCode> {
        let mut batch = batch_of(writer, records, self.log.codec(), now.wall_ms);
        let verification = writer.and_then(|writer| writer.verification);
        let appended = self.log.append(&mut batch, verification, now.wall_ms)?;
        self.note(appended);
        let Phase::Active(shard) = &mut self.phase else {
            unreachable!("only an active shard appends")
        };
        let producer_id = writer.map_or(ProducerId::NONE, |writer| writer.producer_id);
        for (offset, record) in (appended.base_offset.0..).map(Offset).zip(records) {
            let origin = RecordOrigin {
                offset,
                producer_id,
            };
            let replayed = shard.replay(now, origin, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        Ok(())
    }

    fn note(&mut self, appended: AppendedBatch) {
        self.end_offset = appended.end_offset;
        self.is_flush_due |= appended.is_flush_due;
    }

    fn hold(&mut self, answer: W::Answer, now: Now) {
        self.held.push_back(Held {
            end_offset: self.end_offset,
            since: now.monotonic,
            answer,
        });
    }

    fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let high_watermark = self.log.high_watermark();
        let is_passed = |held: &mut Held<_>| held.end_offset <= high_watermark;
        while let Some(held) = self.held.pop_front_if(is_passed) {
            self.leaving.push_back(held.answer);
        }
    }
}
