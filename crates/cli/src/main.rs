//! The one binary `riverrun`: parse, match, run.

mod arguments;
mod bench;
mod commands;
mod connect;
mod consume;
mod dump_log;
mod encoding;
mod free_memory;
mod output;
mod place;
mod produce;
mod profiles;
mod server;
mod time;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse_from(command_first(std::env::args_os())).command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Topic(arguments) => commands::topic::main(&arguments),
        Command::Produce(arguments) => produce::main(&arguments),
        Command::Consume(arguments) => consume::main(&arguments),
        Command::Partition(arguments) => commands::partition::main(&arguments),
        Command::Group(arguments) => commands::group::main(&arguments),
        Command::Transaction(arguments) => commands::transaction::main(&arguments),
        Command::Config(arguments) => commands::config::main(&arguments),
        Command::Quota(arguments) => commands::quota::main(&arguments),
        Command::User(arguments) => commands::user::main(&arguments),
        Command::Cluster(arguments) => commands::cluster::main(&arguments),
        Command::Profile(arguments) => commands::profile::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
        Command::Completion(arguments) => {
            let (mut command, mut script) = (Arguments::command(), Vec::new());
            clap_complete::generate(arguments.shell, &mut command, "riverrun", &mut script);
            // Whoever reads has seen enough: `riverrun completion bash | head`.
            match std::io::stdout().write_all(&script) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => fail(&error.to_string()),
                _ => ExitCode::SUCCESS,
            }
        }
    }
}

/// The arguments with what says how to connect behind the command, where it is known: people write it
/// before, too.
fn command_first(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const WITH_VALUE: &[&str] = &[
        "-b",
        "--brokers",
        "-X",
        "--set",
        "--timeout",
        "--output",
        "--profile",
    ];
    let mut arguments = arguments;
    let mut ordered: Vec<OsString> = arguments.next().into_iter().collect();
    let mut moved = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        let is_joined = WITH_VALUE.iter().any(|option| {
            let is_long = option.starts_with("--");
            let rest = text.strip_prefix(option);
            rest.is_some_and(|rest| rest.starts_with('=') || !is_long && !rest.is_empty())
        });
        if WITH_VALUE.contains(&&*text) {
            moved.push(argument);
            moved.extend(arguments.next());
        } else if is_joined {
            moved.push(argument);
        } else {
            ordered.push(argument);
            break;
        }
    }
    // A command of commands takes them before its own command as well.
    ordered.extend(moved);
    ordered.extend(arguments);
    ordered
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
