//! What an instance and its threads share: where each of them stands, what has failed, and whether all are to end.

use super::State;
use crate::error::StreamsError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::watch;

/// Hears of the new state and the one before.
pub(super) type StateListener = Arc<dyn Fn(State, State) + Send + Sync>;

/// What the instance and its threads share.
pub(super) struct Shared {
    /// The state of each thread.
    threads: Mutex<Vec<State>>,
    /// How many of these are stream threads; the global thread comes after them.
    stream_threads: AtomicUsize,
    state: watch::Sender<State>,
    listener: Mutex<Option<StateListener>>,
    changes: Mutex<Changes>,
    errors: Mutex<Vec<StreamsError>>,
    is_ending: watch::Sender<bool>,
    /// Whether all members of the group are to end.
    pub(super) ends_application: AtomicBool,
}

/// The changes of the state that the listener has not heard of.
#[derive(Default)]
struct Changes {
    /// Each with the new state and the one before.
    untold: VecDeque<(State, State)>,
    /// Somebody tells, and goes on with what comes meanwhile: so changes are heard of in their order, one at a time.
    is_telling: bool,
}

/// Held by who tells.
struct Telling<'a>(&'a Mutex<Changes>);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.lock().is_telling = false;
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            threads: Mutex::new(Vec::new()),
            stream_threads: AtomicUsize::new(0),
            state: watch::Sender::new(State::Created),
            listener: Mutex::new(None),
            changes: Mutex::default(),
            errors: Mutex::new(Vec::new()),
            is_ending: watch::Sender::new(false),
            ends_application: AtomicBool::new(false),
        }
    }
}

impl Shared {
    /// There are so many threads of each kind from now on.
    pub(super) fn begin(&self, stream_threads: usize, global_threads: usize) {
        *self.threads.lock() = vec![State::Rebalancing; stream_threads + global_threads];
        self.stream_threads.store(stream_threads, Ordering::Relaxed);
        self.change(State::Rebalancing);
    }

    /// Where the instance stands.
    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Where the instance stands, as it changes.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Who hears of changes from now on.
    pub(super) fn listen(&self, listener: StateListener) {
        *self.listener.lock() = Some(listener);
    }

    /// A thread stands here now; the instance's state follows from all of them.
    pub(super) fn set(&self, thread: usize, state: State) {
        let mut threads = self.threads.lock();
        threads[thread] = state;
        let of_all = |state| threads.iter().all(|thread| *thread == state);
        let any = |state| threads.contains(&state);
        let state = if any(State::Error) {
            State::Error
        } else if of_all(State::NotRunning) {
            State::NotRunning
        } else if self.is_ending() {
            State::PendingShutdown
        } else if of_all(State::Running) {
            State::Running
        } else {
            State::Rebalancing
        };
        // As long as the lock is held, no other thread stands elsewhere.
        self.note(state);
        drop(threads);
        self.tell();
    }

    /// The instance stands here now, unless it has ended.
    pub(super) fn change(&self, state: State) {
        self.note(state);
        self.tell();
    }

    fn note(&self, state: State) {
        self.state.send_if_modified(|told| {
            let before = *told;
            let is_over = match before {
                State::NotRunning => true,
                State::Error => state != State::NotRunning,
                _ => false,
            };
            if is_over || before == state {
                return false;
            }
            *told = state;
            self.changes.lock().untold.push_back((state, before));
            true
        });
    }

    /// Tells the listener. If it panics, it hears of the other changes all the same, and the panic goes on after that.
    fn tell(&self) {
        let mut panicked = None;
        while let Some(((state, before), _telling)) = self.next_change() {
            // No lock is held: the listener may set another one.
            let listener = self.listener.lock().clone();
            if let Some(listener) = listener {
                let told = catch_unwind(AssertUnwindSafe(|| listener(state, before)));
                panicked = panicked.or(told.err());
            }
        }
        if let Some(panicked) = panicked {
            resume_unwind(panicked);
        }
    }

    /// A change that is to be told of, unless somebody tells already.
    fn next_change(&self) -> Option<((State, State), Telling<'_>)> {
        let mut changes = self.changes.lock();
        if changes.is_telling {
            return None;
        }
        let change = changes.untold.pop_front()?;
        changes.is_telling = true;
        Some((change, Telling(&self.changes)))
    }

    /// Asks all threads to end.
    pub(super) fn end(&self) {
        self.is_ending.send_replace(true);
    }

    /// Asks the instance to end, if it runs.
    pub(super) fn shut_down(&self) {
        self.end();
        if matches!(self.state(), State::Rebalancing | State::Running) {
            self.change(State::PendingShutdown);
        }
    }

