//! Work on logs that a change of the metadata asks for: of each log directory in a queue of its own,
//! done by one thread in the order in which it came.
//!
//! ```text
//!   controller ── hand ──> queue of the directory ──> thread ──> logs
//!        └──── wait while pieces end <───────────────────┘
//! ```
//!
//! The controller's thread takes no lock of a log: whoever has it may be in a call on a disk that is
//! stuck, and then nobody could create or delete a topic. It waits for the queue, so that a client
//! that has its answer finds the work done. Where no piece has ended for a while, the directory is
//! behind: the work is done when its disk answers, nobody waits for it until all of it is done, and
//! new partitions go elsewhere. After a restart the work is to be done by what the metadata say.

use crate::Broker;
use crate::log_directories::LogDirectory;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A piece that takes longer holds up the controller no more.
const PATIENCE: Duration = Duration::from_secs(1);

type Piece = Box<dyn FnOnce(&Broker) + Send>;

/// The queue of a log directory.
#[derive(Default)]
pub(crate) struct DirectoryWork {
    queue: Mutex<Queue>,
    /// A piece has ended, or there are no more.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Pieces that were ever handed over.
    handed_count: u64,
    /// Those of them that have ended.
    ended_count: u64,
    is_running: bool,
    is_behind: bool,
    /// When the thread has begun, or a piece has ended.
    progress_at: Option<Instant>,
}

/// Does work in log directories, each with a share of what it is about, by their places in `log.dirs`.
/// Returns when it is done but for directories that are behind.
pub(crate) fn in_each<T: Send + 'static>(
    broker: &Arc<Broker>,
    shares: BTreeMap<usize, T>,
    work: fn(&Broker, &LogDirectory, T),
) {
    let mut handed = Vec::with_capacity(shares.len());
    for (place, share) in shares {
        let piece = move |broker: &Broker| work(broker, &broker.log_directories[place], share);
        handed.push((place, hand(broker, place, Box::new(piece))));
    }
    for (place, number) in handed {
        let directory = &broker.log_directories[place];
        directory.work().wait(number, directory.name());
    }
}

/// Adds a piece to the queue of a directory, and gives its number there.
fn hand(broker: &Arc<Broker>, place: usize, piece: Piece) -> u64 {
    let mut queue = broker.log_directories[place].work().queue.lock();
    queue.pieces.push_back(piece);
    queue.handed_count += 1;
    if !std::mem::replace(&mut queue.is_running, true) {
        queue.progress_at = Some(Instant::now());
        let running = broker.clone();
        let run = move || {
            let directory = &running.log_directories[place];
            directory.work().run(&running, directory.name());
        };
        drop(broker.runtime.spawn_blocking(run));
    }
    queue.handed_count
}

impl DirectoryWork {
    /// Whether the directory is behind with what the metadata ask for.
    pub(crate) fn is_behind(&self) -> bool {
        self.queue.lock().is_behind
    }

    /// Waits until nothing is left to be done, for as long as the disk may be stuck.
    pub(crate) fn wait_for_all(&self) {
        let mut queue = self.queue.lock();
        while queue.is_running {
            self.changed.wait(&mut queue);
        }
    }

    fn run(&self, broker: &Broker, directory: &str) {
        let mut queue = self.queue.lock();
        while let Some(piece) = queue.pieces.pop_front() {
            drop(queue);
            if catch_unwind(AssertUnwindSafe(|| piece(broker))).is_err() {
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
        if std::mem::take(&mut queue.is_behind) {
            tracing::info!(
                directory,
                "the log directory has caught up with the metadata"
            );
        }
        self.changed.notify_all();
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

impl fmt::Debug for DirectoryWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        f.debug_struct("DirectoryWork")
            .field("pieces", &queue.pieces.len())
            .field("is_behind", &queue.is_behind)
            .finish_non_exhaustive()
    }
}
