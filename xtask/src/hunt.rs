//! `cargo xtask hunt`: every random test with fresh seeds, for a given time.
//!
//! ```text
//!   cargo test --no-run ──> test programs ── those that ask `trials` for seeds
//!        │ one run with RIVERRUN_TRIALS: which tests draw random numbers
//!        v
//!   RIVERRUN_SEED = n, n + 1, …  each test again, until the time is up ──> the seeds that failed
//!   --interop      the scenarios of `cargo xtask interop` that draw from `--seed` with each seed, too
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::interop::{self, SEEDED};

const USAGE: &str = "\
usage: cargo xtask hunt [OPTION...]
  --minutes NUMBER   how long to try seeds, once the tests are built (10)
  --seed NUMBER      the first seed (drawn from the time)
  --rounds NUMBER    how many seeds to try at most (as many as the time allows)
  --cases FACTOR     how many times as many cases each seed tries (1)
  --package NAME     only the tests of this package; can be repeated
  --interop          after the tests, with each seed, what `cargo xtask interop` has of its kind
  --scenario NAME    only this one of them; can be repeated, and goes without the tests
Prints each seed that fails with the command that repeats it.";

/// The bytes that every test program holds which draws seeds from `trials`.
const MARK: &[u8] = b"RIVERRUN_TRIALS";

struct Options {
    limit: Duration,
    first_seed: u64,
    rounds: u64,
    cases: u64,
    packages: Vec<String>,
    /// Of [`interop::SEEDED`].
    scenarios: Vec<String>,
    /// Whether only the scenarios are run.
    skips_tests: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            limit: Duration::from_secs(600),
            first_seed: seed_of_now(),
            rounds: u64::MAX,
            cases: 1,
            packages: Vec::new(),
            scenarios: Vec::new(),
            skips_tests: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.with_context(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--minutes" => {
                    options.limit = Duration::from_secs_f64(value()?.parse::<f64>()? * 60.0)
                }
                "--seed" => options.first_seed = value()?.parse()?,
                "--rounds" => options.rounds = value()?.parse()?,
                "--cases" => options.cases = value()?.parse()?,
                "--package" => options.packages.push(value()?.clone()),
                "--interop" => {
                    options.scenarios = SEEDED.iter().map(|one| (*one).to_owned()).collect()
                }
                "--scenario" => {
                    let name = value()?;
                    ensure!(
                        SEEDED.contains(&&**name),
                        "`{name}` draws no random numbers"
                    );
                    options.scenarios.push(name.clone());
                    options.skips_tests = true;
                }
                other => bail!("unknown option `{other}`\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}

/// A program of tests, and those of its tests that draw random numbers.
struct Program {
    package: String,
    /// `--lib`, `--test NAME` or `--bin NAME`.
    target: String,
    path: PathBuf,
    folder: PathBuf,
    tests: BTreeSet<String>,
}

/// Runs the command; fails if a seed has.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|one| one == "--help" || one == "-h") {
        println!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(arguments)?;
    let programs = match options.skips_tests {
        true => Vec::new(),
        false => random_programs(&options)?,
    };
    let begun = Instant::now();
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    let mut round = 0;
    'seeds: while round < options.rounds {
        let seed = options.first_seed.wrapping_add(round);
        let is_over = || begun.elapsed() >= options.limit && round > 0;
        for program in &programs {
            if is_over() {
                break 'seeds;
            }
            for name in failed_tests(program, seed, options.cases)? {
                let command = format!(
                    "{} -p {} {} {name} -- --exact",
                    "cargo test", program.package, program.target
                );
                let cases = match options.cases {
                    1 => String::new(),
                    cases => format!("RIVERRUN_CASES={cases} "),
                };
                println!("FAILED  RIVERRUN_SEED={seed} {cases}{command}");
                failures.entry(command).or_insert(seed);
            }
        }
        for scenario in &options.scenarios {
            if is_over() {
                break 'seeds;
            }
            let asked = [scenario.clone(), "--seed".to_owned(), seed.to_string()];
            if let Err(error) = interop::run(&asked) {
                let command = format!("cargo xtask interop {}", asked.join(" "));
                println!("FAILED  {command}: {error:#}");
                failures.entry(command).or_insert(seed);
            }
        }
        round += 1;
    }
    println!(
        "{round} seeds from {} in {} s: {} tests and scenarios failed",
        options.first_seed,
        begun.elapsed().as_secs(),
        failures.len()
    );
    ensure!(
        failures.is_empty(),
        "{} random tests and scenarios failed",
        failures.len()
    );
    Ok(())
}

