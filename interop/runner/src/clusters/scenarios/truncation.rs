//! Kafka's `truncation_test`: an unclean election loses records. A consumer that was further keeps its
//! place, and a new one reads what is left.

use anyhow::{Context as _, Result, ensure};

use crate::clusters::checker::Delivery;
use crate::clusters::cluster::LIMIT;
use crate::clusters::operator::Topic;
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "truncated";

/// The replica that leads is lost after records that the other one has not got.
pub(crate) fn unclean_election(stage: &mut Stage) -> Result<Told> {
    let brokers = stage.cluster.broker_ids();
    let (ahead, behind) = (brokers[1], brokers[2]);
    stage.cluster.create(&Topic {
        name: TOPIC,
        assignment: vec![vec![ahead, behind]],
        configs: &[("min.insync.replicas", "1")],
    })?;
    let mut traffic = stage.traffic(&Load {
        is_idempotent: false,
        records_per_second: 500,
        settings: &[
            ("delivery.timeout.ms", "5000"),
            ("request.timeout.ms", "2000"),
            ("linger.ms", "0"),
        ],
        ..Load::on(TOPIC)
    })?;
    // What is committed now is on both replicas.
    let ends = stage.cluster.operator.ends(TOPIC, 1)?;
    let least = *ends.get(&0).context("it has an end")?;
    stage.cluster.node(behind)?.stop()?;
    stage
        .cluster
        .await_partitions(TOPIC, "one replica is in sync", |partition| {
            partition.isr == [ahead]
        })?;
    traffic.await_more(500)?;
    let ends = stage.cluster.operator.ends(TOPIC, 1)?;
    traffic.consumer.await_ends(&ends, LIMIT)?;
    stage.cluster.node(ahead)?.stop()?;
    stage.cluster.start_node(behind)?;
    stage
        .cluster
        .await_partitions(TOPIC, "nobody leads", |partition| partition.leader < 0)?;
    elect_unclean(stage)?;
    ensure!(
        stage.cluster.leader(TOPIC, 0)? == behind,
        "another replica leads than the one that is there"
    );
    traffic.await_more(200)?;
    stage.cluster.start_node(ahead)?;
    stage.cluster.await_full_isr(TOPIC)?;
    traffic.await_more(200)?;
    let mut history = stage.history(traffic)?;
    let events = std::mem::take(&mut history.consumers);
    for consumer in &events {
        keeps_its_place(&consumer.events, least)?;
    }
    history.may_lose = true;
    let told = stage.judge(TOPIC, history)?;
    ensure!(
        told.lost > 0,
        "the replica that was behind has lost nothing"
    );
    Ok(told)
}

fn elect_unclean(stage: &mut Stage) -> Result<()> {
    let arguments = [
        "--election-type",
        "unclean",
        "--topic",
        TOPIC,
        "--partition",
        "0",
    ];
    stage
        .cluster
        .operator
        .tool("LeaderElectionCommand", &arguments)
        .map(drop)
}

/// A consumer goes back to where the logs diverge at most, which is at `least` or after it.
fn keeps_its_place(events: &[Delivery], least: i64) -> Result<()> {
    let mut next = 0;
    let mut back_count = 0;
    for event in events {
        let Delivery::Record((_, offset), _) = event else {
            continue;
        };
        if *offset < next {
            back_count += 1;
            ensure!(
                *offset >= least,
                "the consumer went back from {next} to {offset}, and the logs diverge at {least} or later"
            );
        }
        next = offset + 1;
    }
    ensure!(back_count <= 1, "the consumer went back {back_count} times");
    Ok(())
}
