//! The project's automation: `cargo xtask COMMAND [ARGUMENT...]`, one module per command.
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]
#![expect(
    clippy::print_stderr,
    reason = "a command's failure goes to standard error"
)]

mod bench;
mod compat;
mod fuzz;
mod hunt;
mod interop;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str =
    "usage: cargo xtask tidy | compat | interop | bench | fuzz | hunt [ARGUMENT...]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    match dispatch(&command, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, arguments: &[String]) -> Result<()> {
    match command {
        "compat" => compat::run(),
        "tidy" => tidy::run(),
        "interop" => interop::run(arguments),
        "bench" => bench::run(arguments),
        "fuzz" => fuzz::run(arguments),
        "hunt" => hunt::run(arguments),
        _ => bail!("{USAGE}"),
    }
}
