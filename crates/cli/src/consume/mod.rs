//! `riverrun consume`: prints the records of topics, alone or as a member of a group.
//!
//! ```text
//!   --offset FROM:TO ──> places ──> an offset for each partition ──> assign, seek ──┐
//!   --group ──────────> subscribe ─────────────────────────────────────────────────┴──> poll ──> print
//! ```

mod format;

use crate::commands::places::{Position, partitions_of, positions, resolve, topics_named, within};
use crate::connect::{ConnectionArguments, Failure, Stdout, run};
use crate::encoding::Encoding;
use crate::output::{Cell, Row};
use crate::place::{Place, Range};
use clap::Args;
use data_encoding::BASE64;
use format::{Format, Shown};
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, ConsumerConfig, ConsumerRecord, Records};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How often ends are looked at while no records come.
const POLL: Duration = Duration::from_millis(500);

/// How long a member may take to commit and leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments of `consume`.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArguments {
    /// The topics; a regular expression such as 'or.*' stands for those that it matches now
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Where to start, and after a colon where to end: start, end, OFFSET, -COUNT (before the end),
    /// +COUNT (after the start) or @TIMESTAMP, as in 100:200, @-1h or :end
    #[arg(
        short,
        long,
        default_value = "start",
        allow_hyphen_values = true,
        value_name = "FROM[:TO]"
    )]
    offset: Range,
    /// Only these partitions
    #[arg(
        short,
        long,
        value_delimiter = ',',
        value_name = "PARTITIONS",
        conflicts_with = "group"
    )]
    partitions: Vec<i32>,
    /// Consume as a member of this group, from its committed offsets
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
    /// Exit after COUNT records
    #[arg(short = 'n', long, value_name = "COUNT")]
    num: Option<u64>,
    /// Exit at the end offsets as of the start; with --group, once the assigned partitions are read
    #[arg(short, long)]
    exit: bool,
    /// Output format: %t topic, %p partition, %o offset, %k key, %v value, %h headers,
    /// %d timestamp, %D date, %K %V lengths, %e leader epoch; %v{hex}, {base64}, {json}, {utf8}, {i64}
    /// and other numbers; \n \t
    #[arg(short, long, default_value = "%v\\n", value_name = "FORMAT")]
    format: Format,
    /// Encoding of keys: raw, utf8, hex, base64, json, or a big-endian number: i8 to i64, u8 to
    /// u64, f32, f64
    #[arg(long, value_name = "ENCODING")]
    key_encoding: Option<Encoding>,
    /// Encoding of values, as for keys
    #[arg(long, value_name = "ENCODING")]
    value_encoding: Option<Encoding>,
    /// Isolation level: read_uncommitted, or read_committed
    #[arg(short = 'i', long, value_name = "LEVEL")]
    isolation_level: Option<String>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Runs the command.
pub(crate) fn main(arguments: &ConsumeArguments) -> ExitCode {
    let command = async |output| consume(arguments, output).await;
    run(command, arguments.connection.output)
}

