//! `cargo xtask interop`: other people's clients and tools against the server under test.
//!
//! ```text
//!   suite.rs ── which scenarios, in which order
//!      │
//!   run.rs ──── python.rs go.rs            install a language's programs (Java: the crate `harness`)
//!      │   └─── server.rs                  riverrun or Apache Kafka, started and stopped
//!   program_suite.rs ── program.rs         one program's scenarios, each within its limit
//!      │
//!   report.rs                              one line each, counts at the end
//! ```
//!
//! Apache Kafka is the oracle: a scenario that fails with `--against kafka` is a wrong scenario.
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]

mod application;
mod client_on_kafka;
mod clusters;
mod codec;
mod commands;
mod controller;
mod crash;
mod cross;
mod diff;
mod exceptions;
mod go;
mod handover;
mod kafka_tests;
mod kgo;
mod mirror;
mod options;
mod oracle;
mod program;
mod program_suite;
mod python;
mod report;
mod run;
mod serve;
mod server;
mod streams_exactly_once;
mod streams_formats;
mod streams_group;
mod streams_run;
mod streams_topics;
mod streams_topologies;
mod suite;
mod swap;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{CommandFactory as _, Parser as _};

use options::Options;
use run::Run;
use suite::SUITES;

/// What draws random numbers from `--seed`: suites, and scenarios of suites that draw none elsewhere.
/// `cargo xtask hunt --interop` runs them with others.
const SEEDED: &[&str] = &[
    "codec",
    "streams-formats",
    "streams-run",
    "streams-exactly-once",
    "client/life-groups",
    "client/life-transactions",
    "client/life-transactions-protocol-1",
    "client/life-deliveries",
    "crash/campaign",
    "crash/disk",
    "diff",
];

fn main() -> ExitCode {
    harness::exit_code(run(Options::parse()))
}

/// Runs what is asked for; fails if a scenario has.
fn run(options: Options) -> Result<()> {
    if options.seeded {
        println!("{}", SEEDED.join("\n"));
        return Ok(());
    }
    let serve = options.selection == ["serve"];
    for name in options.selection.iter().filter(|_| !serve) {
        let suite = name.split('/').next().unwrap_or(name);
        let known = SUITES.iter().any(|candidate| candidate.name == suite);
        ensure!(
            known,
            "no suite `{suite}`\n{}",
            Options::command().render_usage()
        );
    }
    let list = options.list;
    let mut run = Run::new(options, harness::workspace_root())?;
    if serve {
        return serve::run(&mut run);
    }
    if list {
        for suite in SUITES
            .iter()
            .filter(|suite| run.options.selects_suite(suite.name))
            .collect::<Vec<_>>()
        {
            for scenario in suite.list(&mut run)? {
                println!("{}/{scenario}", suite.name);
            }
        }
        return Ok(());
    }
    suite::run_all(&mut run);
    run.report.print_summary();
    ensure!(
        run.report.failed_count() == 0,
        "{} scenarios failed",
        run.report.failed_count()
    );
    Ok(())
}
