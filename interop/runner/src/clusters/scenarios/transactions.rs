//! Kafka's `transactions_test`: what is copied in transactions arrives once, whole and in order, while
//! brokers and copiers end and come back. Beside it transactions whose aborted records are told apart.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::clusters::checker::{Fate, History, Isolation, Sent};
use crate::clusters::cluster::LIMIT;
use crate::clusters::stage::{Load, Stage, Told};
use crate::clusters::tools::Copier;
use crate::clusters::transactor::Transactor;

const INPUT: &str = "seeds";
const OUTPUT: &str = "copies";
const PARTITIONS: usize = 2;
const SEEDS: (usize, usize) = (4_000, 100_000);
const TRANSACTION_SIZE: (usize, usize) = (150, 750);

const ENDLESS: &str = "transactions";
const ENDLESS_PARTITIONS: usize = 3;

/// What ends while copiers copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounced {
    Brokers,
    Copiers,
}

/// Brokers are stopped and killed.
pub(crate) fn copies_with_broker_bounces(stage: &mut Stage) -> Result<Told> {
    copies(stage, Bounced::Brokers)
}

/// Copiers are stopped and killed.
pub(crate) fn copies_with_copier_bounces(stage: &mut Stage) -> Result<Told> {
    copies(stage, Bounced::Copiers)
}

fn copies(stage: &mut Stage, bounced: Bounced) -> Result<Told> {
    stage.create(INPUT, PARTITIONS)?;
    // A copier writes to the partition that it reads from.
    stage.create(OUTPUT, PARTITIONS)?;
    let seeds = stage.either(SEEDS.0, SEEDS.1);
    let mut producer = stage.producer(&Load {
        records_per_second: 5_000,
        records_max: Some(seeds),
        ..Load::on(INPUT)
    })?;
    producer.await_count(seeds, 3 * LIMIT)?;
    producer.stop()?;
    let seeds = stage.reading(INPUT, Isolation::Uncommitted)?.records;
    let mut copiers = Vec::new();
    for partition in 0..PARTITIONS {
        copiers.push(copier(stage, partition, 0)?);
    }
    let load = Load {
        group_protocol: "consumer",
        ..Load::on(OUTPUT)
    };
    let mut reader = stage.consumer(&load, "copy-readers", Isolation::Committed)?;
    match bounced {
        Bounced::Brokers => {
            bounce_brokers(stage, &mut copiers)?;
            // A copier whose producer was fenced or whose transaction timed out ends with an error.
            for (partition, copier) in copiers.into_iter().enumerate() {
                copier
                    .await_end(5 * LIMIT)
                    .with_context(|| format!("copier {partition}"))?;
            }
        }
        Bounced::Copiers => bounce_copiers(stage, copiers)?,
    }
    let copied = stage.reading(OUTPUT, Isolation::Committed)?;
    reader.await_ends(&copied.ends(), LIMIT)?;
    let sent = seeds.into_iter().map(|((partition, _), value)| {
        Ok(Sent {
            producer: usize::try_from(partition)?,
            value,
            transaction: None,
            fate: Fate::Acknowledged(None),
        })
    });
    let history = History {
        is_idempotent: true,
        sent: sent.collect::<Result<_>>()?,
        readings: vec![copied],
        consumers: vec![reader.stop()?],
        ..History::default()
    };
    stage.cluster.await_full_isr(OUTPUT)?;
    stage.judge_files(OUTPUT, history)
}

/// Stops and kills brokers that are no controllers, while copiers go on.
fn bounce_brokers(stage: &mut Stage, copiers: &mut [Copier]) -> Result<()> {
    let controllers = stage.cluster.controller_ids();
    let brokers = stage.cluster.broker_ids();
    let victims: Vec<i32> = brokers
        .into_iter()
        .filter(|id| !controllers.contains(id))
        .collect();
    for (round, victim) in victims.iter().cycle().take(stage.either(2, 6)).enumerate() {
        match round % 2 {
            0 => stage.cluster.node(*victim)?.stop()?,
            _ => stage.cluster.node(*victim)?.kill()?,
        }
        stage.cluster.start_node(*victim)?;
        stage.cluster.await_full_isr(OUTPUT)?;
        for copier in &mut *copiers {
            copier.await_more(1, LIMIT)?;
        }
    }
    Ok(())
}

