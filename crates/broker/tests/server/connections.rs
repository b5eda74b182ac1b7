//! Connections: how many there may be, how long they may be silent, and the order on each.

use std::net::IpAddr;
use std::time::{Duration, Instant};
use testkit::{Client, FETCH_VERSION, TestServer, batch, fetch_topic};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    ApiVersionsRequest, FetchRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetFetchResponse,
};

/// Whether a new connection from this address is served.
fn is_served_from(server: &TestServer, ip: IpAddr) -> Option<Client> {
    let mut client = Client::connect_from(ip, server.address());
    client.send_if_open(9, &MetadataRequest::default());
    let answer = client.receive_frame_if_any(testkit::LIMIT);
    answer.map(|_| client)
}

#[test]
fn an_address_has_its_share_of_connections() {
    let server = TestServer::start(&[
        ("max.connections.per.ip", "2"),
        (
            "max.connections.per.ip.overrides",
            "127.0.0.2:1,127.0.0.3:0",
        ),
    ]);
    for (ip, share) in [("127.0.0.1", 2), ("127.0.0.2", 1), ("127.0.0.3", 0)] {
        let ip: IpAddr = ip.parse().unwrap();
        let mut open: Vec<Client> = Vec::new();
        for _ in 0..share {
            open.push(is_served_from(&server, ip).expect("within the share"));
        }
        assert!(is_served_from(&server, ip).is_none(), "{ip}");
        // The others go on, and a place that is left is taken.
        for client in &mut open {
            client.brokers();
        }
        if open.pop().is_some() {
            testkit::wait_until("the place is free", || {
                is_served_from(&server, ip).is_some()
            });
        }
    }
}

#[test]
fn beyond_the_limit_of_all_connections_one_waits_for_a_place() {
    let server = TestServer::start(&[("max.connections", "2")]);
    let mut first = server.connect();
    let mut second = server.connect();
    first.brokers();
    second.brokers();
    let mut third = server.connect();
    third.send(9, &MetadataRequest::default());
    assert!(third.is_silent_for(Duration::from_millis(50)));
    second.brokers();
    drop(first);
    third.receive();
}

#[test]
fn a_silent_connection_is_closed() {
    let server = TestServer::start(&[("connections.max.idle.ms", "300")]);
    // Then others are served still.
    for _ in 0..2 {
        // Who takes as long to ask for something has been silent before.
        testkit::wait_until("a connection is closed after its answer", || {
            let start = Instant::now();
            let mut client = server.connect();
            client.send_if_open(9, &MetadataRequest::default());
            let is_answered = client.receive_frame_if_any(testkit::LIMIT).is_some();
            if is_answered {
                client.assert_closed();
            }
            assert!(start.elapsed() >= Duration::from_millis(250));
            is_answered
        });
    }
    server.stop();
}

/// A fetch from the start of a topic, which waits for a record for so long.
fn fetch(max_wait_ms: i32) -> FetchRequest<'static> {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: i32::MAX,
        session_epoch: -1,
        topics: vec![fetch_topic("topic", &[(0, 0)])].into(),
        ..FetchRequest::default()
    }
}

