//! A producer and a consumer of each partition that go on while brokers stop and start: what an
//! application over a client would see of it.
//!
//! Both do as Kafka's clients do. An error that passes, and a connection that ends, make them ask where
//! the partition is led and try again; an application sees an error when that cannot help, or when a record
//! is not acknowledged within the time that the producer has. A consumer that has not received what was
//! acknowledged, or not in its place, is an error as well.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use model::{ErrorCode, Message, Offset, Retriability};
use record::RecordBatch;
use serde_json::{Value, json};
use wire::ApiKey;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, FetchResponse, ProduceResponse};

use super::client::{Client, FETCH_VERSION, PRODUCE_VERSION, frame};
use super::{Batching, Target, frames, leaders};

/// The most that Kafka's producer takes for a record by default (`delivery.timeout.ms`).
const DELIVERY_LIMIT: Duration = Duration::from_secs(120);
/// Kafka's clients wait longer; this shows what the brokers take.
const BACKOFF: Duration = Duration::from_millis(10);
/// From a record of a partition to the next one.
const INTERVAL: Duration = Duration::from_millis(20);
const MAX_WAIT_MS: i32 = 500;
const MAX_BYTES: i32 = 1 << 20;
/// So many errors are kept as text.
const SHOWN_ERRORS: usize = 5;

/// What one side of one partition has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Records that were acknowledged, or received.
    records: u64,
    /// What was tried again.
    retries: u64,
    /// What an application was told.
    errors: Vec<String>,
    /// From asking to an acknowledgement, or from one record received to the next.
    longest: Duration,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.retries += other.retries;
        self.errors.extend(other.errors);
        self.longest = self.longest.max(other.longest);
    }

    fn json(&self) -> Value {
        json!({
            "records": self.records,
            "retries": self.retries,
            "errors": self.errors.len(),
            "first_errors": &self.errors[..self.errors.len().min(SHOWN_ERRORS)],
            "longest_pause_ms": self.longest.as_secs_f64() * 1e3,
        })
    }
}

/// Runs until standard input ends.
pub(super) fn run(target: &Target) -> Result<Value> {
    let is_over = AtomicBool::new(false);
    let batching = Batching {
        connections: target.distinct_leaders().len(),
        ..Batching::ONE_RECORD
    };
    let frames = frames::build(target, &batching)?;
    let acknowledged: Vec<AtomicI64> = (0..target.partitions).map(|_| AtomicI64::new(0)).collect();
    let (mut produced, mut consumed) = (Seen::default(), Seen::default());
    thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for (partition, end_offset) in (0..target.partitions).zip(&acknowledged) {
            let mut requests = frames.iter().flat_map(|frames| &frames.requests);
            let request = requests.find(|(_, partitions)| partitions == &[partition]);
            let (frame, _) = request.context("each partition has a request")?;
            let side = |partition| Side {
                target,
                partition,
                server: None,
                attempts: 0,
                seen: Seen::default(),
            };
            let is_over = &is_over;
            threads.push((
                scope.spawn(move || side(partition).produce(frame, end_offset, is_over)),
                scope.spawn(move || side(partition).consume(end_offset, is_over)),
            ));
        }
        std::io::stdin().read_to_end(&mut Vec::new())?;
        is_over.store(true, Ordering::Release);
        for (producer, consumer) in threads {
            produced.add(producer.join().expect("a producer does not panic"));
            consumed.add(consumer.join().expect("a consumer does not panic"));
        }
        Ok(())
    })?;
    Ok(json!({
        "load": "steady",
        "errors": produced.errors.len() + consumed.errors.len(),
        "producer": produced.json(),
        "consumer": consumed.json(),
    }))
}

/// What became of one request.
enum Outcome<T> {
    Done(T),
    /// It may be tried again.
    Again,
    /// The application is told.
    Error(String),
}

/// The producer or the consumer of a partition.
#[derive(Debug)]
struct Side<'a> {
    target: &'a Target,
    partition: i32,
    /// The partition's leader, while it is thought to lead.
    server: Option<Client>,
    attempts: usize,
    seen: Seen,
}

