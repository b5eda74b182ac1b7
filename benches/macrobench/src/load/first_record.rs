//! How long a server takes from nothing to its first acknowledged record: asked every millisecond,
//! from before it listens.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::acknowledged::until_acknowledged;
use super::client::Client;
use super::{Batching, Target, frames};

/// Makes the topic and produces one record, again until both succeed.
pub(super) fn run(target: &Target, limit: Duration) -> Result<Value> {
    let frames = frames::build(target, &Batching::ONE_RECORD)?;
    let (frame, _) = &frames[0].requests[0];
    until_acknowledged("first-record", limit, |_| {
        let mut client = Client::connect(target.address)?;
        let replicas = target.replication_factor;
        client.create_topic(&target.topic, target.partitions, replicas, None)?;
        let error = client.produce(frame)?;
        ensure!(error.is_none(), "produce failed with {error:?}");
        Ok(())
    })
}
