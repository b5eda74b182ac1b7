//! `interop/exceptions.txt`: the scenarios that riverrun is not yet held to.
//!
//! A line is `SUITE/SCENARIO  REASON`; a scenario that ends in `*` stands for all that start so, and
//! `#` starts a comment. A line without
//! a reason is an error.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The lines of the file.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    lines: Vec<(String, String)>,
}

impl Exceptions {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let (name, reason) = line
                    .split_once(char::is_whitespace)
                    .with_context(|| format!("`{line}` gives no reason"))?;
                Ok((name.to_owned(), reason.trim().to_owned()))
            })
            .collect::<Result<_>>()?;
        Ok(Self { lines })
    }

    /// The reason to leave a scenario out, if there is one.
    pub(crate) fn reason(&self, suite: &str, scenario: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|(name, _)| {
                name.split_once('/').is_some_and(|(named_suite, named)| {
                    let matches = match named.strip_suffix('*') {
                        Some(start) => scenario.starts_with(start),
                        None => scenario == named,
                    };
                    named_suite == suite && matches
                })
            })
            .map(|(_, reason)| reason.as_str())
    }
}
