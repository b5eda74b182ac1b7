//! What one request makes the server allocate is in proportion to what it has sent, and to what it
//! asks for: not to what it repeats, leaves empty or expands to. The test is alone in a process.

mod arrays;

use crate::ALLOCATOR;
use arrays::large_requests;
use model::ErrorCode;
use record::Compression;
use stats_alloc::Region;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, PRODUCE_VERSION, TestServer, compressed_batch, list_offset_request};
use trials::alone;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{DescribeConfigsRequest, FetchRequest, ProduceRequest};

const MIB: usize = 1024 * 1024;

/// What the whole process allocates while a request is served.
fn allocated_bytes(stream: &mut TcpStream, frame: &[u8]) -> usize {
    let mut part = vec![0; 64 * 1024];
    let region = Region::new(ALLOCATOR);
    stream.write_all(frame).expect("the server reads");
    stream.read_exact(&mut part[..4]).expect("an answer");
    let mut left = u32::from_be_bytes(part[..4].try_into().expect("four bytes")) as usize;
    while left > 0 {
        let count = left.min(part.len());
        stream.read_exact(&mut part[..count]).expect("its rest");
        left -= count;
    }
    let change = region.change();
    change.bytes_allocated + change.bytes_reallocated.max(0).unsigned_abs()
}

fn empty_partitions(client: &mut Client) -> Vec<u8> {
    let partitions = (0..10_000).map(|index| PartitionProduceData {
        index,
        records: None,
    });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    client.frame(PRODUCE_VERSION, &request)
}

fn repeated_resources(client: &mut Client) -> Vec<u8> {
    let resource = DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1",
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource; 4000].into(),
        include_synonyms: true,
        include_documentation: true,
    };
    client.frame(4, &request)
}

fn lookup_by_time(client: &mut Client, timestamp: i64) -> Vec<u8> {
    client.frame(7, &list_offset_request("topic", 0, timestamp))
}

#[test]
fn a_request_takes_memory_in_proportion_to_itself() {
    alone(
        "memory::a_request_takes_memory_in_proportion_to_itself",
        check_requests,
    );
}

fn check_requests() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_topic("topic");
    let bomb = vec![0; 20 * MIB];
    let bomb = String::from_utf8(bomb).expect("zeros are text");
    let bomb = compressed_batch(Compression::Gzip, &[&bomb]);
    assert!(bomb.len() < MIB);
    let bomb_frame = client.produce_frame("topic", 0, &bomb, 1);
    let frames = [
        ("empty partitions", empty_partitions(&mut client), 8 * MIB),
        (
            "repeated resources",
            repeated_resources(&mut client),
            2 * MIB,
        ),
        ("a batch that expands", bomb_frame, 3 * MIB),
        ("a time in it", lookup_by_time(&mut client, 1), 3 * MIB),
        ("the largest time", lookup_by_time(&mut client, -3), 3 * MIB),
    ];
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    for (what, frame, max_bytes) in frames {
        let bytes = allocated_bytes(&mut stream, &frame);
        assert!(
            bytes < max_bytes,
            "{what}: {bytes} bytes for a request of {}",
            frame.len()
        );
    }
    // It was all done, and not refused.
    assert_eq!(client.list_offset("topic", 0, -1).offset, 1);
    assert_eq!(client.list_offset("topic", 0, -3).offset, 0);
    assert_eq!(client.topic_error("topic"), ErrorCode::None);
    server.stop();
    check_rebuilt_batches();
    check_large_arrays();
    check_many_batches();
    check_unread_fetches();
}

