//! Kafka's `replication_replica_failure`: a follower is cut off, and leaves the in-sync replicas; it is back,
//! and so is it among them.

use anyhow::{Context as _, Result};

use crate::clusters::cluster::LIMIT;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "one-cut-off";
const ACKNOWLEDGED: (usize, usize) = (3_000, 25_000);

/// A follower may lag for less long than usual.
pub(crate) const LAYOUT: Layout = Layout {
    properties: &[("replica.lag.time.max.ms", "4000")],
    ..THREE_BROKERS
};

/// First it is cut off from the brokers only, so that the leader misses it; then from the controller as well.
pub(crate) fn follower_cut_off(stage: &mut Stage) -> Result<Told> {
    stage.create(TOPIC, 1)?;
    let mut traffic = stage.traffic(&Load::on(TOPIC))?;
    for is_from_all in [false, true] {
        let follower = follower(stage)?;
        match is_from_all {
            true => stage.cluster.cut_off(follower),
            false => stage.cluster.cut_off_from_brokers(follower),
        }
        let what = format!("node {follower} is out of sync, the others are in sync");
        stage.cluster.await_partitions(TOPIC, &what, |partition| {
            !partition.isr.contains(&follower) && partition.isr.len() == 2
        })?;
        traffic.await_more(500)?;
        stage.cluster.heal();
        stage.cluster.await_full_isr(TOPIC)?;
    }
    let least = stage.either(ACKNOWLEDGED.0, ACKNOWLEDGED.1);
    traffic.producer.await_count(least, LIMIT)?;
    stage.finish(traffic)
}

/// A broker that follows and is no controller.
fn follower(stage: &mut Stage) -> Result<i32> {
    let leader = stage.cluster.leader(TOPIC, 0)?;
    let controllers = stage.cluster.controller_ids();
    let brokers = stage.cluster.broker_ids();
    let mut followers = brokers
        .into_iter()
        .filter(|id| *id != leader && !controllers.contains(id));
    followers.next().context("there is a follower")
}
