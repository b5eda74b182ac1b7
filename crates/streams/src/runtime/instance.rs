//! The threads of a started instance: it starts, adds, replaces and awaits them. Each thread holds it, so that one that
//! fails can be replaced from within.

mod local;

use super::directory::StateDirectory;
use super::global::{self, GlobalSetup};
use super::inbox::Inboxes;
use super::kept::note_kept;
use super::lifecycle::{Failed, Lifecycle, Removed, State, ThreadState};
use super::listeners::Listeners;
use super::living::{Alive, Living};
use super::local_state::LocalBoards;
use super::metadata::Hosts;
use super::metrics::Registry;
use super::preparation::Preparation;
use super::process_id::ProcessId;
use super::shared::Shared;
use super::task_registry::TaskRegistry;
use super::thread::StreamThread;
use super::thread_setup::ThreadSetup;
use super::topics::ApplicationTopics;
use super::{StreamsConfig, failure::panic_error};
use crate::error::StreamsError;
use crate::state::SharedRows;
use crate::topology::Topology;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak, mpsc};
use std::thread::Builder;
use std::time::Instant;

/// The threads of a started instance.
pub(super) struct Instance {
    pub(super) topology: Arc<Topology>,
    pub(super) config: Arc<StreamsConfig>,
    pub(super) listeners: Listeners,
    pub(super) shared: Arc<Shared>,
    /// With which the names of its threads and clients begin.
    pub(super) client_id: Arc<str>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) boards: LocalBoards,
    pub(super) metrics: Arc<Registry>,
    /// Until nothing runs any more.
    pub(super) parts: Mutex<Option<Arc<Parts>>>,
    pub(super) living: Arc<Living>,
}

/// What the threads of an instance share.
pub(super) struct Parts {
    pub(super) topics: Arc<ApplicationTopics>,
    pub(super) preparation: Arc<Preparation>,
    pub(super) directory: Arc<StateDirectory>,
    pub(super) process_id: ProcessId,
    pub(super) hosts: Arc<Hosts>,
    pub(super) global_rows: SharedRows,
    pub(super) registry: Arc<TaskRegistry>,
}

thread_local! {
    /// The instance that this thread is a stream thread of, and its index.
    static OWN: RefCell<(Weak<Instance>, usize)> = const { RefCell::new((Weak::new(), 0)) };
}

/// The name of a stream thread.
pub(super) fn thread_name(client_id: &str, index: usize) -> Arc<str> {
    Arc::from(format!("{client_id}-StreamThread-{}", index + 1))
}

impl Instance {
    /// Starts the threads that the instance begins with. Global tables are waited for; then the others begin.
    ///
    /// # Errors
    /// A thread cannot be started, or a global table cannot be filled: nothing runs any more then.
    pub(super) fn start(
        self: &Arc<Self>,
        stream_threads: usize,
        has_global_thread: bool,
    ) -> Result<(), StreamsError> {
        let mut unstarted: BTreeSet<usize> = (0..stream_threads).collect();
        let started = self.start_all(&mut unstarted, has_global_thread);
        let Err(error) = started else {
            return Ok(());
        };
        let error = Arc::new(error);
        // Who has asked for the end knows why.
        if self.shared.state() != State::PendingShutdown {
            self.shared.note_error(Arc::clone(&error));
        }
        self.shared.update(|lifecycle| {
            lifecycle.fail();
            for index in unstarted {
                lifecycle.stand(index, ThreadState::Dead);
            }
        });
        self.finish();
        let has_ended = |lifecycle: &Lifecycle| lifecycle.state().has_completed_shutdown();
        self.shared.wait(None, has_ended);
        Err(StreamsError::Ended(error))
    }

