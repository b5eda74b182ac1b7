//! What can be typed.

use crate::bench::BenchArguments;
use crate::commands::cluster::ClusterArguments;
use crate::commands::config::ConfigArguments;
use crate::commands::group::GroupArguments;
use crate::commands::partition::PartitionArguments;
use crate::commands::profile::ProfileArguments;
use crate::commands::quota::QuotaArguments;
use crate::commands::topic::TopicArguments;
use crate::commands::transaction::TransactionArguments;
use crate::commands::user::UserArguments;
use crate::consume::ConsumeArguments;
use crate::dump_log::DumpLogArguments;
use crate::produce::ProduceArguments;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
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
    /// Run a broker, a controller, or both
    Server(ServerArguments),
    /// Create, list, describe, grow, trim and delete topics
    Topic(TopicArguments),
    /// Send records
    Produce(ProduceArguments),
    /// Print records
    Consume(ConsumeArguments),
    /// Show offsets, reassign replicas and elect leaders of partitions
    Partition(PartitionArguments),
    /// List, describe and delete consumer groups, and set their offsets
    Group(GroupArguments),
    /// List and describe transactions, and abort hanging ones
    Transaction(TransactionArguments),
    /// Show and change configuration
    Config(ConfigArguments),
    /// List and change client quotas
    Quota(QuotaArguments),
    /// List, create and delete SCRAM credentials
    User(UserArguments),
    /// Show and check the cluster, reassign replicas, drain and unregister brokers, change features
    Cluster(ClusterArguments),
    /// Manage connection profiles
    Profile(ProfileArguments),
    /// Measure how fast records are written, read and delivered
    Bench(BenchArguments),
    /// Show and check the files of partitions and log directories
    DumpLog(DumpLogArguments),
    /// Print a completion script for a shell
    Completion(CompletionArguments),
}

/// The arguments of `server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// A Kafka server.properties; without one, a single node on 127.0.0.1:9092 with its data in
    /// ./riverrun-data
    pub(crate) properties: Option<PathBuf>,
    /// Set a configuration key; takes precedence over the file and KAFKA_* environment variables
    #[arg(long = "set", visible_alias = "override", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The arguments of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell
    pub(crate) shell: Shell,
}
