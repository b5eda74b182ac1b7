//! The metadata loader: takes what is committed, in its order, to all who live by the metadata.
//!
//! ```text
//!   committed ─> image with its delta ─> publishers, one after the other ─> answers
//! ```
//!
//! One thread does it, so each publisher sees each change once and after the one before. The controller
//! decides on meanwhile, whatever the publishers wait for: changes that come to wait become one, from the image
//! before the first to that after the last, and answers are forgotten that nobody waits for. A client has its
//! answer when this broker serves what was decided.

use controller::{ControllerResponse, MetadataChange};
use metadata::{MetadataDelta, MetadataImage};
use model::ErrorCode;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// From so many tasks on that wait for the one that the thread is at, another one becomes a part of the last.
const QUEUE_LENGTH: usize = 16;

/// Whoever waits for an answer of the controller.
#[derive(Debug)]
pub(crate) struct Waiting {
    answer: oneshot::Sender<Result<ControllerResponse, ErrorCode>>,
    /// When the answer goes.
    pub(super) when: AnswerWhen,
}

/// When an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerWhen {
    /// When what was decided is committed: other nodes wait for none that is slow.
    Committed,
    /// When this node serves it.
    Served,
}

impl Waiting {
    /// Whoever waits, and where the answer arrives.
    pub(super) fn new(
        when: AnswerWhen,
    ) -> (
        Self,
        oneshot::Receiver<Result<ControllerResponse, ErrorCode>>,
    ) {
        let (answer, answered) = oneshot::channel();
        (Self { answer, when }, answered)
    }

    /// Nobody, who asks at a start.
    pub(crate) fn nobody() -> Self {
        Self::new(AnswerWhen::Served).0
    }

    /// Lets the answer go. Whoever has gone does not wait any more.
    pub(super) fn answer(self, answer: Result<ControllerResponse, ErrorCode>) {
        let _ = self.answer.send(answer);
    }
}

/// An answer, and who waits for it.
pub(crate) type Answer = (Waiting, ControllerResponse);

/// Whoever lives by the metadata.
pub(crate) trait MetadataPublisher: Send {
    /// Does what a change asks for.
    fn publish(&self, change: &MetadataChange);

    /// Tries again what could not be done before; `image` is the newest.
    fn revisit(&self, _image: &Arc<MetadataImage>) {}
}

/// What the loader is given to do.
enum Task {
    /// What is committed, and who is answered after it.
    Change(Box<MetadataChange>, Vec<Answer>),
    /// Answers to what changed nothing.
    Answers(Vec<Answer>),
    Revisit,
    /// To call this.
    Call(Box<dyn FnOnce() + Send>),
}

impl Task {
    /// Makes `other`, which comes next, a part of this one.
    ///
    /// # Errors
    /// `other`, if it has to be a task of its own.
    fn merge(&mut self, other: Self) -> Result<(), Self> {
        match (&mut *self, other) {
            (Self::Change(change, answers), Self::Change(next, more)) => {
                let before = change.delta.before.clone();
                **change = MetadataChange {
                    delta: MetadataDelta::new(before, next.delta.after),
                    kraft_version: next.kraft_version,
                };
                extend(answers, more);
            }
            (Self::Change(_, answers) | Self::Answers(answers), Self::Answers(more)) => {
                extend(answers, more);
            }
            (Self::Answers(answers), Self::Change(change, more)) => {
                let mut answers = std::mem::take(answers);
                extend(&mut answers, more);
                *self = Self::Change(change, answers);
            }
            (Self::Revisit, Self::Revisit) => {}
            (_, other) => return Err(other),
        }
        Ok(())
    }
}

/// Adds answers to those that wait, of which those are forgotten now and then that nobody waits for.
fn extend(answers: &mut Vec<Answer>, more: Vec<Answer>) {
    let was_long = answers.len() / 1024;
    answers.extend(more);
    if answers.len() / 1024 > was_long {
        answers.retain(|(waiting, _)| !waiting.answer.is_closed());
    }
}

