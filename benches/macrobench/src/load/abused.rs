//! A steady producer of small requests beside clients that ask for as much as they can: what one
//! client makes another wait.
//!
//! The producer keeps to a schedule, and its latencies count from the scheduled time: a server that
//! stops for a second delays all that was due in it. The others have one request each in flight and
//! begin anew when it is answered or the connection closed.

use model::BrokerId;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use record::{BatchBuilder, BatchHeader, Codec, Compression, Compressor};
use serde_json::{Value, json};
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest as Heartbeat;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    DescribeConfigsRequest, FindCoordinatorRequest, ListOffsetsRequest, ProduceRequest,
};

use super::Target;
use super::client::{Client, PRODUCE_VERSION, frame};
use super::latencies::Latencies;

/// Between two requests of the steady producer.
const INTERVAL: Duration = Duration::from_millis(2);
/// Records of a request that expands to them.
const BOMB_RECORDS: usize = 200;
const BOMB_RECORD_BYTES: usize = 1024 * 1024;
const REPETITIONS: usize = 8_000;
const EMPTY_PARTITIONS: i32 = 1_500_000;
const LONG_NAMES: usize = 50;
const LONG_NAME_BYTES: usize = 240;
const PATTERN: &str = "(?:a{0,400}b?){0,300}";
const TOPIC: i8 = 2;
const GROUP: i8 = 32;
/// How often a client that reads nothing asks again on another connection.
const UNREAD_INTERVAL: Duration = Duration::from_millis(50);
const DESCRIBE_CONFIGS_VERSION: i16 = 4;
const LIST_OFFSETS_VERSION: i16 = 7;
const HEARTBEAT_VERSION: i16 = 1;
const FIND_COORDINATOR_VERSION: i16 = 4;

/// What the others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abuse {
    /// Nothing: what the producer waits by itself.
    None,
    /// One pattern after another that takes long to match, over topics of long names.
    Patterns,
    /// A resource named thousands of times.
    Repetition,
    /// A million and a half of partitions without records.
    EmptyPartitions,
    /// A time to be looked up in a batch that expands.
    Lookups,
    /// Batches that expand.
    Expansion,
    /// Large answers that are not read.
    Unread,
}

impl FromStr for Abuse {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "none" => Self::None,
            "patterns" => Self::Patterns,
            "repetition" => Self::Repetition,
            "empty-partitions" => Self::EmptyPartitions,
            "lookups" => Self::Lookups,
            "expansion" => Self::Expansion,
            "unread" => Self::Unread,
            _ => bail!("no abuse `{name}`"),
        })
    }
}

