//! What an instance and its threads share: where each of them stands, what has failed, and who is to end. The shell
//! around [`Lifecycle`]: it tells listeners, and wakes who waits.

use super::close_options::GroupMembershipOperation;
use super::lifecycle::{Failed, Lifecycle, State, StreamThreadExceptionResponse, ThreadState};
use crate::error::StreamsError;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::watch;

/// Hears of the new state and the one before.
pub(super) type StateListener = Arc<dyn Fn(State, State) + Send + Sync>;

/// Says what an error of a thread leads to.
pub(super) type UncaughtExceptionHandler =
    Arc<dyn Fn(&StreamsError) -> StreamThreadExceptionResponse + Send + Sync>;

/// What the instance and its threads share.
pub(super) struct Shared {
    lifecycle: Mutex<Lifecycle>,
    /// Who waits in a thread wakes whenever the lifecycle has changed.
    changed: Condvar,
    /// Who waits in a task does, too.
    wakes: watch::Sender<()>,
    state: watch::Sender<State>,
    listener: Mutex<Option<StateListener>>,
    handler: Mutex<UncaughtExceptionHandler>,
    changes: Mutex<Changes>,
    errors: Mutex<Vec<Arc<StreamsError>>>,
    is_paused: AtomicBool,
    /// What becomes of the threads' membership at the end.
    membership: Mutex<Option<GroupMembershipOperation>>,
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
            lifecycle: Mutex::default(),
            changed: Condvar::new(),
            wakes: watch::Sender::new(()),
            state: watch::Sender::new(State::Created),
            listener: Mutex::new(None),
            handler: Mutex::new(Arc::new(|_| StreamThreadExceptionResponse::ShutdownClient)),
            changes: Mutex::default(),
            errors: Mutex::new(Vec::new()),
            is_paused: AtomicBool::new(false),
            membership: Mutex::new(None),
        }
    }
}

impl Shared {
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

    /// Who is asked about errors of threads from now on.
    pub(super) fn handle_errors(&self, handler: UncaughtExceptionHandler) {
        *self.handler.lock() = handler;
    }

