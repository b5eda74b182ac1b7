//! Kafka's `replication_test`: the leader of a partition ends, cleanly or not, once or again and again.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};

use crate::clusters::cluster::LIMIT;
use crate::clusters::stage::{Load, Stage, Told, Traffic};

const TOPIC: &str = "replicated";
/// As many records have to be acknowledged at least.
const ACKNOWLEDGED: (usize, usize) = (2_000, 5_000);
/// How often the leader is ended.
const BOUNCES: (usize, usize) = (2, 5);

const LOAD: Load<'_> = Load::on(TOPIC);

/// The leader of partition 0 is ended by SIGTERM while records come.
pub(crate) fn leader_stopped(stage: &mut Stage) -> Result<Told> {
    let mut traffic = begin(stage, &LOAD)?;
    let leader = stage.cluster.leader(TOPIC, 0)?;
    let started = Instant::now();
    stage.cluster.node(leader)?.stop()?;
    let took = started.elapsed();
    stage.cluster.leader_other_than(TOPIC, 0, leader)?;
    traffic.await_more(500)?;
    stage.cluster.start_node(leader)?;
    stage.cluster.await_full_isr(TOPIC)?;
    Ok(end(stage, traffic)?.took("a stop took", took))
}

/// The leader of partition 0 is killed while records come.
pub(crate) fn leader_killed(stage: &mut Stage) -> Result<Told> {
    let mut traffic = begin(stage, &LOAD)?;
    let leader = stage.cluster.leader(TOPIC, 0)?;
    let killed = now_ms()?;
    stage.cluster.node(leader)?.kill()?;
    stage.cluster.leader_other_than(TOPIC, 0, leader)?;
    traffic.producer.await_later(0, now_ms()?, LIMIT)?;
    let failover = failover(&mut traffic, killed)?;
    traffic.await_more(500)?;
    stage.cluster.start_node(leader)?;
    stage.cluster.await_full_isr(TOPIC)?;
    stage.verify_replicas(TOPIC)?;
    Ok(end(stage, traffic)?.took("failover took", failover))
}

/// The leader of partition 0 is stopped and started again and again.
pub(crate) fn clean_bounces(stage: &mut Stage) -> Result<Told> {
    let load = Load {
        settings: &[("compression.type", "gzip"), ("linger.ms", "5")],
        group_protocol: "consumer",
        ..LOAD
    };
    let mut traffic = begin(stage, &load)?;
    for _ in 0..stage.either(BOUNCES.0, BOUNCES.1) {
        let leader = stage.cluster.leader(TOPIC, 0)?;
        stage.cluster.node(leader)?.stop()?;
        bounce(stage, &mut traffic, leader)?;
    }
    end(stage, traffic)
}

/// The leader of partition 0 is killed and started again and again; the producer is not idempotent.
pub(crate) fn hard_bounces(stage: &mut Stage) -> Result<Told> {
    let load = Load {
        is_idempotent: false,
        ..LOAD
    };
    let mut traffic = begin(stage, &load)?;
    for _ in 0..stage.either(BOUNCES.0, BOUNCES.1) {
        let leader = stage.cluster.leader(TOPIC, 0)?;
        stage.cluster.node(leader)?.kill()?;
        bounce(stage, &mut traffic, leader)?;
    }
    end(stage, traffic)
}

/// Starts a leader that has ended, once another leads, and waits until it is in sync.
fn bounce(stage: &mut Stage, traffic: &mut Traffic, leader: i32) -> Result<()> {
    stage.cluster.leader_other_than(TOPIC, 0, leader)?;
    stage.cluster.start_node(leader)?;
    stage.cluster.await_full_isr(TOPIC)?;
    traffic.await_more(100)
}

fn begin(stage: &mut Stage, load: &Load<'_>) -> Result<Traffic> {
    stage.create(TOPIC, 3)?;
    stage.traffic(load)
}

fn end(stage: &mut Stage, mut traffic: Traffic) -> Result<Told> {
    let least = stage.either(ACKNOWLEDGED.0, ACKNOWLEDGED.1);
    traffic.producer.await_count(least, LIMIT)?;
    stage.finish(traffic)
}

/// How long nothing was acknowledged in partition 0 after its leader was killed.
fn failover(traffic: &mut Traffic, killed_ms: u64) -> Result<Duration> {
    let times = traffic.producer.times(0)?;
    let before = times.partition_point(|time| *time <= killed_ms);
    // Answers that were under way still come; then there is a gap.
    let around = times.get(before.saturating_sub(1)..).unwrap_or_default();
    let gaps = around
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]));
    let gap = gaps.max().context("there are acknowledgements")?;
    Ok(Duration::from_millis(gap))
}

fn now_ms() -> Result<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_millis())?)
}