async fn consume(arguments: &ConsumeArguments, output: Stdout) -> Result<(), Failure> {
    let mut printer = Printer {
        output,
        format: arguments.format.clone().with_encodings(
            arguments.key_encoding.unwrap_or(Encoding::Raw),
            arguments.value_encoding.unwrap_or(Encoding::Raw),
        ),
        encodings: (arguments.key_encoding, arguments.value_encoding),
        left_count: arguments.num.unwrap_or(u64::MAX),
        is_counted: arguments.num.is_some(),
        ends: BTreeMap::new(),
        is_member: false,
        unprinted: BTreeMap::new(),
    };
    let mut consumer = start(arguments, &mut printer).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Until a member has its first partition.
    let give_up_at = Instant::now() + arguments.connection.timeout();
    let outcome = loop {
        if printer.is_done(&consumer) {
            break Ok(());
        }
        let polled = tokio::select! {
            polled = consumer.poll(POLL) => polled,
            _ = interrupt.recv() => break Ok(()),
            _ = terminate.recv() => break Ok(()),
        };
        let polled = match polled {
            // Brokers come back, and whoever follows a topic waits for them; who wants so much of it,
            // and then the command to end, is told.
            Err(error)
                if printer.is_following() && error.is_retriable() && is_reading(&consumer) =>
            {
                crate::tell(&format!("waiting: {error}"));
                continue;
            }
            Err(error)
                if error.is_retriable()
                    && !is_reading(&consumer)
                    && Instant::now() < give_up_at =>
            {
                continue;
            }
            polled => polled,
        };
        match polled
            .map_err(Failure::from)
            .and_then(|records| printer.print(records))
        {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    // A member commits its positions when it closes: what was not printed is not read.
    for (partition, offset) in &printer.unprinted {
        if consumer.assignment().contains(partition) {
            consumer.seek(partition, *offset)?;
        }
    }
    consumer.close(CLOSE_TIMEOUT).await?;
    outcome
}

/// Whether the consumer has reached a broker and reads partitions.
fn is_reading(consumer: &Consumer) -> bool {
    !consumer.assignment().is_empty()
}

/// A consumer that is about to read what was asked for.
async fn start(arguments: &ConsumeArguments, printer: &mut Printer) -> Result<Consumer, Failure> {
    let mut config: ConsumerConfig = arguments.connection.config(&["default.api.timeout.ms"])?;
    config.allow_auto_create_topics = false;
    config.enable_auto_commit = arguments.group.is_some();
    if let Some(level) = &arguments.isolation_level {
        config.set("isolation.level", level)?;
    }
    if let Some(group) = &arguments.group {
        config.set("group.id", group)?;
        let reset = match arguments.offset {
            Range {
                from: Place::Start,
                to: None,
            } => "earliest",
            Range {
                from: Place::End,
                to: None,
            } => "latest",
            _ => {
                return Err(Error::Invalid(
                    "with `--group`, `--offset` may only be `start` or `end`; change committed \
                     offsets with `riverrun group seek`"
                        .to_owned(),
                )
                .into());
            }
        };
        config.set("auto.offset.reset", reset)?;
        let admin = arguments.connection.admin_beside()?;
        let topics = topics_named(&admin, &arguments.topics).await?;
        if arguments.exit {
            for topic in &topics {
                let partitions = partitions_of(&admin, topic, &[]).await?;
                let ends = resolve(&admin, &partitions, Place::End).await?;
                printer.ends.extend(ends);
            }
            printer.is_member = true;
        }
        let mut consumer = Consumer::new(config)?;
        consumer.subscribe(topics)?;
        return Ok(consumer);
    }
    let admin = arguments.connection.admin_beside()?;
    let mut partitions = Vec::new();
    for topic in &topics_named(&admin, &arguments.topics).await? {
        partitions.extend(partitions_of(&admin, topic, &arguments.partitions).await?);
    }
    let starts = positions(&admin, &partitions, arguments.offset.from).await?;
    let end = arguments.offset.to.or(arguments.exit.then_some(Place::End));
    if let Some(end) = end {
        let ends = positions(&admin, &partitions, end).await?;
        if arguments.offset.to.is_some() {
            refuse_backwards(&starts, &ends)?;
        }
        printer.ends = within(&ends);
    }
    for (partition, start) in &starts {
        if let Some(fault) = start.fault(partition) {
            crate::tell(&fault);
        }
    }
    let mut consumer = Consumer::new(config)?;
    consumer.assign(partitions)?;
    for (partition, offset) in within(&starts) {
        consumer.seek(&partition, offset)?;
    }
    Ok(consumer)
}

/// Fails for a range that ends before it starts in each partition.
fn refuse_backwards(
    starts: &BTreeMap<TopicPartition, Position>,
    ends: &BTreeMap<TopicPartition, Position>,
) -> Result<(), Error> {
    let is_backwards = |(partition, start): (&TopicPartition, &Position)| {
        let end = ends.get(partition);
        end.is_some_and(|end| end.offset < start.offset)
    };
    match !starts.is_empty() && starts.iter().all(is_backwards) {
        true => Err(Error::Invalid(
            "`--offset` ends before it starts: write it as FROM:TO".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Prints records until there are enough of them.
struct Printer {
    output: Stdout,
    format: Format,
    /// How keys and values are written in JSON; text or base64 if nothing is said.
    encodings: (Option<Encoding>, Option<Encoding>),
    left_count: u64,
    /// Whether so many records are all that is wanted.
    is_counted: bool,
    /// Where to stop; empty for nowhere.
    ends: BTreeMap<TopicPartition, i64>,
    /// Whether the partitions to read are those that a group gives.
    is_member: bool,
    /// The first record of each partition that came and was too many.
    unprinted: BTreeMap<TopicPartition, i64>,
}

impl Printer {
    /// Whether it ends only when it is stopped.
    fn is_following(&self) -> bool {
        self.ends.is_empty() && !self.is_counted
    }

    /// Whether everything that was asked for has been read. Positions count, not records: at the
    /// end of a partition may be none that anyone sees.
    fn is_done(&self, consumer: &Consumer) -> bool {
        let is_read = |(partition, end): (&TopicPartition, &i64)| {
            consumer.position(partition).is_some_and(|at| at >= *end)
        };
        let assignment = consumer.assignment();
        let is_mine =
            |partition: &TopicPartition| !self.is_member || assignment.contains(partition);
        let mut wanted = self.ends.iter().filter(|(one, _)| is_mine(one)).peekable();
        self.left_count == 0 || (wanted.peek().is_some() && wanted.all(is_read))
    }

    fn print(&mut self, mut records: Records) -> Result<ControlFlow<()>, Failure> {
        while let Some(record) = records.next()? {
            let is_beyond = |end: &i64| record.offset >= *end;
            let partition = TopicPartition::new(record.topic, record.partition);
            if self.ends.get(&partition).is_some_and(is_beyond) {
                continue;
            }
            if self.left_count == 0 {
                self.unprinted.entry(partition).or_insert(record.offset);
                continue;
            }
            self.left_count -= 1;
            self.record(&record)?;
        }
        self.output.flush()?;
        Ok(if self.left_count == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    fn record(&mut self, record: &ConsumerRecord<'_>) -> io::Result<()> {
        if self.output.is_json() {
            let row = row(record, self.encodings).map_err(|error| at(record, &error))?;
            return self.output.row(&row);
        }
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|header| (header.key, header.value))
            .collect();
        let shown = Shown {
            topic: record.topic,
            partition: record.partition,
            offset: record.offset,
            leader_epoch: (record.leader_epoch >= 0).then_some(record.leader_epoch),
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            value: record.value,
            headers: &headers,
        };
        self.format
            .write(&shown, self.output.writer())
            .map_err(|error| at(record, &error))
    }
}

/// What is wrong with a record, and where it is; other errors are of the output.
fn at(record: &ConsumerRecord<'_>, error: &io::Error) -> io::Error {
    let (topic, partition, offset) = (record.topic, record.partition, record.offset);
    let text = match error.kind() {
        io::ErrorKind::InvalidData => format!("{topic}-{partition} at offset {offset}: {error}"),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), text)
}

/// A record as the JSON that `produce` reads.
fn row(
    record: &ConsumerRecord<'_>,
    (key, value): (Option<Encoding>, Option<Encoding>),
) -> io::Result<Row> {
    let headers: Vec<Cell> = record
        .headers
        .iter()
        .map(|header| {
            let row = Row::new().with("key", header.key_text().into_owned());
            Cell::Object(bytes(row, "value", "valueBase64", header.value))
        })
        .collect();
    let row = Row::new()
        .with("topic", record.topic)
        .with("partition", record.partition)
        .with("offset", record.offset)
        .with("timestamp", record.timestamp_ms)
        .with("leaderEpoch", record.leader_epoch);
    let field = |row: Row, name, base64_name, content, encoding: Option<Encoding>| {
        Ok::<_, io::Error>(match (encoding, content) {
            (Some(encoding), Some(content)) => row.with(name, encoding.cell(content)?),
            _ => bytes(row, name, base64_name, content),
        })
    };
    let row = field(row, "key", "keyBase64", record.key, key)?;
    let row = field(row, "value", "valueBase64", record.value, value)?;
    Ok(row.with("headers", Cell::List(headers)))
}

/// The row with bytes as text where they are text, in base64 elsewhere.
fn bytes(row: Row, name: &'static str, base64_name: &'static str, bytes: Option<&[u8]>) -> Row {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => row.with(name, Cell::Missing),
        Some((_, Ok(text))) => row.with(name, text),
        Some((bytes, Err(_))) => row.with(base64_name, BASE64.encode(bytes)),
    }
}