/// Where the loader is reached; it ends when nobody can reach it any more.
#[derive(Clone)]
pub(crate) struct MetadataLoader {
    queue: Arc<Mutex<VecDeque<Task>>>,
    /// Told of each task of the queue.
    ready: Sender<()>,
}

impl fmt::Debug for MetadataLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataLoader").finish_non_exhaustive()
    }
}

/// The other end of a [`MetadataLoader`].
pub(crate) struct Tasks {
    queue: Arc<Mutex<VecDeque<Task>>>,
    ready: Receiver<()>,
}

impl MetadataLoader {
    /// A loader that has yet to be started.
    pub(crate) fn new() -> (Self, Tasks) {
        let (sender, ready) = channel();
        let queue = Arc::default();
        let loader = Self {
            queue: Arc::clone(&queue),
            ready: sender,
        };
        (loader, Tasks { queue, ready })
    }

    /// Publishes what is committed, and lets answers go after it.
    pub(crate) fn load(&self, change: MetadataChange, answers: Vec<Answer>) {
        self.send(Task::Change(Box::new(change), answers));
    }

    /// Lets answers go after all that was loaded before.
    pub(crate) fn answer(&self, answers: Vec<Answer>) {
        if !answers.is_empty() {
            self.send(Task::Answers(answers));
        }
    }

    /// Lets every publisher try again what it could not do.
    pub(crate) fn revisit(&self) {
        self.send(Task::Revisit);
    }

    /// Runs `call` on the thread, after all that was loaded before.
    pub(crate) fn run(&self, call: impl FnOnce() + Send + 'static) {
        self.send(Task::Call(Box::new(call)));
    }

    fn send(&self, task: Task) {
        let mut queue = self.queue.lock();
        let is_long = queue.len() >= QUEUE_LENGTH;
        let task = match queue.back_mut().filter(|_| is_long) {
            Some(last) => match last.merge(task) {
                Ok(()) => return,
                Err(task) => task,
            },
            None => task,
        };
        queue.push_back(task);
        // It has ended when the server halts: nobody waits for an answer then.
        let _ = self.ready.send(());
    }

    /// How many tasks wait for the one that the thread is at.
    #[cfg(test)]
    pub(super) fn queued_count(&self) -> usize {
        self.queue.lock().len()
    }
}

/// Starts the thread, over the image that all publishers have already. What `halt` is given is why it
/// cannot go on.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start(
    tasks: Tasks,
    mut image: Arc<MetadataImage>,
    publishers: Vec<Box<dyn MetadataPublisher>>,
    halt: impl Fn(String) + Send + 'static,
) -> std::io::Result<()> {
    let work = move || {
        for () in tasks.ready {
            let Some(task) = tasks.queue.lock().pop_front() else {
                continue;
            };
            // What a publisher that panics has left cannot be trusted.
            let done = AssertUnwindSafe(|| carry_out(task, &mut image, &publishers));
            if std::panic::catch_unwind(done).is_err() {
                return halt("the metadata can no longer be followed".to_owned());
            }
        }
    };
    let thread = std::thread::Builder::new().name("metadata-loader".into());
    thread.spawn(work).map(drop)
}

fn carry_out(
    task: Task,
    image: &mut Arc<MetadataImage>,
    publishers: &[Box<dyn MetadataPublisher>],
) {
    let answers = match task {
        Task::Change(change, answers) => {
            publishers.iter().for_each(|one| one.publish(&change));
            *image = change.delta.after;
            answers
        }
        Task::Answers(answers) => answers,
        Task::Call(call) => return call(),
        Task::Revisit => {
            publishers.iter().for_each(|one| one.revisit(image));
            return;
        }
    };
    for (waiting, response) in answers {
        waiting.answer(Ok(response));
    }
}
