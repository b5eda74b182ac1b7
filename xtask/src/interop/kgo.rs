//! Suite `kgo`: franz-go's own tests against the server under test.
//!
//! `interop/go/kgo-exceptions.txt` names the tests that riverrun is not yet held to: a regular
//! expression as `go test -skip` takes it, and the reason. Tests that the exceptions leave out are
//! counted as skipped, and so are those that skip themselves: some ask the server first whether it
//! has the APIs they need.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::process::{Step, Watched, output_of};
use super::run::Run;
use super::server::{Against, Server};

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
    let mut wanted = list(run)?;
    wanted.retain(|test| run.options.selects(SUITE, test));
    let server = run.start(SUITE, &[])?;
    let ended = run_tests(run, &server, &wanted, skip.as_deref())?;
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
                _ => run.report.excepted(&name, &relevant(&output, test)),
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
    let path = run.source("go/kgo-exceptions.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let mut patterns = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (pattern, _reason) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("`{line}` gives no reason"))?;
        patterns.push(pattern);
    }
    Ok((!patterns.is_empty()).then(|| patterns.join("|")))
}
