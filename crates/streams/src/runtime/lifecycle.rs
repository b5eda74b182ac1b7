//! Where an instance and its threads stand: Kafka Streams' state machines as one value, without clocks, locks or
//! threads.
//!
//! ```text
//!   start, add_thread, remove_thread ─┐             ┌─> changes of the state, for the listener
//!   stand, stand_global ──────────────┼─ Lifecycle ─┼─> which threads are to be started, and to end
//!   close, fail, respond, finish ─────┘             └─> whether nothing runs any more
//! ```
//!
//! Invariants:
//! - The state changes as `State::may_become` says and in no other way: nothing comes after `NotRunning` and `Error`.
//! - `NotRunning` and `Error` come when no thread runs any more, and everything is closed.
//! - A stream thread that is asked to end gets no other state but `Dead`.

use std::collections::BTreeMap;

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not started.
    Created,
    /// Some thread waits for its tasks, or restores their stores.
    Rebalancing,
    /// Every thread processes.
    Running,
    /// It is being closed.
    PendingShutdown,
    /// It is closed. Nothing comes after it.
    NotRunning,
    /// Something has failed, and the threads commit and close what they have.
    PendingError,
    /// Something has failed, and no thread runs any more; `KafkaStreams::errors` says why. Nothing comes after it.
    Error,
}

impl State {
    /// Whether `next` may come after it.
    pub(super) const fn may_become(self, next: Self) -> bool {
        use State::*;
        match self {
            Created => matches!(next, Rebalancing | PendingShutdown),
            Rebalancing => matches!(next, Running | PendingShutdown | PendingError),
            Running => matches!(next, Rebalancing | PendingShutdown | PendingError),
            PendingShutdown => matches!(next, NotRunning),
            PendingError => matches!(next, Error),
            NotRunning | Error => false,
        }
    }

    /// Whether it is started, and not asked to end.
    pub const fn is_running_or_rebalancing(self) -> bool {
        matches!(self, Self::Running | Self::Rebalancing)
    }

    /// Whether it is closing what it has.
    pub const fn is_shutting_down(self) -> bool {
        matches!(self, Self::PendingShutdown | Self::PendingError)
    }

    /// Whether it has closed everything.
    pub const fn has_completed_shutdown(self) -> bool {
        matches!(self, Self::NotRunning | Self::Error)
    }
}

/// Where a stream thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// It has not heard from its group.
    Starting,
    /// It has given tasks up, and waits for what it is to do.
    PartitionsRevoked,
    /// It has tasks, and some of them are being restored.
    PartitionsAssigned,
    /// All its tasks process.
    Running,
    /// It commits and closes what it has.
    PendingShutdown,
    /// It has ended.
    Dead,
}

/// What an uncaught error of a thread leads to (KIP-671).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamThreadExceptionResponse {
    /// The thread ends, and another one is started in its place. What made it fail will meet that one too, unless it
    /// passes. For the global thread: as `ShutdownClient`.
    ReplaceThread,
    /// This instance ends, in the state `Error`.
    ShutdownClient,
    /// All instances of the application end, in the state `Error`. The threads of this one go on until the group has
    /// told all its members.
    ShutdownApplication,
}

/// Who has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// A stream thread, by its index.
    Thread(usize),
    Global,
}

/// A change of the state: the new one, and the one before.
pub(super) type Change = (State, State);

/// Where an instance and its threads stand.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: State,
    /// The stream threads by their indexes, which begin with 0; their names count from 1.
    threads: BTreeMap<usize, ThreadState>,
    global: Option<ThreadState>,
    /// How many threads of each index have ended: another one may have begun.
    death_counts: BTreeMap<usize, u64>,
    failed_count: usize,
    /// The group is to be told that all instances end.
    is_application_ending: bool,
    /// Who was started to tell that when no other thread could any more.
    teller: Option<usize>,
    changes: Vec<Change>,
}

/// A stream thread that is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) index: usize,
    /// Whether its end is for the asker to wait for.
    pub(super) is_awaited: bool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            state: State::Created,
            threads: BTreeMap::new(),
            global: None,
            death_counts: BTreeMap::new(),
            failed_count: 0,
            is_application_ending: false,
            teller: None,
            changes: Vec::new(),
        }
    }
}

