//! `crash/disk`: a server whose disk is recorded, and then cut at every change.
//!
//! ```text
//!   workload.rs steps.rs ── requests ──> server with shim.c ──> log directories
//!        │ marks                              │ changes               │ must be the same
//!        v                                    v                       v
//!   promises.rs <── marks ── journal.rs ── changes ──> disk.rs: the tree at each cut
//!        │                                                            │ as a dead process or machine
//!        └──────> check.rs: is it all there? <── server <── cuts.rs <─┘
//! ```
//!
//! The journal of a workload that has failed is kept; `--journal` and `--cut` repeat one case exactly.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that reports to whoever runs it"
)]

mod check;
mod client;
mod control;
mod cuts;
mod disk;
mod failure;
mod journal;
mod promises;
mod server;
mod steps;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use interpreter::Random;

use control::Control;
use cuts::{Bench, Case, Then};
use disk::{Crash, Disk, Tree};
use failure::{caught, keep_panics};
use journal::{Entry, Journal};
use promises::Promises;
use server::{Plan, free_ports};
use workload::Workload;

const USAGE: &str = "\
usage: interop-crash --binary PATH --shim PATH --dir PATH [OPTION...]
  --seed NUMBER     the first workload (1)
  --count NUMBER    how many workloads, each with the next seed (1)
  --cases NUMBER    about how many starts for each workload (all cuts, each as process and machine)
  --steps NAME,...  only these steps of a workload
  --journal PATH    cut this journal of a workload with the same seed instead of recording one
  --cut NUMBER      only this cut of it
  --keep-going      report up to 100 failures of a workload rather than one";

/// Servers that run at a time.
const BENCHES: usize = 2;
const FAILURES_MAX: usize = 100;
/// How long a sync takes in the recorded server: long enough for others to come between.
const SYNC_DELAY_US: u32 = 300;

#[derive(Debug, Clone, Default)]
struct Options {
    binary: PathBuf,
    shim: PathBuf,
    dir: PathBuf,
    seed: u64,
    count: u64,
    cases: Option<usize>,
    steps: Vec<String>,
    journal: Option<PathBuf>,
    cut: Option<usize>,
    keeps_going: bool,
}

fn main() -> Result<ExitCode> {
    let options = options()?;
    keep_panics();
    let mut failed = false;
    for seed in options.seed..options.seed + options.count {
        let started = Instant::now();
        match caught(|| one_workload(&options, seed)) {
            Ok(figures) => println!("seed {seed}: {figures}, {:.0?}", started.elapsed()),
            Err(error) => {
                failed = true;
                println!("FAILED seed {seed}: {error:#}");
            }
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn options() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: 1,
        ..Options::default()
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--keep-going" {
            options.keeps_going = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word}\n{USAGE}"))?;
        match word.as_str() {
            "--binary" => options.binary = fs::canonicalize(&value)?,
            "--shim" => options.shim = fs::canonicalize(&value)?,
            "--dir" => options.dir = value.into(),
            "--seed" => options.seed = value.parse()?,
            "--count" => options.count = value.parse()?,
            "--cases" => options.cases = Some(value.parse()?),
            "--steps" => options.steps = value.split(',').map(str::to_owned).collect(),
            "--journal" => options.journal = Some(value.into()),
            "--cut" => options.cut = Some(value.parse()?),
            _ => bail!("unknown option {word}\n{USAGE}"),
        }
    }
    ensure!(
        !options.binary.as_os_str().is_empty() && !options.dir.as_os_str().is_empty(),
        "{USAGE}"
    );
    fs::create_dir_all(&options.dir)?;
    options.dir = fs::canonicalize(&options.dir)?;
    options.shim = compile_shim(&options)?;
    Ok(options)
}

/// The shim as a library for LD_PRELOAD.
fn compile_shim(options: &Options) -> Result<PathBuf> {
    let library = options.dir.join("shim.so");
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .args([&library, &options.shim])
        .status()
        .context("the shim needs a C compiler, `cc`")?;
    ensure!(status.success(), "the shim cannot be compiled");
    Ok(library)
}

/// Records a workload, and starts the server at its cuts.
fn one_workload(options: &Options, seed: u64) -> Result<String> {
    let plan = plan(options, seed)?;
    let path = match &options.journal {
        Some(path) => path.clone(),
        None => record(options, &plan, seed).context("while the disk was recorded")?,
    };
    let entries = journal::read(&path)?;
    let mut disk = Disk::new();
    for entry in &entries {
        disk.apply(entry).with_context(|| entry.describe())?;
    }
    if options.journal.is_none() {
        let real = Tree::read(&plan.root)?;
        let same = disk.after(Crash::Process).ensure_same(&real, "");
        same.context("the journal does not lead to what is on the disk")?;
    }
    let cases = cut_all(options, &plan, seed, &entries)?;
    fs::remove_dir_all(&plan.root).ok();
    let marks = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Mark(_)))
        .count();
    Ok(format!(
        "{} changes of the disk, {marks} marks, {cases} starts",
        entries.len() - marks
    ))
}

