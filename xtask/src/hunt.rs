//! `cargo xtask hunt`: every random test with fresh seeds, for a given time.
//!
//! ```text
//!   cargo test --no-run ──> test programs ── those that ask `trials` for seeds
//!        │ one run with RIVERRUN_TRIALS: which tests draw random numbers
//!        v
//!   RIVERRUN_SEED = n, n + 1, …  each test again, until the time is up ──> the seeds that failed
//!   --worlds N     N worlds of the crate `sim`, each from its seed, and nothing else
//!   --cluster      worlds of clusters, for as long as the time allows or `--worlds` says, and nothing else
//!   --interop      the scenarios of `cargo xtask interop` that draw from `--seed` with each seed, too
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use cargo_metadata::{Artifact, Message, MetadataCommand, TargetKind};
use clap::Args;
use harness::process::output_of;
use harness::workspace_root;

/// The bytes that every test program holds which draws seeds from `trials`.
const MARK: &[u8] = b"RIVERRUN_TRIALS";

/// What the command line asks for. It prints each seed that fails with the command that repeats it.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How long to try seeds, once the tests are built
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0)]
    minutes: f64,
    /// The first seed [default: drawn from the time]
    #[arg(long = "seed", value_name = "NUMBER", default_value_t = seed_of_now(), hide_default_value = true)]
    first_seed: u64,
    /// How many seeds to try at most [default: as many as the time allows]
    #[arg(long, value_name = "NUMBER", default_value_t = u64::MAX, hide_default_value = true)]
    rounds: u64,
    /// How many times as many cases each seed tries
    #[arg(long, value_name = "FACTOR", default_value_t = 1)]
    cases: u64,
    /// Only the tests of this package; can be repeated
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// After the tests, with each seed, what `cargo xtask interop` has of its kind
    #[arg(long)]
    interop: bool,
    /// So many simulated worlds, each with a seed of its own, and nothing else
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["packages", "interop", "scenarios", "rounds"])]
    worlds: Option<u64>,
    /// Worlds of clusters, a controller and three brokers, and nothing else; each has a seed of its own
    #[arg(long, conflicts_with_all = ["packages", "interop", "scenarios", "rounds"])]
    cluster: bool,
    /// Only this one of them; can be repeated, and goes without the tests
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
}

/// The program of `cargo xtask interop`, and what of it is run with each seed.
#[derive(Debug, Default)]
struct Interop {
    program: PathBuf,
    scenarios: Vec<String>,
}

impl Interop {
    /// What is asked for; the program is built if anything is.
    fn build(options: &Options) -> Result<Self> {
        if !options.interop && options.scenarios.is_empty() {
            return Ok(Self::default());
        }
        let program = harness::build(workspace_root(), "interop", "dev")?;
        let seeded = output_of(Command::new(&program).arg("--seeded"))?;
        let mut scenarios = options.scenarios.clone();
        for name in &scenarios {
            let is_seeded = seeded.lines().any(|one| one == name);
            ensure!(is_seeded, "`{name}` draws no random numbers");
        }
        if scenarios.is_empty() {
            scenarios = seeded.lines().map(str::to_owned).collect();
        }
        Ok(Self { program, scenarios })
    }

