//! `cargo xtask interop`: other people's clients and tools against the server under test.
//!
//!     suite.rs ── which scenarios, in which order
//!        │
//!     run.rs ──── java.rs python.rs go.rs    install a language's programs
//!        │   └─── server.rs                  riverrun or Apache Kafka, started and stopped
//!     program.rs ─ process.rs                one program's scenarios, each within its limit
//!        │
//!     report.rs                              one line each, counts at the end
//!
//! Apache Kafka is the oracle: a scenario that fails with `--against kafka` is a wrong scenario.

mod application;
mod campaign;
mod client_on_kafka;
mod clock;
mod codec;
mod commands;
mod crash;
mod cross;
mod diff;
mod exceptions;
mod go;
mod handover;
pub(crate) mod java;
mod kafka_crash;
mod kafka_tests;
mod kgo;
mod mirror;
mod options;
pub(crate) mod process;
mod program;
mod python;
mod report;
mod run;
mod serve;
pub(crate) mod server;
mod suite;
mod swap;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use options::{Options, USAGE};
use run::Run;
use suite::SUITES;

/// What draws random numbers from `--seed`: suites, and scenarios of suites that draw none elsewhere.
/// `cargo xtask hunt --interop` runs them with others.
pub(crate) const SEEDED: &[&str] = &[
    "codec",
    "client/life-groups",
    "client/life-transactions",
    "client/life-transactions-protocol-1",
    "client/life-deliveries",
    "crash/campaign",
    "crash/disk",
    "diff",
];

/// Keeps installed parts between checkouts when it names a folder.
const CACHE_VARIABLE: &str = "RIVERRUN_INTEROP_CACHE";

/// Where the programs of other languages are kept between runs.
pub(crate) fn cache(root: &Path) -> PathBuf {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => root.join("target/interop/cache"),
    }
}

/// Runs the command; fails if a scenario has.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if options.help {
        println!("{USAGE}");
        return Ok(());
    }
    let serve = options.selection == ["serve"];
    for name in options.selection.iter().filter(|_| !serve) {
        let suite = name.split('/').next().unwrap_or(name);
        let known = SUITES.iter().any(|candidate| candidate.name == suite);
        ensure!(known, "no suite `{suite}`\n{USAGE}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the root")?;
    let list = options.list;
    let mut run = Run::new(options, root)?;
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