/// How servers of a workload are started. Every other workload runs with every acknowledgement synced.
fn plan(options: &Options, seed: u64) -> Result<Plan> {
    let dir = &options.dir;
    // Checkpoints are written all the time, or only when the server stops or must.
    let interval = if (seed / 2).is_multiple_of(2) {
        "100"
    } else {
        "60000"
    };
    let mut properties = vec![
        ("log.flush.offset.checkpoint.interval.ms", interval),
        ("log.flush.start.offset.checkpoint.interval.ms", interval),
        ("replica.high.watermark.checkpoint.interval.ms", interval),
    ];
    if is_durable(seed) {
        properties.push(("log.flush.interval.messages", "1"));
    }
    let properties = properties
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Plan {
        binary: options.binary.clone(),
        shim: options.shim.clone(),
        root: dir.join("root"),
        port: free_ports(1 + BENCHES as u16)?,
        journal: Some(dir.join("journal")),
        control: Some(dir.join("control")),
        log: dir.join("server.log"),
        properties: properties.collect(),
    })
}

const fn is_durable(seed: u64) -> bool {
    seed % 2 == 1
}

/// Records a workload; returns the journal.
fn record(options: &Options, plan: &Plan, seed: u64) -> Result<PathBuf> {
    fs::remove_dir_all(&plan.root).ok();
    let path = plan.journal.clone().context("it is recorded")?;
    let journal = Journal::create(&path)?;
    let control = Control::create(
        plan.control.as_deref().context("it has faults")?,
        SYNC_DELAY_US,
    )?;
    let mut workload = Workload::start(plan.clone(), control, journal, seed, is_durable(seed))?;
    workload.run(&options.steps)?;
    Ok(path)
}

/// What the benches share.
struct Shared {
    cases: Mutex<Receiver<Case>>,
    failures: Mutex<Vec<String>>,
    done: AtomicUsize,
    gives_up: AtomicBool,
}

/// Starts the server at the cuts; returns how often.
fn cut_all(options: &Options, plan: &Plan, seed: u64, entries: &[Entry]) -> Result<usize> {
    let (sender, cases) = sync_channel(2 * BENCHES);
    let shared = Shared {
        cases: Mutex::new(cases),
        failures: Mutex::default(),
        done: AtomicUsize::new(0),
        gives_up: AtomicBool::new(false),
    };
    let mut produced = Ok(());
    std::thread::scope(|scope| {
        for number in 0..BENCHES {
            let shared = &shared;
            scope.spawn(move || run_cases(options, plan, number, shared));
        }
        produced = produce_cases(options, seed, entries, |case| {
            !shared.gives_up.load(Ordering::Relaxed) && sender.send(case).is_ok()
        });
        drop(sender);
    });
    produced?;
    let failures = shared.failures.into_inner().unwrap_or_default();
    if !failures.is_empty() {
        let kept = options.dir.join(format!("journal-{seed}"));
        if let Some(journal) = &plan.journal
            && options.journal.is_none()
        {
            fs::copy(journal, &kept)?;
        }
        bail!(
            "{}\nto repeat one: cargo run -p interop-crash -- --binary {} --shim interop/crash/shim.c \
             --dir {} --seed {seed} --journal {} --cut NUMBER",
            failures.join("\n"),
            options.binary.display(),
            options.dir.display(),
            kept.display()
        );
    }
    Ok(shared.done.into_inner())
}

