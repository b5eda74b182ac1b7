//! `riverrun bench`: how fast a cluster writes, reads and delivers, as this client sees it.
//!
//! ```text
//!   produce   send ──────────────> acknowledgement          as fast as it goes, or at --rate
//!   consume   poll ──> poll                                 from the start of the topic
//!   latency   send at a fixed rate ──> record is received   from when it was due, so that a
//!                                                           stall counts for all that it held up
//! ```

mod consume;
mod latency;
mod plot;
mod produce;
mod report;

use crate::connect::{ConnectionArguments, Failure, run};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::ErrorCode;
use riverrun_client::Error;
use riverrun_client::admin::{Admin, NewTopic};
use riverrun_client::producer::ProducerConfig;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long clients may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Also plot the result, as SVG
    #[arg(long, global = true, value_name = "PATH")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Write records as fast as possible, or at a rate
    Produce(LoadArguments),
    /// Read records from the start of a topic
    Consume {
        /// The topic
        #[arg(default_value = TOPIC)]
        topic: String,
        /// Minimum number of records; by default all that the topic has at the start
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = at_least_one)]
        records: Option<u64>,
    },
    /// Write records at a rate and read them back: end-to-end latency
    #[command(
        mut_arg("records", |arg| arg.help("Number of records; by default 10 seconds at the rate")),
        mut_arg("rate", |arg| arg.help("Records a second; by default 1000"))
    )]
    Latency(LoadArguments),
}

/// The topic that is written to when none is named; created with the broker's defaults.
const TOPIC: &str = "riverrun-bench";

/// What is written.
#[derive(Debug, Args)]
struct LoadArguments {
    /// The topic; created when it does not exist
    #[arg(default_value = TOPIC)]
    topic: String,
    /// Number of records; by default 1000000
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = at_least_one)]
    records: Option<u64>,
    /// Size of a value in bytes
    #[arg(short, long, default_value_t = 1024, value_name = "BYTES")]
    size: usize,
    /// Records a second; by default no limit
    #[arg(short, long, value_name = "COUNT", value_parser = at_least_one)]
    rate: Option<u64>,
    /// Number of partitions of a topic that is created
    #[arg(short, long, default_value_t = 1, value_name = "COUNT")]
    partitions: i32,
    /// Compression codec: none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC")]
    compression: Option<String>,
    /// Required acknowledgements: 0, 1 or all
    #[arg(long, value_name = "ACKS")]
    acks: Option<String>,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("`{text}` is not a whole number")),
    }
}

impl LoadArguments {
    /// The producer's settings, with those that have options of their own.
    fn config(&self, mut config: ProducerConfig) -> Result<ProducerConfig, Error> {
        for (key, value) in [
            ("compression.type", &self.compression),
            ("acks", &self.acks),
        ] {
            if let Some(value) = value {
                config.set(key, value)?;
            }
        }
        Ok(config)
    }

    /// Makes the topic if it does not exist.
    async fn prepare(&self, admin: &Admin) -> Result<(), Error> {
        let topic = NewTopic::new(&self.topic).partitions(self.partitions);
        for (_, created) in admin.create_topics(&[topic]).await {
            match created {
                Ok(_)
                | Err(Error::Refused {
                    code: ErrorCode::TopicAlreadyExists,
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A value of the size that is asked for: letters that compress about as well as text does.
    fn value(&self) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let letter = |_| {
            // A xorshift generator: the same bytes in every run.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'a' + (state % 26) as u8
        };
        (0..self.size).map(letter).collect()
    }
}

/// Runs the command.
pub(crate) fn main(arguments: &BenchArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |mut output| -> Result<(), Failure> {
        if let Some(path) = &arguments.plot {
            check_writable(path)?;
        }
        let report = match &arguments.command {
            BenchCommand::Produce(load) => produce::run(load, connection).await?,
            BenchCommand::Consume { topic, records } => {
                consume::run(topic, *records, connection).await?
            }
            BenchCommand::Latency(load) => latency::run(load, connection).await?,
        };
        report.print(&mut output)?;
        if let Some(path) = &arguments.plot {
            std::fs::write(path, plot::svg(&report)).map_err(|error| unwritable(path, &error))?;
            crate::tell(&format!("drawn in {}", path.display()));
        }
        Ok(())
    };
    run(command, connection.output)
}

/// Fails where no picture can be written, before anything is measured; what is there stays.
fn check_writable(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    opened.map(drop).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    let text = format!("cannot write `{}`: {error}", path.display());
    io::Error::new(error.kind(), text)
}

/// A bar on the terminal; nothing where nobody looks.
fn progress(record_count: u64, what: &'static str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(record_count), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(
        "{msg} [{bar:40}] {human_pos}/{human_len} records, {per_sec}, {eta} left",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.with_message(what)
}
