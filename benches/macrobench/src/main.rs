//! The programs beside the broker in a benchmark: a load generator and the floor.
//!
//! ```text
//!   load   ── batches built once, plain sockets ──>  riverrun | Apache Kafka | floor
//!            result: one line of JSON, with the CPU time of the server's process in the window
//!   floor  a bare server: reads the same frames, checks the CRC-32C, appends to the page cache and
//!          replies; answers a fetch by sendfile
//!   touch  free memory written to once, so that no server has to wait for it
//! ```
//!
//! The load generator says the same bytes to every server and does as little as it can for each, so
//! that a core of its own is enough to keep the server's core busy.

#![cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "the process's CPU time comes from /proc")
)]
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]
#![expect(
    clippy::print_stderr,
    reason = "a command's failure goes to standard error"
)]

mod affinity;
mod flags;
mod floor;
mod load;
mod memory;
mod process;

use std::process::ExitCode;

use anyhow::{Result, bail};
use flags::Flags;

const USAGE: &str = "\
usage: macrobench floor --dir DIR [--listen HOST:PORT] [--also-listen HOST:PORT] [--core N]
       macrobench touch [--mb N]
       macrobench load produce|consume|paced|abused|first-record --address HOST:PORT [OPTION...]
       macrobench load produce|paced|steady|in-sync|next-record --address HOST:PORT,HOST:PORT,...
                  --replication-factor N [OPTION...]

touch writes to most of the memory that is free, so that a virtual machine has it from its host.
Every load makes its topic when it is missing, and prints one line of JSON.
  --topic NAME              (bench)
  --partitions N            (4)
  --replication-factor N    of the topic that is made; with more than one, partitions are led by
                            several brokers, which are looked for (1)
  --config KEY=VALUE        a configuration of the topic that is made
  --pid PID,...             the servers, whose CPU time and memory are reported
  --core N                  the core to run on
  --seconds S               the measured window (5)
  --warmup-seconds S        load before the window, not measured (1)
  --max-mb N                ends the window early, at so many MB of records (2000)
  --delete                  delete the topic at the end
produce, paced:
  --connections N           (4)
  --record-bytes N          size of a record's value (1024)
  --batch-bytes N           most bytes of a batch before compression (65536)
  --partitions-per-request N  (1)
  --codec NAME              none, gzip, snappy, lz4, zstd (none)
  --acks N                  0 is not served: there is no answer to count (1)
produce:  as fast as the server answers
  --in-flight N             unanswered requests of a connection (5)
paced:    at a fixed rate, with a consumer; latencies count from the scheduled time
  --mb-per-second N         (20)
consume:  again and again from the start of the topic, which is filled first when it is new
  --consumers N             (1)
  --fill-mb N               (1000)
  --cold DIR                once, from the disk: the topic's files, which are below DIR, are synced
                            and leave the page cache before
abused:   500 small requests a second, and the latencies that others let them have
  --abuse NAME              none, patterns, repetition, empty-partitions, lookups, expansion,
                            unread (none)
  --connections N           of the others (4)
steady:   a record every 20 ms to each partition and a consumer of each, until standard input ends;
          errors are those that an application would see
first-record: from now until a record is acknowledged by a server that may not listen yet
next-record:  from now until one is acknowledged by a leader, which may have to be elected
in-sync:      from now until all brokers that are named see all replicas in sync
  --limit-seconds S         (60)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        Some("floor") => floor::run(Flags::parse(&arguments[1..])?),
        Some("touch") => memory::touch(Flags::parse(&arguments[1..])?),
        Some("load") if arguments.len() > 1 => {
            load::run(&arguments[1], Flags::parse(&arguments[2..])?)
        }
        Some("--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}