impl Side<'_> {
    fn produce(mut self, frame: &[u8], end_offset: &AtomicI64, is_over: &AtomicBool) -> Seen {
        while !is_over.load(Ordering::Acquire) {
            let begun = Instant::now();
            loop {
                match self.ask(|client, partition| produce(client, partition, frame)) {
                    Outcome::Done(offset) => {
                        let end = end_offset.load(Ordering::Relaxed);
                        if offset < end {
                            self.seen
                                .errors
                                .push(format!("offset {offset} was given twice"));
                        }
                        end_offset.store(end.max(offset + 1), Ordering::Release);
                        self.seen.records += 1;
                        self.seen.longest = self.seen.longest.max(begun.elapsed());
                        break;
                    }
                    Outcome::Error(error) => {
                        self.seen.errors.push(error);
                        break;
                    }
                    Outcome::Again if begun.elapsed() > DELIVERY_LIMIT => {
                        self.seen
                            .errors
                            .push("a record was not acknowledged".to_owned());
                        break;
                    }
                    Outcome::Again => thread::sleep(BACKOFF),
                }
            }
            thread::sleep(INTERVAL.saturating_sub(begun.elapsed()));
        }
        self.seen
    }

    /// Ends when it has all that was acknowledged.
    fn consume(mut self, end_offset: &AtomicI64, is_over: &AtomicBool) -> Seen {
        let mut offset = 0;
        let mut last = Instant::now();
        loop {
            let was_over = is_over.load(Ordering::Acquire);
            if was_over && offset >= end_offset.load(Ordering::Acquire) {
                return self.seen;
            }
            let fetched = self.ask(|client, partition| fetch(client, partition, offset));
            match fetched {
                Outcome::Done((_, 0)) => {}
                Outcome::Done((first, count)) => {
                    if first > offset {
                        let text = format!("{first} was received after {offset} was due");
                        self.seen.errors.push(text);
                    }
                    // The first records come after the topic, which is no pause.
                    if offset > 0 {
                        self.seen.longest = self.seen.longest.max(last.elapsed());
                    }
                    last = Instant::now();
                    self.seen.records += count;
                    offset = first + i64::try_from(count).unwrap_or(0);
                }
                Outcome::Again => thread::sleep(BACKOFF),
                Outcome::Error(error) => {
                    self.seen.errors.push(error);
                    return self.seen;
                }
            }
            if last.elapsed() > DELIVERY_LIMIT {
                let text = format!("nothing received from {offset} on");
                self.seen.errors.push(text);
                return self.seen;
            }
        }
    }

    /// Asks the leader, which is looked for where none is known.
    fn ask<T>(
        &mut self,
        request: impl FnOnce(&mut Client, (&str, i32)) -> Result<Result<T, ErrorCode>>,
    ) -> Outcome<T> {
        let topic = self.target.topic.as_str();
        let answer = self.leader().and_then(|mut client| {
            let answer = request(&mut client, (topic, self.partition))?;
            Ok((client, answer))
        });
        match answer {
            Ok((client, Ok(done))) => {
                self.server = Some(client);
                return Outcome::Done(done);
            }
            Ok((_, Err(error))) if error.retriability() == Retriability::Fatal => {
                return Outcome::Error(format!("partition {}: {error}", self.partition));
            }
            Ok((_, Err(_))) | Err(_) => {}
        }
        self.seen.retries += 1;
        Outcome::Again
    }

    fn leader(&mut self) -> Result<Client> {
        if let Some(client) = self.server.take() {
            return Ok(client);
        }
        self.attempts += 1;
        let addresses = &self.target.addresses;
        let asked: SocketAddr = addresses[self.attempts % addresses.len()];
        let led = leaders::ask(&mut Client::connect(asked)?, self.target)?;
        Client::connect(led[self.partition as usize].address)
    }
}

/// The offset of the record.
fn produce(
    client: &mut Client,
    (_, partition): (&str, i32),
    frame: &[u8],
) -> Result<Result<i64, ErrorCode>> {
    let body = client.call(ApiKey::Produce, PRODUCE_VERSION, frame)?;
    let response = ProduceResponse::from_bytes(body, PRODUCE_VERSION)?;
    let topic = response.responses.iter().next();
    let answers = topic.context("no topic answered")?.partition_responses;
    let answer = answers.iter().next().context("no partition answered")?;
    if answer.index != partition {
        bail!("another partition answered");
    }
    Ok(match ErrorCode::from_code(answer.error_code) {
        ErrorCode::None => Ok(answer.base_offset),
        error => Err(error),
    })
}

/// The first offset received, and how many records from there on.
fn fetch(
    client: &mut Client,
    (topic, partition): (&str, i32),
    offset: i64,
) -> Result<Result<(i64, u64), ErrorCode>> {
    let partition = FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: MAX_BYTES,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic,
        partitions: vec![partition].into(),
        ..FetchTopic::default()
    };
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: MAX_BYTES,
        session_epoch: -1,
        topics: vec![topic].into(),
        ..FetchRequest::default()
    };
    let frame = frame(ApiKey::Fetch, FETCH_VERSION, &request);
    let body = client.call(ApiKey::Fetch, FETCH_VERSION, &frame)?;
    let response = FetchResponse::from_bytes(body, FETCH_VERSION)?;
    let topic = response.responses.iter().next();
    let partitions = topic.context("no topic answered")?.partitions;
    let answer = partitions.iter().next().context("no partition answered")?;
    match ErrorCode::from_code(answer.error_code) {
        ErrorCode::None => {}
        error => return Ok(Err(error)),
    }
    let mut records = answer.records.unwrap_or_default();
    let (mut first, mut end) = (None, Offset(offset));
    // The last batch may be cut off; it comes whole the next time.
    while let Ok((batch, rest)) = RecordBatch::parse(records) {
        first.get_or_insert(batch.base_offset());
        end = batch.next_offset();
        records = rest;
    }
    let first = first.unwrap_or(Offset(offset)).max(Offset(offset));
    Ok(Ok((first.0, u64::try_from(end - first).unwrap_or(0))))
}
