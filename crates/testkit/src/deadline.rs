//! Waiting for what another thread does, with an end.

use std::time::{Duration, Instant};

/// How long anything in a test may take; far beyond what it does take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within [`LIMIT`]; `what` says what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
