//! What was measured, as tables for people, as JSON for programs and as charts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::super::chart::{Chart, Group};
use super::super::machine::Machine;
use super::super::statistics::Estimate;
use super::measured::Measured;
use super::peer::Kind;
use super::scenario::{Floor, Metric, Scenario};

/// A finished run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) measured: Measured,
    pub(super) rounds: usize,
    /// How the run was made, in sentences.
    pub(super) method: String,
    /// What the files are called.
    pub(super) name: &'static str,
}

/// Charts: how a file's name ends, a title, and the metrics shown, by the path in a result.
const CHARTS: [(&str, &str, &str, &[&str]); 5] = [
    (
        "cpu-per-gb",
        "CPU of the server per GB",
        "seconds per GB of records, less is better",
        &["/cpu_seconds_per_gb"],
    ),
    (
        "cpu-per-request",
        "CPU of the server per request",
        "microseconds per request, less is better",
        &["/cpu_seconds_per_million_requests"],
    ),
    (
        "latency",
        "Latency at a fixed rate",
        "milliseconds from the scheduled time, less is better",
        &[
            "/latency/p50_ms",
            "/latency/p99_ms",
            "/latency/p999_ms",
            "/end_to_end_latency/p50_ms",
            "/end_to_end_latency/p99_ms",
            "/end_to_end_latency/p999_ms",
        ],
    ),
    (
        "memory",
        "Memory of the server",
        "resident MB, less is better",
        &["/idle_mb", "/loaded_mb"],
    ),
    (
        "start",
        "Start to first acknowledged record",
        "milliseconds, less is better",
        &["/start_ms"],
    ),
];
/// The names of the files of a run.
pub(super) const WHOLE: &str = "macro";
pub(super) const CLUSTER: &str = "cluster";
const README_BEGIN: &str = "<!-- cargo xtask bench macro: begin -->";
const README_END: &str = "<!-- cargo xtask bench macro: end -->";
/// Scenarios whose latencies are those of a fixed rate.
const PACED: [&str; 2] = ["mixed", "partitions-1000"];

