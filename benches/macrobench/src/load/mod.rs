//! Load on a server: what is asked of it, and what it took.
//!
//! ```text
//!   frames.rs ──> produce.rs ──┬─> closed_loop.rs  each connection keeps N requests unanswered
//!                coordinators.rs ┘
//!            └──> paced.rs    open loop: a schedule, and a consumer that follows
//!   fetcher.rs ─> consume.rs  fetches of whole topics from the page cache
//!   abused.rs     a steady producer beside clients that ask for as much as they can
//!   client.rs     one request after the other: topics, the first record
//!   window.rs     the measured part of a run      latencies.rs  its percentiles
//! ```

mod abused;
mod client;
mod closed_loop;
mod consume;
mod coordinators;
mod fetcher;
mod first_record;
mod frames;
mod latencies;
mod paced;
mod produce;
mod window;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use record::Compression;
use serde_json::Value;

use crate::affinity;
use crate::flags::Flags;
use crate::process::Process;
use client::Client;

/// What every load needs to know.
#[derive(Debug)]
struct Target {
    address: SocketAddr,
    topic: String,
    partitions: i32,
    process: Process,
    warmup: Duration,
    duration: Duration,
    max_bytes: u64,
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

/// Runs one load and prints its result.
pub(crate) fn run(kind: &str, mut flags: Flags) -> Result<()> {
    affinity::stay_on(flags.optional("core")?)?;
    let delete = flags.switch("delete");
    let target = target(&mut flags)?;
    if kind == "first-record" {
        let limit = seconds(&mut flags, "limit-seconds", 60.0)?;
        flags.finish()?;
        return print(&first_record::run(&target, limit)?);
    }
    let mut client = Client::connect(target.address)?;
    let config: Option<String> = flags.optional("config")?;
    let config = config
        .as_deref()
        .map(|pair| pair.split_once('=').context("--config needs KEY=VALUE"))
        .transpose()?;
    let is_new = client.create_topic(&target.topic, target.partitions, config)?;
    client.wait_for_leaders(&target.topic, target.partitions)?;
    let result = match kind {
        "produce" => {
            let batching = batching(&mut flags)?;
            let in_flight = flags.or("in-flight", 5)?;
            flags.finish()?;
            produce::run(&target, &batching, in_flight)?
        }
        "paced" => {
            let batching = batching(&mut flags)?;
            let mb_per_second: f64 = flags.or("mb-per-second", 20.0)?;
            flags.finish()?;
            ensure!(is_new, "offsets tell latencies: the topic must be new");
            paced::run(&target, &batching, mb_per_second * 1e6)?
        }
        "consume" => {
            let consumers = flags.or("consumers", 1)?;
            let fill_bytes = flags.or("fill-mb", 1000)? * 1_000_000;
            let cold: Option<PathBuf> = flags.optional("cold")?;
            flags.finish()?;
            if is_new {
                consume::fill(&target, fill_bytes)?;
            }
            match cold {
                Some(dir) => {
                    consume::evict(&dir, &target.topic)?;
                    consume::run_once(&target, fill_bytes)?
                }
                None => consume::run(&target, consumers)?,
            }
        }
        "abused" => {
            let abuse = flags.or("abuse", "none".to_owned())?.parse()?;
            let connections = flags.or("connections", 4)?;
            flags.finish()?;
            abused::run(&target, abuse, connections)?
        }
        "coordinators" => {
            let asked = flags.or("ask", "commits".to_owned())?.parse()?;
            let connections = flags.or("connections", 64)?;
            flags.finish()?;
            coordinators::run(&target, asked, connections)?
        }
        other => bail!(
            "no load `{other}`; there are produce, consume, paced, coordinators, abused and \
             first-record"
        ),
    };
    if delete {
        client.delete_topic(&target.topic)?;
    }
    print(&result)
}

fn print(result: &Value) -> Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

fn target(flags: &mut Flags) -> Result<Target> {
    let address: String = flags.required("address")?;
    let mut addresses = address
        .to_socket_addrs()
        .with_context(|| format!("`{address}` is not HOST:PORT"))?;
    Ok(Target {
        address: addresses.next().context("the host has no address")?,
        topic: flags.or("topic", "bench".to_owned())?,
        partitions: flags.or("partitions", 4)?,
        process: Process(flags.optional("pid")?),
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
