//! The one binary `riverrun`: parse, match, run.

mod arguments;
mod server;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
    }
}
