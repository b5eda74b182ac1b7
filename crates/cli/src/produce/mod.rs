//! `riverrun produce`: sends what it reads from a file or from the standard input.
//!
//! ```text
//!   lines ──> input (a thread: reading blocks) ──> records ──> Producer ──> deliveries, in order
//! ```

mod input;
mod input_record;
mod template;

use crate::connect::{ConnectionArguments, Failure, Stdout, pair, run};
use crate::encoding::Encoding;
use crate::output::Row;
use clap::Args;
use input::{Input, InputFormat, Rules};
use input_record::InputRecord;
use model::ErrorCode;
use riverrun_client::Error;
use riverrun_client::producer::{
    Delivery, Header, Producer, ProducerConfig, ProducerRecord, RecordMetadata,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use template::Template;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Lines that are read ahead of the producer.
const LINES_AHEAD_COUNT: usize = 1024;
/// How long a producer may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Records whose outcome is awaited at once.
const DELIVERIES_COUNT_MAX: usize = 100_000;

/// The arguments of `produce`.
#[derive(Debug, Args)]
pub(crate) struct ProduceArguments {
    /// The topic
    topic: String,
    /// Read from this file instead of standard input
    #[arg(short = 'l', long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Input format
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    input: InputFormat,
    /// Format of a line, as in '%k=%v': %k key, %v value, %p partition,
    /// %d timestamp; %v{hex}, {base64}, {json}, {utf8}, {i64} and other numbers
    #[arg(short, long, value_name = "FORMAT", conflicts_with_all = ["input", "key_separator"])]
    format: Option<Template>,
    /// Encoding of keys: raw, utf8, hex, base64, json, or a big-endian number: i8 to i64, u8 to
    /// u64, f32, f64
    #[arg(long, default_value = "raw", value_name = "ENCODING")]
    key_encoding: Encoding,
    /// Encoding of values, as for keys
    #[arg(long, default_value = "raw", value_name = "ENCODING")]
    value_encoding: Encoding,
    /// Separator between key and value
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = not_empty)]
    key_separator: Option<String>,
    /// The key of every record that has none of its own
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// A header of every record
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// The partition; by default chosen by the key, or by load
    #[arg(short, long, value_name = "PARTITION")]
    partition: Option<i32>,
    /// Keep the partitions of records that `consume --output json` printed; by default each gets a
    /// new one
    #[arg(long)]
    keep_partitions: bool,
    /// Send empty values as null (tombstones)
    #[arg(short = 'Z', long)]
    tombstones: bool,
    /// Compression codec: none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC")]
    compression: Option<String>,
    /// Required acknowledgements: 0 for none, 1 for the leader's, all for those of all in-sync
    /// replicas
    #[arg(long, value_name = "ACKS")]
    acks: Option<String>,
    /// Write all records in one transaction with this transactional.id
    #[arg(short = 't', long, value_name = "ID", value_parser = transactional_id)]
    transactional_id: Option<String>,
    /// Show where each record was written
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

fn not_empty(text: &str) -> Result<String, String> {
    let text = text.replace("\\t", "\t");
    (!text.is_empty())
        .then_some(text)
        .ok_or_else(|| "an empty text separates nothing".to_owned())
}

fn transactional_id(text: &str) -> Result<String, String> {
    match text {
        "" => Err("`--transactional-id` is empty".to_owned()),
        id => Ok(id.to_owned()),
    }
}

/// Runs the command.
pub(crate) fn main(arguments: &ProduceArguments) -> ExitCode {
    let command = async |output| produce(arguments, output).await;
    run(command, arguments.connection.output)
}

/// The settings of the producer.
fn config(arguments: &ProduceArguments) -> Result<ProducerConfig, Error> {
    let timeouts = ["max.block.ms", "delivery.timeout.ms"];
    let mut config: ProducerConfig = arguments.connection.config(&timeouts)?;
    if Duration::from_millis(config.delivery_timeout_ms) == arguments.connection.timeout() {
        // What `--timeout` says begins when there is nothing to linger for any more.
        config.delivery_timeout_ms = config.delivery_timeout_ms.saturating_add(config.linger_ms);
    }
    // The delivery timeout must leave time for a request.
    config.client.request_timeout_ms = config.client.request_timeout_ms.min(
        config
            .delivery_timeout_ms
            .saturating_sub(config.linger_ms)
            .max(1),
    );
    let chosen = [
        ("compression.type", &arguments.compression),
        ("acks", &arguments.acks),
        ("transactional.id", &arguments.transactional_id),
    ];
    for (key, value) in chosen {
        if let Some(value) = value {
            config.set(key, value)?;
        }
    }
    Ok(config)
}

