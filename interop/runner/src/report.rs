//! What became of each scenario: one line as it ends, and the counts at the end.

use std::time::Duration;

/// The outcomes of one run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Report {
    /// Notes a scenario that passed.
    pub(crate) fn ok(&mut self, name: &str, took: Duration) {
        self.passed += 1;
        println!("ok       {name} ({:.1}s)", took.as_secs_f64());
    }

    /// Notes a scenario that failed, with the reason below it.
    pub(crate) fn failed(&mut self, name: &str, took: Duration, reason: &str) {
        self.failed.push(name.to_owned());
        println!("FAILED   {name} ({:.1}s)", took.as_secs_f64());
        for line in reason.trim_end().lines() {
            println!("    {line}");
        }
    }

    /// Notes a scenario that an exceptions file leaves out.
    pub(crate) fn excepted(&mut self, name: &str, reason: &str) {
        self.skipped += 1;
        println!("excepted {name}: {reason}");
    }

    /// Notes the outcome of one check that ran here.
    pub(crate) fn outcome(&mut self, name: &str, took: Duration, outcome: &anyhow::Result<()>) {
        match outcome {
            Ok(()) => self.ok(name, took),
            Err(error) => self.failed(name, took, &cause_first(error)),
        }
    }

    /// How many scenarios have failed so far.
    pub(crate) fn failed_count(&self) -> usize {
        self.failed.len()
    }

    /// Prints the names of the failed scenarios and the counts.
    pub(crate) fn print_summary(&self) {
        if !self.failed.is_empty() {
            println!("\nfailed:");
            for name in &self.failed {
                println!("    {name}");
            }
        }
        println!(
            "\n{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped
        );
    }
}

/// What went wrong, then where: the end of a server's log, which is long, must not hide the cause
/// from who sees only the first lines.
fn cause_first(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    parts.reverse();
    parts.join("\n")
}
