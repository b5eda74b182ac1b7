//! The project's automation: `cargo xtask COMMAND [ARGUMENT...]`, one module per command.
//!
//! What checks the sources, and what runs other people's programs, are programs of their own, started here.
//! Nothing links the server, so `cargo xtask tidy` is there in seconds.
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]

mod compat;
mod fuzz;
mod hunt;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", about, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check the rules of the source that a machine can check
    Tidy,
    /// Write docs/compat.md from the table of served APIs
    Compat,
    /// Run other people's clients and tools against the server
    #[command(disable_help_flag = true)]
    Interop(Arguments),
    /// Measure riverrun beside Apache Kafka
    #[command(disable_help_flag = true)]
    Bench(Arguments),
    /// Fuzz every parser
    Fuzz(fuzz::Options),
    /// Run every random test with fresh seeds
    Hunt(hunt::Options),
}

/// What another program reads.
#[derive(Debug, clap::Args)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    harness::exit_code(run(CommandLine::parse().task))
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Tidy => become_program("tidy", &[]),
        Task::Compat => compat::run(),
        Task::Interop(Arguments { arguments }) => become_program("interop", &arguments),
        Task::Bench(Arguments { arguments }) => become_program("bench", &arguments),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Hunt(options) => hunt::run(options),
    }
}

/// Builds a program of the workspace and becomes it, so that signals and its exit code are its own.
fn become_program(package: &str, arguments: &[OsString]) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--manifest-path"]);
    cargo.arg(harness::workspace_root().join("Cargo.toml"));
    cargo.args(["--package", package, "--"]).args(arguments);
    Err(cargo.exec()).context("cannot run cargo")
}