    /// Changes where the instance or its threads stand. The listener hears what comes of it; if it panics, that is
    /// logged and no more, for what is changed has to be gone on with.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut Lifecycle) -> R) -> R {
        let changed = self.change(change);
        if catch_unwind(AssertUnwindSafe(|| self.tell())).is_err() {
            tracing::error!("the listener of states has panicked");
        }
        changed
    }

    fn change<R>(&self, change: impl FnOnce(&mut Lifecycle) -> R) -> R {
        let mut lifecycle = self.lifecycle.lock();
        let changed = change(&mut lifecycle);
        for (state, before) in lifecycle.take_changes() {
            // As long as the lock is held, no other change comes between.
            self.changes.lock().untold.push_back((state, before));
            self.state.send_replace(state);
        }
        drop(lifecycle);
        self.changed.notify_all();
        self.wakes.send_replace(());
        changed
    }

    /// Where the instance or its threads stand.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Lifecycle) -> R) -> R {
        look(&self.lifecycle.lock())
    }

    /// A stream thread, which calls this, stands here now. A listener that panics makes it fail.
    pub(super) fn stand(&self, thread: usize, state: ThreadState) {
        let is_new = self.look(|lifecycle| {
            let mut threads = lifecycle.threads();
            threads.any(|(index, known)| index == thread && known != state)
        });
        if is_new {
            self.change(|lifecycle| lifecycle.stand(thread, state));
            self.tell();
        }
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

    /// Asks the instance to end in order. Whether it was not asked before.
    pub(super) fn shut_down(&self) -> bool {
        self.update(Lifecycle::close)
    }

    /// As `shut_down`, and does this with the threads' membership in their group.
    pub(super) fn shut_down_with(&self, operation: Option<GroupMembershipOperation>) {
        if self.state().is_running_or_rebalancing() {
            *self.membership.lock() = operation;
        }
        self.shut_down();
    }

    /// What the threads do with their membership when the instance ends in order; none says nothing of it.
    pub(super) fn membership(&self) -> Option<GroupMembershipOperation> {
        let operation = *self.membership.lock();
        operation.filter(|_| self.state() == State::PendingShutdown)
    }

    /// Something has failed that ends the instance.
    pub(super) fn fail(&self, error: StreamsError) {
        tracing::error!(%error, "the instance ends");
        self.note_error(Arc::new(error));
        self.update(Lifecycle::fail);
    }

    /// The group has told that a member asks for the end of all.
    pub(super) fn hear_end_of_application(&self) {
        if !self.is_ending() {
            self.fail(StreamsError::ShutdownRequested);
        }
    }

    /// A thread has failed. The handler is asked, and what it says is done. The index of a thread that is to be
    /// started.
    pub(super) fn handle_failure(&self, failed: Failed, error: StreamsError) -> Option<usize> {
        let handler = Arc::clone(&*self.handler.lock());
        let answered = catch_unwind(AssertUnwindSafe(|| handler(&error)));
        let response = answered.unwrap_or_else(|_| {
            tracing::error!("the handler of uncaught errors has panicked: the instance ends");
            StreamThreadExceptionResponse::ShutdownClient
        });
        tracing::error!(%error, ?failed, ?response, "a thread has failed");
        let error = Arc::new(error);
        let is_replaced = response == StreamThreadExceptionResponse::ReplaceThread
            && matches!(failed, Failed::Thread(_))
            && self.state().is_running_or_rebalancing();
        // Who hears of the state finds out why.
        if !is_replaced {
            self.note_error(Arc::clone(&error));
        }
        self.update(|lifecycle| lifecycle.respond(failed, response))
    }

    /// Why the instance ends, among other reasons.
    pub(super) fn note_error(&self, error: Arc<StreamsError>) {
        self.errors.lock().push(error);
    }

    /// Whether the instance is asked to end.
    pub(super) fn is_ending(&self) -> bool {
        self.look(Lifecycle::is_ending)
    }

    /// Waits until the instance is asked to end.
    pub(super) async fn ending(&self) {
        self.waited(Lifecycle::is_ending).await;
    }

    /// Whether a stream thread is asked to end.
    pub(super) fn is_thread_ending(&self, thread: usize) -> bool {
        self.look(|lifecycle| lifecycle.is_thread_ending(thread))
    }

    /// Waits until a stream thread is asked to end.
    pub(super) async fn thread_ending(&self, thread: usize) {
        self.waited(|lifecycle| lifecycle.is_thread_ending(thread))
            .await;
    }

    /// Waits until the global stores are filled. False if the stream thread that waits is to end before.
    pub(super) async fn global_stores_filled(&self, thread: usize) -> bool {
        let is_over = |lifecycle: &Lifecycle| {
            lifecycle.are_global_stores_filled() || lifecycle.is_thread_ending(thread)
        };
        self.waited(is_over).await;
        !self.is_thread_ending(thread)
    }

    async fn waited(&self, is_so: impl Fn(&Lifecycle) -> bool) {
        let mut wakes = self.wakes.subscribe();
        while !self.look(&is_so) {
            // The sender lives as long as this.
            if wakes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits, no longer than until `deadline`, until something is so. Whether it is.
    pub(super) fn wait(
        &self,
        deadline: Option<Instant>,
        is_so: impl Fn(&Lifecycle) -> bool,
    ) -> bool {
        let mut lifecycle = self.lifecycle.lock();
        while !is_so(&lifecycle) {
            match deadline {
                None => self.changed.wait(&mut lifecycle),
                Some(deadline) => {
                    if self
                        .changed
                        .wait_until(&mut lifecycle, deadline)
                        .timed_out()
                    {
                        return is_so(&lifecycle);
                    }
                }
            }
        }
        true
    }

    /// Whether the instance was asked to end and no stream thread runs any more.
    pub(super) fn have_stream_threads_ended(&self) -> bool {
        self.look(Lifecycle::have_stream_threads_ended)
    }

    /// Why threads have failed, in words.
    pub(super) fn errors(&self) -> Vec<String> {
        self.errors.lock().iter().map(ToString::to_string).collect()
    }

    /// The first error.
    pub(super) fn first_error(&self) -> Option<StreamsError> {
        let errors = self.errors.lock();
        errors
            .first()
            .map(|error| StreamsError::Ended(Arc::clone(error)))
    }

    /// How many stream threads have not ended, and how many have failed.
    pub(super) fn count_threads(&self) -> (usize, usize) {
        self.look(Lifecycle::count_threads)
    }

    /// Makes the tasks rest, or go on.
    pub(super) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Whether the tasks rest.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_panics_hears_of_what_comes_after() {
        let shared = Arc::new(Shared::default());
        let heard: Arc<Mutex<Vec<State>>> = Arc::default();
        let (of_listener, within) = (Arc::clone(&heard), Arc::clone(&shared));
        shared.listen(Arc::new(move |state, before| {
            of_listener.lock().push(state);
            if before == State::Rebalancing {
                // This one is told after the listener has returned.
                within.update(Lifecycle::fail);
            }
            panic!("the application does not like it");
        }));
        // Only a thread of the instance fails by it.
        assert!(shared.update(|lifecycle| lifecycle.start(1, false)));
        let stand = AssertUnwindSafe(|| shared.stand(0, ThreadState::Running));
        assert!(catch_unwind(stand).is_err());
        let expected = [State::Rebalancing, State::Running, State::PendingError];
        assert_eq!(*heard.lock(), expected);
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
            within.stand(0, ThreadState::Running);
            // It comes after this one has returned.
            assert_eq!(of_first.lock().len(), 1);
        }));
        shared.update(|lifecycle| lifecycle.start(1, false));
        assert_eq!(
            *heard.lock(),
            [
                (State::Rebalancing, State::Created),
                (State::Running, State::Rebalancing)
            ]
        );
        assert!(!shared.is_ending());
    }

    #[test]
    fn reasons_stay_and_a_thread_that_is_replaced_is_none() {
        let shared = Shared::default();
        shared.update(|lifecycle| lifecycle.start(1, false));
        let fail = |thread, words: &str| {
            let error = StreamsError::Other(words.to_owned());
            shared.handle_failure(Failed::Thread(thread), error)
        };
        shared.handle_errors(Arc::new(|error| match error.to_string().as_str() {
            "passes" => StreamThreadExceptionResponse::ReplaceThread,
            "panics" => panic!("the handler does"),
            _ => StreamThreadExceptionResponse::ShutdownClient,
        }));
        assert_eq!(fail(0, "passes"), Some(1));
        assert!(shared.errors().is_empty());
        assert!(shared.is_thread_ending(0) && !shared.is_thread_ending(1));
        assert_eq!(fail(1, "panics"), None);
        assert_eq!(shared.state(), State::PendingError);
        // Nobody is replaced any more.
        assert_eq!(fail(0, "passes"), None);
        shared.hear_end_of_application();
        for _ in 0..2 {
            let first = shared.first_error().map(|error| error.to_string());
            assert_eq!(first.as_deref(), Some("panics"));
            assert_eq!(shared.errors(), ["panics", "passes"]);
        }
    }

    #[test]
    fn who_waits_is_woken() {
        let shared = Arc::new(Shared::default());
        shared.update(|lifecycle| lifecycle.start(1, false));
        assert!(!shared.wait(Some(Instant::now()), Lifecycle::is_ending));
        let waiting = Arc::clone(&shared);
        let waits = std::thread::spawn(move || waiting.wait(None, Lifecycle::is_over));
        shared.shut_down();
        shared.stand(0, ThreadState::Dead);
        assert!(waits.join().expect("it has not panicked"));
    }
}
