//! `riverrun topic`: creates, lists, describes, grows, trims and deletes topics.

use super::places::{Position, filter_names, positions, topics_named};
use crate::connect::{ConnectionArguments, Failure, Stdout, pair, run, succeeded};
use crate::output::{Cell, Row};
use crate::place::Place;
use clap::{Args, Subcommand};
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{
    Admin, CreatedTopic, DescribeConfigsOptions, IsolationLevel, NewPartitions, NewTopic,
    OffsetSpec, PartitionDescription, TopicDescription,
};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// The arguments of `topic`.
#[derive(Debug, Args)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    command: TopicCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    /// Create topics
    Create(CreateArguments),
    /// List topics
    #[command(visible_alias = "ls")]
    List {
        /// Only those that one of these regular expressions matches
        #[arg(value_name = "PATTERN")]
        patterns: Vec<String>,
        /// Include internal topics
        #[arg(long)]
        internal: bool,
    },
    /// Show topics with their partitions, offsets and configuration
    #[command(group(clap::ArgGroup::new("which").required(true).args(["topics", "all"])))]
    Describe {
        /// The topics; a regular expression such as 'or.*' stands for those that it matches
        #[arg(value_name = "TOPIC")]
        topics: Vec<String>,
        /// All but internal topics
        #[arg(long)]
        all: bool,
    },
    /// Increase the number of partitions of topics
    AddPartitions {
        /// The topics
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// The new number of partitions
        #[arg(long, value_name = "COUNT")]
        to: i32,
    },
    /// Delete the records of a topic before an offset
    Trim {
        /// The topic
        topic: String,
        /// The first record to keep: start, end, OFFSET, -COUNT, +COUNT or @TIMESTAMP
        #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
        before: Place,
        /// Only these partitions
        #[arg(short, long, value_delimiter = ',', value_name = "PARTITIONS")]
        partitions: Vec<i32>,
        /// Delete every record without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Delete topics
    #[command(visible_alias = "rm")]
    Delete {
        /// The topics
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Skip topics that do not exist
        #[arg(long)]
        if_exists: bool,
    },
}

#[derive(Debug, Args)]
struct CreateArguments {
    /// The topics
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Number of partitions; by default the broker's
    #[arg(short, long, value_name = "COUNT")]
    partitions: Option<i32>,
    /// Replication factor; by default the broker's
    #[arg(short, long, value_name = "COUNT")]
    replicas: Option<i16>,
    /// A topic configuration
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = pair)]
    configs: Vec<(String, String)>,
    /// Skip topics that exist
    #[arg(long)]
    if_not_exists: bool,
    /// Validate only
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(crate) fn main(arguments: &TopicArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            TopicCommand::Create(create) => create_topics(&admin, create, output).await,
            TopicCommand::List { patterns, internal } => {
                list(&admin, patterns, *internal, output).await
            }
            TopicCommand::Describe { topics, all } => {
                let topics = match all {
                    true => all_topics(&admin).await?,
                    false => topics_named(&admin, topics).await?,
                };
                describe(&admin, &topics, output).await
            }
            TopicCommand::AddPartitions { topics, to } => add(&admin, topics, *to, output).await,
            TopicCommand::Trim {
                topic,
                before,
                partitions,
                yes,
            } => trim(&admin, topic, *before, partitions, *yes, output).await,
            TopicCommand::Delete { topics, if_exists } => {
                delete(&admin, topics, *if_exists, output).await
            }
        }
    };
    run(command, connection.output)
}

