//! Faults by chance, from the seed: nodes end, hang, are cut off and slow, for shorter or longer than it takes to be
//! missed, and the next fault does not always wait until the last one is forgotten.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use interpreter::Random;

use super::transactions::{finish_transactions, transactor};
use crate::clusters::checker::Isolation;
use crate::clusters::cluster::LIMIT;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "by-chance";
const TRANSACTIONS: &str = "by-chance-transactions";
const PARTITIONS: usize = 5;
const ROUNDS: (usize, usize) = (10, 60);
/// A broker is missed after eight seconds.
const LASTS_MAX_MS: usize = 12_000;
const DELAY: Duration = Duration::from_millis(50);
const BYTES_PER_SECOND: u32 = 375_000;

pub(crate) const LAYOUT: Layout = Layout {
    broker_count: 5,
    ..THREE_BROKERS
};

/// What befalls a cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Hold,
    CutOff,
    CutOffFromBrokers,
    Slow,
}

const FAULTS: [Fault; 6] = [
    Fault::Kill,
    Fault::Stop,
    Fault::Hold,
    Fault::CutOff,
    Fault::CutOffFromBrokers,
    Fault::Slow,
];

/// One fault after the other, with records and transactions under way.
pub(crate) fn faults(stage: &mut Stage) -> Result<Told> {
    stage.create(TOPIC, PARTITIONS)?;
    stage.create(TRANSACTIONS, PARTITIONS)?;
    let mut traffic = stage.traffic(&Load {
        group_protocol: "consumer",
        ..Load::on(TOPIC)
    })?;
    let mut transactor = transactor(stage, TRANSACTIONS, PARTITIONS, 7)?;
    let load = Load::on(TRANSACTIONS);
    let reader = stage.consumer(&load, "by-chance-readers", Isolation::Committed)?;
    transactor.await_more(10, LIMIT)?;
    let mut random = Random::new(stage.lab.seed);
    for round in 0..stage.either(ROUNDS.0, ROUNDS.1) {
        let nodes: Vec<i32> = stage.cluster.nodes().iter().map(|node| node.id).collect();
        let victim = *random.choice(&nodes);
        let fault = *random.choice(&FAULTS);
        let lasts = Duration::from_millis(random.below(LASTS_MAX_MS) as u64);
        let is_awaited = random.chance(1, 2);
        let happened = happen(stage, fault, victim, lasts).and_then(|()| {
            if is_awaited {
                stage.cluster.await_all_in_sync()?;
            }
            traffic.await_more(100)
        });
        happened.with_context(|| format!("round {round}: {fault:?} of {victim} for {lasts:?}"))?;
    }
    stage.cluster.await_all_in_sync()?;
    transactor.await_more(10, LIMIT)?;
    let told = finish_transactions(stage, TRANSACTIONS, vec![transactor], reader)?;
    Ok(stage.finish(traffic)?.and(told))
}

/// Lets a fault happen, for so long, and repairs it.
fn happen(stage: &mut Stage, fault: Fault, victim: i32, lasts: Duration) -> Result<()> {
    match fault {
        Fault::Kill => stage.cluster.node(victim)?.kill()?,
        Fault::Stop => stage.cluster.node(victim)?.stop()?,
        Fault::Hold => stage.cluster.node(victim)?.hold()?,
        Fault::CutOff => stage.cluster.cut_off(victim),
        Fault::CutOffFromBrokers => stage.cluster.cut_off_from_brokers(victim),
        Fault::Slow => stage.cluster.slow(DELAY, BYTES_PER_SECOND),
    }
    thread::sleep(lasts);
    match fault {
        Fault::Kill | Fault::Stop => stage.cluster.start_node(victim),
        Fault::Hold => stage.cluster.node(victim)?.go_on(),
        Fault::CutOff | Fault::CutOffFromBrokers | Fault::Slow => {
            stage.cluster.heal();
            Ok(())
        }
    }
}
