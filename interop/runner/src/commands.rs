//! Suite `commands`: riverrun's commands against the server under test. `interop/commands.txt` says
//! what each prints, so they print the same whether riverrun or Apache Kafka serves.
//!
//! ```text
//!   == NAME          a scenario
//!   $ topic list     a command of `riverrun`; words in quotes stay together
//!   < text           a line of its standard input
//!   text             a line of its standard output; `! text` of the standard error
//! ```
//!
//! `<ADDRESS>` stands for where the server listens, `<ID>` for a random id. A command fails if, and only if, a line of
//! its standard error begins with `error:`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::run::Run;

const SUITE: &str = "commands";

/// A scenario: its name and the lines below it.
#[derive(Debug)]
struct Transcript {
    name: String,
    steps: Vec<Step>,
}

/// A command and all that goes in and comes out.
#[derive(Debug, Default)]
struct Step {
    command: String,
    input: String,
    expected: Vec<String>,
}

/// The names of the scenarios.
pub(crate) fn list(run: &mut Run) -> Result<Vec<String>> {
    let transcripts = read(&run.source("commands.txt"))?;
    Ok(transcripts.into_iter().map(|one| one.name).collect())
}

/// Runs the scenarios that are asked for, one after the other, against one server.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let transcripts = read(&run.source("commands.txt"))?;
    let binary = run.riverrun()?;
    let server = run.start(SUITE, &[])?;
    let bootstrap = server.bootstrap();
    for transcript in &transcripts {
        run.scenario(SUITE, &transcript.name, |_| {
            for step in &transcript.steps {
                check(&binary, &bootstrap, step)?;
            }
            Ok(())
        });
    }
    run.stop_and_read(SUITE, server)
}

fn read(path: &Path) -> Result<Vec<Transcript>> {
    let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    let mut transcripts: Vec<Transcript> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            transcripts.push(Transcript {
                name: name.to_owned(),
                steps: Vec::new(),
            });
            continue;
        }
        let Some(transcript) = transcripts.last_mut() else {
            ensure!(line.is_empty(), "`{line}` is before the first scenario");
            continue;
        };
        if let Some(command) = line.strip_prefix("$ ") {
            transcript.steps.push(Step {
                command: command.to_owned(),
                ..Step::default()
            });
        } else if let Some(step) = transcript.steps.last_mut() {
            match line.strip_prefix("< ") {
                Some(input) => step.input.push_str(&format!("{input}\n")),
                None if line.is_empty() => {}
                None => step.expected.push(line.to_owned()),
            }
        }
    }
    Ok(transcripts)
}

/// Runs a command and compares what it prints.
fn check(binary: &Path, bootstrap: &str, step: &Step) -> Result<()> {
    let mut child = Command::new(binary)
        .args(words(&step.command)?)
        .env("RIVERRUN_BROKERS", bootstrap)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let mut input = child.stdin.take().context("standard input is piped")?;
    // A command that does not read may have ended by now.
    let _ = input.write_all(step.input.as_bytes());
    drop(input);
    let output = child.wait_with_output()?;
    let lines = |bytes: &[u8], before: &str| {
        let text = without_ids(&String::from_utf8_lossy(bytes));
        let text = text.replace(bootstrap, "<ADDRESS>");
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| format!("{before}{line}"))
            .collect::<Vec<_>>()
    };
    let mut printed = lines(&output.stdout, "");
    printed.extend(lines(&output.stderr, "! "));
    let failed = printed.iter().any(|line| line.starts_with("! error:"));
    ensure!(
        printed == step.expected,
        "`{}` printed\n{}\ninstead of\n{}",
        step.command,
        printed.join("\n"),
        step.expected.join("\n"),
    );
    ensure!(
        failed != output.status.success(),
        "`{}` ended with {}",
        step.command,
        output.status,
    );
    Ok(())
}

/// The text with `<ID>` for each word that is a random id: 22 digits to the base of 64.
fn without_ids(text: &str) -> String {
    const ID_DIGITS: usize = 22;
    let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_digit(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        result.push_str(before);
        // An error's name may be as long, and has capitals only.
        let is_id = word.len() == ID_DIGITS && word.contains(|c: char| c.is_ascii_lowercase());
        result.push_str(if is_id { "<ID>" } else { word });
        rest = after;
    }
    result + rest
}

/// A command's words: parted by spaces, but for those within single quotes.
fn words(command: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => match quoted.split_once('\'') {
                Some(parts) => parts,
                None => bail!("`{command}` ends within quotes"),
            },
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}