/// A client that the machine keeps from running for as long as a connection may be silent is closed for
/// that: so this is tried until one has gone on in time.
#[test]
fn a_request_that_waits_is_not_silence() {
    const SILENCE_MS: u64 = 150;
    const WAIT_MS: u64 = 300;
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    server.connect().create_topic("topic", 1, &[]);
    server.stop();
    let limit = SILENCE_MS.to_string();
    let limit = [("connections.max.idle.ms", &*limit)];
    let server = TestServer::start_in(directory.path(), &limit).unwrap();
    testkit::wait_until("a client has asked in time", || {
        let begun = Instant::now();
        let mut client = server.connect();
        let asking = Instant::now();
        client.send_if_open(FETCH_VERSION, &fetch(WAIT_MS as i32));
        let before_ms = begun.elapsed().as_millis() as u64;
        let is_answered = client.receive_frame_if_any(testkit::LIMIT).is_some();
        client.send_if_open(9, &MetadataRequest::default());
        // No answer comes before its wait is over.
        let between_ms = (asking.elapsed().as_millis() as u64).saturating_sub(WAIT_MS);
        let is_prompt = before_ms.max(between_ms) < SILENCE_MS - 50;
        let goes_on = client.receive_frame_if_any(testkit::LIMIT).is_some();
        assert!(!is_prompt || is_answered && goes_on, "it is closed");
        is_prompt
    });
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 4, &[]);
    for round in 0..50 {
        for index in 0..4 {
            client.send_produce("topic", index, &batch(&["value"]), -1);
            client.send(9, &MetadataRequest::default());
            client.send_fetch("topic", index, round, 0);
        }
    }
    for round in 0..50 {
        for _ in 0..4 {
            // Each answer bears the number of its request, which is checked.
            assert_eq!(client.receive_produced().base_offset, round);
            client.receive();
            assert_eq!(client.receive_fetched().values(), ["value"]);
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_held_back_alone() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let large = "x".repeat(900_000);
    client
        .produce("topic", 0, &batch(&[&large]))
        .assert_accepted();
    let mut deaf = server.connect();
    for _ in 0..100 {
        deaf.send_fetch("topic", 0, 0, 0);
    }
    server.assert_serves();
    for _ in 0..100 {
        assert_eq!(deaf.receive_fetched().values()[0].len(), large.len());
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_is_forgotten() {
    let server = TestServer::start(&[("max.connections", "3")]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let large = "x".repeat(900_000);
    client
        .produce("topic", 0, &batch(&[&large]))
        .assert_accepted();
    drop(client);
    for _ in 0..10 {
        let mut leaver = server.connect();
        leaver.send_fetch("topic", 0, 0, 0);
        // Or while it waits.
        leaver.send_fetch("topic", 0, 1, 60_000);
        drop(leaver);
    }
    server.assert_serves();
}

#[test]
fn clients_that_send_slowly_hold_nobody_back() {
    let server = TestServer::start(&[]);
    let mut slow: Vec<_> = (0..100).map(|_| server.connect()).collect();
    let frame = slow[0].frame(9, &MetadataRequest::default());
    let (last, first) = frame.split_last().unwrap();
    for byte in first {
        for client in &mut slow {
            client.send_bytes(&[*byte]);
        }
    }
    server.assert_serves();
    for client in &mut slow {
        client.send_bytes(&[*last]);
        assert!(!client.receive_frame().is_empty());
    }
    server.assert_serves();
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&[&"x".repeat(900_000)]))
        .assert_accepted();
    drop(client);
    server.stop();
    // The one connection that there may be is that of the client that does not read.
    let limits = [("connections.max.idle.ms", "300"), ("max.connections", "1")];
    let server = TestServer::start_in(directory.path(), &limits).unwrap();
    let mut deaf = server.connect();
    let frames: Vec<u8> = (0..100)
        .flat_map(|_| deaf.frame(FETCH_VERSION, &fetch(0)))
        .collect();
    deaf.send_bytes_if_open(&frames);
    // Another one is served when it has gone.
    testkit::wait_until("another one is served", || {
        let mut client = server.connect();
        client.send_if_open(9, &MetadataRequest::default());
        client.receive_frame_if_any(testkit::LIMIT).is_some()
    });
}

#[test]
fn a_lower_limit_closes_the_connections_that_were_used_the_least_recently() {
    let server = TestServer::start(&[]);
    // Each has been used when the next one comes: before, the turn of its worker may have begun earlier.
    let used = |_| {
        let mut client = server.connect();
        client.brokers();
        client
    };
    let mut clients: Vec<Client> = (0..5).map(used).collect();
    // The first has been used last.
    crate::configs::change(&mut clients[0], "", "max.connections", Some("2"));
    for closed in &mut clients[1..4] {
        closed.assert_closed();
    }
    clients[0].brokers();
    clients[4].brokers();
}

/// Of controllers as well, whose connections are counted by themselves.
#[test]
fn a_limit_that_is_set_holds_for_every_listener() {
    let server = TestServer::start(&[]);
    let controller = server.address_of("CONTROLLER");
    let mut client = server.connect();
    // The one has been used when the other comes.
    let mut clients = [(); 2].map(|()| {
        let mut client = Client::connect(controller);
        client.call(4, &ApiVersionsRequest::default());
        client
    });
    crate::configs::change(&mut client, "", "max.connections", Some("1"));
    clients[0].assert_closed();
    clients[1].call(4, &ApiVersionsRequest::default());
    client.brokers();
}

#[test]
fn what_is_not_text_is_replaced() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    for version in [2, 8] {
        let partition = OffsetCommitRequestPartition {
            committed_offset: 7,
            committed_metadata: Some("<binary>"),
            ..OffsetCommitRequestPartition::default()
        };
        let request = OffsetCommitRequest {
            group_id: "group",
            generation_id_or_member_epoch: -1,
            topics: vec![OffsetCommitRequestTopic {
                name: "topic",
                partitions: vec![partition].into(),
                ..OffsetCommitRequestTopic::default()
            }]
            .into(),
            ..OffsetCommitRequest::default()
        };
        // The name of the client is not text either.
        let client = &mut server.connect().named("\u{fe}\u{fe}");
        let mut frame = client.frame(version, &request);
        for (text, binary) in [
            (&b"<binary>"[..], &b"\x00\xff\xfe\x80abc\xc3"[..]),
            ("\u{fe}\u{fe}".as_bytes(), b"\xfe\xfe\xff\xff"),
        ] {
            let found = frame.windows(text.len()).position(|bytes| bytes == text);
            let at = found.expect("it is in the frame");
            frame[at..at + text.len()].copy_from_slice(binary);
        }
        client.send_bytes(&frame);
        client.receive_frame();
        let request = OffsetFetchRequest {
            group_id: "group",
            topics: Some(
                vec![OffsetFetchRequestTopic {
                    name: "topic",
                    partition_indexes: vec![0].into(),
                }]
                .into(),
            ),
            ..OffsetFetchRequest::default()
        };
        let answer = client.call(5, &request);
        let response: OffsetFetchResponse<'_> = answer.read();
        let topic = response.topics.iter().next().unwrap();
        let partition = topic.partitions.iter().next().unwrap();
        assert_eq!(partition.committed_offset, 7);
        let replaced = "\u{0}\u{fffd}\u{fffd}\u{fffd}abc\u{fffd}";
        assert_eq!(partition.metadata, Some(replaced));
    }
    // Names that are no text are names like others, also where records come with them.
    let mut frame = client.produce_frame("<name>", 0, &batch(&["value"]), 1);
    let at = frame.windows(6).position(|bytes| bytes == b"<name>");
    frame[at.expect("it is in the frame") + 3] = 0xff;
    client.send_bytes(&frame);
    assert!(!client.receive_frame().is_empty());
}