    /// Runs a scenario; `None` if it succeeds, else how it is repeated and what it said.
    fn failure(&self, scenario: &str, seed: u64) -> Result<Option<(String, String)>> {
        let seed = seed.to_string();
        let mut command = Command::new(&self.program);
        command.args([scenario, "--seed", &seed]);
        let output = command.stdout(Stdio::inherit()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_start_matches("error: ").trim_end();
        let repeated = format!("cargo xtask interop {scenario} --seed {seed}");
        Ok((!output.status.success()).then(|| (repeated, said.to_owned())))
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
pub(crate) fn run(options: Options) -> Result<()> {
    if options.cluster || options.worlds.is_some() {
        return run_worlds(&options, options.worlds.unwrap_or(u64::MAX));
    }
    let interop = Interop::build(&options)?;
    let programs = match options.scenarios.is_empty() {
        true => random_programs(&options)?,
        false => Vec::new(),
    };
    let limit = Duration::from_secs_f64(options.minutes * 60.0);
    let begun = Instant::now();
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    let mut round = 0;
    'seeds: while round < options.rounds {
        let seed = options.first_seed.wrapping_add(round);
        let is_over = || begun.elapsed() >= limit && round > 0;
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
        for scenario in &interop.scenarios {
            if is_over() {
                break 'seeds;
            }
            if let Some((command, said)) = interop.failure(scenario, seed)? {
                println!("FAILED  {command}: {said}");
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

/// Runs worlds, as many at a time as there are processors; fails if one breaks a promise.
fn run_worlds(options: &Options, worlds: u64) -> Result<()> {
    let program = harness::build(workspace_root(), "sim", "release")?;
    let seconds = (options.minutes * 60.0).ceil() as u64;
    let asked = [
        ("--seed", options.first_seed),
        ("--worlds", worlds),
        ("--seconds", seconds),
    ];
    let mut command = Command::new(program);
    for (key, value) in asked {
        command.args([key, &value.to_string()]);
    }
    if options.cluster {
        command.arg("--cluster");
    }
    ensure!(command.status()?.success(), "a world broke a promise");
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
    let workspace = MetadataCommand::new().no_deps().exec()?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(&*output.stdout) {
        let Message::CompilerArtifact(artifact) = message? else {
            continue;
        };
        let mut packages = workspace.packages.iter();
        if let Some(package) = packages.find(|one| one.id == artifact.package_id)
            && let Some(program) = program_of(package.name.to_string(), &artifact)
            && holds(&program.path, MARK)?
        {
            programs.push(program);
        }
    }
    Ok(programs)
}

/// The program of tests that a package's artifact is, if it is one.
fn program_of(package: String, artifact: &Artifact) -> Option<Program> {
    let path = artifact.executable.as_ref()?;
    if !artifact.profile.test {
        return None;
    }
    let name = &artifact.target.name;
    let target = match &artifact.target.kind[..] {
        [TargetKind::Test, ..] => format!("--test {name}"),
        [TargetKind::Bin, ..] => format!("--bin {name}"),
        _ => "--lib".to_owned(),
    };
    Some(Program {
        package,
        target,
        path: path.into(),
        folder: artifact.manifest_path.parent()?.into(),
        tests: BTreeSet::new(),
    })
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
    fn a_program_is_known_by_the_message_of_cargo() {
        let artifact = |executable: &str, kind: &str| {
            let text = format!(
                r#"{{"reason": "compiler-artifact", "package_id": "path+file:///w/crates/wire#0.1.0",
                "manifest_path": "/w/crates/wire/Cargo.toml", "executable": {executable},
                "target": {{"name": "fuzz", "kind": ["{kind}"], "src_path": "/w/a.rs"}},
                "profile": {{"test": true, "opt_level": "0", "debug_assertions": true,
                "overflow_checks": true}}, "features": [], "filenames": [], "fresh": true}}"#
            );
            let line = text.replace('\n', " ");
            let message = Message::parse_stream(line.as_bytes()).next().unwrap();
            let Message::CompilerArtifact(artifact) = message.unwrap() else {
                panic!("no artifact: {line}");
            };
            artifact
        };
        let target = |kind| program_of("wire".to_owned(), &artifact("\"/t/wire-1\"", kind));
        let program = target("test").unwrap();
        assert_eq!(
            (&*program.package, &*program.target),
            ("wire", "--test fuzz")
        );
        assert_eq!(program.folder, Path::new("/w/crates/wire"));
        assert_eq!(target("bin").unwrap().target, "--bin fuzz");
        assert_eq!(target("lib").unwrap().target, "--lib");
        assert!(program_of("wire".to_owned(), &artifact("null", "lib")).is_none());
    }
}