/// Runs the producer beside so many others.
pub(super) fn run(target: &Target, abuse: Abuse, connections: usize) -> Result<Value> {
    let mut client = Client::connect(target.address)?;
    prepare(target, abuse, &mut client)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let small = produce(&target.topic, &batch(1, 100, Compression::None, now));
    let heavy = heavy_frame(target, abuse, now);
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let cpu_before = target.processes.cpu_time()?;
    let begin = Instant::now();
    let latencies = thread::scope(|scope| {
        for at in 0..connections {
            let (heavy, is_over, count) = (&heavy, &is_over, &count);
            scope.spawn(move || repeat(target, abuse, heavy, at, is_over, count));
        }
        let latencies = steady(&mut client, &small, target.warmup, target.duration);
        is_over.store(true, Ordering::Relaxed);
        latencies
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    if matches!(abuse, Abuse::Lookups | Abuse::Expansion) {
        client.delete_topic(&bombs_of(target))?;
    }
    let cpu_seconds = target.processes.cpu_time()?.zip(cpu_before);
    Ok(json!({
        "seconds": seconds,
        "cpu_seconds": cpu_seconds.map(|(after, before)| (after - before).as_secs_f64()),
        "latency": latencies.into_json(),
        "abuses": count.load(Ordering::Relaxed),
        "resident_mb": target.processes.resident_bytes()?.map(|bytes| bytes as f64 / 1e6),
    }))
}

/// Sends a small request each interval, or as soon as the one before it is answered.
fn steady(
    client: &mut Client,
    frame: &[u8],
    warmup: Duration,
    duration: Duration,
) -> Result<Latencies> {
    let begin = Instant::now();
    let mut latencies = Latencies::default();
    let mut due = begin;
    while begin.elapsed() < warmup + duration {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let error = client.produce(frame)?;
        ensure!(error.is_none(), "a small batch is refused: {error:?}");
        if due >= begin + warmup {
            latencies.push(due.elapsed());
        }
        due += INTERVAL;
    }
    Ok(latencies)
}

/// The topic of batches that expand.
fn bombs_of(target: &Target) -> String {
    format!("{}-bombs", target.topic)
}

/// Makes what the heavy requests need.
fn prepare(target: &Target, abuse: Abuse, client: &mut Client) -> Result<()> {
    match abuse {
        Abuse::Patterns => {
            for at in 0..LONG_NAMES {
                let name = format!("{}{at:02}", "a".repeat(LONG_NAME_BYTES));
                client.create_topic(&name, 1, 1, None)?;
            }
            let request = FindCoordinatorRequest {
                coordinator_keys: vec!["abuse-0"].into(),
                ..FindCoordinatorRequest::default()
            };
            let api = ApiKey::FindCoordinator;
            let frame = frame(api, FIND_COORDINATOR_VERSION, &request);
            for _ in 0..20 {
                client.call(api, FIND_COORDINATOR_VERSION, &frame)?;
                thread::sleep(Duration::from_millis(100));
            }
        }
        Abuse::Lookups | Abuse::Expansion => {
            let topic = bombs_of(target);
            client.create_topic(&topic, 1, 1, None)?;
            client.wait_for_leaders(&topic, 0..1)?;
            let bomb = batch(BOMB_RECORDS, BOMB_RECORD_BYTES, Compression::Gzip, 1);
            let error = client.produce(&produce(&topic, &bomb))?;
            ensure!(
                error.is_none(),
                "a batch that expands is refused: {error:?}"
            );
        }
        _ => {}
    }
    Ok(())
}

fn batch(records: usize, record_bytes: usize, codec: Compression, timestamp: i64) -> Vec<u8> {
    let value = vec![0; record_bytes];
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for _ in 0..records {
        builder.append(timestamp, None, Some(&value), &[]);
    }
    let mut bytes = Vec::new();
    builder.build(Codec::from(codec), &mut Compressor::new(), &mut bytes);
    bytes
}

fn produce(topic: &str, batch: &[u8]) -> Vec<u8> {
    let partition = PartitionProduceData {
        index: 0,
        records: Some(batch),
    };
    let topic = TopicProduceData {
        name: topic,
        partition_data: vec![partition].into(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    frame(ApiKey::Produce, PRODUCE_VERSION, &request)
}

/// The request that is sent again and again; patterns are made anew each time.
fn heavy_frame(target: &Target, abuse: Abuse, now_ms: i64) -> Vec<u8> {
    let bombs = bombs_of(target);
    match abuse {
        Abuse::None | Abuse::Patterns => Vec::new(),
        Abuse::Repetition | Abuse::Unread => {
            // Groups need not exist, and each is described once: the answer is large.
            let groups: Vec<String> = (0..REPETITIONS).map(|at| format!("group-{at}")).collect();
            let resource = |group| match abuse {
                Abuse::Unread => (GROUP, group),
                _ => (TOPIC, &target.topic),
            };
            let resources = groups.iter().map(|group| {
                let (resource_type, name) = resource(group);
                DescribeConfigsResource {
                    resource_type,
                    resource_name: name,
                    configuration_keys: None,
                }
            });
            let request = DescribeConfigsRequest {
                resources: resources.collect(),
                include_synonyms: true,
                include_documentation: true,
            };
            frame(ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request)
        }
        Abuse::EmptyPartitions => {
            let partitions = (0..EMPTY_PARTITIONS).map(|index| PartitionProduceData {
                index,
                records: None,
            });
            let topic = TopicProduceData {
                name: &target.topic,
                partition_data: partitions.collect(),
                ..TopicProduceData::default()
            };
            let request = ProduceRequest {
                acks: 1,
                timeout_ms: 30_000,
                topic_data: vec![topic].into(),
                ..ProduceRequest::default()
            };
            frame(ApiKey::Produce, PRODUCE_VERSION, &request)
        }
        Abuse::Lookups => {
            let partition = ListOffsetsPartition {
                partition_index: 0,
                timestamp: -3,
                ..ListOffsetsPartition::default()
            };
            let request = ListOffsetsRequest {
                replica_id: BrokerId::NONE,
                topics: vec![ListOffsetsTopic {
                    name: &bombs,
                    partitions: vec![partition].into(),
                }]
                .into(),
                ..ListOffsetsRequest::default()
            };
            frame(ApiKey::ListOffsets, LIST_OFFSETS_VERSION, &request)
        }
        Abuse::Expansion => {
            let bomb = batch(BOMB_RECORDS, BOMB_RECORD_BYTES, Compression::Gzip, now_ms);
            produce(&bombs, &bomb)
        }
    }
}

/// Asks for as much as it can, until it is over.
fn repeat(
    target: &Target,
    abuse: Abuse,
    heavy: &[u8],
    connection: usize,
    is_over: &AtomicBool,
    count: &AtomicU64,
) {
    let is_over = || is_over.load(Ordering::Relaxed);
    let mut number = 0;
    let mut unread = Vec::new();
    while abuse != Abuse::None && !is_over() {
        let Ok(mut stream) = TcpStream::connect(target.address) else {
            continue;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        if abuse == Abuse::Unread {
            if stream.write_all(heavy).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
                unread.push(stream);
            }
            thread::sleep(UNREAD_INTERVAL);
            continue;
        }
        // Until the server closes the connection.
        while !is_over() {
            number += 1;
            let asked = match abuse {
                Abuse::Patterns => stream.write_all(&pattern_frame(connection, number)),
                _ => stream.write_all(heavy),
            };
            if asked.is_err() || !is_answered(&mut stream, &is_over) {
                break;
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A member joins a group of its own with a pattern that nobody has had.
fn pattern_frame(connection: usize, number: usize) -> Vec<u8> {
    let (group, member) = (format!("abuse-{connection}"), format!("member-{number}"));
    let pattern = format!("{PATTERN}{number}");
    let request = Heartbeat {
        group_id: &group,
        member_id: &member,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_regex: Some(&pattern),
        topic_partitions: Some(Vec::new().into()),
        ..Heartbeat::default()
    };
    frame(ApiKey::ConsumerGroupHeartbeat, HEARTBEAT_VERSION, &request)
}

/// Reads an answer and forgets it.
fn is_answered(stream: &mut TcpStream, is_over: &impl Fn() -> bool) -> bool {
    let mut part = vec![0; 64 * 1024];
    let mut size = Vec::new();
    let mut left = 4;
    loop {
        let room = left.min(part.len());
        match stream.read(&mut part[..room]) {
            Ok(0) => return false,
            Ok(count) => {
                if size.len() < 4 {
                    size.extend_from_slice(&part[..count]);
                }
                left -= count;
            }
            Err(_) if is_over() => return false,
            Err(error) if is_timeout(&error) => {}
            Err(_) => return false,
        }
        if left == 0 && size.len() == 4 {
            let announced = [size[0], size[1], size[2], size[3]];
            left = u32::from_be_bytes(announced) as usize;
            size.push(0);
        }
        if left == 0 {
            return true;
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