/// What expands is not held either where a topic has it compressed by another codec.
fn check_rebuilt_batches() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for to in ["uncompressed", "gzip", "snappy", "lz4", "zstd"] {
        // Snappy makes so much of zeros that a batch of them is refused only when they are many.
        let expanded_bytes = if to == "snappy" { 24 * MIB } else { 8 * MIB };
        let bomb = String::from_utf8(vec![0; expanded_bytes]).expect("zeros are text");
        client.create_topic(to, 1, &[("compression.type", to)]);
        client.wait_for_topic(to);
        for from in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
            let batch = compressed_batch(from, &[&bomb]);
            assert!(batch.len() < MIB);
            let frame = client.produce_frame(to, 0, &batch, 1);
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            let (answer, peak) = peak_bytes(&mut stream, &frame);
            assert!(answer.is_some(), "{from:?} to {to} is answered");
            // The greatest batch, of which a half is in use when it grows, and blocks of codecs.
            assert!(peak < 4 * MIB, "{from:?} to {to}: {peak} bytes");
        }
    }
    // Where the new batch is small enough it is there; otherwise it was refused.
    for (to, offset) in [
        ("uncompressed", 0),
        ("gzip", 3),
        ("snappy", 0),
        ("lz4", 3),
        ("zstd", 3),
    ] {
        assert_eq!(client.list_offset(to, 0, -1).offset, offset, "{to}");
    }
    server.stop();
}

/// What a request may take while it is served, for each of its own bytes.
const PROPORTION: usize = 8;
/// What it may take whatever its size: for the elements that any request may have, and for what
/// goes on beside it.
const FREE_BYTES: usize = 4 * MIB;
/// Enough that elements of a few bytes are more than any request may have.
const LARGE_BYTES: usize = 192 * 1024;
/// As many as any request may have, but for a few around them.
const ELEMENTS: usize = 9_900;

/// As many requests that are refused are sent at the same time.
const AT_A_TIME: usize = 16;

fn connect(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("it listens");
    let limit = Some(testkit::LIMIT);
    stream.set_read_timeout(limit).expect("it is not zero");
    stream
}

/// Bytes that are allocated now.
fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

/// Sends a request and reads what comes; returns the bytes of its answer, and the most that were
/// allocated meanwhile beyond what was before.
fn peak_bytes(stream: &mut TcpStream, frame: &[u8]) -> (Option<usize>, usize) {
    let (answers, peak) = peak_bytes_of(&mut [(stream, frame)]);
    (answers[0], peak)
}

/// The same of requests that are sent at the same time.
fn peak_bytes_of(requests: &mut [(&mut TcpStream, &[u8])]) -> (Vec<Option<usize>>, usize) {
    let (is_over, peak) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut part = vec![0; 64 * 1024];
    let mut answers = Vec::with_capacity(requests.len());
    let before = live_bytes();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(live_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_micros(50));
            }
        });
        for (stream, frame) in requests.iter_mut() {
            // Who is refused before the end of the frame may not write all of it.
            let _ = stream.write_all(frame);
        }
        for (stream, _) in requests.iter_mut() {
            answers.push(read_answer(stream, &mut part));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let peak = peak.load(Ordering::Relaxed).saturating_sub(before);
    (answers, peak)
}

fn read_answer(stream: &mut TcpStream, part: &mut [u8]) -> Option<usize> {
    stream.read_exact(&mut part[..4]).ok()?;
    let size = u32::from_be_bytes(part[..4].try_into().expect("four bytes")) as usize;
    let mut left = size;
    while left > 0 {
        let count = left.min(part.len());
        stream.read_exact(&mut part[..count]).ok()?;
        left -= count;
    }
    Some(size)
}

