//! Runs the applications of `topologies.rs` for the runner to compare with Kafka Streams'.
//!
//! The argument is `HOST:PORT`. The line `start STATE_DIR PREFIX=CACHE_BYTES ...` of standard input starts an
//! application `PREFIX-NAME` of each topology and each prefix, whose results go to the topic `PREFIX-NAME-out`; `close`
//! closes all. Both are answered by `done` when every application runs, or is closed. `applications/` among the sources
//! of `interop/streams` is the same program with Kafka Streams.
//!
//! `exactly-once HOST:PORT STATE_DIR` is the application of suite `streams-exactly-once`; it ends with standard input.
#![expect(clippy::print_stdout, reason = "the answers to commands")]

mod exactly_once;
mod topologies;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use riverrun_streams::dsl::{DslStores, Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::runtime::{KafkaStreams, State, StreamsConfig};
use riverrun_streams::state::DslStoreFormat;

const START_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let servers = match words[..] {
        ["exactly-once", servers, state_dir] => return exactly_once::run(servers, state_dir),
        [servers] => servers,
        _ => bail!("HOST:PORT, or exactly-once HOST:PORT STATE_DIR"),
    };
    let mut instances = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let obeyed = match words[..] {
            ["start", state_dir, ref prefixes @ ..] => {
                start(servers, state_dir, prefixes).map(|started| instances = started)
            }
            ["close"] => close(&mut instances),
            _ => bail!("no command `{line}`"),
        };
        match obeyed {
            Ok(()) => println!("done"),
            Err(error) => println!("{}", format!("{error:#}").replace('\n', "\t")),
        }
    }
    Ok(())
}

fn start(servers: &str, state_dir: &str, prefixes: &[&str]) -> Result<Vec<KafkaStreams>> {
    let mut instances = Vec::new();
    for prefix in prefixes {
        let (prefix, cache_bytes) = prefix.split_once('=').context("no size of a cache")?;
        for (name, build) in topologies::all() {
            let id = format!("{prefix}-{name}");
            let builder = StreamsBuilder::new();
            build(&builder, &format!("{id}-out"));
            let topology = builder.build_with(&topology_config(name))?;
            let mut config = StreamsConfig::new(id, servers)?;
            config.state_dir = state_dir.into();
            config.statestore_cache_max_bytes = cache_bytes.parse()?;
            config.commit_interval_ms = Some(100);
            config.poll_ms = 20;
            let streams = KafkaStreams::new(topology, config);
            streams.start()?;
            instances.push(streams);
        }
    }
    let deadline = Instant::now() + START_LIMIT;
    for streams in &instances {
        while streams.state() != State::Running {
            ensure!(
                Instant::now() < deadline,
                "{streams:?} does not run: {:?}",
                streams.errors()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(instances)
}

fn topology_config(name: &str) -> TopologyConfig {
    let mut stores = DslStores::default();
    if name.starts_with("headers-") {
        stores.format = DslStoreFormat::Headers;
    }
    TopologyConfig {
        stores,
        optimization: Optimization {
            single_store_self_join: true,
            ..Optimization::default()
        },
        ..TopologyConfig::default()
    }
}

fn close(instances: &mut Vec<KafkaStreams>) -> Result<()> {
    for streams in instances.drain(..) {
        ensure!(
            streams.state() == State::Running,
            "{streams:?} does not run: {:?}",
            streams.errors()
        );
        streams
            .close()
            .with_context(|| format!("{streams:?} is not closed"))?;
    }
    Ok(())
}