async fn create_topics(
    admin: &Admin,
    arguments: &CreateArguments,
    mut output: Stdout,
) -> Result<(), Failure> {
    let topics: Vec<NewTopic> = arguments
        .topics
        .iter()
        .map(|name| NewTopic {
            partition_count: arguments.partitions,
            replication_factor: arguments.replicas,
            configs: arguments.configs.iter().cloned().collect(),
            ..NewTopic::new(name)
        })
        .collect();
    let mut answers = if arguments.dry_run {
        admin.validate_topics(&topics).await
    } else {
        admin.create_topics(&topics).await
    };
    if arguments.if_not_exists {
        answers.retain(|_, answer| !is_refused(answer, ErrorCode::TopicAlreadyExists));
    }
    let (created, outcome) = succeeded(answers);
    if arguments.dry_run && !output.is_json() {
        for (name, topic) in created {
            output.heading(&valid(&name, &topic))?;
        }
        output.flush()?;
        return outcome;
    }
    let rows: Vec<Row> = created
        .into_iter()
        .map(|(name, topic)| {
            Row::new()
                .with("topic", name)
                .with("id", topic.id.map(|id| id.to_string()))
                .with("partitions", topic.partition_count)
                .with("replicas", topic.replication_factor)
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

/// What would have been created.
fn valid(name: &str, topic: &CreatedTopic) -> String {
    let count = |count: Option<i64>, what: &str| match count {
        Some(1) => format!(", 1 {what}"),
        Some(count) => format!(", {count} {what}s"),
        None => String::new(),
    };
    let partitions = count(topic.partition_count.map(i64::from), "partition");
    let replicas = count(topic.replication_factor.map(i64::from), "replica");
    format!("valid: topic `{name}`{partitions}{replicas} (not created)")
}

fn is_refused<T>(answer: &Result<T, Error>, with: ErrorCode) -> bool {
    matches!(answer, Err(Error::Refused { code, .. }) if *code == with)
}

/// The topics that people made.
async fn all_topics(admin: &Admin) -> Result<Vec<String>, Failure> {
    let listed = admin.list_topics().await?.into_iter();
    let made = listed.filter(|topic| !topic.is_internal);
    Ok(made.map(|topic| topic.name).collect())
}

async fn list(
    admin: &Admin,
    patterns: &[String],
    internal: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let topics = filter_names(patterns, admin.list_topics().await?, |topic| &topic.name)?;
    let rows: Vec<Row> = topics
        .into_iter()
        .filter(|topic| internal || !topic.is_internal)
        .map(|topic| {
            Row::new()
                .with("topic", topic.name)
                .with("partitions", topic.partition_count as i64)
                .with("replicas", topic.replication_factor as i64)
                .with("id", topic.id.to_string())
        })
        .collect();
    match patterns {
        [] => output.list(&rows, "topics")?,
        patterns => output.found(&rows, "topic", patterns)?,
    }
    Ok(output.flush()?)
}

async fn describe(admin: &Admin, topics: &[String], mut output: Stdout) -> Result<(), Failure> {
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let (described, outcome) = succeeded(admin.describe_topics(&names).await);
    for (at, (name, topic)) in described.into_iter().enumerate() {
        let partitions = partition_rows(admin, &topic).await;
        let configs = set_configs(admin, &name).await?;
        if output.is_json() {
            let configs = configs.into_iter().map(|(key, value)| {
                Cell::Object(Row::new().with("name", key).with("value", value))
            });
            let row = head_of(&topic)
                .with("configs", Cell::List(configs.collect()))
                .with("partitionList", partitions);
            output.row(&row)?;
            continue;
        }
        if at > 0 {
            output.heading("")?;
        }
        output.table(&[head_of(&topic)])?;
        for (key, value) in configs {
            output.heading(&format!("  {key}={}", value.unwrap_or_default()))?;
        }
        output.table(&partitions)?;
    }
    output.flush()?;
    outcome
}

fn head_of(topic: &TopicDescription) -> Row {
    let replicas = topic
        .partitions
        .first()
        .map(|first| first.replicas.len() as i64);
    Row::new()
        .with("topic", topic.name.as_str())
        .with("id", topic.id.to_string())
        .with("partitions", topic.partitions.len() as i64)
        .with("replicas", replicas)
        .with("internal", topic.is_internal)
}

/// The partitions with where their logs start and end.
async fn partition_rows(admin: &Admin, topic: &TopicDescription) -> Vec<Row> {
    let offsets = async |spec| {
        let partitions = topic.partitions.iter();
        let specs = partitions
            .map(|partition| (TopicPartition::new(&topic.name, partition.index), spec))
            .collect();
        admin
            .list_offsets(&specs, IsolationLevel::ReadUncommitted)
            .await
    };
    let (starts, ends) = tokio::join!(offsets(OffsetSpec::Earliest), offsets(OffsetSpec::Latest));
    let row = |partition: &PartitionDescription| {
        let key = TopicPartition::new(&topic.name, partition.index);
        let offset = |answers: &riverrun_client::admin::PerKey<
            _,
            riverrun_client::admin::ListedOffset,
        >| { Some(answers.get(&key)?.as_ref().ok()?.offset) };
        Row::new()
            .with("partition", partition.index)
            .with("leader", partition.leader)
            .with("leaderEpoch", partition.leader_epoch)
            .with("replicas", partition.replicas.clone())
            .with("inSync", partition.in_sync_replicas.clone())
            .with("logStartOffset", offset(&starts))
            .with("logEndOffset", offset(&ends))
    };
    topic.partitions.iter().map(row).collect()
}

/// What is set for the topic itself.
async fn set_configs(admin: &Admin, topic: &str) -> Result<Vec<(String, Option<String>)>, Failure> {
    let resource = riverrun_client::admin::ConfigResource::topic(topic);
    let options = DescribeConfigsOptions::default();
    let answers = admin.describe_configs(&[resource], &options).await;
    let (described, outcome) = succeeded(answers);
    outcome?;
    let entries = described.into_iter().flat_map(|(_, entries)| entries);
    Ok(entries
        .filter(|entry| entry.source == riverrun_client::admin::ConfigSource::Topic)
        .map(|entry| (entry.name, entry.value))
        .collect())
}

async fn add(admin: &Admin, topics: &[String], to: i32, mut output: Stdout) -> Result<(), Failure> {
    let growth: BTreeMap<String, NewPartitions> = topics
        .iter()
        .map(|topic| {
            let growth = NewPartitions {
                total_count: to,
                assignments: Vec::new(),
            };
            (topic.clone(), growth)
        })
        .collect();
    let (grown, outcome) = succeeded(admin.create_partitions(&growth).await);
    let rows: Vec<Row> = grown
        .into_iter()
        .map(|(topic, ())| Row::new().with("topic", topic).with("partitions", to))
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

/// Lets whoever sits at a terminal say yes; nobody else can be asked.
fn confirm(what: &str) -> Result<(), Failure> {
    let refused = || Failure::Client(Error::Invalid(format!("{what}: say so with `--yes`")));
    if !io::stdin().is_terminal() {
        return Err(refused());
    }
    crate::tell(&format!("{what}: type `yes` to go on"));
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    match line.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(refused()),
    }
}

async fn trim(
    admin: &Admin,
    topic: &str,
    before: Place,
    wanted: &[i32],
    yes: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let partitions = super::places::partitions_of(admin, topic, wanted).await?;
    let positions = positions(admin, &partitions, before).await?;
    let is_beyond = |position: &Position| position.offset > position.end;
    let mut beyond = positions.iter().filter(|(_, position)| is_beyond(position));
    if let Some(fault) = beyond.find_map(|(partition, position)| position.fault(partition)) {
        return Err(Error::Invalid(fault).into());
    }
    let has_records = positions.values().any(|one| one.start < one.end);
    if !yes && has_records && positions.values().all(|one| one.offset == one.end) {
        let of = match wanted {
            [] => format!("topic `{topic}`"),
            _ => format!("these partitions of topic `{topic}`"),
        };
        confirm(&format!("every record of {of} would be deleted"))?;
    }
    // An offset that is deleted already deletes nothing.
    let offsets = positions
        .into_iter()
        .map(|(partition, position)| (partition, position.offset))
        .collect();
    let (trimmed, outcome) = succeeded(admin.delete_records(&offsets).await);
    let rows: Vec<Row> = trimmed
        .into_iter()
        .map(|(partition, log_start_offset)| {
            Row::new()
                .with("topic", partition.topic.as_str())
                .with("partition", partition.partition)
                .with("logStartOffset", log_start_offset)
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

async fn delete(
    admin: &Admin,
    topics: &[String],
    if_exists: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut answers = admin.delete_topics(&names).await;
    if if_exists {
        answers.retain(|_, answer| !is_refused(answer, ErrorCode::UnknownTopicOrPartition));
    }
    let (deleted, outcome) = succeeded(answers);
    let rows: Vec<Row> = deleted
        .into_iter()
        .map(|(topic, ())| Row::new().with("deleted", topic))
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}
