//! Suite `kgo`: franz-go's own tests against the server under test.
//!
//! `interop/go/kgo-exceptions.txt` names the tests that riverrun is not yet held to: a regular
//! expression as `go test -skip` takes it, and the reason. Tests that the exceptions leave out are
//! counted as skipped. Some tests ask the server first whether it has the APIs they need, and skip
//! themselves: `interop/go/kgo-skips.txt` names those that may, and any other that does has failed.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::run::Run;
use super::server::{Against, Server};
use harness::process::{Step, Watched, output_of};

const SUITE: &str = "kgo";
const LIMIT: Duration = Duration::from_secs(600);
const RECORDS: &str = "10000";

/// The names of the tests.
pub(crate) fn list(run: &mut Run) -> Result<Vec<String>> {
    let mut command = run.go()?.kgo_tests()?;
    let text = output_of(command.args(["-test.list", "."]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Runs the tests that are asked for and not excepted, in one process.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let skip = skipped(run)?;
    let skipping = lines(run, "go/kgo-skips.txt")?;
    let mut wanted = list(run)?;
    for (test, _) in &skipping {
        ensure!(
            wanted.contains(test),
            "kgo-skips.txt: there is no test `{test}`"
        );
    }
    wanted.retain(|test| run.options.selects(SUITE, test));
    let server = run.start(SUITE, &[])?;
    let ended = run_tests(run, &server, &wanted, skip.as_deref(), &skipping)?;
    if skip.is_some() {
        // A test that neither ended nor skipped itself was left out.
        for test in wanted.iter().filter(|test| !ended.contains(test)) {
            run.report.excepted(
                &format!("{SUITE}/{test}"),
                "see interop/go/kgo-exceptions.txt",
            );
        }
    }
    run.stop_and_read(SUITE, server)
}

/// Reports each test as it ends; returns the names of all that have begun.
fn run_tests(
    run: &mut Run,
    server: &Server,
    wanted: &[String],
    skip: Option<&str>,
    skipping: &[(String, String)],
) -> Result<Vec<String>> {
    let mut command = run.go()?.kgo_tests()?;
    command
        .env("KGO_SEEDS", server.bootstrap())
        .env("KGO_TEST_RF", "1")
        .env("KGO_TEST_RECORDS", RECORDS)
        .env("KGO_LOG_LEVEL", "none")
        .args(["-test.v", &format!("-test.timeout={}s", LIMIT.as_secs())])
        .arg(format!("-test.run=^({})$", wanted.join("|")));
    if let Some(skip) = skip {
        command.arg(format!("-test.skip={skip}"));
    }
    let log = run.suite_dir(SUITE).join("program.log");
    let mut ended = Vec::new();
    let mut output = Vec::new();
    let tests = Watched::start(&mut command, &log)?;
    let deadline = Instant::now() + LIMIT + Duration::from_secs(10);
    loop {
        let line = match tests.next(deadline) {
            Step::Line(line) => line,
            Step::End => break,
            Step::TimedOut => bail!("franz-go's tests still ran after {LIMIT:?}"),
        };
        if let Some((outcome, test, took)) = outcome_of(&line) {
            let name = format!("{SUITE}/{test}");
            match outcome {
                "PASS" => run.report.ok(&name, took),
                "FAIL" => run.report.failed(&name, took, &relevant(&output, test)),
                _ => match skipping.iter().find(|(known, _)| known == test) {
                    Some((_, reason)) => run.report.excepted(&name, reason),
                    None => {
                        let said = relevant(&output, test);
                        let reason =
                            format!("it skips itself, and kgo-skips.txt has it not\n{said}");
                        run.report.failed(&name, took, &reason);
                    }
                },
            }
            ended.push(test.to_owned());
        }
        output.push(line);
    }
    fs::write(run.suite_dir(SUITE).join("tests.log"), output.join("\n"))?;
    let status = tests
        .finish(deadline)?
        .context("the tests closed their output and went on")?;
    let passed = status.success() || output.iter().any(|line| line.starts_with("--- FAIL"));
    ensure!(
        passed,
        "franz-go's tests ended with {status}:\n{}",
        last_lines(&output)
    );
    Ok(ended)
}

/// `--- PASS: TestName (1.23s)` of a top-level test.
fn outcome_of(line: &str) -> Option<(&str, &str, Duration)> {
    let (outcome, rest) = line.strip_prefix("--- ")?.split_once(": ")?;
    let (test, took) = rest.split_once(" (")?;
    let seconds: f64 = took.strip_suffix("s)")?.parse().ok()?;
    Some((outcome, test, Duration::from_secs_f64(seconds)))
}

/// The lines before a failure that are indented, as what a test reports is.
fn relevant(output: &[String], test: &str) -> String {
    let lines: Vec<&str> = output
        .iter()
        .rev()
        .take_while(|line| !line.starts_with("--- "))
        .filter(|line| line.starts_with("    ") || line.contains(test))
        .take(20)
        .map(String::as_str)
        .collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn last_lines(output: &[String]) -> String {
    output[output.len().saturating_sub(40)..].join("\n")
}

/// The exceptions as one regular expression, for riverrun only.
fn skipped(run: &Run) -> Result<Option<String>> {
    if run.options.against == Against::Kafka || run.options.no_exceptions {
        return Ok(None);
    }
    let lines = lines(run, "go/kgo-exceptions.txt")?;
    let patterns: Vec<String> = lines.into_iter().map(|(pattern, _)| pattern).collect();
    Ok((!patterns.is_empty()).then(|| patterns.join("|")))
}

/// The lines of a file of `interop/`: what they are about, and the reason.
fn lines(run: &Run, name: &str) -> Result<Vec<(String, String)>> {
    let path = run.source(name);
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parts = lines.map(|line| {
        let (what, reason) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("{name}: `{line}` gives no reason"))?;
        Ok((what.to_owned(), reason.trim().to_owned()))
    });
    parts.collect()
}
