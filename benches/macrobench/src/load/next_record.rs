//! How long until a partition takes a record again: asked every millisecond, of all brokers in turn.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::acknowledged::until_acknowledged;
use super::client::Client;
use super::{Batching, Target, frames, leaders};

/// Looks for the leader of partition 0 and produces a record, again until one is acknowledged by all
/// replicas in sync.
pub(super) fn run(target: &Target, limit: Duration) -> Result<Value> {
    let frames = frames::build(target, &Batching::ONE_RECORD)?;
    let (frame, _) = &frames[0].requests[0];
    until_acknowledged("next-record", limit, |failed| {
        let address = target.addresses[failed % target.addresses.len()];
        let led = leaders::ask(&mut Client::connect(address)?, target)?;
        let error = Client::connect(led[0].address)?.produce(frame)?;
        ensure!(error.is_none(), "produce failed with {error:?}");
        Ok(())
    })
}