/// The programs that have tests which draw random numbers.
fn random_programs(options: &Options) -> Result<Vec<Program>> {
    let mut programs = build(options)?;
    for program in &mut programs {
        program.tests = random_tests(program)?;
    }
    programs.retain(|program| !program.tests.is_empty());
    let test_count: usize = programs.iter().map(|one| one.tests.len()).sum();
    ensure!(test_count > 0, "no test draws random numbers");
    println!("{test_count} random tests in {} programs", programs.len());
    Ok(programs)
}

/// Builds all tests; returns the programs that draw seeds.
fn build(options: &Options) -> Result<Vec<Program>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--no-run", "--message-format=json", "--quiet"]);
    match options.packages.is_empty() {
        true => drop(command.arg("--workspace")),
        false => {
            for package in &options.packages {
                command.args(["--package", package]);
            }
        }
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the tests do not build");
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        if let Some(program) = program_of(&message)?
            && holds(&program.path, MARK)?
        {
            programs.push(program);
        }
    }
    Ok(programs)
}

fn program_of(message: &Value) -> Result<Option<Program>> {
    let Some(path) = message["executable"].as_str() else {
        return Ok(None);
    };
    if message["profile"]["test"] != true {
        return Ok(None);
    }
    let manifest = message["manifest_path"].as_str().context("no manifest")?;
    let folder = Path::new(manifest).parent().context("no folder")?;
    let name = message["target"]["name"].as_str().context("no target")?;
    let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
    let target = match kind {
        "test" => format!("--test {name}"),
        "bin" => format!("--bin {name}"),
        _ => "--lib".to_owned(),
    };
    Ok(Some(Program {
        package: package_name(message["package_id"].as_str().unwrap_or_default()),
        target,
        path: path.into(),
        folder: folder.to_owned(),
        tests: BTreeSet::new(),
    }))
}

/// The name in a package id: `path+file:///…/crates/wire#0.1.0` or `…/crates/client#name@0.1.0`.
fn package_name(id: &str) -> String {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    let name = match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    };
    name.to_owned()
}

fn holds(path: &Path, mark: &[u8]) -> Result<bool> {
    let bytes = fs::read(path)?;
    Ok(bytes.windows(mark.len()).any(|window| window == mark))
}

/// Runs all tests of a program once; returns those that asked for seeds.
fn random_tests(program: &Program) -> Result<BTreeSet<String>> {
    let notes = program.path.with_extension("trials");
    let _ = fs::remove_file(&notes);
    let output = command(program).env("RIVERRUN_TRIALS", &notes).output()?;
    report_if_failed(program, &output);
    let names = fs::read_to_string(&notes).unwrap_or_default();
    let _ = fs::remove_file(&notes);
    Ok(names.lines().map(str::to_owned).collect())
}

fn report_if_failed(program: &Program, output: &Output) {
    if !output.status.success() {
        let (package, target) = (&program.package, &program.target);
        println!("FAILED without a seed: cargo test -p {package} {target}");
    }
}

/// The tests that fail with a seed.
fn failed_tests(program: &Program, seed: u64, cases: u64) -> Result<Vec<String>> {
    let output = command(program)
        .arg("--exact")
        .args(&program.tests)
        .env("RIVERRUN_SEED", seed.to_string())
        .env("RIVERRUN_CASES", cases.to_string())
        .output()?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(failed).collect();
    // A program that was ended by a signal says no name.
    Ok(match names.is_empty() {
        true => program.tests.iter().cloned().collect(),
        false => names,
    })
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_in_both_forms_of_an_id() {
        assert_eq!(package_name("path+file:///w/crates/wire#0.1.0"), "wire");
        let named = "path+file:///w/crates/client#riverrun-client@0.1.0";
        assert_eq!(package_name(named), "riverrun-client");
    }

    #[test]
    fn a_program_is_known_by_the_message_of_cargo() {
        let message = serde_json::json!({
            "executable": "/t/wire-1", "profile": {"test": true},
            "manifest_path": "/w/crates/wire/Cargo.toml",
            "target": {"name": "fuzz", "kind": ["test"]},
            "package_id": "path+file:///w/crates/wire#0.1.0",
        });
        let program = program_of(&message).unwrap().unwrap();
        assert_eq!(
            (&*program.package, &*program.target),
            ("wire", "--test fuzz")
        );
        assert_eq!(program.folder, Path::new("/w/crates/wire"));
        let library = serde_json::json!({"executable": null, "profile": {"test": true}});
        assert!(program_of(&library).unwrap().is_none());
    }
}