async fn produce(arguments: &ProduceArguments, mut output: Stdout) -> Result<(), Failure> {
    let config = config(arguments)?;
    let key = shared_key(arguments)?;
    let reader = open(arguments.file.as_deref())?;
    let producer = Producer::new(config)?;
    // Tells at once when there is no broker.
    let mut is_there = has_topic(arguments).await?;
    let is_transaction = arguments.transactional_id.is_some();
    if is_transaction {
        producer.init_transactions().await?;
        producer.begin_transaction()?;
    }
    let mut lines = read_ahead(reader, rules(arguments));
    let mut deliveries = Deliveries::default();
    let mut read_error = None;
    let mut stop = StopSignals::listen()?;
    let mut is_stopped = false;
    loop {
        tokio::select! {
            biased;
            () = stop.received() => {
                is_stopped = true;
                break;
            }
            line = lines.recv(), if deliveries.waiting.len() < DELIVERIES_COUNT_MAX => match line {
                Some(Ok(record)) => {
                    if !is_there {
                        create(&producer, &arguments.topic).await?;
                        is_there = true;
                    }
                    let sent = send(&producer, arguments, key.as_deref(), &record).await;
                    deliveries.sent(sent);
                }
                Some(Err(error)) => {
                    read_error = Some(error);
                    break;
                }
                None => break,
            },
            result = deliveries.next(), if !deliveries.waiting.is_empty() => {
                deliveries.settle(result, arguments.verbose, &mut output)?;
            }
        }
    }
    producer.flush().await;
    while !deliveries.waiting.is_empty() {
        let result = deliveries.next().await;
        deliveries.settle(result, arguments.verbose, &mut output)?;
    }
    let ended = match is_transaction {
        true => {
            end(
                &producer,
                !is_stopped && read_error.is_none() && deliveries.failed_count == 0,
            )
            .await
        }
        false => Ok(()),
    };
    producer.close(CLOSE_TIMEOUT).await?;
    output.flush()?;
    ended?;
    deliveries.report(&arguments.topic);
    match read_error {
        Some(error) => Err(error.into()),
        None if deliveries.failed_count > 0 || is_stopped => Err(Failure::Told),
        None => Ok(()),
    }
}

/// Whether the topic exists: one that does not is created with its first record.
async fn has_topic(arguments: &ProduceArguments) -> Result<bool, Error> {
    let topic = &*arguments.topic;
    let admin = arguments.connection.admin_beside()?;
    match admin.describe_topics(&[topic]).await.remove(topic) {
        Some(Err(Error::Refused {
            code: ErrorCode::UnknownTopicOrPartition,
            ..
        })) => Ok(false),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(true),
    }
}

/// Has the broker create the topic.
async fn create(producer: &Producer, topic: &str) -> Result<(), Error> {
    let created = producer.partitions_for(topic).await;
    created.map(drop).map_err(|error| with_advice(error, topic))
}

/// A topic that does not exist is created where the broker may; what to do where it may not.
fn with_advice(error: Error, topic: &str) -> Error {
    match error {
        Error::Refused {
            subject,
            code: code @ ErrorCode::UnknownTopicOrPartition,
            ..
        } => Error::Refused {
            subject,
            code,
            message: Some(format!(
                "it does not exist, and the broker creates none by itself \
                 (`auto.create.topics.enable`): `riverrun topic create {topic}`"
            )),
        },
        error => error,
    }
}

/// Commits the transaction if nothing of it is lost.
async fn end(producer: &Producer, commits: bool) -> Result<(), Failure> {
    if commits {
        return Ok(producer.commit_transaction().await?);
    }
    producer.abort_transaction().await?;
    crate::complain("the transaction was aborted: nothing of it is written");
    Ok(())
}

