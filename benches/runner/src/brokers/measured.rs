//! What all rounds have said: estimates per server, ratios between servers, and the goals.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::statistics::Estimate;
use super::peer::Kind;
use super::round::Results;
use super::scenario::{Goal, Metric, SCENARIOS, Scenario};

/// The results of each round, per server.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured(BTreeMap<Kind, Vec<Results>>);

/// A goal and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) goal: Goal,
    pub(super) outcome: &'static str,
}

impl Measured {
    /// Adds a server's part of a round.
    pub(super) fn push(&mut self, kind: Kind, results: Results) {
        self.0.entry(kind).or_default().push(results);
    }

    /// The scenarios that have results.
    pub(super) fn scenarios(&self) -> impl Iterator<Item = &'static Scenario> {
        SCENARIOS.iter().filter(|scenario| {
            let mut rounds = self.0.values().flatten();
            rounds.any(|results| results.contains_key(scenario.name))
        })
    }

    /// The servers that have results.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.keys().copied()
    }

    /// The numbers of each round; `None` unless every round has one.
    fn rounds(&self, kind: Kind, scenario: &Scenario, metric: &Metric) -> Option<Vec<f64>> {
        let rounds = self.0.get(&kind)?.iter().map(|results| {
            let value = results.get(scenario.name)?.pointer(metric.path)?.as_f64()?;
            Some(value * metric.factor)
        });
        rounds.collect()
    }

    /// A server's number.
    pub(super) fn estimate(
        &self,
        kind: Kind,
        scenario: &Scenario,
        metric: &Metric,
    ) -> Option<Estimate> {
        Some(Estimate::of(&self.rounds(kind, scenario, metric)?))
    }

    /// How many times riverrun's number is that of the server `against`.
    pub(super) fn ratio(
        &self,
        against: Kind,
        scenario: &Scenario,
        metric: &Metric,
    ) -> Option<Estimate> {
        let ours = self.rounds(Kind::Riverrun, scenario, metric)?;
        let theirs = self.rounds(against, scenario, metric)?;
        let is_positive = |rounds: &[f64]| rounds.iter().all(|value| *value > 0.0);
        let comparable = is_positive(&ours) && is_positive(&theirs) && against != Kind::Riverrun;
        comparable.then(|| Estimate::of_ratio(&ours, &theirs))
    }

    /// What became of a metric's goals.
    pub(super) fn verdicts(&self, scenario: &Scenario, metric: &Metric) -> Vec<Verdict> {
        let verdicts = metric.goals.iter().filter_map(|&goal| {
            let judged = match goal.against {
                Some(against) => self.ratio(against, scenario, metric)?,
                None => self.estimate(Kind::Riverrun, scenario, metric)?,
            };
            Some(Verdict {
                goal,
                outcome: outcome(judged, goal.at_most),
            })
        });
        verdicts.collect()
    }

    /// Everything, each window's own result included.
    pub(super) fn json(&self) -> Value {
        let scenarios = self.scenarios().map(|scenario| {
            let metrics = scenario
                .metrics
                .iter()
                .map(|metric| self.metric_json(scenario, metric));
            let rounds: serde_json::Map<String, Value> = self
                .0
                .iter()
                .map(|(kind, rounds)| {
                    let rounds = rounds.iter().map(|results| results.get(scenario.name));
                    (kind.name().to_owned(), json!(rounds.collect::<Vec<_>>()))
                })
                .collect();
            json!({
                "name": scenario.name,
                "about": scenario.about,
                "metrics": metrics.collect::<Vec<_>>(),
                "rounds": rounds,
            })
        });
        scenarios.collect()
    }

    fn metric_json(&self, scenario: &Scenario, metric: &Metric) -> Value {
        let mut value = json!({ "name": metric.label, "unit": metric.unit });
        for kind in Kind::ALL {
            if let Some(estimate) = self.estimate(kind, scenario, metric) {
                value[kind.name()] = estimate.json();
            }
            if let Some(ratio) = self.ratio(kind, scenario, metric) {
                value[format!("riverrun_to_{}", kind.name())] = ratio.json();
            }
        }
        let goals = self.verdicts(scenario, metric);
        value["goals"] = goals
            .iter()
            .map(|verdict| {
                json!({
                    "against": verdict.goal.against.map(Kind::name),
                    "at_most": verdict.goal.at_most,
                    "outcome": verdict.outcome,
                })
            })
            .collect();
        value
    }
}

/// Whether a number keeps a limit; an interval around the limit decides nothing.
fn outcome(judged: Estimate, at_most: f64) -> &'static str {
    if judged.high <= at_most {
        "met"
    } else if judged.low > at_most {
        "not met"
    } else {
        "inconclusive"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kafka: &[f64], riverrun: &[f64]) -> Measured {
        let mut measured = Measured::default();
        for (kind, rounds) in [(Kind::Kafka, kafka), (Kind::Riverrun, riverrun)] {
            for start_ms in rounds {
                let results = Results::from([("start", json!({ "start_ms": start_ms }))]);
                measured.push(kind, results);
            }
        }
        measured
    }

    fn check(kafka: &[f64], riverrun: &[f64], expect: &[&str]) {
        let measured = measured(kafka, riverrun);
        let scenario = measured.scenarios().next().unwrap();
        let verdicts = measured.verdicts(scenario, &scenario.metrics[0]);
        let outcomes: Vec<&str> = verdicts.iter().map(|verdict| verdict.outcome).collect();
        assert_eq!(outcomes, expect);
    }

    #[test]
    fn a_goal_is_decided_by_the_whole_interval() {
        check(&[1000.0, 1100.0], &[10.0, 11.0], &["met"]);
        check(&[1000.0, 1100.0], &[100.0, 110.0], &["not met"]);
        check(&[1000.0, 1000.0], &[40.0, 60.0], &["inconclusive"]);
        check(&[1000.0], &[10.0], &["inconclusive"]);
        check(&[], &[10.0], &[]);
    }
}
