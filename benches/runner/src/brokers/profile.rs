//! `cargo xtask bench profile`: where riverrun's time goes under a scenario, as a flame graph.
//!
//! A riverrun built with frame pointers and names is started and loaded as in `bench macro`, while
//! `perf` looks at it a thousand times a second of CPU time, kernel included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::super::flame::Stacks;
use super::Scratch;
use super::cores::Cores;
use super::options::Options;
use super::peer::{Kind, Plan};
use super::programs::Programs;
use super::round::Bench;
use super::scenario::{Load, SCENARIOS, Scenario};
use harness::process::{output_of, run_quietly};
use harness::workspace_root;

/// What is profiled unless scenarios are named: the two hot paths, in bulk and in small requests.
const DEFAULT: [&str; 3] = ["bulk-produce", "small-produce", "consume-1"];

/// Profiles the chosen scenarios.
pub(crate) fn run(options: Options) -> Result<()> {
    let Some(mut options) = options.checked()? else {
        return Ok(());
    };
    let root = workspace_root();
    options.choose_by_default(&DEFAULT);
    let binary = match options.binary.take() {
        Some(binary) => binary,
        None => build(root)?,
    };
    let programs = Programs::prepare(root, Some(&binary), None)?;
    let cores = if options.no_pin {
        None
    } else {
        Cores::choose()?
    };
    let bench = Bench {
        options: &options,
        programs: &programs,
        cores,
        network: None,
    };
    let scratch = Scratch::new()?;
    let folder = options.output.clone();
    let folder = folder.unwrap_or_else(|| root.join("benches/results"));
    fs::create_dir_all(&folder)?;
    for scenario in SCENARIOS.iter().filter(|one| options.chooses(one)) {
        if !matches!(scenario.load, Load::Window(_) | Load::Shared(_)) {
            continue;
        }
        let dir = scratch.0.join(scenario.name);
        let stacks = profile(&bench, scenario, &dir)?;
        let title = format!("riverrun under {}", scenario.name);
        let subtitle = format!(
            "{}; {} samples of CPU time",
            scenario.about,
            stacks.samples()
        );
        let file = folder.join(format!("profile-{}.svg", scenario.name));
        fs::write(&file, stacks.svg(&title, &subtitle)?)?;
        println!("written to {}", file.display());
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// A riverrun whose stacks can be walked, apart from the other builds.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = root.join("target/bench/profiling");
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "riverrun"]);
    build.args(["--profile", "profiling", "--target-dir"]);
    build.arg(&target).current_dir(root);
    build.env("RUSTFLAGS", "-C force-frame-pointers=yes");
    run_quietly(&mut build).context("cannot build riverrun with frame pointers")?;
    Ok(target.join("profiling/riverrun"))
}

/// Samples of one window with its warm-up. The topic stays: deleting it is no part of the path.
fn profile(bench: &Bench<'_>, scenario: &Scenario, dir: &Path) -> Result<Stacks> {
    let core = bench.cores.map(|cores| cores.server);
    let plan = Plan::new(Kind::Riverrun, dir, core, None, bench.programs)?;
    let (mut running, _) = bench.start(&plan)?;
    let samples = dir.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--freq", "997", "--event", "cpu-clock"]);
    perf.args(["--call-graph", "fp", "--pid", &running.pid().to_string()]);
    perf.arg("--output").arg(&samples);
    let perf = perf.stdin(Stdio::null()).spawn();
    let mut perf = perf.context("cannot run perf")?;
    let window = bench.window(&mut running, scenario, false);
    // perf writes its file and ends when the process that it watches does.
    drop(running);
    let status = perf.wait()?;
    window?;
    ensure!(samples.exists(), "perf ended with {status} and no samples");
    let mut script = Command::new("perf");
    script.args(["script", "--input"]);
    let text = output_of(script.arg(&samples))?;
    Stacks::from_perf_script(&text)
}
