//! Kafka's `fetch_from_follower`: a consumer in a follower's rack reads from that follower.

use anyhow::{Context as _, Result, ensure};

use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "racks";

pub(crate) const LAYOUT: Layout = Layout {
    has_racks: true,
    properties: &[(
        "replica.selector.class",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )],
    ..THREE_BROKERS
};

/// Each follower in turn is the nearest; the leader is where no rack is said.
pub(crate) fn nearest_replica(stage: &mut Stage) -> Result<Told> {
    stage.create(TOPIC, 1)?;
    let mut traffic = stage.traffic(&Load::on(TOPIC))?;
    traffic.await_more(1_000)?;
    let leader = stage.cluster.leader(TOPIC, 0)?;
    for broker in stage.cluster.broker_ids() {
        let rack = format!("rack-{broker}");
        let expected = (broker != leader).then_some(i64::from(broker));
        let what = format!("a reader in {rack} reads from {expected:?}");
        stage
            .cluster
            .await_that(&what, crate::clusters::cluster::LIMIT, |cluster| {
                let settings = [("client.rack", &rack[..]), ("max.poll.records", "50")];
                let found = cluster.operator.read(TOPIC, &settings)?;
                ensure!(
                    found.records.len() > 1_000,
                    "{} records",
                    found.records.len()
                );
                let preferred = found.preferred.get("0").context("it knows the partition")?;
                let preferred = Some(*preferred).filter(|id| *id >= 0);
                ensure!(
                    preferred == expected,
                    "a reader in {rack} is sent to {preferred:?}, not to {expected:?}"
                );
                Ok(true)
            })?;
    }
    stage.finish(traffic)
}
