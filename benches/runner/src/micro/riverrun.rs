//! riverrun's side: the program `benches/micro`, built in release mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::operation::Operation;
use super::{Effort, Round, evidence_by_name, mean_of};
use harness::process::output_of;

/// The built program.
#[derive(Debug)]
pub(super) struct Riverrun {
    program: PathBuf,
}

impl Riverrun {
    pub(super) fn build(root: &Path) -> Result<Self> {
        Ok(Self {
            program: harness::build(root, "micro", "release")?,
        })
    }

    pub(super) fn evidence(&self) -> Result<BTreeMap<String, String>> {
        let text = output_of(Command::new(&self.program).arg("evidence"))?;
        Ok(evidence_by_name(&text))
    }

    /// One process that measures `operation`.
    pub(super) fn round(&self, operation: &Operation, effort: Effort) -> Result<Round> {
        let Effort {
            samples, sample_ms, ..
        } = effort;
        // Compiled code needs no more warm-up than its caches do.
        let numbers = [sample_ms, sample_ms / 2, samples as u64].map(|n| n.to_string());
        let mut command = Command::new(&self.program);
        let text = output_of(command.args(["run", operation.name]).args(numbers))?;
        let mut times = Vec::new();
        let mut allocated_bytes = None;
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("time", value)) => times.push(value.parse()?),
                Some(("allocated", value)) => allocated_bytes = Some(value.parse()?),
                _ => bail!("benches/micro said `{line}`"),
            }
        }
        Ok(Round {
            nanoseconds: mean_of(&times)?,
            allocated_bytes: allocated_bytes.context("benches/micro counted no allocations")?,
        })
    }
}