    /// These threads are not started any more: nobody waits for them.
    pub(super) fn give_up(&self, unstarted: impl IntoIterator<Item = usize>) {
        for thread in unstarted {
            let has_failed = self.threads.lock()[thread] == State::Error;
            if !has_failed {
                self.set(thread, State::NotRunning);
            }
        }
    }

    /// Whether the threads are asked to end.
    pub(super) fn is_ending(&self) -> bool {
        *self.is_ending.borrow()
    }

    /// Waits until the threads are asked to end.
    pub(super) async fn ending(&self) {
        // The sender lives as long as this.
        let _ = self.is_ending.subscribe().wait_for(|is_so| *is_so).await;
    }

    /// Whether the instance was asked to end and no stream thread runs any more.
    pub(super) fn have_stream_threads_ended(&self) -> bool {
        let count = self.stream_threads.load(Ordering::Relaxed);
        self.is_ending()
            && self
                .threads
                .lock()
                .iter()
                .take(count)
                .all(|state| matches!(state, State::NotRunning | State::Error))
    }

    /// A thread has failed.
    pub(super) fn fail(&self, thread: usize, error: StreamsError) {
        tracing::error!(%error, "a stream thread has failed");
        self.errors.lock().push(error);
        // The default of the uncaught exception handler: the other threads end too.
        self.end();
        self.set(thread, State::Error);
    }

    /// Why threads have failed, in words.
    pub(super) fn errors(&self) -> Vec<String> {
        self.errors.lock().iter().map(ToString::to_string).collect()
    }

    /// Takes the first error out.
    pub(super) fn take_error(&self) -> Option<StreamsError> {
        let mut errors = self.errors.lock();
        (!errors.is_empty()).then(|| errors.remove(0))
    }

    /// How many stream threads have not ended, and how many have failed.
    pub(super) fn count_threads(&self) -> (usize, usize) {
        let count = self.stream_threads.load(Ordering::Relaxed);
        let threads = self.threads.lock();
        let threads = || threads.iter().take(count);
        let ended = threads().filter(|state| matches!(state, State::NotRunning | State::Error));
        let failed = threads().filter(|state| **state == State::Error);
        (count - ended.count(), failed.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_stays_so() {
        let shared = Shared::default();
        shared.begin(2, 0);
        shared.end();
        shared.set(0, State::NotRunning);
        assert_eq!(shared.state(), State::PendingShutdown);
        shared.set(1, State::Error);
        // Whoever has looked before that it runs.
        shared.change(State::PendingShutdown);
        assert_eq!(shared.state(), State::Error);
        shared.change(State::NotRunning);
        shared.change(State::Rebalancing);
        assert_eq!(shared.state(), State::NotRunning);
    }

    #[test]
    fn nobody_waits_for_threads_that_are_not_started() {
        let shared = Shared::default();
        shared.begin(3, 1);
        shared.set(1, State::Error);
        shared.shut_down();
        shared.set(0, State::NotRunning);
        assert!(!shared.have_stream_threads_ended());
        shared.give_up(1..3);
        assert!(shared.have_stream_threads_ended());
        assert_eq!(shared.count_threads(), (0, 1));
        assert_eq!(shared.state(), State::Error);
    }

    #[test]
    fn a_listener_that_panics_hears_of_what_comes_after() {
        let shared = Arc::new(Shared::default());
        let heard: Arc<Mutex<Vec<State>>> = Arc::default();
        let (of_listener, within) = (Arc::clone(&heard), Arc::clone(&shared));
        shared.listen(Arc::new(move |state, before| {
            of_listener.lock().push(state);
            if before == State::Created {
                // This one is told after the listener has returned.
                within.change(State::Error);
                panic!("the application does not like it");
            }
        }));
        let changed = catch_unwind(AssertUnwindSafe(|| shared.change(State::Rebalancing)));
        assert!(changed.is_err());
        assert_eq!(*heard.lock(), [State::Rebalancing, State::Error]);
    }

    #[test]
    fn a_listener_hears_in_order_and_may_set_another_one() {
        let shared = Arc::new(Shared::default());
        let heard: Arc<Mutex<Vec<(State, State)>>> = Arc::default();
        let (of_first, of_second) = (Arc::clone(&heard), Arc::clone(&heard));
        let within = Arc::clone(&shared);
        shared.listen(Arc::new(move |state, before| {
            of_first.lock().push((state, before));
            let of_second = Arc::clone(&of_second);
            within.listen(Arc::new(move |state, before| {
                of_second.lock().push((state, before));
            }));
            within.change(State::Running);
            // It comes after this one has returned.
            assert_eq!(of_first.lock().len(), 1);
        }));
        shared.change(State::Rebalancing);
        assert_eq!(
            *heard.lock(),
            [
                (State::Rebalancing, State::Created),
                (State::Running, State::Rebalancing)
            ]
        );
        assert!(!shared.is_ending());
    }
}
