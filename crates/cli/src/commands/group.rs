//! `riverrun group`: lists, describes, moves and deletes consumer groups.

use super::one_of;
use super::places::{filter_names, groups_named, partitions_of, positions, within};
use crate::connect::{ConnectionArguments, Failure, Stdout, run, succeeded};
use crate::output::Row;
use crate::place::Place;
use clap::{Args, Subcommand};
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{
    Admin, CommittedOffset, GroupDescription, GroupFilter, GroupMember, IsolationLevel, OffsetSpec,
};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The arguments of `group`.
#[derive(Debug, Args)]
pub(crate) struct GroupArguments {
    #[command(subcommand)]
    command: GroupCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// List groups
    #[command(visible_alias = "ls")]
    List {
        /// Only those that one of these regular expressions matches
        #[arg(value_name = "PATTERN")]
        patterns: Vec<String>,
        /// Only groups in one of these states
        #[arg(long, value_delimiter = ',', value_name = "STATE", value_parser = group_state)]
        state: Vec<String>,
    },
    /// Show the offsets, the lag and the members of groups
    #[command(group(clap::ArgGroup::new("which").required(true).args(["groups", "all"])))]
    Describe {
        /// The groups; a regular expression such as 'bill.*' stands for those that it matches
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
        /// All groups
        #[arg(long)]
        all: bool,
        /// Show members instead of offsets
        #[arg(short, long)]
        members: bool,
    },
    /// Set the offsets of a group without members
    #[command(visible_aliases = ["reset", "reset-offsets"])]
    Seek {
        /// The group
        group: String,
        /// start, end, OFFSET, -COUNT (before the end), +COUNT (after the start) or @TIMESTAMP
        #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
        to: Place,
        /// Only these topics; by default all for which the group has offsets
        #[arg(long, alias = "topic", value_delimiter = ',', value_name = "TOPIC")]
        topics: Vec<String>,
        /// Only these partitions of the topics
        #[arg(short, long, value_delimiter = ',', value_name = "PARTITIONS")]
        partitions: Vec<i32>,
        /// Validate only
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete the offsets of a group for topics that no member consumes
    DeleteOffsets {
        /// The group
        group: String,
        /// The topics
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
    },
    /// Delete groups without members
    #[command(visible_alias = "rm")]
    Delete {
        /// The groups
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
    },
}

/// The states of groups of every type.
const STATES: [&str; 8] = [
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Empty",
    "NotReady",
    "Dead",
];

fn group_state(text: &str) -> Result<String, String> {
    one_of(&STATES, text)
}

/// Runs the command.
pub(crate) fn main(arguments: &GroupArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            GroupCommand::List { patterns, state } => list(&admin, patterns, state, output).await,
            GroupCommand::Describe {
                groups,
                all,
                members,
            } => {
                let groups = groups_named(&admin, (!all).then_some(groups)).await?;
                describe(&admin, &groups, *members, output).await
            }
            GroupCommand::Seek {
                group,
                to,
                topics,
                partitions,
                dry_run,
            } => {
                let chosen = chosen(&admin, group, topics, partitions).await?;
                let positions = positions(&admin, &chosen, *to).await?;
                for (partition, position) in &positions {
                    if let Some(fault) = position.fault(partition) {
                        let nearest = position.within();
                        crate::tell(&format!("{fault}; {nearest} is the nearest"));
                    }
                }
                seek(&admin, group, within(&positions), *dry_run, output).await
            }
            GroupCommand::DeleteOffsets { group, topics } => {
                delete_offsets(&admin, group, topics, output).await
            }
            GroupCommand::Delete { groups } => delete(&admin, groups, output).await,
        }
    };
    run(command, connection.output)
}

async fn list(
    admin: &Admin,
    patterns: &[String],
    states: &[String],
    mut output: Stdout,
) -> Result<(), Failure> {
    let filter = GroupFilter {
        states: states.to_vec(),
        ..GroupFilter::default()
    };
    let groups = admin.list_groups(&filter).await?;
    let rows: Vec<Row> = filter_names(patterns, groups, |group| &group.id)?
        .into_iter()
        .map(|group| {
            Row::new()
                .with("group", group.id)
                .with("state", group.state)
                .with("type", group.group_type)
                .with("protocol", group.protocol_type)
                .with("coordinator", group.coordinator)
        })
        .collect();
    match patterns {
        [] => output.list(&rows, "groups")?,
        patterns => output.found(&rows, "group", patterns)?,
    }
    Ok(output.flush()?)
}

async fn describe(
    admin: &Admin,
    groups: &[String],
    members: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let ids: Vec<&str> = groups.iter().map(String::as_str).collect();
    let (described, outcome) = succeeded(admin.describe_groups(&ids).await);
    for (_, group) in described {
        let epochs = group.epochs.map_or_else(String::new, |(epoch, assigned)| {
            format!(", epoch {epoch}, assignment epoch {assigned}")
        });
        output.heading(&format!(
            "Group {}: {}, {} members, assignor {}{epochs}",
            group.id,
            group.state,
            group.members.len(),
            if group.assignor.is_empty() {
                "-"
            } else {
                &group.assignor
            },
        ))?;
        let rows = if members {
            group
                .members
                .iter()
                .map(|member| member_row(&group, member))
                .collect()
        } else {
            offset_rows(admin, &group).await?
        };
        output.table(&rows)?;
    }
    output.flush()?;
    outcome
}

