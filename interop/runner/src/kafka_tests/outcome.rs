//! What became of a test, as the virtual machine says it in a line.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

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
