//! Answers that are not read: they take only so much memory, and those who read slowly hold up
//! nobody who asks for little, nor for long who asks for much.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, TestServer};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    FindCoordinatorRequest, ListGroupsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest,
};

const METADATA_BYTES: usize = 32_000;
const PARTITION_COUNT: i32 = 112;
const VERSION: i16 = 8;

/// Answers may take 4 MiB, which is little more than one of all offsets of the group takes.
const LIMITS: [(&str, &str); 4] = [
    ("socket.request.max.bytes", "1048576"),
    ("queued.max.request.bytes", "4194304"),
    ("offset.metadata.max.bytes", "32000"),
    ("socket.send.buffer.bytes", "16384"),
];

/// A server with a group `large` whose offsets take 3.6 MB, and a group `small`.
fn start() -> TestServer {
    let server = TestServer::start(&LIMITS);
    let mut client = server.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    client.wait_for_coordinator("large");
    let metadata = "m".repeat(METADATA_BYTES);
    for partition_index in 0..PARTITION_COUNT {
        let partition = OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 1,
            committed_metadata: Some(&metadata),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "large",
            generation_id_or_member_epoch: -1,
            topics: vec![OffsetCommitRequestTopic {
                name: "topic",
                partitions: vec![partition].into(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        };
        let answer = client.call(VERSION, &request);
        let response: OffsetCommitResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        assert_eq!(partition.error_code, 0);
    }
    client.commit_offset("small", "topic", 1);
    let answer = client.call(VERSION, &offsets_of("large"));
    assert!(answer.body.len() > PARTITION_COUNT as usize * METADATA_BYTES);
    server
}

/// A request for all offsets of a group.
fn offsets_of(group_id: &str) -> OffsetFetchRequest<'_> {
    OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id,
            topics: None,
            ..Default::default()
        }]
        .into(),
        ..Default::default()
    }
}

/// Clients that read nothing of a large answer each, until there is room for no more; the last one
/// has no answer.
fn fill(server: &TestServer) -> (Vec<Client>, Client) {
    let mut deaf = Vec::new();
    loop {
        let mut client = server.connect();
        client.send(VERSION, &offsets_of("large"));
        if client.is_silent_for(Duration::from_millis(300)) {
            return (deaf, client);
        }
        deaf.push(client);
    }
}

#[test]
fn small_answers_do_not_wait_for_large_ones() {
    let server = start();
    let (mut deaf, mut waiting) = fill(&server);
    assert_eq!(deaf.len(), 2, "as many as find something left");
    let mut client = server.connect();
    client.call(9, &MetadataRequest::default());
    client.call(VERSION, &offsets_of("small"));
    client.call(3, &FindCoordinatorRequest::default());
    client.call(4, &ListGroupsRequest::default());
    // There is still no room for large ones.
    assert!(waiting.is_silent_for(Duration::from_millis(1)));
    for client in &mut deaf {
        let size = client.receive().body.len();
        assert!(size > PARTITION_COUNT as usize * METADATA_BYTES);
    }
    waiting.receive();
}

/// Reads an answer at 160 KB a second until `is_enough`; returns whether it was not cut.
fn read_slowly(stream: &mut TcpStream, begun: &AtomicUsize, is_enough: &AtomicBool) -> bool {
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("an answer");
    begun.fetch_add(1, Ordering::Relaxed);
    let mut left = u32::from_be_bytes(size) as usize;
    let mut part = [0; 16 * 1024];
    while left > 0 && !is_enough.load(Ordering::Relaxed) {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return false,
            Ok(count) => left -= count.min(left),
        }
        thread::sleep(Duration::from_millis(100));
    }
    true
}

#[test]
fn slow_readers_give_way_to_those_that_wait_for_long() {
    const SLOW: usize = 2;
    let server = start();
    let (begun, is_answered) = (AtomicUsize::new(0), AtomicBool::new(false));
    let cut = thread::scope(|scope| {
        let readers = (0..SLOW).map(|_| {
            scope.spawn(|| {
                let frame = server.connect().frame(VERSION, &offsets_of("large"));
                let mut stream = TcpStream::connect(server.address()).expect("it listens");
                stream.write_all(&frame).expect("it reads");
                read_slowly(&mut stream, &begun, &is_answered)
            })
        });
        let readers: Vec<_> = readers.collect();
        testkit::wait_until("all are being answered", || {
            begun.load(Ordering::Relaxed) == SLOW
        });
        server.connect().call(VERSION, &offsets_of("large"));
        is_answered.store(true, Ordering::Relaxed);
        let ended = readers.into_iter().map(|one| one.join().expect("it reads"));
        ended.filter(|is_whole| !is_whole).count()
    });
    assert_eq!(
        cut, 1,
        "one connection is closed, and the other one goes on"
    );
}