/// Runs cases until there are no more, or too many have failed.
fn run_cases(options: &Options, plan: &Plan, number: usize, shared: &Shared) {
    let dir = options.dir.join(format!("bench-{number}"));
    let port = plan.port + 1 + number as u16;
    let bench = Bench::new(plan, &dir, port);
    loop {
        let case = match shared.cases.lock() {
            Ok(cases) => cases.recv(),
            Err(_) => return,
        };
        let Ok(case) = case else { return };
        if shared.gives_up.load(Ordering::Relaxed) {
            continue;
        }
        let outcome = match &bench {
            Ok(bench) => caught(|| bench.run(&case)),
            Err(error) => Err(anyhow::anyhow!("{error}")),
        };
        shared.done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = outcome
            && let Ok(mut failures) = shared.failures.lock()
        {
            let failure = format!(
                "cut {}, {:?}, {:?}: {error:#}",
                case.cut, case.crash, case.then
            );
            println!("{failure}");
            failures.push(failure);
            if !options.keeps_going || failures.len() >= FAILURES_MAX {
                shared.gives_up.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Gives every case to `take`, until it wants no more.
fn produce_cases(
    options: &Options,
    seed: u64,
    entries: &[Entry],
    mut take: impl FnMut(Case) -> bool,
) -> Result<()> {
    let mut random = Random::new(seed ^ 0x5eed);
    let acknowledged = after_acknowledgements(entries);
    let chosen = choose_cuts(options, entries, &acknowledged, &mut random);
    let acknowledged: BTreeSet<usize> = acknowledged.into_iter().flatten().collect();
    let (mut disk, mut promises) = (Disk::new(), Promises::default());
    for (cut, entry) in (1..).zip(entries) {
        disk.apply(entry)?;
        if let Entry::Mark(mark) = entry {
            promises.apply(mark)?;
        }
        // Each cut has numbers of its own, so that it is the same alone.
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(cut as u64));
        if !chosen.contains(&cut) {
            continue;
        }
        let known = Arc::new(promises.clone());
        let whole = Arc::new(disk.after(Crash::Process));
        let is_acknowledged = acknowledged.contains(&cut);
        let machine = match random.below(4) {
            0 => Crash::MachineKeepsNothing,
            1 | 2 if is_acknowledged => Crash::MachineKeepsNothing,
            _ => Crash::Machine(random.bits()),
        };
        let fails = Then::Fails {
            how: random.below(control::FAILURES.len()),
            skip: random.below(150) as u32,
            count: *random.choice(&[1, u32::MAX]),
        };
        let then = match random.below(12) {
            _ if !promises.is_formatted => Then::GoOn,
            0..=2 => Then::GoOn,
            3 => Then::Unmounted,
            4 => Then::Full,
            5 => Then::Unreadable,
            6 => Then::ReadOnly,
            7 | 8 => fails,
            _ => Then::Start,
        };
        let and_then = match random.below(8) {
            0 | 1 => Then::GoOn,
            2 => fails,
            _ => Then::Start,
        };
        let is_sample = options.cases.is_some();
        let is_process_only = is_sample && !is_acknowledged && random.chance(1, 2);
        // A dead process is enough for what is wrong with a directory, and seldom enough chosen.
        let is_machine_only = is_sample && !is_process_only && !then.is_of_directory();
        let mut cases = Vec::new();
        if !is_machine_only || options.cut.is_some() {
            cases.push((Crash::Process, then, whole));
        }
        if !is_process_only || options.cut.is_some() {
            cases.push((machine, and_then, Arc::new(disk.after(machine))));
        }
        for (crash, then, tree) in cases {
            let promises = known.clone();
            if !take(Case {
                cut,
                crash,
                then,
                tree,
                promises,
            }) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The lengths of the journal at which it is cut. A sample has one after an acknowledgement of each kind:
/// what is seldom promised counts as much as what is promised all the time.
fn choose_cuts(
    options: &Options,
    entries: &[Entry],
    acknowledged: &[Vec<usize>],
    random: &mut Random,
) -> BTreeSet<usize> {
    if let Some(cut) = options.cut {
        return BTreeSet::from([cut]);
    }
    // Two cuts with no change between them differ in what was promised: the later one counts.
    let is_change = |entry: Option<&Entry>| !matches!(entry, Some(Entry::Mark(_)));
    let all: Vec<usize> = (1..=entries.len())
        .filter(|cut| is_change(entries.get(*cut)))
        .collect();
    let Some(wanted) = options.cases else {
        return all.into_iter().collect();
    };
    let turns: Vec<usize> = all
        .iter()
        .copied()
        .filter(|cut| {
            let near = [entries.get(*cut), entries.get(*cut - 1)];
            near.iter().flatten().any(|entry| entry.is_turning_point())
        })
        .collect();
    let kinds = acknowledged.iter().take(wanted);
    let mut chosen: BTreeSet<usize> = kinds.map(|cuts| *random.choice(cuts)).collect();
    while chosen.len() < wanted.min(all.len()) {
        let from = if random.chance(3, 4) && !turns.is_empty() {
            &turns
        } else {
            &all
        };
        // Where a choice was made before, the next one follows.
        let mut at = random.below(from.len());
        while !chosen.insert(from[at]) && at + 1 < from.len() {
            at += 1;
        }
    }
    chosen
}

/// The lengths of the journal at which an acknowledgement is the last thing that has happened, for each
/// kind of what was asked for.
fn after_acknowledgements(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut found = BTreeMap::<&str, Vec<usize>>::new();
    let (mut asked, mut acknowledged) = ("", None);
    for (cut, entry) in (1..).zip(entries) {
        let Entry::Mark(mark) = entry else {
            acknowledged = None;
            continue;
        };
        match mark.split('\t').next().unwrap_or_default() {
            "ok" => acknowledged = Some(asked),
            word => asked = word,
        }
        let is_last = !matches!(entries.get(cut), Some(Entry::Mark(_)));
        if let Some(acknowledged) = acknowledged.filter(|_| is_last) {
            found.entry(acknowledged).or_default().push(cut);
        }
    }
    found.into_values().collect()
}
