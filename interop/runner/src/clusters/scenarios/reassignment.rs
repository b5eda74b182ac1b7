//! Kafka's `reassign_partitions` and `throttling_test`: replicas move to other brokers while records come,
//! brokers end and come back, and a throttle holds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::clusters::cluster::LIMIT;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "moved";
const BIG: &str = "big";
const BIG_RECORD_BYTES: u64 = 400_000;

pub(crate) const LAYOUT: Layout = Layout {
    broker_count: 4,
    ..THREE_BROKERS
};

/// All replicas move while every other broker is stopped and started; before that the logs' starts move up.
pub(crate) fn with_bounces(stage: &mut Stage) -> Result<Told> {
    let partitions = stage.either(8, 20);
    stage.create_with(TOPIC, partitions, &[("min.insync.replicas", "3")])?;
    let mut traffic = stage.traffic(&Load {
        group_protocol: "consumer",
        ..Load::on(TOPIC)
    })?;
    traffic.await_more(1_000)?;
    let deleted_before = delete_records(stage, partitions)?;
    let plan = shuffled(stage, TOPIC)?;
    execute(stage, &plan, &[])?;
    let brokers = stage.cluster.broker_ids();
    for broker in brokers.into_iter().skip(1).step_by(2) {
        stage.cluster.node(broker)?.stop()?;
        stage.cluster.start_node(broker)?;
    }
    await_done(stage, &plan, LIMIT)?;
    traffic.await_more(500)?;
    let mut history = stage.history(traffic)?;
    history.deleted_before = deleted_before;
    stage.judge(TOPIC, history)
}

/// Replicas of big logs move as fast as a throttle lets them.
pub(crate) fn throttled(stage: &mut Stage) -> Result<Told> {
    let (records, bytes_per_second) = stage.either((30, 1_500_000), (200, 4_000_000));
    stage.create_with(BIG, 3, &[("max.message.bytes", "1000000")])?;
    fill(stage, records)?;
    stage.create(TOPIC, 3)?;
    let mut traffic = stage.traffic(&Load {
        records_per_second: 200,
        ..Load::on(TOPIC)
    })?;
    let plan = shuffled(stage, BIG)?;
    let throttle = bytes_per_second.to_string();
    let expected = Duration::from_secs_f64(most_moved_to_a_broker(stage, &plan, records)? as f64)
        / u32::try_from(bytes_per_second)?;
    execute(stage, &plan, &["--throttle", &throttle])?;
    let started = Instant::now();
    await_done(stage, &plan, 2 * expected + LIMIT)?;
    let took = started.elapsed();
    ensure!(
        took >= expected.mul_f64(0.8),
        "it took {took:?}: the throttle of {bytes_per_second} bytes a second makes it {expected:?}"
    );
    // What is asked for and granted again each second is late by some of them.
    let slack = Duration::from_secs(20);
    ensure!(
        took <= 2 * expected + slack,
        "it took {took:?} rather than {expected:?}"
    );
    traffic.await_more(100)?;
    let told = stage.finish(traffic)?;
    Ok(told.took("moved in", took).took("expected", expected))
}

/// Deletes the first records of each partition; returns where the partitions begin now.
fn delete_records(stage: &mut Stage, partitions: usize) -> Result<BTreeMap<i32, i64>> {
    let mut starts = stage
        .cluster
        .operator
        .ends(TOPIC, i32::try_from(partitions)?)?;
    starts.values_mut().for_each(|end| *end /= 4);
    let deleted: Vec<Value> = starts
        .iter()
        .map(|(partition, start)| json!({"topic": TOPIC, "partition": partition, "offset": start}))
        .collect();
    let text = json!({"version": 1, "partitions": deleted}).to_string();
    let operator = &mut stage.cluster.operator;
    let file = operator.write_file("deleted.json", &text)?;
    operator.tool("DeleteRecordsCommand", &["--offset-json-file", &file])?;
    Ok(starts)
}

