//! Load on a server: what is asked of it, and what it took.
//!
//! ```text
//!   frames.rs ──> produce.rs ──┬─> closed_loop.rs  each connection keeps N requests unanswered
//!                coordinators.rs ┘
//!            └──> paced.rs    open loop: a schedule, and a consumer that follows
//!   fetcher.rs ─> consume.rs  fetches of whole topics from the page cache
//!   abused.rs     a steady producer beside clients that ask for as much as they can
//!   client.rs     one request after the other: topics, the first record
//!   leaders.rs    of a cluster: who leads ── in_sync.rs      until all replicas are in sync
//!                                         ├─ next_record.rs until a partition takes a record again
//!                                         └─ steady.rs      a producer and a consumer through restarts
//!   window.rs     the measured part of a run      latencies.rs  its percentiles
//! ```

mod abused;
mod acknowledged;
mod client;
mod closed_loop;
mod consume;
mod coordinators;
mod fetcher;
mod first_record;
mod frames;
mod in_sync;
mod latencies;
mod leaders;
mod next_record;
mod paced;
mod produce;
mod steady;
mod window;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use record::Compression;
use serde_json::Value;

use crate::affinity;
use crate::flags::Flags;
use crate::process::Processes;
use client::Client;

/// What every load needs to know.
#[derive(Clone, Debug)]
struct Target {
    /// The broker that is asked first.
    address: SocketAddr,
    /// All brokers that are named.
    addresses: Vec<SocketAddr>,
    topic: String,
    partitions: i32,
    replication_factor: i16,
    /// Where each partition is led.
    leaders: Vec<SocketAddr>,
    processes: Processes,
    warmup: Duration,
    duration: Duration,
    max_bytes: u64,
}

impl Target {
    /// Those that lead a partition, in the order of their first one.
    fn distinct_leaders(&self) -> Vec<SocketAddr> {
        let mut distinct = Vec::new();
        for leader in &self.leaders {
            if !distinct.contains(leader) {
                distinct.push(*leader);
            }
        }
        distinct
    }
}

/// What is produced.
#[derive(Debug)]
struct Batching {
    connections: usize,
    record_bytes: usize,
    batch_bytes: usize,
    partitions_per_request: usize,
    compression: Compression,
    acks: i16,
}

impl Batching {
    /// A record of 100 bytes that all replicas in sync acknowledge.
    const ONE_RECORD: Self = Self {
        connections: 1,
        record_bytes: 100,
        batch_bytes: 1,
        partitions_per_request: 1,
        compression: Compression::None,
        acks: -1,
    };
}

/// Runs one load and prints its result.
pub(crate) fn run(kind: &str, mut flags: Flags) -> Result<()> {
    affinity::stay_on(flags.optional("core")?)?;
    let delete = flags.switch("delete");
    let mut target = target(&mut flags)?;
    let config: Option<String> = flags.optional("config")?;
    let config = config
        .as_deref()
        .map(|pair| pair.split_once('=').context("--config needs KEY=VALUE"))
        .transpose()?;
    let result = match kind {
        "first-record" | "next-record" | "in-sync" => {
            let limit = seconds(&mut flags, "limit-seconds", 60.0)?;
            flags.finish()?;
            match kind {
                "first-record" => first_record::run(&target, limit)?,
                "next-record" => next_record::run(&target, limit)?,
                _ => in_sync::run(&target, config, limit)?,
            }
        }
        _ => on_topic(kind, &mut target, config, flags)?,
    };
    if delete {
        Client::connect(target.address)?.delete_topic(&target.topic)?;
    }
    print(&result)
}

