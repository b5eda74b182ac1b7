//! The time at which something is acknowledged that is tried every millisecond.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Tries until it succeeds; `attempt` is told how often it has failed. The result holds the time of the day, which
/// whoever started or ended a server compares with its own.
///
/// # Errors
/// That of the last attempt, when the limit is over.
pub(super) fn until_acknowledged(
    load: &str,
    limit: Duration,
    mut attempt: impl FnMut(usize) -> Result<()>,
) -> Result<Value> {
    let deadline = Instant::now() + limit;
    let mut failed = 0;
    while let Err(error) = attempt(failed) {
        failed += 1;
        ensure!(
            Instant::now() < deadline,
            "no record within {limit:?}: {error:#}"
        );
        thread::sleep(RETRY_INTERVAL);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(json!({
        "load": load,
        "acknowledged_at_seconds": now.as_secs_f64(),
        "failed_attempts": failed,
    }))
}
