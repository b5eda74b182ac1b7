//! One application, from its start until it is closed. It says where it is, a word a line: `starting`, `running`,
//! `warm`, `done`, `closed`; then it waits for the end of its standard input, so that what it has cost can be read.

use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Result, bail};
use riverrun_streams::runtime::{KafkaStreams, State, StreamsConfig};

use super::workload::{Workload, counter};

/// What is run.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) servers: &'a str,
    pub(crate) workload: Workload,
    pub(crate) is_persistent: bool,
    pub(crate) application_id: &'a str,
    pub(crate) state_dir: &'a str,
    /// After so many records the virtual machine of the other side has compiled its code.
    pub(crate) warm_count: u64,
    /// After so many records nothing is left; 0 ends as soon as the application runs.
    pub(crate) total_count: u64,
}

/// Runs the application.
pub(crate) fn run(setup: &Setup<'_>) -> Result<()> {
    let (sender, reached) = mpsc::channel();
    let taken = counter([setup.warm_count, setup.total_count], move |which| {
        // Nobody listens any more once all is done.
        let _ = sender.send(which);
    });
    let topology = setup.workload.topology(setup.is_persistent, taken)?;
    let mut config = StreamsConfig::new(setup.application_id, setup.servers)?;
    config.state_dir = Path::new(setup.state_dir).to_path_buf();
    println!("starting");
    let streams = KafkaStreams::new(topology, config);
    streams.start()?;
    wait_for(&streams, || streams.state() == State::Running)?;
    println!("running");
    if setup.total_count > 0 {
        let mut last = None;
        wait_for(&streams, || {
            if let Ok(which) = reached.try_recv() {
                println!("{}", ["warm", "done"][which]);
                last = Some(which);
            }
            last == Some(1)
        })?;
    }
    streams.close()?;
    println!("closed");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn wait_for(streams: &KafkaStreams, mut is_there: impl FnMut() -> bool) -> Result<()> {
    while !is_there() {
        if streams.state() == State::Error {
            bail!("the application failed: {}", streams.errors().join("; "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
