//! `riverrun partition`: offsets, replicas and leaders of partitions.

use super::places::{partitions_of, positions, topics_named, within};
use crate::connect::{ConnectionArguments, Failure, Stdout, run, succeeded};
use crate::output::Row;
use crate::place::Place;
use clap::{Args, Subcommand};
use model::{BrokerId, ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{Admin, ElectionKind, PerKey};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// The arguments of `partition`.
#[derive(Debug, Args)]
pub(crate) struct PartitionArguments {
    #[command(subcommand)]
    command: PartitionCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Some partitions of some topics.
#[derive(Debug, Args)]
struct Chosen {
    /// The topics; a regular expression such as 'or.*' stands for those that it matches
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Only these partitions
    #[arg(short, long, value_delimiter = ',', value_name = "PARTITIONS")]
    partitions: Vec<i32>,
}

#[derive(Debug, Subcommand)]
enum PartitionCommand {
    /// Show the start and end offsets of partitions, or the offset at a position or time
    Offsets {
        #[command(flatten)]
        chosen: Chosen,
        /// Show the offset at this position: start, end, OFFSET, -COUNT, +COUNT, @TIMESTAMP,
        /// @2026-11-21T08:30:00Z or @-1h
        #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
        at: Option<Place>,
    },
    /// Reassign replicas
    Reassign {
        #[command(flatten)]
        chosen: Chosen,
        /// The replicas of each partition, the preferred leader first
        #[arg(
            long,
            required = true,
            value_delimiter = ',',
            value_name = "BROKERS",
            id = "replicas"
        )]
        to: Vec<BrokerId>,
    },
    /// Cancel ongoing reassignments
    CancelReassign {
        #[command(flatten)]
        chosen: Chosen,
    },
    /// List ongoing reassignments
    Reassignments,
    /// Elect the preferred leaders of partitions
    #[command(group(clap::ArgGroup::new("which").required(true).args(["topics", "all"])))]
    Elect {
        /// The topics; a regular expression stands for those that it matches
        #[arg(value_name = "TOPIC")]
        topics: Vec<String>,
        /// Only these partitions
        #[arg(short, long, value_delimiter = ',', value_name = "PARTITIONS")]
        partitions: Vec<i32>,
        /// Every partition of the cluster
        #[arg(long, conflicts_with = "partitions")]
        all: bool,
        /// Unclean election: elect any live replica if none is in sync; acknowledged records may be
        /// lost
        #[arg(long)]
        unclean: bool,
    },
}

/// Runs the command.
pub(crate) fn main(arguments: &PartitionArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            PartitionCommand::Offsets { chosen, at } => {
                let partitions = partitions(&admin, &chosen.topics, &chosen.partitions).await?;
                match at {
                    Some(place) => offsets_at(&admin, &partitions, *place, output).await,
                    None => ends(&admin, &partitions, output).await,
                }
            }
            PartitionCommand::Reassign { chosen, to } => {
                reassign(&admin, chosen, Some(to.clone()), output).await
            }
            PartitionCommand::CancelReassign { chosen } => {
                reassign(&admin, chosen, None, output).await
            }
            PartitionCommand::Reassignments => reassignments(&admin, output).await,
            PartitionCommand::Elect {
                topics,
                partitions: indexes,
                all,
                unclean,
            } => {
                let chosen = match all {
                    true => None,
                    false => Some(partitions(&admin, topics, indexes).await?),
                };
                elect(&admin, chosen, *unclean, output).await
            }
        }
    };
    run(command, connection.output)
}

async fn partitions(
    admin: &Admin,
    topics: &[String],
    indexes: &[i32],
) -> Result<Vec<TopicPartition>, Failure> {
    let mut chosen = Vec::new();
    for topic in &topics_named(admin, topics).await? {
        chosen.extend(partitions_of(admin, topic, indexes).await?);
    }
    Ok(chosen)
}

