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
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = command_first(std::env::args_os());
    let matches = with_negative_numbers(Arguments::command()).try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    match parsed
        .unwrap_or_else(|error| refuse_arguments(&with_advice(error, &arguments)))
        .command
    {
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
        "--bootstrap-server",
        "-X",
        "--set",
        "--override",
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

/// The command where a negative number is the value of an option, which then says what it takes, and no
/// option that nobody knows.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| match argument.get_action().takes_values() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        })
        .mut_subcommands(with_negative_numbers)
}

/// The error for a value that stands alone, with the option that it was meant for: the one that the command wants.
fn with_advice(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let value = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(value))
            if error.kind() == clap::error::ErrorKind::UnknownArgument =>
        {
            value
        }
        _ => return error,
    };
    let root = Arguments::command();
    let mut command = &root;
    for argument in arguments {
        command = command.find_subcommand(argument).unwrap_or(command);
    }
    let mut wanted = command
        .get_arguments()
        .filter(|one| one.is_required_set() && !one.is_positional());
    let option = wanted.next().and_then(clap::Arg::get_long);
    let Some(option) = option.filter(|_| wanted.next().is_none() && !value.starts_with('-')) else {
        return error;
    };
    let option = format!("--{option}");
    let is_given = arguments.iter().any(|argument| {
        let text = argument.to_string_lossy();
        text.split('=').next() == Some(&*option)
    });
    if !is_given {
        let advice = format!("did you mean `{option} {value}`?");
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}

/// Ends the program for arguments that are not understood, or that ask for help.
fn refuse_arguments(error: &clap::Error) -> ! {
    // The texts of the libraries say nothing to whoever does not program.
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let Some(reason) = number_fault(error) else {
        error.exit();
    };
    let text = error.render().to_string().replace(&source, &reason);
    // Nobody is left to be told that nobody can be told.
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::exit(error.exit_code());
}

/// What is wrong with the number in an argument; none for other errors.
fn number_fault(error: &clap::Error) -> Option<String> {
    let source = error.source()?;
    if let Some(number) = source.downcast_ref::<ParseIntError>() {
        let fault = match number.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            IntErrorKind::NegOverflow => "the number is too small",
            _ => "it is not a whole number",
        };
        return Some(fault.to_owned());
    }
    let text = source.to_string();
    let (_, range) = text.split_once(" is not in ")?;
    let (least, greatest) = range.split_once("..=")?;
    Some(format!("it is not from {least} to {greatest}"))
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
