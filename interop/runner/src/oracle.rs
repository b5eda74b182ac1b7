//! A Java program that answers questions, a line each: `ok TEXT`, or `error REASON`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The program, running.
pub(super) struct Oracle {
    child: Child,
    questions: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the program, whose standard error goes to `log`.
    pub(super) fn start(mut program: Command, log: &Path) -> Result<Self> {
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()
            .with_context(|| format!("cannot run {program:?}"))?;
        let questions = child.stdin.take().context("standard input is piped")?;
        let answers = child.stdout.take().context("standard output is piped")?;
        Ok(Self {
            child,
            questions: BufWriter::new(questions),
            answers: BufReader::new(answers),
        })
    }

    /// The text that answers a question, or Kafka's reason to have none.
    pub(super) fn ask(&mut self, question: &str) -> Result<Result<String, String>> {
        writeln!(self.questions, "{question}")?;
        self.questions.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end().split_once(' ') {
            Some(("ok", text)) => Ok(Ok(text.to_owned())),
            Some(("error", reason)) => Ok(Err(reason.to_owned())),
            _ if answer.trim_end() == "ok" => Ok(Ok(String::new())),
            _ => bail!("the oracle answered `{answer}` to `{question}`"),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).context("a hexadecimal digit");
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Ok(u8::try_from(digit(*high)? * 16 + digit(*low)?)?),
            _ => bail!("half a byte"),
        })
        .collect()
}
