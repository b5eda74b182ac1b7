//! `riverrun transaction`: lists and describes transactions, and ends those that hang.

use super::one_of;
use super::places::partitions_of;
use crate::connect::{ConnectionArguments, Failure, Stdout, run, succeeded};
use crate::output::Row;
use crate::time;
use clap::{Args, Subcommand};
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{ActiveProducer, Admin, OpenTransaction, TransactionFilter};
use std::process::ExitCode;

/// The arguments of `transaction`.
#[derive(Debug, Args)]
pub(crate) struct TransactionArguments {
    #[command(subcommand)]
    command: TransactionCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum TransactionCommand {
    /// List transactional ids
    #[command(visible_alias = "ls")]
    List {
        /// Only ids in one of these states, such as Ongoing or CompleteCommit
        #[arg(long, value_delimiter = ',', value_name = "STATE", value_parser = transaction_state)]
        state: Vec<String>,
        /// Only ids whose transaction has been open for longer, such as 15m
        #[arg(long, value_name = "DURATION", value_parser = time::duration_ms)]
        older_than: Option<i64>,
        /// Only ids that match this regular expression
        #[arg(long = "match", value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show the last transaction of transactional ids
    Describe {
        /// The ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Show the producers of a topic, and where open transactions start
    Producers {
        /// The topic
        topic: String,
        /// Only these partitions
        #[arg(short, long, value_delimiter = ',', value_name = "PARTITIONS")]
        partitions: Vec<i32>,
    },
    /// Find hanging transactions
    FindHanging {
        /// The topics; all by default
        #[arg(value_name = "TOPIC")]
        topics: Vec<String>,
        /// Only these partitions
        #[arg(
            short,
            long,
            value_delimiter = ',',
            value_name = "PARTITIONS",
            requires = "topics"
        )]
        partitions: Vec<i32>,
        /// Only producers idle for longer than this
        #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = time::duration_ms)]
        older_than: i64,
    },
    /// Abort a hanging transaction in a partition
    Abort {
        /// The topic
        topic: String,
        /// The partition
        partition: i32,
        /// Start offset of the transaction, as shown by `producers`
        #[arg(long, value_name = "OFFSET")]
        start_offset: i64,
        /// Abort even if the coordinator still tracks it
        #[arg(long)]
        force: bool,
    },
    /// Fence the producers of transactional ids: aborts their open transactions, creates ids that do
    /// not exist
    Fence {
        /// The ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// The states of a transactional id.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];

fn transaction_state(text: &str) -> Result<String, String> {
    one_of(&STATES, text)
}

/// Runs the command.
pub(crate) fn main(arguments: &TransactionArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            TransactionCommand::List {
                state,
                older_than,
                pattern,
            } => {
                let filter = TransactionFilter {
                    states: state.clone(),
                    older_than_ms: *older_than,
                    id_pattern: pattern.clone(),
                    ..TransactionFilter::default()
                };
                list(&admin, &filter, output).await
            }
            TransactionCommand::Describe { ids } => describe(&admin, ids, output).await,
            TransactionCommand::Producers { topic, partitions } => {
                producers(&admin, topic, partitions, output).await
            }
            TransactionCommand::FindHanging {
                topics,
                partitions,
                older_than,
            } => super::hanging::find(&admin, topics, partitions, *older_than, output).await,
            TransactionCommand::Abort {
                topic,
                partition,
                start_offset,
                force,
            } => {
                let partition = TopicPartition::new(topic.as_str(), *partition);
                abort(&admin, partition, *start_offset, *force, output).await
            }
            TransactionCommand::Fence { ids } => fence(&admin, ids, output).await,
        }
    };
    run(command, connection.output)
}

async fn list(
    admin: &Admin,
    filter: &TransactionFilter,
    mut output: Stdout,
) -> Result<(), Failure> {
    let listed = admin.list_transactions(filter).await;
    let listed = listed.map_err(|error| match (error, &filter.id_pattern) {
        (
            Error::Refused {
                code: ErrorCode::InvalidRegularExpression,
                ..
            },
            Some(pattern),
        ) => Error::Invalid(format!("`{pattern}` is not a valid regular expression")),
        (error, _) => error,
    })?;
    let listed = listed.into_iter();
    let rows: Vec<Row> = listed
        .map(|listed| {
            Row::new()
                .with("transactionalId", listed.id)
                .with("state", listed.state)
                .with("producerId", listed.producer_id)
                .with("coordinator", listed.coordinator)
        })
        .collect();
    output.list(&rows, "transactions")?;
    Ok(output.flush()?)
}

async fn describe(admin: &Admin, ids: &[String], mut output: Stdout) -> Result<(), Failure> {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (described, outcome) = succeeded(admin.describe_transactions(&ids).await);
    let rows: Vec<Row> = described
        .into_iter()
        .map(|(id, one)| {
            let partitions: Vec<String> = one.partitions.iter().map(ToString::to_string).collect();
            Row::new()
                .with("transactionalId", id)
                .with("state", one.state)
                .with("producerId", one.producer_id)
                .with("epoch", one.producer_epoch)
                .with("timeoutMs", one.timeout_ms)
                .with("started", one.start_timestamp_ms.map(time::date))
                .with("partitions", partitions)
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

async fn producers(
    admin: &Admin,
    topic: &str,
    wanted: &[i32],
    mut output: Stdout,
) -> Result<(), Failure> {
    let partitions = partitions_of(admin, topic, wanted).await?;
    let (described, outcome) = succeeded(admin.describe_producers(&partitions).await);
    let row = |partition: &TopicPartition, producer: ActiveProducer| {
        Row::new()
            .with("topic", partition.topic.as_str())
            .with("partition", partition.partition)
            .with("producerId", producer.producer_id)
            .with("epoch", producer.producer_epoch)
            .with("lastSequence", producer.last_sequence)
            .with("lastTimestamp", producer.last_timestamp_ms.map(time::date))
            .with("startOffset", producer.transaction_start_offset)
    };
    let rows: Vec<Row> = described
        .into_iter()
        .flat_map(|(partition, producers)| {
            let producers = producers.into_iter();
            producers
                .map(|producer| row(&partition, producer))
                .collect::<Vec<Row>>()
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}

async fn abort(
    admin: &Admin,
    partition: TopicPartition,
    start_offset: i64,
    force: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let mut described = admin
        .describe_producers(std::slice::from_ref(&partition))
        .await;
    let producers = described.remove(&partition).unwrap_or(Ok(Vec::new()))?;
    let mut open = producers
        .into_iter()
        .filter(|producer| producer.transaction_start_offset == Some(start_offset));
    let Some(producer) = open.next() else {
        return Err(Error::Invalid(format!(
            "no open transaction of `{partition}` begins at offset {start_offset}: see \
             `riverrun transaction producers {}`",
            partition.topic
        ))
        .into());
    };
    if !force {
        refuse_known(admin, &partition, &producer).await?;
    }
    let epoch = i16::try_from(producer.producer_epoch)
        .map_err(|_| Error::Invalid(format!("{} is not a valid epoch", producer.producer_epoch)))?;
    let open = OpenTransaction {
        partition,
        producer_id: producer.producer_id,
        producer_epoch: epoch,
        coordinator_epoch: producer.coordinator_epoch,
    };
    admin.abort_transaction(&open).await?;
    let row = Row::new()
        .with("aborted", open.partition.to_string())
        .with("producerId", open.producer_id)
        .with("epoch", open.producer_epoch);
    output.table(&[row])?;
    Ok(output.flush()?)
}

/// Fails for a transaction that its coordinator is going to end by itself.
async fn refuse_known(
    admin: &Admin,
    partition: &TopicPartition,
    producer: &ActiveProducer,
) -> Result<(), Failure> {
    let filter = TransactionFilter {
        states: vec!["Ongoing".to_owned()],
        producer_ids: vec![producer.producer_id],
        ..TransactionFilter::default()
    };
    let listed = admin.list_transactions(&filter).await?;
    let ids: Vec<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
    for (id, described) in admin.describe_transactions(&ids).await {
        if described?.partitions.contains(partition) {
            return Err(Error::Invalid(format!(
                "it is open in transactional id `{id}`, whose coordinator ends it: `riverrun \
                 transaction fence {id}` has it aborted, `--force` aborts it here only",
            ))
            .into());
        }
    }
    Ok(())
}

async fn fence(admin: &Admin, ids: &[String], mut output: Stdout) -> Result<(), Failure> {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let known = admin.describe_transactions(&ids).await;
    let is_new = |id: &String| {
        let code = ErrorCode::TransactionalIdNotFound;
        matches!(known.get(id), Some(Err(Error::Refused { code: one, .. })) if *one == code)
    };
    let (fenced, outcome) = succeeded(admin.fence_producers(&ids).await);
    for (id, _) in fenced.iter().filter(|(id, _)| is_new(id)) {
        crate::tell(&format!(
            "transactional id `{id}` did not exist: it was created"
        ));
    }
    let rows: Vec<Row> = fenced
        .into_iter()
        .map(|(id, producer_id)| {
            Row::new()
                .with("fenced", id)
                .with("producerId", producer_id)
        })
        .collect();
    output.table(&rows)?;
    output.flush()?;
    outcome
}
