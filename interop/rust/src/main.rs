//! The scenarios of the suite `client`: riverrun's own client against whatever broker it is pointed
//! at. `interop/README.md` says how such a program is called.
//!
//! ```text
//!   produce.rs consume.rs groups.rs …   scenarios, each with topics and groups of its own
//!   campaign/                           clients that live through kills of the broker
//!   clock.rs                            clients that live through steps of its clock
//!   lives/                              clients whose lives are drawn from seeds
//!   lab.rs                              clients of the server under test, and what they need
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program that is driven by its lines"
)]

mod admin;
mod campaign;
mod clock;
mod consume;
mod consumer_groups;
mod cross;
mod groups;
mod lab;
mod lives;
mod produce;
mod transactions;

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lab::Lab;

/// How long one scenario may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What runs a scenario.
type Run = fn(Lab) -> Pin<Box<dyn Future<Output = Result<()>>>>;

/// Scenarios by name.
type Scenarios = &'static [(&'static str, Run)];

/// A table of scenarios out of asynchronous functions, named as them.
macro_rules! scenarios {
    ($($name:literal => $run:path),+ $(,)?) => {
        /// The scenarios of this file.
        pub(crate) const SCENARIOS: crate::Scenarios = &[$(
            ($name, |lab| Box::pin($run(lab))),
        )+];
    };
}
pub(crate) use scenarios;

const ALL: &[Scenarios] = &[
    produce::SCENARIOS,
    consume::SCENARIOS,
    groups::SCENARIOS,
    consumer_groups::SCENARIOS,
    admin::SCENARIOS,
    transactions::SCENARIOS,
    lives::SCENARIOS,
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(|word| &**word).collect();
    match &words[..] {
        ["list"] => {
            for (name, _) in ALL.iter().flat_map(|scenarios| scenarios.iter()) {
                println!("{name} {}", lives::limit(name, LIMIT).as_secs());
            }
            Ok(())
        }
        ["run", bootstrap, _, names @ ..] => run(bootstrap, names),
        ["cross", action, bootstrap, writer] => {
            let runtime = tokio::runtime::Runtime::new()?;
            let lab = Lab::new(bootstrap, "cross");
            runtime.block_on(async {
                let crossing = async {
                    match *action {
                        "write" => cross::write(&lab, writer).await,
                        "read" => cross::read(&lab, writer).await,
                        _ => bail!("`{action}` is neither write nor read"),
                    }
                };
                tokio::time::timeout(2 * LIMIT, crossing).await?
            })
        }
        ["campaign", bootstrap, seed] => campaign::run(bootstrap, seed.parse()?),
        ["clock", bootstrap] => clock::run(bootstrap),
        _ => bail!(
            "usage: interop-client list | run HOST:PORT DIR NAME... | cross write|read HOST:PORT WRITER \
             | campaign HOST:PORT SEED | clock HOST:PORT"
        ),
    }
}

fn run(bootstrap: &str, names: &[&str]) -> Result<()> {
    for name in names {
        let scenarios = ALL.iter().flat_map(|scenarios| scenarios.iter());
        let (_, scenario) = scenarios
            .into_iter()
            .find(|(known, _)| known == name)
            .with_context(|| format!("no scenario `{name}`"))?;
        println!("start {name}");
        let limit = lives::limit(name, LIMIT);
        let outcome = run_one(Lab::new(bootstrap, name), *scenario, limit);
        match outcome {
            Ok(()) => println!("ok {name}"),
            Err(error) => println!(
                "FAILED {name}: {}",
                format!("{error:#}").replace('\n', "\t")
            ),
        }
    }
    Ok(())
}

/// Runs a scenario on a runtime of its own, so that what it leaves behind ends with it.
fn run_one(lab: Lab, scenario: Run, limit: Duration) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let ended = tokio::time::timeout(limit, scenario(lab)).await;
        ensure!(ended.is_ok(), "not done within {limit:?}");
        ended?
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}
