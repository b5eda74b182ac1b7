//! Suite `streams-topologies`: what `describe()` says of topologies, here and in Kafka Streams, byte for byte.
//!
//! Two programs build the same topologies under the same names: `topologies/` among the sources of `interop/streams`
//! with Kafka Streams, `interop/topologies` with riverrun. Each prints all of them, so there is one JVM. To add one,
//! add a lambda there and a closure here; `interop/exceptions.txt` names those that only Kafka Streams can build. No
//! server takes part.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::run::Run;

const SUITE: &str = "streams-topologies";

/// Lines of each topology by its name; none of one that was refused.
type Described = BTreeMap<String, Vec<String>>;

/// The names of the topologies.
pub(crate) fn list(run: &mut Run) -> Result<Vec<String>> {
    Ok(described_here(run)?.into_keys().collect())
}

/// Compares those that are asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    std::fs::create_dir_all(run.suite_dir(SUITE))?;
    let started = Instant::now();
    let theirs = described_by_kafka(run)?;
    let ours = described_here(run)?;
    let mut took = Some(started.elapsed());
    for (name, theirs) in &theirs {
        let scenario = format!("{SUITE}/{name}");
        if !run.options.selects(SUITE, name) {
            continue;
        }
        let outcome = match (ours.get(name), run.exception(SUITE, name)) {
            (Some(ours), _) => same(ours, theirs),
            (None, Some(reason)) => {
                run.report.excepted(&scenario, &reason);
                continue;
            }
            (None, None) => Err(anyhow!("`interop/topologies` builds no such topology")),
        };
        // The first one's time is that of both programs.
        run.report
            .outcome(&scenario, took.take().unwrap_or(Duration::ZERO), &outcome);
    }
    for name in ours.keys() {
        ensure!(
            theirs.contains_key(name),
            "Kafka Streams builds no topology `{name}`"
        );
    }
    Ok(())
}

fn described_by_kafka(run: &mut Run) -> Result<Described> {
    let mut command = run
        .kafka_streams()?
        .command("riverrun.interop.streams.topologies.Topologies");
    parse(&run.output(SUITE, &mut command)?)
}

fn described_here(run: &mut Run) -> Result<Described> {
    let mut command = run.built("interop-topologies")?;
    parse(&run.output(SUITE, &mut command)?)
}

fn parse(text: &str) -> Result<Described> {
    let mut described = Described::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("topology ") {
            ensure!(
                described.insert(next.to_owned(), Vec::new()).is_none(),
                "two topologies are called `{next}`"
            );
            name = Some(next);
            continue;
        }
        let lines = name.and_then(|name| described.get_mut(name));
        let lines = lines.context("a line before the first topology")?;
        match line.strip_prefix('|') {
            Some(line) => lines.push(line.to_owned()),
            None if line == "refused" => {}
            None => bail!("`{line}` is no line of a topology"),
        }
    }
    Ok(described)
}

fn same(ours: &[String], theirs: &[String]) -> Result<()> {
    let text = |lines: &[String]| match lines {
        [] => "refused".to_owned(),
        lines => lines.join("\n"),
    };
    ensure!(
        ours == theirs,
        "they differ\nriverrun:\n{}\nKafka Streams:\n{}",
        text(ours),
        text(theirs)
    );
    Ok(())
}
