//! How long until a partition takes a record again: asked every millisecond, of all brokers in turn.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::{Batching, Target, frames, leaders};

const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Looks for the leader of partition 0 and produces a record, again until one is acknowledged by all
/// replicas in sync. The result holds the time of the day, which whoever ended the leader compares with
/// its own.
pub(super) fn run(target: &Target, limit: Duration) -> Result<Value> {
    let frames = frames::build(target, &Batching::ONE_RECORD)?;
    let (frame, _) = &frames[0].requests[0];
    let deadline = Instant::now() + limit;
    let mut attempts = 0_u64;
    loop {
        let address = target.addresses[attempts as usize % target.addresses.len()];
        let attempt = || -> Result<()> {
            let led = leaders::ask(&mut Client::connect(address)?, target)?;
            let error = Client::connect(led[0].address)?.produce(frame)?;
            ensure!(error.is_none(), "produce failed with {error:?}");
            Ok(())
        };
        let Err(error) = attempt() else { break };
        attempts += 1;
        ensure!(
            Instant::now() < deadline,
            "no record within {limit:?}: {error:#}"
        );
        thread::sleep(RETRY_INTERVAL);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(json!({
        "load": "next-record",
        "acknowledged_at_seconds": now.as_secs_f64(),
        "failed_attempts": attempts,
    }))
}