/// Stops and kills each copier in the middle of its work; the next one goes on where it was.
fn bounce_copiers(stage: &mut Stage, copiers: Vec<Copier>) -> Result<()> {
    for (partition, mut copier) in copiers.into_iter().enumerate() {
        for round in 0..stage.either(2, 6) {
            copier.await_more(1, LIMIT)?;
            copier.interrupt(round % 2 == 0)?;
            copier = self::copier(stage, partition, round + 1)?;
        }
        copier.await_end(5 * LIMIT)?;
    }
    Ok(())
}

/// A copier of one partition; the first with the newer way to commit offsets, the others with the older.
fn copier(stage: &mut Stage, partition: usize, round: usize) -> Result<Copier> {
    let bootstrap = stage.cluster.bootstrap();
    let number = partition.to_string();
    let size = stage
        .either(TRANSACTION_SIZE.0, TRANSACTION_SIZE.1)
        .to_string();
    let mut command = stage
        .lab
        .client_command("org.apache.kafka.tools.TransactionalMessageCopier");
    command.args(["--broker-list", &bootstrap, "--input-topic", INPUT]);
    command.args(["--input-partition", &number, "--output-topic", OUTPUT]);
    command.args(["--transactional-id", &format!("copier-{number}")]);
    command.args(["--consumer-group", "copiers", "--transaction-size", &size]);
    command.args(["--transaction-timeout", "40000", "--enable-random-aborts"]);
    if partition == 0 {
        command.arg("--use-group-metadata");
    }
    let log: PathBuf = stage.dir.join(format!("copier-{number}-{round}.log"));
    Copier::start(&mut command, log)
}

/// Transactions without end, while brokers are killed and one is cut off.
pub(crate) fn aborted_reads(stage: &mut Stage) -> Result<Told> {
    stage.create(ENDLESS, ENDLESS_PARTITIONS)?;
    let mut transactors = Vec::new();
    for number in 0..2 {
        transactors.push(transactor(stage, ENDLESS, ENDLESS_PARTITIONS, number)?);
    }
    let load = Load {
        group_protocol: "consumer",
        ..Load::on(ENDLESS)
    };
    let reader = stage.consumer(&load, "transaction-readers", Isolation::Committed)?;
    for round in 0..stage.either(2, 8) {
        for transactor in &mut transactors {
            transactor.await_more(30, LIMIT)?;
        }
        let victim = stage.cluster.leader(ENDLESS, round % ENDLESS_PARTITIONS)?;
        if stage.cluster.controller_ids().contains(&victim) {
            continue;
        }
        if round % 2 == 0 {
            stage.cluster.node(victim)?.kill()?;
            stage.cluster.start_node(victim)?;
        } else {
            stage.cluster.cut_off(victim);
            let what = format!("node {victim} leads nothing");
            stage
                .cluster
                .await_partitions(ENDLESS, &what, |partition| {
                    partition.leader >= 0 && partition.leader != victim
                })?;
            stage.cluster.heal();
            stage.cluster.await_broker(victim)?;
        }
        stage.cluster.await_full_isr(ENDLESS)?;
    }
    for transactor in &mut transactors {
        transactor.await_more(30, LIMIT)?;
    }
    finish_transactions(stage, ENDLESS, transactors, reader)
}

/// Ends transactors and their reader, and judges.
pub(crate) fn finish_transactions(
    stage: &mut Stage,
    topic: &str,
    transactors: Vec<Transactor>,
    mut reader: crate::clusters::tools::Consumer,
) -> Result<Told> {
    let mut history = History {
        is_idempotent: true,
        ..History::default()
    };
    for transactor in transactors {
        history.sent.extend(transactor.stop()?);
    }
    let committed = stage.reading(topic, Isolation::Committed)?;
    reader.await_ends(&committed.ends(), LIMIT)?;
    history.consumers.push(reader.stop()?);
    stage.judge(topic, history)
}

/// A producer of transactions on a topic.
pub(crate) fn transactor(
    stage: &mut Stage,
    topic: &str,
    partitions: usize,
    number: usize,
) -> Result<Transactor> {
    let file = stage.cluster.operator.write_file(
        &format!("transactions-{number}.properties"),
        "socket.connection.setup.timeout.ms=1000\nsocket.connection.setup.timeout.max.ms=2000\n\
         request.timeout.ms=5000\ndelivery.timeout.ms=30000\n",
    )?;
    let mut command = stage
        .lab
        .command("riverrun.interop.cluster.VerifiableTransactions");
    command.arg(stage.cluster.bootstrap()).arg(topic);
    command.args([partitions.to_string(), number.to_string()]);
    let seed = stage.lab.seed.wrapping_add(number as u64);
    command.arg(seed.to_string()).arg(file);
    let log = stage.dir.join(format!("transactions-{number}.log"));
    Transactor::start(&mut command, number, log)
}