    fn start_all(
        self: &Arc<Self>,
        unstarted: &mut BTreeSet<usize>,
        has_global_thread: bool,
    ) -> Result<(), StreamsError> {
        let parts = self.parts.lock().clone();
        let Some(parts) = parts else { return Ok(()) };
        if has_global_thread {
            self.start_global_thread(&parts)?;
        }
        while let Some(&index) = unstarted.first() {
            let setup = self.thread_setup(&parts, index);
            if index == 0 {
                note_kept(&setup);
            }
            self.spawn_thread(setup)?;
            unstarted.remove(&index);
        }
        Ok(())
    }

    /// Starts a stream thread that the lifecycle has been told of. If it cannot be started, the instance ends.
    pub(super) fn start_thread(self: &Arc<Self>, index: usize) {
        let parts = self.parts.lock().clone();
        let started = match parts {
            Some(parts) => self.spawn_thread(self.thread_setup(&parts, index)),
            // Everything has ended meanwhile.
            None => Ok(()),
        };
        if let Err(error) = started {
            self.shared.fail(error);
            self.end_thread(index);
        }
    }

    fn spawn_thread(self: &Arc<Self>, setup: ThreadSetup) -> Result<(), StreamsError> {
        let (index, name) = (setup.index, setup.name.to_string());
        let instance = Arc::clone(self);
        let run = move || {
            OWN.set((Arc::downgrade(&instance), index));
            let fail = |error| instance.handle_failure(Failed::Thread(index), error);
            let ran = catch_unwind(AssertUnwindSafe(|| StreamThread::run(setup, &fail)));
            if let Err(panicked) = ran {
                fail(panic_error(&*panicked));
            }
            instance.end_thread(index);
        };
        spawn(named(name), self.living.enter(), run)
    }

    /// Starts the global thread, and waits until its stores have what their topics have.
    fn start_global_thread(self: &Arc<Self>, parts: &Parts) -> Result<(), StreamsError> {
        let setup = GlobalSetup {
            client_id: Arc::clone(&self.client_id),
            topology: Arc::clone(&self.topology),
            config: Arc::clone(&self.config),
            preparation: Arc::clone(&parts.preparation),
            directory: Arc::clone(&parts.directory),
            shared: Arc::clone(&self.shared),
            rows: parts.global_rows.clone(),
        };
        let (told, restored) = mpsc::channel();
        let name = format!("{}-GlobalStreamThread", self.client_id);
        let instance = Arc::clone(self);
        let run = move || {
            let fail = |error| instance.handle_failure(Failed::Global, error);
            let run = AssertUnwindSafe(|| global::run(setup, &told, &fail));
            if let Err(panicked) = catch_unwind(run) {
                fail(panic_error(&*panicked));
            }
            drop(told);
            instance.end(|lifecycle| lifecycle.stand_global(ThreadState::Dead));
        };
        let spawned = spawn(named(name), self.living.enter(), run);
        spawned.inspect_err(|_| {
            self.end(|lifecycle| lifecycle.stand_global(ThreadState::Dead));
        })?;
        restored.recv().unwrap_or_else(|_| {
            Err(StreamsError::Other(
                "the global thread has panicked".to_owned(),
            ))
        })
    }

    fn thread_setup(&self, parts: &Parts, index: usize) -> ThreadSetup {
        let name = thread_name(&self.client_id, index);
        ThreadSetup {
            index,
            metrics: self.metrics.open_thread(index, &name),
            name,
            topology: Arc::clone(&self.topology),
            config: Arc::clone(&self.config),
            topics: Arc::clone(&parts.topics),
            preparation: Arc::clone(&parts.preparation),
            directory: Arc::clone(&parts.directory),
            shared: Arc::clone(&self.shared),
            process_id: parts.process_id,
            global_rows: parts.global_rows.clone(),
            registry: Arc::clone(&parts.registry),
            hosts: Arc::clone(&parts.hosts),
            listeners: self.listeners.clone(),
            inbox: self.inboxes.open(index),
            board: self.boards.open(index),
        }
    }