fn row_of(partition: &TopicPartition) -> Row {
    Row::new()
        .with("topic", partition.topic.as_str())
        .with("partition", partition.partition)
}

async fn offsets_at(
    admin: &Admin,
    partitions: &[TopicPartition],
    place: Place,
    mut output: Stdout,
) -> Result<(), Failure> {
    let offsets = within(&positions(admin, partitions, place).await?);
    let rows: Vec<Row> = offsets
        .iter()
        .map(|(partition, offset)| row_of(partition).with("offset", *offset))
        .collect();
    output.table(&rows)?;
    Ok(output.flush()?)
}

async fn ends(
    admin: &Admin,
    partitions: &[TopicPartition],
    mut output: Stdout,
) -> Result<(), Failure> {
    let starts = within(&positions(admin, partitions, Place::Start).await?);
    let ends = within(&positions(admin, partitions, Place::End).await?);
    let rows: Vec<Row> = starts
        .iter()
        .map(|(partition, start)| {
            row_of(partition)
                .with("logStartOffset", *start)
                .with("logEndOffset", ends.get(partition).copied())
        })
        .collect();
    output.table(&rows)?;
    Ok(output.flush()?)
}

async fn reassign(
    admin: &Admin,
    chosen: &Chosen,
    replicas: Option<Vec<BrokerId>>,
    mut output: Stdout,
) -> Result<(), Failure> {
    let partitions = partitions(admin, &chosen.topics, &chosen.partitions).await?;
    let changes = partitions
        .into_iter()
        .map(|partition| (partition, replicas.clone()));
    let answers = admin
        .alter_partition_reassignments(&changes.collect())
        .await?;
    let (changed, outcome) = succeeded(answers);
    let rows: Vec<Row> = changed
        .iter()
        .map(|(partition, ())| match &replicas {
            Some(replicas) => row_of(partition).with("replicas", replicas.clone()),
            None => row_of(partition).with("reassignment", "cancelled"),
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

async fn reassignments(admin: &Admin, mut output: Stdout) -> Result<(), Failure> {
    let listed = admin.list_partition_reassignments(None).await?;
    let rows: Vec<Row> = listed
        .into_iter()
        .map(|(partition, reassignment)| {
            row_of(&partition)
                .with("replicas", reassignment.replicas)
                .with("adding", reassignment.adding_replicas)
                .with("removing", reassignment.removing_replicas)
        })
        .collect();
    output.list(&rows, "reassignments")?;
    Ok(output.flush()?)
}

async fn elect(
    admin: &Admin,
    chosen: Option<Vec<TopicPartition>>,
    unclean: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let kind = match unclean {
        true => ElectionKind::Unclean,
        false => ElectionKind::Preferred,
    };
    let chosen: Option<BTreeSet<TopicPartition>> = chosen.map(|all| all.into_iter().collect());
    let answers = admin.elect_leaders(kind, chosen.as_ref()).await?;
    let (outcomes, outcome) = succeeded(outcomes(answers));
    let rows: Vec<Row> = outcomes
        .into_iter()
        .map(
            |(partition, is_elected)| match (output.is_json(), is_elected) {
                (true, _) => row_of(&partition).with("elected", is_elected),
                (false, true) => row_of(&partition).with("election", "elected"),
                (false, false) => row_of(&partition).with("election", "not needed"),
            },
        )
        .collect();
    output.list(&rows, "partition needs an election")?;
    output.flush()?;
    outcome
}

/// Whether each was elected; a leader that need not be is as good as one that was.
fn outcomes(answers: PerKey<TopicPartition, ()>) -> BTreeMap<TopicPartition, Result<bool, Error>> {
    let outcome = |answer| match answer {
        Ok(()) => Ok(true),
        Err(Error::Refused {
            code: ErrorCode::ElectionNotNeeded,
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    };
    answers
        .into_iter()
        .map(|(partition, answer)| (partition, outcome(answer)))
        .collect()
}
