//! Work on logs that a change of the metadata asks for: of each log directory in a queue of its own,
//! done by one thread in the order in which it came.
//!
//! ```text
//!   metadata loader ── hand ──> queue of the directory ──> thread ──> logs
//!          └──── wait while pieces end <──────────────────────┘
//! ```
//!
//! The metadata loader takes no lock of a log: whoever has it may be in a call on a disk that is
//! stuck, and then nobody could create or delete a topic. It waits for the queue, so that a client
//! that has its answer finds the work done. Where no piece has ended for a while, the directory is
//! behind: the work is done when its disk answers, nobody waits for it until all of it is done, and
//! new partitions go elsewhere, if they can. After a restart the work is to be done by what the metadata
//! say.
//!
//! What may be asked for any number of times is a [`LogDirTask`]: one that has not begun is not handed over
//! again, so that the queue of a disk that is stuck is as long as there are partitions, and no longer.

use crate::logs::Logs;
use crate::scheduling::disk_watch::{DiskSpeed, STUCK};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A piece that takes longer holds up the controller no more.
const PATIENCE: Duration = Duration::from_secs(1);

type Piece = Box<dyn FnOnce(&Arc<Logs>) + Send>;

/// Work that is the same however often it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogDirTask {
    /// No two have the same.
    pub(crate) name: &'static str,
    /// Does it in the log directory of this place in `log.dirs`.
    pub(crate) run: fn(&Arc<Logs>, usize),
}

/// The queue of a log directory.
#[derive(Default)]
pub(crate) struct LogDirQueue {
    queue: Mutex<Queue>,
    /// A piece has ended, or there are no more.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<(Option<&'static str>, Piece)>,
    /// The numbers of tasks that have not begun, by name.
    tasks: BTreeMap<&'static str, u64>,
    /// Pieces that were ever handed over.
    handed_count: u64,
    /// Those of them that have ended.
    ended_count: u64,
    is_running: bool,
    is_behind: bool,
    /// When the thread has begun, or a piece has ended.
    progress_at: Option<Instant>,
    /// When some of a piece was done.
    alive_at: Option<Instant>,
}

/// Pieces of work that were handed over, by the places of their directories in `log.dirs`.
#[must_use = "whoever has the answer finds the work done"]
pub(crate) struct Handed<'a> {
    logs: &'a Arc<Logs>,
    numbers: Vec<(usize, u64)>,
}

impl<'a> Handed<'a> {
    pub(crate) const fn new(logs: &'a Arc<Logs>) -> Self {
        Self {
            logs,
            numbers: Vec::new(),
        }
    }

    /// Hands over work in log directories, each with a share of what it is about.
    pub(crate) fn in_each<T: Send + 'static>(
        mut self,
        shares: BTreeMap<usize, T>,
        work: fn(&Arc<Logs>, T),
    ) -> Self {
        for (directory_index, share) in shares {
            let piece = move |logs: &Arc<Logs>| work(logs, share);
            self.numbers.push((
                directory_index,
                hand(self.logs, directory_index, None, Box::new(piece)),
            ));
        }
        self
    }

    /// Hands over a task in log directories.
    pub(crate) fn task(mut self, directory_indexes: &BTreeSet<usize>, task: LogDirTask) -> Self {
        for &directory_index in directory_indexes {
            let piece = move |logs: &Arc<Logs>| (task.run)(logs, directory_index);
            let number = hand(self.logs, directory_index, Some(task.name), Box::new(piece));
            self.numbers.push((directory_index, number));
        }
        self
    }

    /// Returns when all is done but for directories that are behind.
    pub(crate) fn wait(self) {
        for (directory_index, number) in self.numbers {
            let directory = &self.logs.directories[directory_index];
            directory.work().wait(number, directory.name());
        }
    }

    /// For who does not wait.
    pub(crate) fn leave(self) {}
}