/// Other brokers for each replica: each moves on by one, and the leaders change places.
fn shuffled(stage: &mut Stage, topic: &str) -> Result<Value> {
    let brokers = stage.cluster.broker_ids();
    let partitions = stage.cluster.operator.describe(topic)?;
    let next = |id: &i32| {
        let at = brokers.iter().position(|broker| broker == id);
        brokers[at.map_or(0, |at| (at + 1) % brokers.len())]
    };
    let moved = partitions.iter().enumerate().map(|(number, partition)| {
        let mut replicas: Vec<i32> = partition.replicas.iter().map(next).collect();
        let by = number % replicas.len();
        replicas.rotate_left(by);
        json!({"topic": topic, "partition": number, "replicas": replicas})
    });
    Ok(json!({"version": 1, "partitions": moved.collect::<Vec<_>>()}))
}

fn execute(stage: &mut Stage, plan: &Value, more: &[&str]) -> Result<()> {
    let operator = &mut stage.cluster.operator;
    let file = operator.write_file("reassignment.json", &plan.to_string())?;
    let arguments = [&["--reassignment-json-file", &file, "--execute"], more].concat();
    operator
        .tool("reassign.ReassignPartitionsCommand", &arguments)
        .map(drop)
}

/// Waits until `kafka-reassign-partitions --verify`, which also takes throttles away, finds all done.
fn await_done(stage: &mut Stage, plan: &Value, limit: Duration) -> Result<()> {
    let file = stage
        .cluster
        .operator
        .write_file("reassignment.json", &plan.to_string())?;
    stage
        .cluster
        .await_that("the replicas have moved", limit, |cluster| {
            let arguments = ["--reassignment-json-file", &file, "--verify"];
            let told = cluster
                .operator
                .tool("reassign.ReassignPartitionsCommand", &arguments)?;
            let is_done =
                |line: &str| line.ends_with("is completed.") || line.ends_with("is complete.");
            let lines = || {
                told.lines()
                    .filter(|line| line.starts_with("Reassignment of partition"))
            };
            if lines().any(|line| !is_done(line)) || lines().next().is_none() {
                bail!(told);
            }
            Ok(true)
        })
}

/// Writes big records to every partition of the big topic, by `kafka-producer-perf-test`.
fn fill(stage: &mut Stage, records: u64) -> Result<()> {
    let (count, size) = (records.to_string(), BIG_RECORD_BYTES.to_string());
    let arguments = [
        "--topic",
        BIG,
        "--num-records",
        &count,
        "--record-size",
        &size,
        "--throughput",
        "-1",
        "--command-property",
        "acks=all",
        "max.request.size=1000000",
        "batch.size=100",
        "buffer.memory=33554432",
    ];
    stage
        .cluster
        .operator
        .tool("ProducerPerformance", &arguments)
        .map(drop)
}

/// The most bytes that any broker is to fetch for a plan.
fn most_moved_to_a_broker(stage: &mut Stage, plan: &Value, records: u64) -> Result<u64> {
    let ends = stage.cluster.operator.ends(BIG, 3)?;
    let total: i64 = ends.values().sum();
    ensure!(
        u64::try_from(total)? == records,
        "{total} of {records} big records are there"
    );
    let now = stage.cluster.operator.describe(BIG)?;
    let mut most = 0;
    for broker in stage.cluster.broker_ids() {
        let mut bytes = 0;
        for moved in plan["partitions"].as_array().into_iter().flatten() {
            let number = moved["partition"].as_i64().unwrap_or_default();
            let has = |replicas: &[i32]| replicas.contains(&broker);
            let wanted: Vec<i32> = serde_json::from_value(moved["replicas"].clone())?;
            let partition = usize::try_from(number)?;
            if has(&wanted) && !has(&now[partition].replicas) {
                let end = ends.get(&i32::try_from(number)?).copied().unwrap_or(0);
                bytes += u64::try_from(end)? * BIG_RECORD_BYTES;
            }
        }
        most = most.max(bytes);
    }
    Ok(most)
}
