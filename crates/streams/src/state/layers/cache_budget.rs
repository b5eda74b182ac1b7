//! How many bytes the caches of a thread's stores may hold together.

use std::cell::Cell;
use std::rc::Rc;

/// A number of bytes that all caches of a thread share.
#[derive(Debug, Clone)]
pub struct CacheBudget(Rc<Budget>);

#[derive(Debug)]
struct Budget {
    max_bytes: Cell<usize>,
    used_bytes: Cell<usize>,
}

impl CacheBudget {
    /// A budget of `max_bytes`; with 0 no store is cached.
    pub fn new(max_bytes: usize) -> Self {
        Self(Rc::new(Budget {
            max_bytes: Cell::new(max_bytes),
            used_bytes: Cell::new(0),
        }))
    }

    /// What may be held.
    pub fn max_bytes(&self) -> usize {
        self.0.max_bytes.get()
    }

    /// Another number of threads shares what the instance may hold.
    pub fn resize(&self, max_bytes: usize) {
        self.0.max_bytes.set(max_bytes);
    }

    /// What is held.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.get()
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.0.used_bytes.set(self.0.used_bytes.get() + bytes);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.used_bytes.set(self.0.used_bytes.get() - bytes);
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.used_bytes() > self.max_bytes()
    }
}
