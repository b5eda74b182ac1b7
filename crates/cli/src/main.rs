//! The one binary `riverrun`: parse, match, run.

mod arguments;
mod dump_log;
mod output;
mod server;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
    }
}

/// Ends a command that could not do what it was asked for.
fn fail(reason: &str) -> ExitCode {
    complain(reason);
    ExitCode::FAILURE
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs a command reads why it failed"
)]
fn complain(reason: &str) {
    eprintln!("error: {reason}");
}