/// Adds a piece to the queue of a directory, and gives its number there.
fn hand(logs: &Arc<Logs>, directory_index: usize, task: Option<&'static str>, piece: Piece) -> u64 {
    let mut queue = logs.directories[directory_index].work().queue.lock();
    if let Some(number) = task.and_then(|task| queue.tasks.get(task)) {
        return *number;
    }
    queue.pieces.push_back((task, piece));
    queue.handed_count += 1;
    let number = queue.handed_count;
    if let Some(task) = task {
        queue.tasks.insert(task, number);
    }
    if !std::mem::replace(&mut queue.is_running, true) {
        queue.progress_at = Some(Instant::now());
        let running = logs.clone();
        let run = move || {
            let directory = &running.directories[directory_index];
            directory.work().run(&running, directory.name());
        };
        drop(logs.node.runtime.spawn_blocking(run));
    }
    number
}

impl LogDirQueue {
    /// Late while the directory is behind with what the metadata ask for, and stuck when nothing of it
    /// has been done for long.
    pub(crate) fn pace(&self) -> DiskSpeed {
        let queue = self.queue.lock();
        match queue.progress_at.max(queue.alive_at) {
            Some(last) if queue.is_behind && last.elapsed() >= STUCK => DiskSpeed::Stuck,
            _ if queue.is_behind => DiskSpeed::Late,
            _ => DiskSpeed::Prompt,
        }
    }

    /// How many pieces have not ended.
    #[cfg(test)]
    pub(crate) fn unended_count(&self) -> u64 {
        let queue = self.queue.lock();
        queue.handed_count - queue.ended_count
    }

    /// How many pieces were ever handed over.
    #[cfg(test)]
    pub(crate) fn handed_count(&self) -> u64 {
        self.queue.lock().handed_count
    }

    /// Waits until nothing is left to be done, for as long as the disk may be stuck.
    pub(crate) fn wait_for_all(&self) {
        let mut queue = self.queue.lock();
        while queue.is_running {
            self.changed.wait(&mut queue);
        }
    }

    /// Some of a piece that does much has been done.
    pub(crate) fn note_progress(&self) {
        self.queue.lock().alive_at = Some(Instant::now());
    }

    fn run(&self, logs: &Arc<Logs>, directory: &str) {
        let mut queue = self.queue.lock();
        let mut may_free = false;
        while let Some((task, piece)) = queue.pieces.pop_front() {
            may_free |= task.is_none();
            // What is asked for from here on may come too late for this one.
            if let Some(task) = task {
                queue.tasks.remove(task);
            }
            drop(queue);
            if catch_unwind(AssertUnwindSafe(|| piece(logs))).is_err() {
                tracing::error!(
                    directory,
                    "work on logs that the metadata ask for has failed"
                );
            }
            queue = self.queue.lock();
            queue.ended_count += 1;
            queue.progress_at = Some(Instant::now());
            self.changed.notify_all();
        }
        queue.is_running = false;
        let was_behind = std::mem::take(&mut queue.is_behind);
        if was_behind {
            tracing::info!(
                directory,
                "the log directory has caught up with the metadata"
            );
        }
        self.changed.notify_all();
        drop(queue);
        // Logs may have waited for the directory, or for what a piece has removed. A task frees
        // nothing, and is what who makes logs asks for: each attempt would be the reason for the next.
        if may_free || was_behind {
            logs.create_missing();
        }
    }

    /// Waits for the piece of a number, unless the directory is behind.
    fn wait(&self, number: u64, directory: &str) {
        let mut queue = self.queue.lock();
        while queue.ended_count < number && !queue.is_behind {
            let now = Instant::now();
            let until = queue.progress_at.unwrap_or(now) + PATIENCE;
            if until <= now {
                queue.is_behind = true;
                tracing::warn!(
                    directory,
                    "the log directory is behind with what the metadata ask for, as its disk does \
                     not answer; it is done when it does"
                );
            } else {
                self.changed.wait_until(&mut queue, until);
            }
        }
    }
}

impl fmt::Debug for LogDirQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        f.debug_struct("LogDirQueue")
            .field("pieces", &queue.pieces.len())
            .field("is_behind", &queue.is_behind)
            .finish_non_exhaustive()
    }
}
