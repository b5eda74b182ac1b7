//! What was measured, as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::streams_workload::{Amount, PARTITIONS, WORDS, Workload};
use super::application::Cost;
use super::{Measured, Side};
use crate::machine::Machine;
use crate::statistics::Estimate;

/// A run, finished or not.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) amount: Amount,
    pub(super) measured: Vec<Measured>,
}

/// A number of each application.
struct Metric {
    name: &'static str,
    /// Its name where a store is restored, which has no warm-up.
    of_restore: &'static str,
    unit: fn(&Workload) -> &'static str,
    of: fn(&Cost) -> f64,
    /// How many times riverrun's number shall be Kafka's, at least or at most.
    goal: Option<Goal>,
}

#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

const METRICS: [Metric; 4] = [
    Metric {
        name: "per CPU second, after the warm-up",
        of_restore: "per CPU second, until it runs",
        unit: amount_unit,
        of: |cost| cost.per_cpu_second,
        goal: Some(Goal::AtLeast(3.0)),
    },
    Metric {
        name: "per CPU second, start and warm-up included",
        of_restore: "per CPU second, start and close included",
        unit: amount_unit,
        of: |cost| cost.per_cpu_second_with_start,
        goal: None,
    },
    Metric {
        name: "per second, after the warm-up",
        of_restore: "per second, until it runs",
        unit: amount_unit,
        of: |cost| cost.per_second,
        goal: None,
    },
    Metric {
        name: "most resident memory",
        of_restore: "most resident memory",
        unit: |_| "MB",
        of: |cost| cost.peak_mb,
        goal: Some(Goal::AtMost(0.2)),
    },
];

impl Metric {
    fn name(&self, workload: &Workload) -> &'static str {
        match workload.is_restore() {
            true => self.of_restore,
            false => self.name,
        }
    }
}

fn amount_unit(workload: &Workload) -> &'static str {
    match workload.is_restore() {
        true => "MB",
        false => "records",
    }
}

impl Goal {
    fn verdict(self, ratio: Estimate) -> String {
        let (text, is_met, is_missed) = match self {
            Self::AtLeast(least) => (format!("≥ {least}"), ratio.low >= least, ratio.high < least),
            Self::AtMost(most) => (format!("≤ {most}"), ratio.high <= most, ratio.low > most),
        };
        let verdict = match (is_met, is_missed) {
            (true, _) => "met",
            (_, true) => "not met",
            _ => "inconclusive",
        };
        format!("{text}: {verdict}")
    }
}

impl Measured {
    fn rounds(&self, side: Side, metric: &Metric) -> Vec<f64> {
        let costs = match side {
            Side::Riverrun => &self.riverrun,
            Side::Kafka => &self.kafka,
        };
        costs.iter().map(metric.of).collect()
    }

    fn ratio(&self, metric: &Metric) -> Estimate {
        Estimate::of_ratio(
            &self.rounds(Side::Riverrun, metric),
            &self.rounds(Side::Kafka, metric),
        )
    }
}

impl Report {
    /// The table.
    pub(super) fn table(&self) -> String {
        let mut out = String::from(
            "| workload | number | riverrun | Kafka Streams 4.3.1 | riverrun / Kafka Streams | goal |\n\
             |--|--|--:|--:|--:|--|\n",
        );
        for measured in self.measured.iter().filter(|one| !one.riverrun.is_empty()) {
            for metric in &METRICS {
                let of = |side| spread(Estimate::of(&measured.rounds(side, metric)));
                let ratio = measured.ratio(metric);
                let _ = writeln!(
                    out,
                    "| `{}` | {} {} | {} | {} | {:.2} ({:.2} to {:.2}) | {} |",
                    measured.workload.name,
                    (metric.unit)(measured.workload),
                    metric.name(measured.workload),
                    of(Side::Riverrun),
                    of(Side::Kafka),
                    ratio.mean,
                    ratio.low,
                    ratio.high,
                    metric
                        .goal
                        .map_or_else(String::new, |goal| goal.verdict(ratio)),
                );
            }
        }
        out
    }

    fn markdown(&self) -> String {
        let rounds = self.measured.first().map_or(0, |one| one.riverrun.len());
        let abouts: String = self
            .measured
            .iter()
            .map(|one| {
                let workload = one.workload;
                let (records, keys) = (self.amount.records(workload), self.amount.keys(workload));
                format!(
                    "- `{}`: {}; {records} records of {keys} keys or words\n",
                    workload.name, workload.about
                )
            })
            .collect();
        format!(
            "# Streams, beside Kafka Streams\n\n{}\n{abouts}\n{rounds} rounds. In each, both sides ran in turn against \
             the same broker, a riverrun with the same records; the rounds began with one side and the other. The mean \
             of the rounds with half the width of its 95 % interval, and the geometric mean of the rounds' ratios with \
             its interval. CPU is user and system time of the application's process, from `/proc`; memory is its most \
             resident memory (`VmHWM`). The first quarter of the records is warm-up, in which the virtual machine \
             compiles; what is put off until the application is closed counts. A restore has no warm-up: it is all \
             there is from the start until the application runs, and what the virtual machine compiles counts. Its \
             changelog is not compacted meanwhile. Both sides are at Kafka Streams' \
             defaults: one thread, {PARTITIONS} tasks a sub-topology, at-least-once, a commit every 30 s, 10 MB of \
             cache, 1,000 records buffered a partition and polled, a linger of 100 ms, no compression, changelogs on. \
             Windows are of a minute with 10 s of grace and store rows have timestamps. On disk riverrun holds up to \
             4 MB of rows a store that wait to be written, and has fjall with a block cache of 16 MB a task, Kafka \
             Streams has RocksDB as it configures it. Lines have {WORDS} words, as seldom as Zipf's law says, and are shuffled by word through \
             a repartition topic; keys of windows are drawn evenly. A restored value has {} bytes, and each key comes \
             four times.\n\n{}",
            self.machine.markdown(),
            self.amount.value_bytes,
            self.table()
        )
    }

    fn json(&self) -> Value {
        let workloads = self.measured.iter().map(|measured| {
            let metrics = METRICS.iter().map(|metric| {
                json!({
                    "name": metric.name(measured.workload),
                    "unit": (metric.unit)(measured.workload),
                    "riverrun": measured.rounds(Side::Riverrun, metric),
                    "kafka": measured.rounds(Side::Kafka, metric),
                    "ratio": measured.ratio(metric).json(),
                })
            });
            json!({ "name": measured.workload.name, "metrics": metrics.collect::<Vec<_>>() })
        });
        json!({ "machine": self.machine.json(), "workloads": workloads.collect::<Vec<_>>() })
    }

    /// Writes `streams.md` and `streams.json`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("streams.md"), self.markdown())?;
        let json = serde_json::to_string_pretty(&self.json())?;
        fs::write(folder.join("streams.json"), json + "\n")?;
        Ok(())
    }
}

fn spread(estimate: Estimate) -> String {
    let half = (estimate.high - estimate.low) / 2.0;
    match half.is_finite() {
        true => format!("{:.0} ± {half:.0}", estimate.mean),
        false => format!("{:.0}", estimate.mean),
    }
}