/// A load on a topic, which is made when it is missing.
fn on_topic(
    kind: &str,
    target: &mut Target,
    config: Option<(&str, &str)>,
    mut flags: Flags,
) -> Result<Value> {
    let mut client = Client::connect(target.address)?;
    let replicas = target.replication_factor;
    let is_new = client.create_topic(&target.topic, target.partitions, replicas, config)?;
    if replicas > 1 {
        target.leaders = leaders::await_serving(target)?;
    } else {
        client.wait_for_leaders(&target.topic, 0..target.partitions)?;
    }
    let target = &*target;
    Ok(match kind {
        "produce" => {
            let batching = batching(&mut flags)?;
            let in_flight = flags.or("in-flight", 5)?;
            flags.finish()?;
            produce::run(target, &batching, in_flight)?
        }
        "paced" => {
            let batching = batching(&mut flags)?;
            let mb_per_second: f64 = flags.or("mb-per-second", 20.0)?;
            flags.finish()?;
            ensure!(is_new, "offsets tell latencies: the topic must be new");
            paced::run(target, &batching, mb_per_second * 1e6)?
        }
        "consume" => {
            let consumers = flags.or("consumers", 1)?;
            let fill_bytes = flags.or("fill-mb", 1000)? * 1_000_000;
            let cold: Option<PathBuf> = flags.optional("cold")?;
            flags.finish()?;
            if is_new {
                consume::fill(target, fill_bytes)?;
            }
            match cold {
                Some(dir) => {
                    consume::evict(&dir, &target.topic)?;
                    consume::run_once(target, fill_bytes)?
                }
                None => consume::run(target, consumers)?,
            }
        }
        "abused" => {
            let abuse = flags.or("abuse", "none".to_owned())?.parse()?;
            let connections = flags.or("connections", 4)?;
            flags.finish()?;
            abused::run(target, abuse, connections)?
        }
        "coordinators" => {
            let asked = flags.or("ask", "commits".to_owned())?.parse()?;
            let connections = flags.or("connections", 64)?;
            flags.finish()?;
            coordinators::run(target, asked, connections)?
        }
        "steady" => {
            flags.finish()?;
            steady::run(target)?
        }
        other => bail!(
            "no load `{other}`; there are produce, consume, paced, coordinators, abused, steady, \
             first-record, next-record and in-sync"
        ),
    })
}

fn print(result: &Value) -> Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

fn target(flags: &mut Flags) -> Result<Target> {
    let named: String = flags.required("address")?;
    let addresses = named.split(',').map(|address| {
        let mut addresses = address
            .to_socket_addrs()
            .with_context(|| format!("`{address}` is not HOST:PORT"))?;
        addresses.next().context("the host has no address")
    });
    let addresses = addresses.collect::<Result<Vec<_>>>()?;
    let address = *addresses.first().context("no address is named")?;
    let partitions: i32 = flags.or("partitions", 4)?;
    Ok(Target {
        address,
        addresses,
        topic: flags.or("topic", "bench".to_owned())?,
        partitions,
        replication_factor: flags.or("replication-factor", 1)?,
        leaders: vec![address; usize::try_from(partitions)?],
        processes: flags.optional("pid")?.unwrap_or_default(),
        warmup: seconds(flags, "warmup-seconds", 1.0)?,
        duration: seconds(flags, "seconds", 5.0)?,
        max_bytes: flags.or("max-mb", 2000)? * 1_000_000,
    })
}

fn seconds(flags: &mut Flags, name: &str, default: f64) -> Result<Duration> {
    let seconds = flags.or(name, default)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| anyhow!("--{name} cannot be {seconds}"))
}

fn batching(flags: &mut Flags) -> Result<Batching> {
    let name: String = flags.or("codec", "none".to_owned())?;
    let compression = Compression::ALL
        .into_iter()
        .find(|codec| codec.name() == name)
        .with_context(|| format!("no codec `{name}`"))?;
    let batching = Batching {
        connections: flags.or("connections", 4)?,
        record_bytes: flags.or("record-bytes", 1024)?,
        batch_bytes: flags.or("batch-bytes", 64 * 1024)?,
        partitions_per_request: flags.or("partitions-per-request", 1)?,
        compression,
        acks: flags.or("acks", 1)?,
    };
    ensure!(batching.acks != 0, "a produce with acks 0 has no answer");
    ensure!(batching.connections > 0, "at least one connection");
    Ok(batching)
}

/// A target of tests whose partitions `leader_count` servers lead by turns.
#[cfg(test)]
fn test_target(partitions: i32, leader_count: u16) -> Target {
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let leaders = (0..partitions).map(|index| address(1 + index as u16 % leader_count));
    Target {
        address: address(1),
        addresses: vec![address(1)],
        topic: "t".to_owned(),
        partitions,
        replication_factor: 1,
        leaders: leaders.collect(),
        processes: Processes::default(),
        warmup: Duration::ZERO,
        duration: Duration::ZERO,
        max_bytes: 0,
    }
}
