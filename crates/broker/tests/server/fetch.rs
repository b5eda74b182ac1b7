//! Fetching: what is there, what is waited for, and what is out of range.

use model::ErrorCode;
use std::time::{Duration, Instant};
use testkit::{Client, FETCH_VERSION, TestServer, batch, fetch_topic};
use wire::messages::fetch_request::FetchPartition;
use wire::messages::{FetchRequest, FetchResponse, MetadataRequest};

fn server_with_topic(partitions: i32) -> (TestServer, Client) {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", partitions, &[]);
    (server, client)
}

#[test]
fn a_waiting_fetch_wakes_with_the_first_record() {
    let (server, mut producer) = server_with_topic(2);
    let mut consumer = server.connect();
    for (index, offsets) in [(1, [(0, 0), (1, 0)]), (0, [(0, 0), (1, 1)])] {
        let request = FetchRequest {
            max_wait_ms: 60_000,
            min_bytes: 1,
            session_epoch: -1,
            topics: vec![fetch_topic("topic", &offsets)].into(),
            ..FetchRequest::default()
        };
        let start = Instant::now();
        consumer.send(FETCH_VERSION, &request);
        assert!(consumer.is_silent_for(Duration::from_millis(30)));
        let produced = producer.produce("topic", index, &batch(&["value"]));
        produced.assert_accepted();
        let answer = consumer.receive();
        assert!(start.elapsed() < Duration::from_secs(30));
        let response: FetchResponse<'_> = answer.read();
        let topic = response.responses.iter().next().unwrap();
        let mut partitions = topic.partitions.iter();
        let found = partitions.find(|one| one.partition_index == index);
        assert!(!found.unwrap().records.unwrap().is_empty());
    }
}

#[test]
fn a_fetch_waits_for_as_many_bytes_as_it_asks_for() {
    let (server, mut producer) = server_with_topic(1);
    let sent = batch(&["value"]);
    let mut consumer = server.connect();
    let request = FetchRequest {
        max_wait_ms: 60_000,
        min_bytes: 2 * sent.len() as i32,
        session_epoch: -1,
        topics: vec![fetch_topic("topic", &[(0, 0)])].into(),
        ..FetchRequest::default()
    };
    consumer.send(FETCH_VERSION, &request);
    producer.produce("topic", 0, &sent).assert_accepted();
    assert!(consumer.is_silent_for(Duration::from_millis(50)));
    producer.produce("topic", 0, &sent).assert_accepted();
    assert_eq!(consumer.receive_fetched().values().len(), 2);
}

#[test]
fn a_fetch_ends_with_its_time_and_with_nothing() {
    let (_server, mut client) = server_with_topic(1);
    let start = Instant::now();
    client.send_fetch("topic", 0, 0, 100);
    let fetched = client.receive_fetched();
    assert!(start.elapsed() >= Duration::from_millis(95));
    assert_eq!(fetched.error, ErrorCode::None);
    assert!(fetched.records.is_empty());
}

#[test]
fn a_fetch_that_waits_ends_with_its_topic() {
    let (server, mut client) = server_with_topic(1);
    let mut consumer = server.connect();
    consumer.send_fetch("topic", 0, 0, 60_000);
    assert!(consumer.is_silent_for(Duration::from_millis(50)));
    client.delete_topic("topic");
    let fetched = consumer.receive_fetched();
    assert_ne!(fetched.error, ErrorCode::None);
}

#[test]
fn offsets_out_of_range_are_told() {
    let (server, mut client) = server_with_topic(1);
    client
        .produce("topic", 0, &batch(&["a", "b", "c"]))
        .assert_accepted();
    client.delete_records("topic", 0, 1);
    for (offset, expected) in [
        (i64::MIN, ErrorCode::OffsetOutOfRange),
        (-1, ErrorCode::OffsetOutOfRange),
        (0, ErrorCode::OffsetOutOfRange),
        (1, ErrorCode::None),
        (3, ErrorCode::None),
        (4, ErrorCode::OffsetOutOfRange),
        (i64::MAX, ErrorCode::OffsetOutOfRange),
    ] {
        assert_eq!(client.fetch("topic", 0, offset).error, expected, "{offset}");
    }
    for index in [-1, 1, i32::MAX] {
        let fetched = client.fetch("topic", index, 0);
        assert_eq!(fetched.error, ErrorCode::UnknownTopicOrPartition);
    }
    server.assert_serves();
}

