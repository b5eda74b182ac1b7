//! Suite `cluster`: clusters of real processes, riverrun's, Apache Kafka's and mixed, whose nodes end, hang,
//! are cut off and are replaced while clients go on. Kafka's system tests, with their parameters.
//!
//! ```text
//!   scenarios/ ── Stage ──> cluster ── node ─────── a process over its directories
//!       │                      │  └─── network ──── a relay before each listener, if wanted: cut, late, slow
//!       │                      └────── operator ─── Kafka's admin client and tools
//!       ├──────────────────────> tools ──────────── VerifiableProducer, VerifiableConsumer, ...
//!       v
//!   checker: what was acknowledged, against what readers, consumers and the replicas' files have
//! ```
//!
//! A scenario is named `SCENARIO@MIXTURE`: the mixture says which program each node runs
//! (`layout`). With `--against kafka` all of them run Kafka, and every scenario has to pass.

mod checker;
mod cluster;
mod lab;
mod layout;
mod log_files;
mod network;
mod node;
mod operator;
mod scenarios;
mod stage;
mod teller;
mod tools;
mod transactor;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::options::Options;
use crate::run::Run;
use crate::server::Against;
use cluster::Cluster;
use lab::{Extra, Lab};
use layout::Mixture;
use scenarios::{ALWAYS, SCENARIOS, Scenario};
use stage::{Stage, Told};

const SUITE: &str = "cluster";

/// Clusters at a time. They wait most of the time.
const CLUSTERS: usize = 2;

/// A scenario and what it runs on.
#[derive(Clone, Copy, Debug)]
struct Play {
    scenario: &'static Scenario,
    mixture: &'static Mixture,
}

impl Play {
    fn name(&self) -> String {
        format!("{}@{}", self.scenario.name, self.mixture.name)
    }
}

/// The names of the scenarios.
pub(crate) fn list(run: &mut Run) -> Result<Vec<String>> {
    Ok(plays(&run.options).iter().map(Play::name).collect())
}

/// Every scenario that a run has, on every mixture: the long form has more of them, and a run of all suites a few.
fn plays(options: &Options) -> Vec<Play> {
    let mut plays = Vec::new();
    for scenario in SCENARIOS {
        let mixtures = match options.against {
            Against::Kafka => scenario.kafka,
            Against::Riverrun => scenario.short,
        };
        let long = match options.against {
            Against::Riverrun => scenario.long,
            Against::Kafka => &[],
        };
        // Whoever names a scenario of the long form wants to see it run.
        let name = |mixture: &Mixture| format!("{}@{}", scenario.name, mixture.name);
        let is_one_of_all = options.selection.is_empty() && !options.long && !options.list;
        let is_always = |mixture: &Mixture| ALWAYS.contains(&&*name(mixture));
        let more = long.iter().filter(|mixture| {
            options.long || options.list || is_one_of_all || options.names(SUITE, &name(mixture))
        });
        let all = mixtures.iter().chain(more);
        let mixtures = all.filter(|mixture| !is_one_of_all || is_always(mixture));
        plays.extend(mixtures.map(|mixture| Play { scenario, mixture }));
    }
    plays
}

/// Runs what is asked for, some clusters at a time.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let mut wanted = Vec::new();
    for play in plays(&run.options) {
        let name = play.name();
        let is_asked_for =
            run.options.selects(SUITE, &name) || run.options.names(SUITE, play.scenario.name);
        if !is_asked_for {
            continue;
        }
        match run.exception(SUITE, &name) {
            Some(reason) => run.report.excepted(&format!("{SUITE}/{name}"), &reason),
            None => wanted.push(play),
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let extras = wanted.iter().filter_map(|play| play.scenario.extra);
    let extras: Vec<Extra> = extras.collect();
    let lab = Arc::new(Lab::new(run, SUITE, &extras)?);
    let (sender, ended) = mpsc::channel();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CLUSTERS {
            let (sender, lab, next, wanted) = (sender.clone(), &lab, &next, &wanted);
            scope.spawn(move || {
                while let Some(play) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let outcome = play_one(lab, play);
                    // The receiver goes when all plays have ended.
                    let _ = sender.send((play.name(), started.elapsed(), outcome));
                }
            });
        }
        drop(sender);
        for (name, took, outcome) in ended {
            report(run, &name, took, outcome);
        }
    });
    Ok(())
}

fn report(run: &mut Run, name: &str, took: Duration, outcome: Result<Told>) {
    let name = format!("{SUITE}/{name}");
    match outcome {
        Ok(told) => {
            run.report.outcome(&name, took, &Ok(()));
            println!("    {told}");
        }
        Err(error) => run.report.outcome(&name, took, &Err(error)),
    }
}

/// Starts a cluster, and plays a scenario on it. The directories of a play that went well are not kept.
fn play_one(lab: &Arc<Lab>, play: &Play) -> Result<Told> {
    let dir = lab.dir.join(play.name());
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot clear {}", dir.display()))?;
    }
    fs::create_dir_all(&dir)?;
    let cluster = Cluster::start(lab, &dir, play.mixture, &play.scenario.layout);
    let cluster = cluster.context("the cluster does not start")?;
    let mut stage = Stage::new(lab.clone(), cluster, dir.clone());
    let told = (play.scenario.run)(&mut stage)?;
    drop(stage);
    fs::remove_dir_all(&dir)?;
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_all_suites_has_a_few_plays_and_the_long_form_has_them_too() {
        let names = |options: &Options| -> Vec<String> {
            let plays = plays(options);
            plays.iter().map(Play::name).collect()
        };
        let mut few = names(&Options::default());
        let long = Options {
            long: true,
            ..Options::default()
        };
        let all = names(&long);
        assert!(few.iter().all(|name| all.contains(name)), "{few:?}");
        let mut always = ALWAYS.to_vec();
        few.sort_unstable();
        always.sort_unstable();
        assert_eq!(few, always);
    }
}
