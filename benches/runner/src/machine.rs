//! Where numbers come from: processor, kernel, toolchains, commit and command.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use harness::process::output_of;

/// What a reader needs to judge or to repeat a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Facts in the order in which reports show them: name and text.
    pub(crate) facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// The machine this runs on, the commit of the source under `root`, and the command as it was
    /// typed.
    pub(crate) fn here(root: &Path) -> Result<Self> {
        let mut command = "cargo xtask bench".to_owned();
        std::env::args()
            .skip(1)
            .for_each(|argument| command += &format!(" {argument}"));
        let git =
            |arguments: &[&str]| output_of(Command::new("git").args(arguments).current_dir(root));
        let mut commit = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
        let changed = git(&[
            "status",
            "--porcelain",
            "--",
            "Cargo.lock",
            "crates",
            "benches/macrobench",
            "benches/streamsbench",
            "benches/micro",
        ])?;
        if !changed.is_empty() {
            commit.push_str(" with local changes");
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = value_of("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let java = output_of(Command::new("java").arg("--version"))?;
        let facts = vec![
            (
                "date",
                output_of(Command::new("date").args(["-u", "+%F %R UTC"]))?,
            ),
            (
                "processor",
                value_of("/proc/cpuinfo", "model name").unwrap_or_default(),
            ),
            ("cores", cores.to_string()),
            ("memory", memory),
            ("kernel", kernel),
            ("rust", output_of(Command::new("rustc").arg("--version"))?),
            ("java", java.lines().nth(1).unwrap_or_default().to_owned()),
            ("commit", commit),
            ("command", command),
        ];
        let trimmed = facts
            .into_iter()
            .map(|(name, text)| (name, text.trim().to_owned()));
        Ok(Self {
            facts: trimmed.collect(),
        })
    }

    /// The facts as a Markdown list.
    pub(crate) fn markdown(&self) -> String {
        let lines = self
            .facts
            .iter()
            .map(|(name, text)| format!("- {name}: {text}\n"));
        lines.collect()
    }

    /// The facts as a JSON object.
    pub(crate) fn json(&self) -> Value {
        let entries = self.facts.iter();
        entries
            .map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())))
            .collect()
    }
}

/// The text after `name` and a colon, in the first line of a file under `/proc` that has it.
fn value_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}
