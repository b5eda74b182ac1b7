//! Child processes: run to the end with captured output, or watched line by line against a
//! deadline.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Lines of a log that are shown when its process fails.
const SHOWN_LOG_LINES: usize = 25;

/// Runs a command to its end; its output shows only in the error of one that fails.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// Runs a command to its end and returns what it wrote to standard output.
pub fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{:?} ended with {}\n{stdout}{}",
        command.get_program(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(stdout)
}

/// Runs a command to its end, at most for `limit`, and returns what it wrote to standard output. Its
/// standard error is appended to the file `log`, whose end is in the error of one that fails.
pub fn output_within(command: &mut Command, log: &Path, limit: Duration) -> Result<String> {
    let deadline = Instant::now() + limit;
    let mark = LogMark::at_end_of(log);
    let process = Watched::start(command, log)?;
    let mut output = String::new();
    let status = loop {
        match process.next(deadline) {
            Step::Line(line) => {
                output.push_str(&line);
                output.push('\n');
            }
            Step::End => break process.finish(deadline)?,
            Step::TimedOut => break None,
        }
    };
    let name = command.get_program();
    match status {
        Some(status) if status.success() => Ok(output),
        Some(status) => bail!("{name:?} ended with {status}\n{output}{}", mark.tail()),
        None => bail!(
            "{name:?} is not done after {limit:?}\n{output}{}",
            mark.tail()
        ),
    }
}

/// A log that several processes write one after the other, seen from where the latest begins.
#[derive(Clone, Debug)]
pub struct LogMark {
    path: PathBuf,
    start_bytes: u64,
}

impl LogMark {
    /// Marks the present end of the log, which need not exist yet.
    pub fn at_end_of(path: &Path) -> Self {
        let start_bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        Self {
            path: path.to_owned(),
            start_bytes,
        }
    }

    /// The last lines after the mark, for people.
    pub fn tail(&self) -> String {
        let text = fs::read(&self.path).unwrap_or_default();
        let start = usize::try_from(self.start_bytes).unwrap_or(usize::MAX);
        let text = String::from_utf8_lossy(text.get(start..).unwrap_or_default());
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..];
        format!(
            "the end of {}:\n{}\n",
            self.path.display(),
            shown.join("\n")
        )
    }
}

/// What a watched process did next.
#[derive(Debug)]
pub enum Step {
    /// It wrote a line to standard output.
    Line(String),
    /// It closed its standard output.
    End,
    /// The deadline passed first.
    TimedOut,
}

/// A process whose standard output is read line by line; dropping it kills the process.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Watched {
    /// Starts the command; its standard error is appended to the file `log`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        Self::start_reading(command.stdin(Stdio::null()), log)
    }

    /// The same for a program that is told what to do, by [`Watched::say`].
    pub fn start_with_input(command: &mut Command, log: &Path) -> Result<Self> {
        Self::start_reading(command.stdin(Stdio::piped()), log)
    }

    fn start_reading(command: &mut Command, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        Ok(Self {
            input: child.stdin.take(),
            child,
            lines: read_lines(stdout),
        })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process has ended, if it has.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Writes a line to the program's standard input.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the program has an input")?;
        writeln!(input, "{line}").context("the program reads no more")
    }

    /// Ends the program's standard input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Waits for the next line until `deadline`.
    pub fn next(&self, deadline: Instant) -> Step {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Step::Line(line),
            Err(RecvTimeoutError::Disconnected) => Step::End,
            Err(RecvTimeoutError::Timeout) => Step::TimedOut,
        }
    }

    /// Waits for the process to end by itself until `deadline`, and kills it then.
    pub fn finish(mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            if sender
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    receiver
}
