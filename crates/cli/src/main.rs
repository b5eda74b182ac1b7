//! The one binary `riverrun`: parse, match, run.

mod arguments;
mod bench;
mod commands;
mod connect;
mod consume;
mod dump_log;
mod output;
mod place;
mod produce;
mod server;
mod time;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Topic(arguments) => commands::topic::main(&arguments),
        Command::Produce(arguments) => produce::main(&arguments),
        Command::Consume(arguments) => consume::main(&arguments),
        Command::Group(arguments) => commands::group::main(&arguments),
        Command::Transaction(arguments) => commands::transaction::main(&arguments),
        Command::Config(arguments) => commands::config::main(&arguments),
        Command::Cluster(arguments) => commands::cluster::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
        Command::Completion(arguments) => {
            let mut command = Arguments::command();
            clap_complete::generate(
                arguments.shell,
                &mut command,
                "riverrun",
                &mut std::io::stdout(),
            );
            ExitCode::SUCCESS
        }
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

/// Tells people what happened, apart from what the command prints.
#[expect(
    clippy::print_stderr,
    reason = "the standard output is for what was asked for"
)]
fn tell(text: &str) {
    eprintln!("{text}");
}