/// Every request of one large array takes memory in proportion to itself.
fn check_large_arrays() {
    // The elements that a request may have are bounded by this, too.
    let server = TestServer::start(&[("socket.request.max.bytes", "1048576")]);
    server.connect().create_topic("topic", 1, &[]);
    let mut failed = Vec::new();
    let mut answered_count = 0;
    // The server pauses before it closes the connection of a request that it refuses: many pause at a time.
    let all: Vec<_> = large_requests(LARGE_BYTES, ELEMENTS).collect();
    let refused = all.iter().map(|large| (&*large.what, &*large.frame));
    let refused: Vec<_> = refused.collect();
    let answered = all.iter().map(|large| (&*large.what, large.allowed()));
    let answered: Vec<_> = answered.collect();
    for together in refused.chunks(AT_A_TIME).chain(answered.chunks(1)) {
        let mut streams: Vec<_> = together.iter().map(|_| connect(&server)).collect();
        let frames = together.iter().map(|(_, frame)| *frame);
        let mut requests: Vec<_> = streams.iter_mut().zip(frames).collect();
        let (answers, peak) = peak_bytes_of(&mut requests);
        answered_count += answers.iter().flatten().count();
        let size: usize = together.iter().map(|(_, frame)| frame.len()).sum();
        if peak > FREE_BYTES + PROPORTION * size {
            let what: Vec<_> = together.iter().map(|(what, _)| *what).collect();
            failed.push(format!("{}: {peak} bytes for {size}", what.join(", ")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(answered_count > 100, "{answered_count} are answered");
    server.assert_serves();
}

/// The smallest batches that there are, as many as make megabytes of them.
fn check_many_batches() {
    const PARTITION_COUNT: usize = 100_000;
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let records = testkit::batch(&[""]);
    let partitions = (0..PARTITION_COUNT as i32).map(|index| PartitionProduceData {
        index,
        records: Some(&records),
    });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    let frame = client.frame(9, &request);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    let (answer, peak) = peak_bytes(&mut stream, &frame);
    assert!(answer.is_some_and(|bytes| bytes > PARTITION_COUNT * 30));
    // The frame as it arrives and as one, the outline, the answer, and one piece.
    let max_bytes = FREE_BYTES + 3 * frame.len();
    assert!(peak < max_bytes, "{peak} bytes for {}", frame.len());
    server.stop();
}

/// Answers that are not read take little more than they may together, also those of fetches: of
/// those that find records, and of those that wait for the same record.
fn check_unread_fetches() {
    const PARTITION_COUNT: i32 = 64;
    const DEAF: usize = 40;
    let limits = [
        ("socket.request.max.bytes", "1048576"),
        ("queued.max.request.bytes", "4194304"),
        ("socket.send.buffer.bytes", "16384"),
    ];
    let server = TestServer::start(&limits);
    let mut client = server.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    let value = "v".repeat(15_000);
    let mut produce = |index: i32| {
        let produced = client.produce("topic", index, &testkit::batch(&[&value]));
        produced.assert_accepted();
    };
    for index in 1..PARTITION_COUNT {
        produce(index);
    }
    let all_bytes = 15_000 * PARTITION_COUNT;
    for awaited in [Some(0), None] {
        let partitions: Vec<(i32, i64)> = (0..PARTITION_COUNT).map(|index| (index, 0)).collect();
        let request = FetchRequest {
            max_bytes: i32::MAX,
            min_bytes: all_bytes,
            max_wait_ms: testkit::LIMIT.as_millis() as i32,
            session_epoch: -1,
            topics: vec![testkit::fetch_topic("topic", &partitions)].into(),
            ..FetchRequest::default()
        };
        let before = live_bytes();
        let mut deaf: Vec<Client> = (0..DEAF).map(|_| server.connect()).collect();
        for client in &mut deaf {
            client.send(testkit::FETCH_VERSION, &request);
        }
        if let Some(index) = awaited {
            for client in &mut deaf {
                assert!(client.is_silent_for(Duration::from_millis(10)));
            }
            produce(index);
        }
        for client in &mut deaf {
            assert!(!client.is_silent_for(testkit::LIMIT));
        }
        let held = live_bytes().saturating_sub(before);
        assert!(held < 10 * MIB, "{held} bytes are held for {DEAF} clients");
        for client in &mut deaf {
            assert!(client.receive().body.len() > all_bytes as usize);
        }
    }
    server.stop();
}
