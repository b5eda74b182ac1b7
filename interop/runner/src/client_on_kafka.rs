//! Suite `client-on-kafka`: some scenarios of suite `client` against Apache Kafka, so that every run
//! holds riverrun's client to both brokers. `client --against kafka` runs all of them.

use anyhow::Result;

use super::program_suite::{client_command, run_program};
use super::run::Run;
use super::server::{Against, FAST_GROUPS};

const SUITE: &str = "client-on-kafka";

/// One for each thing that the client does its own way, as short as there are, and all lives.
const SCENARIOS: &[&str] = &[
    "produce-codecs",
    "produce-order",
    "produce-acks",
    "produce-refusals",
    "consume-all",
    "consume-seek",
    "consume-times",
    "group-cooperative",
    "group-commit",
    "consumer-group-commit",
    "admin-topics",
    "admin-configs",
    "admin-records",
    "admin-cluster",
    "transaction-commit-abort",
    "transaction-fenced",
    "transaction-admin-abort",
    "life-groups",
    "life-transactions",
    "life-transactions-protocol-1",
    "life-deliveries",
];

/// The names of the scenarios.
pub(super) fn list() -> Vec<String> {
    let names = SCENARIOS.iter().map(|name| (*name).to_owned());
    names
        .chain(["stop".to_owned(), "disk".to_owned()])
        .collect()
}

/// Runs what is asked for, against Apache Kafka.
pub(super) fn run(run: &mut Run) -> Result<()> {
    // Found for the server under test, which the suites after this one run.
    run.programs()?;
    let asked_for = std::mem::replace(&mut run.options.against, Against::Kafka);
    let is_meant = |name: &str| SCENARIOS.contains(&name);
    let outcome = run_program(run, SUITE, client_command, FAST_GROUPS, is_meant);
    run.options.against = asked_for;
    outcome
}