impl Lifecycle {
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// The changes since this was called last.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// So many stream threads are about to be started. False if the instance was started or closed before.
    pub(super) fn start(&mut self, stream_threads: usize, has_global_thread: bool) -> bool {
        if self.state != State::Created {
            return false;
        }
        self.threads = (0..stream_threads)
            .map(|index| (index, ThreadState::Starting))
            .collect();
        self.global = has_global_thread.then_some(ThreadState::Starting);
        self.change(State::Rebalancing)
    }

    /// A stream thread is about to be started: its index, the lowest that no thread has which is not dead. None unless
    /// the instance runs.
    pub(super) fn add_thread(&mut self) -> Option<usize> {
        if !self.state.is_running_or_rebalancing() {
            return None;
        }
        self.threads.retain(|_, state| *state != ThreadState::Dead);
        let index = (0..).find(|index| !self.threads.contains_key(index))?;
        self.threads.insert(index, ThreadState::Starting);
        Some(index)
    }

    /// A stream thread is to end, and the instance goes on: the first that runs, but for the one that asks if there is
    /// another. None when there is none, or the instance does not run.
    ///
    /// A stream thread does not wait for itself. Nor does one that is to end itself wait for another: that one may be
    /// waiting for it.
    pub(super) fn remove_thread(&mut self, asker: Option<usize>) -> Option<Removed> {
        if !self.state.is_running_or_rebalancing() {
            return None;
        }
        let index = self.live().find(|index| Some(*index) != asker);
        let index = index.or_else(|| self.live().next())?;
        let is_awaited = asker.is_none_or(|asker| asker != index && !self.is_thread_ending(asker));
        self.stand(index, ThreadState::PendingShutdown);
        Some(Removed { index, is_awaited })
    }

    /// A stream thread stands here now; the instance's state follows.
    pub(super) fn stand(&mut self, thread: usize, next: ThreadState) {
        let Some(state) = self.threads.get_mut(&thread) else {
            return;
        };
        let may_stand = match *state {
            ThreadState::Dead => false,
            ThreadState::PendingShutdown => next == ThreadState::Dead,
            _ => true,
        };
        if !may_stand {
            return;
        }
        *state = next;
        if next == ThreadState::Dead {
            *self.death_counts.entry(thread).or_default() += 1;
        }
        if matches!(
            next,
            ThreadState::PartitionsRevoked | ThreadState::PartitionsAssigned
        ) {
            self.change(State::Rebalancing);
        }
        self.settle();
    }

    /// The global thread stands here now.
    pub(super) fn stand_global(&mut self, next: ThreadState) {
        if self.global.is_none_or(|state| state == ThreadState::Dead) {
            return;
        }
        self.global = Some(next);
        // Nothing fills its stores any more. The stream threads of an application that ends tell the group first.
        if next == ThreadState::Dead && !self.is_application_ending {
            self.fail();
        }
        self.settle();
    }

    /// The instance runs when all its threads do. Those that have ended, or are to end, are not waited for.
    fn settle(&mut self) {
        let runs = |state: &ThreadState| *state == ThreadState::Running;
        let ends =
            |state: &ThreadState| matches!(state, ThreadState::PendingShutdown | ThreadState::Dead);
        let threads = || self.threads.values();
        let all_run = threads().all(|state| runs(state) || ends(state));
        let any_runs = threads().any(runs) || self.threads.is_empty();
        if all_run && any_runs && self.global.as_ref().is_none_or(runs) {
            self.change(State::Running);
        }
    }

    /// The instance is to end in order. Whether it was not asked before.
    pub(super) fn close(&mut self) -> bool {
        let is_first = self.change(State::PendingShutdown);
        self.end_threads();
        is_first
    }

    /// The instance is to end because something has failed. Whether it was not asked before.
    pub(super) fn fail(&mut self) -> bool {
        let is_first = self.change(State::PendingError);
        self.end_threads();
        is_first
    }

    fn end_threads(&mut self) {
        if self.state.is_shutting_down() {
            let threads = self.threads.values_mut();
            for state in threads.filter(|state| **state != ThreadState::Dead) {
                *state = ThreadState::PendingShutdown;
            }
        }
    }

