//! Who runs for an instance: its threads, and whoever starts it. Whoever closes it waits for them.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Who runs for an instance.
#[derive(Default)]
pub(super) struct Living {
    alive: Mutex<Entries>,
    has_left: Condvar,
}

#[derive(Default)]
struct Entries {
    next: u64,
    /// Each with its thread, once that has begun.
    threads: BTreeMap<u64, Option<ThreadId>>,
}

/// One who runs, until this is dropped.
pub(super) struct Alive {
    living: Arc<Living>,
    entry: u64,
}

impl Living {
    /// One more runs from now on, though its thread may begin later.
    pub(super) fn enter(self: &Arc<Self>) -> Alive {
        let mut entries = self.alive.lock();
        let entry = entries.next;
        entries.next += 1;
        entries.threads.insert(entry, None);
        drop(entries);
        Alive {
            living: Arc::clone(self),
            entry,
        }
    }

    /// Whether this thread is one of them: it cannot wait for itself.
    pub(super) fn has_this_thread(&self) -> bool {
        let this = std::thread::current().id();
        let entries = self.alive.lock();
        entries.threads.values().flatten().any(|id| *id == this)
    }

    /// Waits until nobody runs, and no longer than `timeout`. Whether that is so.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut entries = self.alive.lock();
        while !entries.threads.is_empty() {
            match deadline {
                None => self.has_left.wait(&mut entries),
                Some(deadline) => {
                    if self.has_left.wait_until(&mut entries, deadline).timed_out() {
                        return entries.threads.is_empty();
                    }
                }
            }
        }
        true
    }
}

impl Alive {
    /// It runs in this thread.
    pub(super) fn begin(&self) {
        let this = std::thread::current().id();
        let mut entries = self.living.alive.lock();
        entries.threads.insert(self.entry, Some(this));
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.living.alive.lock().threads.remove(&self.entry);
        self.living.has_left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_run_are_waited_for_by_all_but_themselves() {
        let living: Arc<Living> = Arc::default();
        assert!(living.wait(None));
        let alive = living.enter();
        // Its thread has not begun, and is waited for all the same.
        assert!(!living.has_this_thread());
        assert!(!living.wait(Some(Duration::ZERO)));
        alive.begin();
        assert!(living.has_this_thread());
        let waiting: Vec<_> = [None, Some(Duration::MAX), Some(Duration::from_secs(3_600))]
            .into_iter()
            .map(|timeout| {
                let living = Arc::clone(&living);
                std::thread::spawn(move || !living.has_this_thread() && living.wait(timeout))
            })
            .collect();
        drop(alive);
        for waiting in waiting {
            assert!(waiting.join().expect("it has not panicked"));
        }
        assert!(!living.has_this_thread());
    }
}
