//! `cargo xtask fuzz`: a coverage-guided search through every parser of bytes from the network or
//! the disk, with AFL on the stable compiler.
//!
//! ```text
//!   fuzz/ ── cargo afl build ──> one instrumented program ── --list ──> its targets
//!        each target:  --seeds ──> cargo afl fuzz for its share of the time ──> crashes, hangs
//! ```
//!
//! What a target has found stays under `target/fuzz/search`, and the next search goes on from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use harness::workspace_root;

/// The version whose program `fuzz/Cargo.lock` is built for.
const INSTALL: &str = "install it with `cargo install cargo-afl --version 0.18.2 --locked`";

/// What the command line asks for. It prints what each target reached, and each input that crashed or
/// hung with the command that repeats it.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How long to search in all, once the program is built
    #[arg(long, value_name = "NUMBER", default_value_t = 20.0)]
    minutes: f64,
    /// Search this target only; can be repeated
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
}

/// Runs the command; fails if a target has crashed or hung.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = build()?;
    let listed = Command::new(&program).arg("--list").output()?;
    let mut targets: Vec<&str> = std::str::from_utf8(&listed.stdout)?.lines().collect();
    for wanted in &options.targets {
        ensure!(
            targets.contains(&wanted.as_str()),
            "no target {wanted}: there are {targets:?}"
        );
    }
    targets
        .retain(|name| options.targets.is_empty() || options.targets.iter().any(|one| one == name));
    ensure!(!targets.is_empty(), "the program lists no targets");
    let seconds = ((options.minutes * 60.0) as u64 / targets.len() as u64).max(5);
    println!("{} targets, {seconds} s each\n", targets.len());
    println!(
        "| target | executions | corpus | edges | crashes | hangs |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    let mut faults = Vec::new();
    for target in targets {
        faults.extend(search(&program, target, seconds)?);
    }
    for fault in &faults {
        println!("FAILED  {fault}");
    }
    ensure!(faults.is_empty(), "{} inputs crashed or hung", faults.len());
    Ok(())
}

fn folder() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.unwrap_or_else(|| workspace_root().join("target"))
        .join("fuzz")
}

fn build() -> Result<PathBuf> {
    let found = Command::new("cargo")
        .args(["afl", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(found.success(), "cargo-afl is not installed: {INSTALL}");
    let built = Command::new("cargo")
        .args(["afl", "build", "--release", "--locked", "--manifest-path"])
        .arg(workspace_root().join("fuzz/Cargo.toml"))
        .env("CARGO_TARGET_DIR", folder())
        .status()?;
    ensure!(built.success(), "the program could not be built");
    Ok(folder().join("release/riverrun-fuzz"))
}

/// Searches one target and prints its row; returns how what it found is repeated.
fn search(program: &Path, target: &str, seconds: u64) -> Result<Vec<String>> {
    let place = folder().join("search").join(target);
    let (seeds, found) = (place.join("seeds"), place.join("found"));
    let written = Command::new(program)
        .args(["--seeds", target])
        .arg(&seeds)
        .status()?;
    ensure!(
        written.success(),
        "the seeds of {target} could not be written"
    );
    let ran = Command::new("cargo")
        .args(["afl", "fuzz", "-V", &seconds.to_string(), "-t", "2000"])
        .arg("-i")
        .arg(&seeds)
        .arg("-o")
        .arg(&found)
        .arg("--")
        .arg(program)
        .env("RIVERRUN_FUZZ_TARGET", target)
        .envs([
            ("AFL_AUTORESUME", "1"),
            ("AFL_NO_UI", "1"),
            ("AFL_NO_AFFINITY", "1"),
            ("AFL_SKIP_CPUFREQ", "1"),
            ("AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES", "1"),
        ])
        .output()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    ensure!(
        ran.status.success(),
        "cargo afl fuzz failed for {target}:\n{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let statistics = statistics(&found.join("default/fuzzer_stats"))?;
    let shown = |key: &str| statistics.get(key).cloned().unwrap_or_default();
    let crashes = inputs(&found.join("default/crashes"))?;
    let hangs = inputs(&found.join("default/hangs"))?;
    println!(
        "| {target} | {} | {} | {} | {} | {} |",
        shown("execs_done"),
        shown("corpus_count"),
        shown("edges_found"),
        crashes.len(),
        hangs.len()
    );
    let repeated = |input: &PathBuf| {
        format!(
            "RIVERRUN_FUZZ_TARGET={target} {} < {}",
            program.display(),
            input.display()
        )
    };
    Ok(crashes.iter().chain(&hangs).map(repeated).collect())
}

/// The `key : value` lines of AFL's report.
fn statistics(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect())
}

fn inputs(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("id:"))
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