    /// A thread has failed: it ends, and what the handler says is done. The index of a thread that is about to be
    /// started.
    pub(super) fn respond(
        &mut self,
        failed: Failed,
        response: StreamThreadExceptionResponse,
    ) -> Option<usize> {
        use StreamThreadExceptionResponse::*;
        if let Failed::Thread(index) = failed {
            self.failed_count += 1;
            self.stand(index, ThreadState::PendingShutdown);
        }
        match (response, failed) {
            (ReplaceThread, Failed::Thread(_)) => return self.add_thread(),
            (ShutdownApplication, Failed::Thread(_)) => {
                self.end_application();
                if self.live().next().is_some() {
                    return None;
                }
                // Somebody has to tell the group. If who was to do that has failed, nobody can.
                match self.teller {
                    None => self.teller = self.add_thread(),
                    Some(_) => {
                        self.fail();
                        return None;
                    }
                }
                return self.teller;
            }
            (ShutdownApplication, Failed::Global) if self.live().next().is_some() => {
                self.end_application();
            }
            (ShutdownClient, _) | (ReplaceThread | ShutdownApplication, Failed::Global) => {
                self.fail();
            }
        }
        None
    }

    /// The group is to be told that all instances end. Each goes on until it hears that from the group.
    pub(super) const fn end_application(&mut self) {
        self.is_application_ending = true;
    }

    /// Whether the group is to be told that all instances end.
    pub(super) const fn is_application_ending(&self) -> bool {
        self.is_application_ending
    }

    /// Whether a stream thread was started to tell the group that all instances end, and does nothing else.
    pub(super) fn is_teller(&self, thread: usize) -> bool {
        self.teller == Some(thread)
    }

    /// Whether the global stores have what their topics had at the start, without which no task processes. So it is
    /// when the global thread has ended, too, and all others are about to.
    pub(super) fn are_global_stores_filled(&self) -> bool {
        self.global
            .is_none_or(|state| state != ThreadState::Starting)
    }

    /// Whether a stream thread is asked to end.
    pub(super) fn is_thread_ending(&self, thread: usize) -> bool {
        let state = self.threads.get(&thread);
        state.is_none_or(|state| matches!(state, ThreadState::PendingShutdown | ThreadState::Dead))
    }

    /// How many stream threads of this index have ended.
    pub(super) fn count_deaths(&self, thread: usize) -> u64 {
        self.death_counts.get(&thread).copied().unwrap_or(0)
    }

    /// Whether the instance is asked to end.
    pub(super) const fn is_ending(&self) -> bool {
        self.state.is_shutting_down() || self.state.has_completed_shutdown()
    }

    /// Whether the instance is asked to end and no stream thread runs any more.
    pub(super) fn have_stream_threads_ended(&self) -> bool {
        let mut threads = self.threads.values();
        self.is_ending() && threads.all(|state| *state == ThreadState::Dead)
    }

    /// Whether the instance is asked to end and nothing runs any more: it may `finish`.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_shutting_down()
            && self.have_stream_threads_ended()
            && self.global.is_none_or(|state| state == ThreadState::Dead)
    }

    /// Everything is closed.
    pub(super) fn finish(&mut self) {
        if self.is_over() {
            self.change(match self.state {
                State::PendingError => State::Error,
                _ => State::NotRunning,
            });
        }
    }

    /// The stream threads that have not ended and are not asked to.
    fn live(&self) -> impl Iterator<Item = usize> {
        let ends =
            |state: &ThreadState| matches!(state, ThreadState::PendingShutdown | ThreadState::Dead);
        let threads = self.threads.iter();
        threads.filter_map(move |(index, state)| (!ends(state)).then_some(*index))
    }

    /// Whether a stream thread is the first of those that run, which does what one of them has to do.
    pub(super) fn is_first(&self, thread: usize) -> bool {
        self.live().next() == Some(thread)
    }

    /// How many threads share what caches may hold.
    pub(super) fn count_cache_shares(&self) -> usize {
        self.live().count().max(1)
    }

    /// How many stream threads run and are not asked to end, and how many have failed.
    pub(super) fn count_threads(&self) -> (usize, usize) {
        (self.live().count(), self.failed_count)
    }

    /// Where the stream threads stand that have not ended.
    pub(super) fn threads(&self) -> impl Iterator<Item = (usize, ThreadState)> {
        let threads = self.threads.iter();
        let threads = threads.map(|(index, state)| (*index, *state));
        threads.filter(|(_, state)| *state != ThreadState::Dead)
    }

    fn change(&mut self, next: State) -> bool {
        let before = self.state;
        let may_change = before.may_become(next);
        if may_change {
            self.state = next;
            self.changes.push((next, before));
        }
        may_change
    }
}

#[cfg(test)]
mod tests;
