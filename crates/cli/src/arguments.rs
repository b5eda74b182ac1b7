//! What can be typed.

use crate::dump_log::DumpLogArguments;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Apache Kafka as one small, fast program.
#[derive(Debug, Parser)]
#[command(name = "riverrun", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a broker and controller
    Server(ServerArguments),
    /// Show and check the files of a log directory
    DumpLog(DumpLogArguments),
}

/// The arguments of `server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// A Kafka server.properties; without one, a single node on 127.0.0.1:9092 with its data in
    /// ./riverrun-data
    pub(crate) properties: Option<PathBuf>,
    /// Set a configuration key, over the file and the KAFKA_* environment
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}
