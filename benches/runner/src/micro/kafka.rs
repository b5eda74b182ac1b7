//! Apache Kafka's side: the classes of `benches/java`, each round a fork of JMH.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::operation::Operation;
use super::{Effort, Round, evidence_by_name, mean_of};
use harness::java::{Annotations, Java};
use harness::process::{output_of, run_quietly};

/// The heap and the collector that Kafka's start script gives a broker.
const FLAGS: &str = "-Xms1g -Xmx1g -XX:+UseG1GC";

/// The compiled benchmarks.
#[derive(Debug)]
pub(super) struct Kafka {
    java: Java,
    results: PathBuf,
}

impl Kafka {
    pub(super) fn install(root: &Path) -> Result<Self> {
        let cache = harness::cache(root).join("bench");
        let java = Java::install(&root.join("benches/java"), &cache, Annotations::Process)?;
        Ok(Self {
            java,
            results: cache.join("jmh.json"),
        })
    }

    pub(super) fn evidence(&self) -> Result<BTreeMap<String, String>> {
        let text = output_of(&mut self.java.command("riverrun.bench.Evidence"))?;
        Ok(evidence_by_name(&text))
    }

    /// One fork that measures `operation`.
    pub(super) fn round(&self, operation: &Operation, effort: Effort) -> Result<Round> {
        let mut command = Command::new("java");
        command.args(["-cp", self.java.class_path(), "org.openjdk.jmh.Main"]);
        // Time per call in nanoseconds, with the bytes that the collector's counters show.
        command.args(["-bm", "avgt", "-tu", "ns", "-prof", "gc", "-foe", "true"]);
        command.args(["-f", "1", "-jvmArgsAppend", FLAGS]);
        let time = format!("{}ms", effort.sample_ms);
        let samples = effort.samples.to_string();
        command.args(["-wi", &samples, "-w", &time, "-i", &samples, "-r", &time]);
        if let Some(partitions) = operation.partitions {
            command.args(["-p", &format!("partitions={partitions}")]);
        }
        if let Some(kind) = operation.kind {
            command.args(["-p", &format!("kind={kind}")]);
        }
        command.args(["-rf", "json", "-rff"]).arg(&self.results);
        command.arg(format!("riverrun.bench.{}.run$", operation.class));
        run_quietly(&mut command)?;
        let text = fs::read_to_string(&self.results)?;
        let results: Value = serde_json::from_str(&text)?;
        let result = &results[0];
        let allocated = &result["secondaryMetrics"]["gc.alloc.rate.norm"];
        Ok(Round {
            nanoseconds: mean_of(&samples_of(&result["primaryMetric"])?)?,
            allocated_bytes: mean_of(&samples_of(allocated)?)?,
        })
    }
}

/// The samples of the only fork.
fn samples_of(metric: &Value) -> Result<Vec<f64>> {
    let samples = metric["rawData"][0].as_array();
    let samples = samples.context("JMH's result has another form")?;
    let numbers = samples.iter().map(|sample| sample.as_f64());
    numbers
        .collect::<Option<_>>()
        .context("a sample of JMH is no number")
}
