//! Work that takes long while somebody waits for the thread, such as that of a server's worker.
//!
//! A log has a snapshot of its producers for each segment: that of 200,000 producers takes as long as
//! thousands of appends. Whoever calls the log knows what its thread is there for, so it says how such
//! work is done; by itself a log does it where it is.

/// What is called with work that takes long, and calls it once, on the same thread.
type Call = fn(&mut dyn FnMut());

/// How a thread does what takes long.
#[derive(Debug, Clone, Copy)]
pub struct Aside(Call);

impl Aside {
    /// By a call that lets nobody wait for the thread meanwhile.
    pub const fn new(call: Call) -> Self {
        Self(call)
    }

    /// Does `work`.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let mut work = Some(work);
        let mut result = None;
        (self.0)(&mut || result = work.take().map(|work| work()));
        result.expect("the work is done once")
    }
}

impl Default for Aside {
    /// As anything else.
    fn default() -> Self {
        Self::new(|work| work())
    }
}
