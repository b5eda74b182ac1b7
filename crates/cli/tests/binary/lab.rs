//! A server, and the commands of operators that talk to it.

use crate::process::{BINARY, Process};
use expect_test::Expect;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

/// A server, and commands that talk to it.
pub(crate) struct Lab {
    pub(crate) process: Process,
    pub(crate) directory: trials::Directory,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A server with these settings.
    pub(crate) fn with(keys: &[(&str, &str)]) -> Self {
        let directory = trials::directory();
        Self {
            process: Process::start(directory.path(), keys),
            directory,
        }
    }

    /// Starts a command that reads from a pipe.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env("RIVERRUN_BROKERS", self.process.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs a command that reads `input`.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.spawn(arguments);
        // A command that does not read has ended by now.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What a command prints, apart from random ids.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str], expected: Expect) {
        self.prints_from(arguments, "", expected);
    }

    #[track_caller]
    pub(crate) fn prints_from(&self, arguments: &[&str], input: &str, expected: Expect) {
        let output = self.run(arguments, input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {error}");
        expected.assert_eq(&String::from_utf8(output.stdout).unwrap());
    }

    /// A command that fails, and what it says.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], expected: Expect) {
        let output = self.run(arguments, "");
        assert!(!output.status.success(), "{arguments:?}");
        expected.assert_eq(&String::from_utf8(output.stderr).unwrap());
    }
}