fn member_row(group: &GroupDescription, member: &GroupMember) -> Row {
    let assignment: Vec<String> = member.assignment.iter().map(ToString::to_string).collect();
    let row = Row::new()
        .with("group", group.id.as_str())
        .with("member", member.id.as_str())
        .with("instance", member.instance_id.clone())
        .with("client", member.client_id.as_str())
        .with("host", member.client_host.as_str())
        .with("partitions", assignment);
    match &member.target_assignment {
        // What it is to have, and as of which epoch it has what it has.
        Some(target) => {
            let target: Vec<String> = target.iter().map(ToString::to_string).collect();
            row.with("target", target)
                .with("epoch", member.member_epoch)
        }
        None => row,
    }
}

/// A row for each partition that the group has an offset for or consumes.
async fn offset_rows(admin: &Admin, group: &GroupDescription) -> Result<Vec<Row>, Failure> {
    let committed = admin.list_group_offsets(&group.id, None, false).await?;
    let mut partitions: BTreeMap<TopicPartition, Option<i64>> = group
        .members
        .iter()
        .flat_map(|member| member.assignment.iter().cloned())
        .map(|partition| (partition, None))
        .collect();
    for (partition, offset) in committed {
        partitions.insert(partition, offset?.map(|committed| committed.offset));
    }
    let specs = partitions
        .keys()
        .map(|partition| (partition.clone(), OffsetSpec::Latest));
    let ends = admin
        .list_offsets(&specs.collect(), IsolationLevel::ReadUncommitted)
        .await;
    let row = |(partition, offset): (TopicPartition, Option<i64>)| {
        let end = ends.get(&partition).and_then(|end| end.as_ref().ok());
        let end = end.map(|end| end.offset);
        let owner = group
            .members
            .iter()
            .find(|member| member.assignment.contains(&partition));
        Row::new()
            .with("topic", partition.topic)
            .with("partition", partition.partition)
            .with("committedOffset", offset)
            .with("logEndOffset", end)
            .with(
                "lag",
                offset.zip(end).map(|(offset, end)| (end - offset).max(0)),
            )
            .with("member", owner.map(|member| member.id.clone()))
            .with("host", owner.map(|member| member.client_host.clone()))
    };
    Ok(partitions.into_iter().map(row).collect())
}

/// The partitions that a seek is about.
async fn chosen(
    admin: &Admin,
    group: &str,
    topics: &[String],
    partitions: &[i32],
) -> Result<Vec<TopicPartition>, Failure> {
    let mut chosen = Vec::new();
    for topic in topics {
        chosen.extend(partitions_of(admin, topic, partitions).await?);
    }
    if topics.is_empty() {
        let committed = admin.list_group_offsets(group, None, false).await?;
        let is_wanted = |partition: &TopicPartition| {
            partitions.is_empty() || partitions.contains(&partition.partition)
        };
        chosen.extend(committed.into_keys().filter(is_wanted));
    }
    if chosen.is_empty() {
        return Err(Error::Invalid(format!(
            "group `{group}` has no offsets: name the topics with `--topics`"
        ))
        .into());
    }
    Ok(chosen)
}

async fn seek(
    admin: &Admin,
    group: &str,
    offsets: BTreeMap<TopicPartition, i64>,
    dry_run: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let outcome = if dry_run {
        Ok(())
    } else {
        let committed = offsets
            .iter()
            .map(|(partition, offset)| (partition.clone(), CommittedOffset::at(*offset)))
            .collect();
        succeeded(admin.alter_group_offsets(group, &committed).await?).1
    };
    if outcome.is_ok() {
        let rows: Vec<Row> = offsets
            .into_iter()
            .map(|(partition, offset)| {
                Row::new()
                    .with("topic", partition.topic)
                    .with("partition", partition.partition)
                    .with("offset", offset)
            })
            .collect();
        output.table(&rows)?;
    }
    output.flush()?;
    outcome
}

async fn delete_offsets(
    admin: &Admin,
    group: &str,
    topics: &[String],
    mut output: Stdout,
) -> Result<(), Failure> {
    let committed = admin.list_group_offsets(group, None, false).await?;
    let partitions: Vec<TopicPartition> = committed
        .into_keys()
        .filter(|partition| topics.contains(&partition.topic))
        .collect();
    if partitions.is_empty() {
        let text = format!("group `{group}` has no offsets for {}", topics.join(", "));
        return Err(Error::Invalid(text).into());
    }
    let (deleted, outcome) = succeeded(admin.delete_group_offsets(group, &partitions).await?);
    let rows: Vec<Row> = deleted
        .into_iter()
        .map(|(partition, ())| Row::new().with("deleted", partition.to_string()))
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

async fn delete(admin: &Admin, groups: &[String], mut output: Stdout) -> Result<(), Failure> {
    let ids: Vec<&str> = groups.iter().map(String::as_str).collect();
    let mut answers = admin.delete_groups(&ids).await;
    for (group, answer) in &mut answers {
        if let Err(Error::Refused {
            code: ErrorCode::NonEmptyGroup,
            message,
            ..
        }) = answer
        {
            let advice = format!(
                "it has members, which `riverrun group describe {group} --members` shows: stop them first"
            );
            message.get_or_insert(advice);
        }
    }
    let (deleted, outcome) = succeeded(answers);
    let rows: Vec<Row> = deleted
        .into_iter()
        .map(|(group, ())| Row::new().with("deleted", group))
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}
