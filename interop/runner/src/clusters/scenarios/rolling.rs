//! The brokers of a cluster are replaced one by one, each over its directory, by the other program and back,
//! while clients go on and see no error.

use anyhow::Result;

use super::transactions::{finish_transactions, transactor};
use crate::clusters::checker::Isolation;
use crate::clusters::stage::{Load, Stage, Told};
use crate::server::Against;

const TOPIC: &str = "rolled";
const TRANSACTIONS: &str = "rolled-transactions";
const PARTITIONS: usize = 3;

/// Apache Kafka's brokers become the program under test, and Apache Kafka's again.
pub(crate) fn there_and_back(stage: &mut Stage) -> Result<Told> {
    roll(stage, |stage| {
        let tested = stage.lab.against;
        for program in [tested, Against::Kafka] {
            for id in stage.cluster.broker_ids() {
                replace(stage, id, program)?;
            }
        }
        Ok(())
    })
}

/// The one controller becomes the program under test, and Apache Kafka's again; brokers stay.
pub(crate) fn controller_there_and_back(stage: &mut Stage) -> Result<Told> {
    roll(stage, |stage| {
        let tested = stage.lab.against;
        for program in [tested, Against::Kafka] {
            for id in stage.cluster.controller_ids() {
                stage.cluster.replace(id, program)?;
            }
            // A broker that ends is replaced by elections of the new controller's.
            let leader = stage.cluster.leader(TOPIC, 0)?;
            stage.cluster.node(leader)?.stop()?;
            stage.cluster.leader_other_than(TOPIC, 0, leader)?;
            stage.cluster.start_node(leader)?;
            stage.cluster.await_full_isr(TOPIC)?;
            stage.cluster.await_full_isr(TRANSACTIONS)?;
        }
        Ok(())
    })
}

/// Does something to a cluster with records and transactions under way, and judges both.
fn roll(stage: &mut Stage, change: impl FnOnce(&mut Stage) -> Result<()>) -> Result<Told> {
    stage.create(TOPIC, PARTITIONS)?;
    stage.create(TRANSACTIONS, PARTITIONS)?;
    let mut traffic = stage.traffic(&Load {
        records_per_second: 500,
        group_protocol: "consumer",
        ..Load::on(TOPIC)
    })?;
    let mut transactor = transactor(stage, TRANSACTIONS, PARTITIONS, 7)?;
    let load = Load::on(TRANSACTIONS);
    let reader = stage.consumer(&load, "rolled-readers", Isolation::Committed)?;
    transactor.await_more(20, crate::clusters::cluster::LIMIT)?;
    change(stage)?;
    traffic.await_more(500)?;
    transactor.await_more(20, crate::clusters::cluster::LIMIT)?;
    let errors = traffic.producer.errors();
    let told = finish_transactions(stage, TRANSACTIONS, vec![transactor], reader)?;
    anyhow::ensure!(errors == 0, "the producer was told of {errors} errors");
    Ok(stage.finish(traffic)?.and(told))
}

fn replace(stage: &mut Stage, id: i32, program: Against) -> Result<()> {
    stage.cluster.replace(id, program)?;
    stage.cluster.await_full_isr(TOPIC)?;
    stage.cluster.await_full_isr(TRANSACTIONS)?;
    for topic in ["__consumer_offsets", "__transaction_state"] {
        stage.cluster.await_full_isr(topic)?;
    }
    Ok(())
}
