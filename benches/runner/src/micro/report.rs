//! What was measured, as a table for people, as JSON for programs and as a chart.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::chart::{Chart, Group};
use super::super::machine::Machine;
use super::super::statistics::Estimate;
use super::{Measured, Operation};

/// Below this, allocation is what the counters' own bookkeeping makes of a collector's run.
const NO_BYTES: f64 = 0.5;

/// A finished run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) measured: Vec<Measured>,
}

/// Whether a goal is reached; an interval around the goal decides nothing.
fn verdict(is_met: bool, is_missed: bool) -> &'static str {
    match (is_met, is_missed) {
        (true, _) => "met",
        (_, true) => "missed",
        _ => "inconclusive",
    }
}

impl Measured {
    fn ratio(&self) -> Estimate {
        Estimate::of_ratio(&self.kafka.nanoseconds, &self.riverrun.nanoseconds)
    }

    /// The verdicts on time, on the ratio and on allocation, where there is a goal.
    fn verdicts(&self) -> [Option<&'static str>; 3] {
        let Operation {
            goal_ns,
            goal_ratio,
            ..
        } = *self.operation;
        let (time, ratio) = (self.riverrun.time(), self.ratio());
        let (has_time, has_ratio) = (goal_ns > 0.0, goal_ratio > 0.0);
        [
            has_time.then(|| verdict(time.high <= goal_ns, time.low > goal_ns)),
            has_ratio.then(|| verdict(ratio.low >= goal_ratio, ratio.high < goal_ratio)),
            has_time.then(|| verdict(self.riverrun.allocated() == 0.0, true)),
        ]
    }
}

impl Report {
    /// The table.
    pub(super) fn text(&self) -> String {
        let mut out = String::from(
            "| operation | riverrun | goal | Apache Kafka 4.3.1 | ratio | goal | allocated by \
             riverrun | by Apache Kafka |\n|--|--:|--|--:|--:|--|--:|--:|\n",
        );
        for one in &self.measured {
            let [time, ratio, allocated] = one.verdicts();
            let Operation {
                name,
                about,
                goal_ns,
                goal_ratio,
                ..
            } = one.operation;
            let ratio_goal =
                ratio.map_or_else(String::new, |verdict| format!("≥ {goal_ratio}: {verdict}"));
            let time_goal = time.map_or_else(String::new, |verdict| {
                format!("≤ {} ns: {verdict}", digits(*goal_ns))
            });
            let allocated = allocated.map_or_else(String::new, |verdict| format!(": {verdict}"));
            let _ = writeln!(
                out,
                "| `{name}` {about} | {} ns | {time_goal} | {} ns | {} × | {ratio_goal} | {}{allocated} | {} |",
                spread(one.riverrun.time()),
                spread(one.kafka.time()),
                spread(one.ratio()),
                bytes(one.riverrun.allocated()),
                bytes(one.kafka.allocated()),
            );
        }
        out
    }

    /// Writes `micro.md`, `micro.json` and `micro.svg`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("micro.md"), self.markdown())?;
        let json = serde_json::to_string_pretty(&self.json())?;
        fs::write(folder.join("micro.json"), json + "\n")?;
        fs::write(folder.join("micro.svg"), self.chart().svg())?;
        Ok(())
    }

    fn markdown(&self) -> String {
        let rounds = self
            .measured
            .first()
            .map_or(0, |one| one.kafka.nanoseconds.len());
        format!(
            "# Functions, beside Apache Kafka's\n\n{}\nTime and bytes of one operation, the mean \
             over {rounds} rounds with its 95 % confidence interval. In each round both sides ran \
             in turn, each in a fresh process; Apache Kafka's classes ran in JMH. Both sides left \
             the same bytes. A ratio is how many times longer Apache Kafka takes.\n\n{}\n\
             ![the same as bars](micro.svg)\n",
            self.machine.markdown(),
            self.text(),
        )
    }

    fn json(&self) -> Value {
        let operations = self.measured.iter().map(|one| {
            let [time, ratio, allocated] = one.verdicts();
            json!({
                "name": one.operation.name,
                "about": one.operation.about,
                "riverrun": {
                    "ns": one.riverrun.time().json(),
                    "ns_of_rounds": one.riverrun.nanoseconds,
                    "allocated_bytes": one.riverrun.allocated(),
                },
                "kafka": {
                    "ns": one.kafka.time().json(),
                    "ns_of_rounds": one.kafka.nanoseconds,
                    "allocated_bytes": one.kafka.allocated(),
                },
                "ratio": one.ratio().json(),
                "goals": {
                    "ns": one.operation.goal_ns,
                    "ratio": one.operation.goal_ratio,
                    "time": time,
                    "ahead": ratio,
                    "allocation": allocated,
                },
            })
        });
        json!({ "machine": self.machine.json(), "operations": operations.collect::<Vec<_>>() })
    }

    fn chart(&self) -> Chart {
        let group = |one: &Measured| {
            let (ours, theirs) = (one.riverrun.time(), one.kafka.time());
            let ratio = format!(
                "{} ns ({} × as fast)",
                digits(ours.mean),
                digits(one.ratio().mean)
            );
            Group {
                label: one.operation.name.to_owned(),
                dots: vec![
                    (theirs, format!("{} ns", digits(theirs.mean))),
                    (ours, ratio),
                ],
            }
        };
        Chart {
            title: "Functions of riverrun and of Apache Kafka 4.3.1".into(),
            subtitle: "nanoseconds per operation, less is better; 95 % confidence".into(),
            series: vec!["Apache Kafka 4.3.1".into(), "riverrun".into()],
            groups: self.measured.iter().map(group).collect(),
        }
    }
}

/// A mean and half the width of its interval.
fn spread(estimate: Estimate) -> String {
    let half_width = (estimate.high - estimate.low) / 2.0;
    if half_width.is_finite() {
        format!("{} ± {}", digits(estimate.mean), digits(half_width))
    } else {
        digits(estimate.mean)
    }
}

/// Three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn bytes(value: f64) -> String {
    if value < NO_BYTES {
        return "0 B".into();
    }
    format!("{value:.0} B")
}
