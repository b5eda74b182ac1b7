//! A suite that is a program of scenarios: run against one server, which is started again when it has ended.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::program::{self, Outcome, Scenario};
use super::run::Run;
use super::server::Server;

/// A failure that takes this long has waited for the server in vain.
const SLOW_FAILURE: Duration = Duration::from_secs(15);

/// Such failures of one suite before the rest of it is given up, so that a server that does not
/// answer is told in minutes.
const SLOW_FAILURES_MAX: usize = 3;

/// riverrun's own client; the seed and the count that are asked for are those of its lives.
pub(super) fn client_command(run: &mut Run) -> Result<Command> {
    let mut command = run.built("interop-client")?;
    if let Some(seed) = run.options.seed {
        command.env("RIVERRUN_SEED", seed.to_string());
    }
    if let Some(count) = run.options.count {
        command.env("RIVERRUN_CASES", count.to_string());
    }
    Ok(command)
}

/// Runs those of a program's scenarios that are meant, starting server and program again when one of them has ended.
pub(super) fn run_program(
    run: &mut Run,
    suite: &str,
    command: fn(&mut Run) -> Result<Command>,
    properties: &[(&str, &str)],
    is_meant: impl Fn(&str) -> bool,
) -> Result<()> {
    let mut pending: Vec<Scenario> = Vec::new();
    for scenario in program::list(command(run)?)? {
        if !is_meant(&scenario.name) || !run.options.selects(suite, &scenario.name) {
            continue;
        }
        match run.exception(suite, &scenario.name) {
            Some(reason) => run
                .report
                .excepted(&format!("{suite}/{}", scenario.name), &reason),
            None => pending.push(scenario),
        }
    }
    let mut server = run.start(suite, properties)?;
    let mut slow_failures = 0;
    while !pending.is_empty() {
        if slow_failures >= SLOW_FAILURES_MAX {
            let names: Vec<&str> = pending.iter().map(|left| left.name.as_str()).collect();
            bail!(
                "{slow_failures} scenarios waited in vain; not run: {}",
                names.join(" ")
            );
        }
        let command = command(run)?;
        let dir = run.suite_dir(suite);
        let report = &mut run.report;
        let mut done = |outcome: Outcome| {
            let name = format!("{suite}/{}", outcome.name);
            report.outcome(&name, outcome.took, &outcome.result);
            slow_failures += usize::from(outcome.result.is_err() && outcome.took >= SLOW_FAILURE);
            slow_failures < SLOW_FAILURES_MAX
        };
        let count = program::run(command, &server.bootstrap(), &dir, &pending, &mut done)?;
        pending.drain(..count);
        server = restarted_if_ended(run, suite, server)?;
    }
    run.stop_and_read(suite, server)
}

/// The same server, or a new one on its directory if it has ended, which is a failure.
fn restarted_if_ended(run: &mut Run, suite: &str, mut server: Server) -> Result<Server> {
    let Some(status) = server.exit_status()? else {
        return Ok(server);
    };
    let plan = server.plan().clone();
    let reason = format!(
        "the server ended by itself: {status}\n{}",
        server.log_tail()
    );
    run.report
        .failed(&format!("{suite}/server"), Duration::ZERO, &reason);
    run.start_planned(&plan)
}
