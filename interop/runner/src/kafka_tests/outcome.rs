//! What became of a test, as the virtual machine says it in a line, and of a class of them.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Result, bail};

use super::lists::{Class, Lists};

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) kind: Kind,
    /// `PACKAGE.CLASS#METHOD[NUMBER]`.
    pub(super) test: String,
    pub(super) took_ms: u64,
    pub(super) display: String,
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Passed,
    Failed,
    Skipped,
}

/// A line of the virtual machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Start(String),
    Outcome(Outcome),
    /// The class is done.
    End,
}

impl Line {
    /// Reads a line; none if it is of something else.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once('\t')?;
        let kind = match word {
            "start" => return Some(Self::Start(rest.to_owned())),
            "end" => return Some(Self::End),
            "passed" => Kind::Passed,
            "failed" => Kind::Failed,
            "skipped" => Kind::Skipped,
            _ => return None,
        };
        let mut parts = rest.splitn(4, '\t');
        let test = parts.next()?.to_owned();
        let took_ms = parts.next()?.parse().ok()?;
        let display = parts.next()?.to_owned();
        let reason = parts.next()?.replace('\u{1f}', "\n");
        Some(Self::Outcome(Outcome {
            kind,
            test,
            took_ms,
            display,
            reason,
        }))
    }
}

/// Appends what became of each test to a file, with its reason below it, whether a list has it or not.
pub(super) fn append(path: &Path, outcomes: &[Outcome]) -> Result<()> {
    let mut text = String::new();
    for outcome in outcomes {
        let kind = match outcome.kind {
            Kind::Passed => "passed",
            Kind::Failed => "failed",
            Kind::Skipped => "skipped",
        };
        text.push_str(&format!(
            "{kind} {} ({} ms)\n",
            outcome.test, outcome.took_ms
        ));
        for line in outcome.reason.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// Whether a class is as the lists say: what failed and what skipped itself is on them, and as many
/// tests passed as it has.
pub(super) fn judge(
    class: &Class,
    outcomes: &[Outcome],
    lists: &Lists,
    is_kafka: bool,
) -> Result<()> {
    let mut reasons = Vec::new();
    for outcome in outcomes {
        let is_listed = match outcome.kind {
            Kind::Failed => lists.failure(&outcome.test).is_some(),
            Kind::Skipped => is_kafka || lists.skip(&outcome.reason).is_some(),
            Kind::Passed => true,
        };
        if !is_listed {
            let verb = match outcome.kind {
                Kind::Skipped => "skips itself",
                _ => "failed",
            };
            let (test, display) = (&outcome.test, &outcome.display);
            let reason = outcome.reason.replace('\n', "\n    ");
            reasons.push(format!("{test} ({display}) {verb}:\n    {reason}"));
        }
    }
    let passed = outcomes
        .iter()
        .filter(|one| match one.kind {
            Kind::Passed => true,
            Kind::Failed => lists.also_passes(&one.test),
            Kind::Skipped => false,
        })
        .count();
    if reasons.is_empty() && !is_kafka && class.method.is_none() && passed < class.passed_min {
        reasons.push(format!(
            "{passed} tests passed or may fail, of the {} that classes.txt knows",
            class.passed_min
        ));
    }
    if !reasons.is_empty() {
        bail!("{}", reasons.join("\n"));
    }
    Ok(())
}
