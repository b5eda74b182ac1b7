//! Kafka's `round_trip_fault`: records go out and come back while a broker is cut off, a broker hangs, the
//! clients are cut off, everything is late and slow.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clusters::cluster::LIMIT;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told, Traffic};

const TOPIC: &str = "round-trip";
const RECORDS: (usize, usize) = (6_000, 100_000);
/// How long clients are cut off, and everything is slow.
const FAULT: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(60));
const DELAY: Duration = Duration::from_millis(100);
/// 3000 kbit/s.
const BYTES_PER_SECOND: u32 = 375_000;

pub(crate) const LAYOUT: Layout = Layout {
    broker_count: 4,
    ..THREE_BROKERS
};

/// One fault after the other, under a load that goes on.
pub(crate) fn faults(stage: &mut Stage) -> Result<Told> {
    stage.create(TOPIC, 4)?;
    let mut traffic = stage.traffic(&Load {
        records_per_second: stage.either(1_000, 5_000),
        group_protocol: "consumer",
        ..Load::on(TOPIC)
    })?;
    broker_cut_off(stage, &mut traffic)?;
    broker_held(stage, &mut traffic)?;
    let lasts = stage.either(FAULT.0, FAULT.1);
    stage.cluster.cut_clients_off();
    thread::sleep(lasts);
    stage.cluster.heal();
    traffic.await_more(500)?;
    stage.cluster.slow(DELAY, BYTES_PER_SECOND);
    thread::sleep(lasts);
    traffic.await_more(100)?;
    stage.cluster.heal();
    let records = stage.either(RECORDS.0, RECORDS.1);
    traffic.producer.await_count(records, 5 * LIMIT)?;
    stage.finish(traffic)
}

/// A broker that leads is cut off from the others, until it is fenced, and heals.
fn broker_cut_off(stage: &mut Stage, traffic: &mut Traffic) -> Result<()> {
    let victim = stage.cluster.leader(TOPIC, 0)?;
    stage.cluster.cut_off(victim);
    without(stage, traffic, victim)?;
    stage.cluster.heal();
    stage.cluster.await_broker(victim)?;
    stage.cluster.await_full_isr(TOPIC)
}

/// A broker that leads hangs, until it is fenced, and goes on.
fn broker_held(stage: &mut Stage, traffic: &mut Traffic) -> Result<()> {
    let controllers = stage.cluster.controller_ids();
    let partitions = stage.cluster.operator.describe(TOPIC)?;
    let mut leaders = partitions.iter().map(|partition| partition.leader);
    let victim = leaders.rfind(|leader| *leader > 0 && !controllers.contains(leader));
    let victim = victim.context("some broker leads and is no controller")?;
    stage.cluster.node(victim)?.hold()?;
    without(stage, traffic, victim)?;
    stage.cluster.node(victim)?.go_on()?;
    stage.cluster.await_broker(victim)?;
    stage.cluster.await_full_isr(TOPIC)
}

/// Waits until nobody is led by a broker, and records go on.
fn without(stage: &mut Stage, traffic: &mut Traffic, victim: i32) -> Result<()> {
    let what = format!("node {victim} leads nothing");
    stage.cluster.await_partitions(TOPIC, &what, |partition| {
        partition.leader >= 0 && partition.leader != victim
    })?;
    traffic.await_more(500)
}
