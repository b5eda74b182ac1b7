//! How long a server takes from nothing to its first acknowledged record: asked every millisecond,
//! from before it listens.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::{Batching, Target, frames};

const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Makes the topic and produces one record, again until both succeed. The result holds the time of
/// the day, which whoever started the server compares with its own.
pub(super) fn run(target: &Target, limit: Duration) -> Result<Value> {
    let frames = frames::build(target, &Batching::ONE_RECORD)?;
    let (frame, _) = &frames[0].requests[0];
    let deadline = Instant::now() + limit;
    let mut attempts = 0_u64;
    while let Err(error) = attempt(target, frame) {
        attempts += 1;
        ensure!(
            Instant::now() < deadline,
            "no record within {limit:?}: {error:#}"
        );
        thread::sleep(RETRY_INTERVAL);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(json!({
        "load": "first-record",
        "acknowledged_at_seconds": now.as_secs_f64(),
        "failed_attempts": attempts,
    }))
}

fn attempt(target: &Target, frame: &[u8]) -> Result<()> {
    let mut client = Client::connect(target.address)?;
    let replicas = target.replication_factor;
    client.create_topic(&target.topic, target.partitions, replicas, None)?;
    let error = client.produce(frame)?;
    ensure!(error.is_none(), "produce failed with {error:?}");
    Ok(())
}