    /// Starts one more stream thread. Its name; none unless the instance runs and has tasks.
    pub(super) fn add_stream_thread(self: &Arc<Self>) -> Option<String> {
        let parts = self.parts.lock().clone()?;
        if parts.topics.has_no_tasks() {
            return None;
        }
        let index = self.shared.update(Lifecycle::add_thread)?;
        let name = thread_name(&self.client_id, index);
        tracing::info!(name = &*name, "a stream thread is added");
        self.start_thread(index);
        Some(name.to_string())
    }

    /// Ends a stream thread, and waits until `deadline` for it, unless a stream thread calls that is to end itself. Its
    /// name; none unless there is one.
    ///
    /// # Errors
    /// It has not ended until `deadline`.
    pub(super) fn remove_stream_thread(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Option<String>, StreamsError> {
        let Some(parts) = self.parts.lock().clone() else {
            return Ok(None);
        };
        let own = self.own_index();
        let removed = self.shared.update(|lifecycle| {
            let removed = lifecycle.remove_thread(own)?;
            Some((removed, lifecycle.count_deaths(removed.index)))
        });
        let Some((Removed { index, is_awaited }, deaths)) = removed else {
            return Ok(None);
        };
        let name = thread_name(&self.client_id, index);
        // Or the state directory would be kept while this waits.
        drop(parts);
        tracing::info!(name = &*name, "a stream thread is removed");
        let has_ended = |lifecycle: &Lifecycle| lifecycle.count_deaths(index) > deaths;
        if is_awaited && !self.shared.wait(deadline, has_ended) {
            return Err(StreamsError::Other(format!(
                "thread `{name}` has not ended in time; it goes on to end"
            )));
        }
        Ok(Some(name.to_string()))
    }

    fn handle_failure(self: &Arc<Self>, failed: Failed, error: StreamsError) {
        if let Some(index) = self.shared.handle_failure(failed, error) {
            tracing::info!(
                thread = index + 1,
                "a thread is started in place of another"
            );
            self.start_thread(index);
        }
    }

    /// A stream thread has ended, whichever way.
    fn end_thread(&self, index: usize) {
        if let Some(parts) = &*self.parts.lock() {
            parts.registry.end_thread(index);
        }
        self.inboxes.close(index);
        self.boards.close(index);
        if !self.shared.is_ending() {
            self.metrics.close_thread(index);
        }
        self.end(|lifecycle| lifecycle.stand(index, ThreadState::Dead));
    }

    /// A thread has ended.
    fn end(&self, change: impl FnOnce(&mut Lifecycle)) {
        self.shared.update(change);
        self.finish();
    }

    /// When nothing runs any more, lets the state directory go, and tells so.
    fn finish(&self) {
        if !self.shared.look(Lifecycle::is_over) {
            return;
        }
        let mut parts = self.parts.lock();
        // Whoever ends at the same time waits for it.
        drop(parts.take());
        drop(parts);
        self.shared.update(Lifecycle::finish);
    }

    /// The index of the stream thread that calls.
    fn own_index(&self) -> Option<usize> {
        OWN.with_borrow(|(instance, index)| {
            let is_own = std::ptr::eq(instance.as_ptr(), self);
            is_own.then_some(*index)
        })
    }
}

fn named(name: String) -> Builder {
    Builder::new().name(name)
}

/// Starts a thread; whoever waits for it does it by `alive`.
fn spawn(
    thread: Builder,
    alive: Alive,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), StreamsError> {
    let run = move || {
        // Dropped at the end, which is what tells of it.
        let alive = alive;
        alive.begin();
        run();
    };
    let spawned = thread.spawn(run).map(drop);
    spawned.map_err(|error| StreamsError::Other(format!("cannot start a thread: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_be_started_is_told_of() {
        // No address space has as much.
        let thread = named("large".to_owned()).stack_size(usize::MAX >> 2);
        let living: Arc<Living> = Arc::default();
        let spawned = spawn(thread, living.enter(), || ());
        let error = spawned.expect_err("there is no room");
        assert!(
            error.to_string().starts_with("cannot start a thread"),
            "{error}"
        );
        assert!(living.wait(None));
    }
}