/// Fetches with limits; returns the sizes of what came from each partition.
fn sizes(client: &mut Client, max_bytes: i32, partition_max_bytes: i32) -> Vec<usize> {
    let partitions = (0..2).map(|partition| FetchPartition {
        partition,
        partition_max_bytes,
        ..FetchPartition::default()
    });
    let mut topic = fetch_topic("topic", &[]);
    topic.partitions = partitions.collect();
    let request = FetchRequest {
        max_bytes,
        session_epoch: -1,
        topics: vec![topic].into(),
        ..FetchRequest::default()
    };
    let answer = client.call(FETCH_VERSION, &request);
    let response: FetchResponse<'_> = answer.read();
    let topic = response.responses.iter().next().unwrap();
    let records = topic
        .partitions
        .iter()
        .map(|one| one.records.unwrap_or_default());
    records.map(<[u8]>::len).collect()
}

#[test]
fn limits_hold_but_for_the_first_batch() {
    let (_server, mut client) = server_with_topic(2);
    let sent = batch(&[&"x".repeat(1000)]);
    for index in [0, 0, 1, 1] {
        client.produce("topic", index, &sent).assert_accepted();
    }
    let one = sent.len();
    assert_eq!(sizes(&mut client, i32::MAX, i32::MAX), [2 * one, 2 * one]);
    // However small the limits, one whole batch comes.
    for tiny in [0, 1, 100, i32::MIN] {
        assert_eq!(sizes(&mut client, tiny, i32::MAX), [one, 0], "{tiny}");
        assert_eq!(sizes(&mut client, i32::MAX, tiny)[0], one, "{tiny}");
    }
    // A batch that only begins within the limit may be cut.
    let cut = sizes(&mut client, i32::MAX, one as i32 + 10);
    assert!(
        cut.iter().all(|size| (one..=one + 10).contains(size)),
        "{cut:?}"
    );
}

#[test]
fn a_fetch_that_waits_does_not_hold_back_the_answers_before_it() {
    let (server, mut producer) = server_with_topic(1);
    let mut client = server.connect();
    // All in one go: the answers to the first two come while the third waits.
    let mut bytes = Vec::new();
    bytes.extend(client.frame(9, &MetadataRequest::default()));
    bytes.extend(client.frame(9, &MetadataRequest::default()));
    let request = FetchRequest {
        max_wait_ms: 60_000,
        min_bytes: 1,
        session_epoch: -1,
        topics: vec![fetch_topic("topic", &[(0, 0)])].into(),
        ..FetchRequest::default()
    };
    bytes.extend(client.frame(FETCH_VERSION, &request));
    bytes.extend(client.frame(9, &MetadataRequest::default()));
    client.send_bytes(&bytes);
    let correlation_id = |frame: Vec<u8>| i32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(correlation_id(client.receive_frame()), 1);
    assert_eq!(correlation_id(client.receive_frame()), 2);
    assert!(client.is_silent_for(Duration::from_millis(20)));
    producer
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    assert_eq!(correlation_id(client.receive_frame()), 3);
    assert_eq!(correlation_id(client.receive_frame()), 4);
}

#[test]
fn every_isolation_sees_what_no_transaction_can_change() {
    let (_server, mut client) = server_with_topic(1);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    for (isolation_level, has_aborted) in [(0, false), (1, true)] {
        let request = FetchRequest {
            isolation_level,
            session_epoch: -1,
            topics: vec![fetch_topic("topic", &[(0, 0)])].into(),
            ..FetchRequest::default()
        };
        let answer = client.call(FETCH_VERSION, &request);
        let response: FetchResponse<'_> = answer.read();
        let topic = response.responses.iter().next().unwrap();
        let partition = topic.partitions.iter().next().unwrap();
        assert_eq!(partition.last_stable_offset, 2);
        assert_eq!(partition.high_watermark, 2);
        assert_eq!(partition.aborted_transactions.is_some(), has_aborted);
        assert!(!partition.records.unwrap().is_empty());
    }
}