impl Report {
    /// The tables for a terminal and for Markdown alike.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for scenario in self.measured.scenarios() {
            let _ = writeln!(out, "## {}\n\n{}\n", scenario.name, scenario.about);
            if let Floor::None(reason) = scenario.floor {
                let _ = writeln!(out, "No floor: {reason}.\n");
            }
            out.push_str(&table(&self.rows(scenario)));
            out.push('\n');
        }
        out
    }

    /// The main numbers of all scenarios: the table of the README.
    fn summary(&self) -> String {
        let kinds = [Kind::Kafka, Kind::Riverrun];
        let mut heading = vec![String::new()];
        heading.extend(kinds.iter().map(|kind| kind.title().to_owned()));
        heading.push("riverrun / Kafka, 95 % interval".to_owned());
        let has_floor = self.measured.kinds().any(|kind| kind == Kind::Floor);
        heading.extend(has_floor.then(|| "riverrun / floor".to_owned()));
        let mut rows = vec![heading];
        for scenario in self.measured.scenarios() {
            for metric in scenario.metrics.iter().filter(|metric| metric.is_main) {
                let numbers = kinds.map(|kind| self.measured.estimate(kind, scenario, metric));
                let ratio = |against| {
                    let ratio = self.measured.ratio(against, scenario, metric);
                    ratio.map_or_else(dash, interval)
                };
                let mut row = vec![format!("{}: {}", scenario.name, metric.label)];
                row.extend(numbers.map(|number| match number {
                    Some(number) => format!("{} {}", digits(number.mean), metric.unit),
                    None => dash(),
                }));
                row.push(ratio(Kind::Kafka));
                row.extend(has_floor.then(|| ratio(Kind::Floor)));
                rows.push(row);
            }
        }
        table(&rows)
    }

    /// The table of a scenario, its heading first.
    fn rows(&self, scenario: &Scenario) -> Vec<Vec<String>> {
        let kinds: Vec<Kind> = self.measured.kinds().collect();
        let others = || kinds.iter().filter(|kind| **kind != Kind::Riverrun);
        let mut heading = vec![String::new()];
        heading.extend(kinds.iter().map(|kind| kind.title().to_owned()));
        heading.extend(others().map(|kind| format!("riverrun / {}", short(*kind))));
        heading.push("goal".to_owned());
        let mut rows = vec![heading];
        for metric in scenario.metrics {
            let estimate = |kind: &Kind| self.measured.estimate(*kind, scenario, metric);
            if kinds.iter().all(|kind| estimate(kind).is_none()) {
                continue;
            }
            let name = match metric.unit {
                "" => metric.label.to_owned(),
                unit => format!("{}, {unit}", metric.label),
            };
            let mut row = vec![name];
            row.extend(
                kinds
                    .iter()
                    .map(|kind| estimate(kind).map_or_else(dash, spread)),
            );
            row.extend(others().map(|kind| {
                let ratio = self.measured.ratio(*kind, scenario, metric);
                ratio.map_or_else(dash, interval)
            }));
            row.push(self.goals(scenario, metric));
            rows.push(row);
        }
        rows
    }

    fn goals(&self, scenario: &Scenario, metric: &Metric) -> String {
        let verdicts = self.measured.verdicts(scenario, metric);
        let goals = verdicts.iter().map(|verdict| {
            let goal = verdict.goal;
            let against = goal.against.map(|kind| format!(" × {}", short(kind)));
            format!(
                "≤ {}{}: {}",
                digits(goal.at_most),
                against.unwrap_or_default(),
                verdict.outcome
            )
        });
        goals.collect::<Vec<_>>().join("; ")
    }

    /// The table between the marks in the README `text`, replaced by that of this run.
    pub(super) fn in_readme(&self, text: &str) -> Option<String> {
        let (before, rest) = text.split_once(README_BEGIN)?;
        let (_, after) = rest.split_once(README_END)?;
        let summary = self.summary();
        let machine = self.machine.facts.iter();
        let fact = |wanted| {
            let fact = machine.clone().find(|(name, _)| *name == wanted);
            fact.map_or("", |(_, text)| text.as_str())
        };
        let (processor, cores, commit) = (fact("processor"), fact("cores"), fact("commit"));
        Some(format!(
            "{before}{README_BEGIN}\n{} rounds at commit {commit} on {cores} cores of {processor}:\n\n\
             {summary}{README_END}{after}",
            self.rounds
        ))
    }

    /// Writes the tables, the JSON and the charts.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let mut charts = String::new();
        for (ending, title, unit, paths) in CHARTS {
            let name = format!("{}-{ending}", self.name);
            let groups = self.groups(paths);
            if groups.is_empty() {
                continue;
            }
            let chart = Chart {
                title: title.to_owned(),
                subtitle: format!("{unit}; 95 % confidence"),
                series: self
                    .measured
                    .kinds()
                    .map(|k| k.title().to_owned())
                    .collect(),
                groups,
            };
            fs::write(folder.join(&name).with_extension("svg"), chart.svg())?;
            let _ = writeln!(charts, "![{title}]({name}.svg)\n");
        }
        let file = folder.join(self.name);
        fs::write(file.with_extension("md"), self.markdown(&charts))?;
        let json = json!({
            "machine": self.machine.json(),
            "method": self.method,
            "scenarios": self.measured.json(),
        });
        let json = serde_json::to_string_pretty(&json)?;
        fs::write(file.with_extension("json"), json + "\n")?;
        Ok(())
    }

    fn markdown(&self, charts: &str) -> String {
        format!(
            "# {}\n\n{}\n{}\n\nNumbers are means \
             over {} rounds with half the width of their 95 % confidence interval. Ratios are \
             geometric means over the rounds, with their interval; one that contains 1 is \
             inconclusive, and so is a goal within its interval.\n\n## In short\n\n{}\n{charts}{}",
            match self.name {
                CLUSTER => "Three brokers: riverrun and Apache Kafka",
                _ => "Whole brokers: riverrun, Apache Kafka and the floor",
            },
            self.machine.markdown(),
            self.method,
            self.rounds,
            self.summary(),
            self.text(),
        )
    }

    /// The dots of each scenario that has these metrics.
    fn groups(&self, paths: &[&str]) -> Vec<Group> {
        let mut groups = Vec::new();
        for scenario in self.measured.scenarios() {
            let is_latency = paths.iter().any(|path| path.starts_with("/latency"));
            if is_latency && !PACED.contains(&scenario.name) {
                continue;
            }
            let metrics = scenario.metrics.iter();
            for metric in metrics.filter(|metric| paths.contains(&metric.path)) {
                let mean = |kind| Some(self.measured.estimate(kind, scenario, metric)?.mean);
                let ours = mean(Kind::Riverrun);
                let dots = self.measured.kinds().filter_map(|kind| {
                    let estimate = self.measured.estimate(kind, scenario, metric)?;
                    // A floor that riverrun is below was disturbed, and is none.
                    let is_none =
                        kind == Kind::Floor && ours.is_some_and(|ours| ours < estimate.mean);
                    let is_shown = estimate.mean > 0.0 && !is_none;
                    is_shown.then(|| (estimate, digits(estimate.mean)))
                });
                let dots: Vec<_> = dots.collect();
                if dots.is_empty() {
                    continue;
                }
                let label = if paths.len() == 1 {
                    scenario.name.to_owned()
                } else {
                    format!("{}: {}", scenario.name, metric.label)
                };
                groups.push(Group { label, dots });
            }
        }
        groups
    }
}

/// Cells as a Markdown table with columns as wide as their widest cell.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "| {cell:width$} ");
        }
        out.push_str("|\n");
        if index == 0 {
            for width in &widths {
                let _ = write!(out, "|{:-<1$}", "", width + 2);
            }
            out.push_str("|\n");
        }
    }
    out
}

fn dash() -> String {
    "-".to_owned()
}

const fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::Kafka => "Kafka",
        Kind::Riverrun => "riverrun",
        Kind::Floor => "floor",
        Kind::Before => "before",
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

/// A ratio and the ends of its interval.
fn interval(ratio: Estimate) -> String {
    if !ratio.high.is_finite() {
        return digits(ratio.mean);
    }
    let (low, high) = (digits(ratio.low), digits(ratio.high));
    let undecided = ratio.low <= 1.0 && ratio.high >= 1.0;
    let remark = if undecided { ", inconclusive" } else { "" };
    format!("{} ({low} to {high}{remark})", digits(ratio.mean))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["", "µs"], ["time", "1.5"]].map(|row| row.map(str::to_owned).to_vec());
        let expect = "|      | µs  |\n|------|-----|\n| time | 1.5 |\n";
        assert_eq!(table(&rows), expect);
    }

    #[test]
    fn an_interval_around_one_is_inconclusive() {
        let estimate = |mean, low, high| Estimate { mean, low, high };
        assert_eq!(interval(estimate(0.2, 0.1, 0.4)), "0.200 (0.100 to 0.400)");
        let text = interval(estimate(0.9, 0.8, 1.1));
        assert_eq!(text, "0.900 (0.800 to 1.10, inconclusive)");
        assert_eq!(interval(estimate(0.9, 0.0, f64::INFINITY)), "0.900");
    }
}