/// The signals that end the command: what was read is written, and a transaction is aborted.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn rules(arguments: &ProduceArguments) -> Rules {
    Rules {
        format: arguments.input,
        template: arguments.format.clone(),
        key_encoding: arguments.key_encoding,
        value_encoding: arguments.value_encoding,
        key_separator: arguments.key_separator.clone(),
        is_empty_null: arguments.tombstones,
        keeps_partitions: arguments.keep_partitions,
    }
}

fn open(path: Option<&Path>) -> Result<Box<dyn BufRead + Send>, Failure> {
    let Some(path) = path else {
        return Ok(Box::new(BufReader::new(io::stdin())));
    };
    let file = File::open(path).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot read `{}`: {error}", path.display()),
        )
    })?;
    Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
}

/// Reads on a thread of its own, which ends with the input or with the receiver.
fn read_ahead(
    reader: Box<dyn BufRead + Send>,
    rules: Rules,
) -> mpsc::Receiver<io::Result<InputRecord>> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD_COUNT);
    std::thread::spawn(move || {
        let mut input = Input::new(reader, rules);
        while let Some(record) = input.next().transpose() {
            let is_failed = record.is_err();
            if sender.blocking_send(record).is_err() || is_failed {
                return;
            }
        }
    });
    receiver
}

/// The key of records that have none of their own.
fn shared_key(arguments: &ProduceArguments) -> Result<Option<Vec<u8>>, Error> {
    let key = arguments.key.as_deref().map(str::as_bytes);
    let key = key.map(|key| arguments.key_encoding.read(key)).transpose();
    key.map_err(|reason| Error::Invalid(format!("`--key`: {reason}")))
}

async fn send(
    producer: &Producer,
    arguments: &ProduceArguments,
    shared_key: Option<&[u8]>,
    record: &InputRecord,
) -> Result<Delivery, Error> {
    let shared = arguments.headers.iter().map(|(key, value)| Header {
        key: key.as_bytes(),
        value: Some(value.as_bytes()),
    });
    let own = record.headers.iter().map(|(key, value)| Header {
        key: key.as_bytes(),
        value: value.as_deref(),
    });
    let headers: Vec<Header<'_>> = shared.chain(own).collect();
    producer
        .send(ProducerRecord {
            topic: &arguments.topic,
            partition: record.partition.or(arguments.partition),
            timestamp: record.timestamp_ms,
            key: record.key.as_deref().or(shared_key),
            value: record.value.as_deref(),
            headers: &headers,
        })
        .await
}

/// What became of the records so far.
#[derive(Debug, Default)]
struct Deliveries {
    waiting: VecDeque<Delivery>,
    written_count: u64,
    failed_count: u64,
}

impl Deliveries {
    fn sent(&mut self, sent: Result<Delivery, Error>) {
        match sent {
            Ok(delivery) => self.waiting.push_back(delivery),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) {
        self.failed_count += 1;
        // Thousands of lines would hide the first, which says it.
        if self.failed_count <= 10 {
            crate::complain(&error.to_string());
        }
    }

    /// What became of the oldest record that is waited for.
    async fn next(&mut self) -> Result<RecordMetadata, Error> {
        match self.waiting.front_mut() {
            Some(delivery) => delivery.await,
            None => std::future::pending().await,
        }
    }

    fn settle(
        &mut self,
        result: Result<RecordMetadata, Error>,
        is_shown: bool,
        output: &mut Stdout,
    ) -> io::Result<()> {
        self.waiting.pop_front();
        match result {
            Err(error) => self.failed(&error),
            Ok(written) => {
                self.written_count += 1;
                if is_shown {
                    output.row(
                        &Row::new()
                            .with("topic", &*written.topic)
                            .with("partition", written.partition)
                            .with("offset", written.offset)
                            .with("timestamp", written.timestamp),
                    )?;
                    output.flush()?;
                }
            }
        }
        Ok(())
    }

    fn report(&self, topic: &str) {
        let records = |count: u64| match count {
            1 => "1 record".to_owned(),
            count => format!("{count} records"),
        };
        crate::tell(&format!(
            "{} written to {topic}",
            records(self.written_count)
        ));
        match self.failed_count {
            0 => {}
            1 => crate::complain("1 record was not written"),
            count => crate::complain(&format!("{count} records were not written")),
        }
    }
}
