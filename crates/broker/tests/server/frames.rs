//! Frames that are none: whatever arrives, the connection ends and the server goes on.

use interpreter::Random;
use testkit::TestServer;
use wire::ApiKey;
use wire::messages::describe_topic_partitions_request::TopicRequest;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{DescribeTopicPartitionsRequest, MetadataRequest};

/// A frame of this size, as its size says, with these bytes after it.
fn announced(size: i32, bytes: &[u8]) -> Vec<u8> {
    [&size.to_be_bytes(), bytes].concat()
}

#[test]
fn what_is_no_request_closes_the_connection() {
    let server = TestServer::start(&[]);
    let mut cases: Vec<(&str, Vec<u8>)> = vec![
        ("text", b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n".to_vec()),
        (
            "a TLS hello",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        ),
        ("a negative size", announced(-1, &[])),
        ("the lowest size", announced(i32::MIN, &[])),
        ("an oversized frame", announced(100 * 1024 * 1024 + 1, &[])),
        ("the highest size", announced(i32::MAX, &[0; 100])),
        ("an empty frame", announced(0, &[])),
        ("half a header", announced(4, &[0, 3, 0, 9])),
        (
            "a client id beyond the frame",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0x7f, 0xff]),
        ),
        (
            "a client id of -2",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xfe]),
        ),
        (
            "a client id that is no text",
            announced(11, &[0, 3, 0, 9, 0, 0, 0, 1, 0, 1, 0xff]),
        ),
        (
            "no tagged fields",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff]),
        ),
        ("zeros", announced(8, &[0; 8])),
    ];
    let mut random = Random::new(trials::seed(1));
    for length in [1, 17, 300, 5_000] {
        let noise = random.bytes(length);
        cases.push(("noise in a frame", announced(length as i32, &noise)));
    }
    for (what, bytes) in cases {
        let mut client = server.connect();
        client.send_bytes(&bytes);
        client.finish_sending();
        println!("{what}");
        client.assert_closed();
    }
    server.assert_serves();
}

#[test]
fn a_frame_above_the_configured_size_closes_the_connection() {
    let server = TestServer::start(&[("socket.request.max.bytes", "1000")]);
    for (size, is_closed) in [(1_000i32, false), (1_001, true)] {
        let mut client = server.connect();
        let mut frame = client.frame(9, &MetadataRequest::default());
        // Bytes after the message are allowed: a later version may have put them there.
        frame.resize(4 + usize::try_from(size).unwrap(), 0);
        frame[..4].copy_from_slice(&size.to_be_bytes());
        client.send_bytes(&frame);
        match is_closed {
            true => client.assert_closed(),
            false => assert!(!client.receive_frame().is_empty()),
        }
    }
    server.assert_serves();
}

#[test]
fn a_frame_that_is_cut_off_is_not_served() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let frame = client.frame(9, &MetadataRequest::default());
    for length in 1..frame.len() {
        let mut client = server.connect();
        client.send_bytes(&frame[..length]);
        client.finish_sending();
        client.assert_closed();
    }
    server.assert_serves();
}

#[test]
fn a_request_arrives_in_single_bytes() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let frame = client.frame(9, &MetadataRequest::default());
    for byte in frame {
        client.send_bytes(&[byte]);
    }
    assert!(!client.receive_frame().is_empty());
}

#[test]
fn names_that_are_no_text_are_answered() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let topics = ["good", "topix"].map(|name| MetadataRequestTopic {
        name: Some(name),
        ..Default::default()
    });
    let metadata = MetadataRequest {
        topics: Some(topics.to_vec().into()),
        ..Default::default()
    };
    let describe = DescribeTopicPartitionsRequest {
        topics: vec![TopicRequest { name: "topix" }].into(),
        response_partition_limit: 10,
        ..Default::default()
    };
    let frames = [client.frame(2, &metadata), client.frame(12, &metadata)];
    for mut frame in frames.into_iter().chain([client.frame(0, &describe)]) {
        let at = frame
            .windows(5)
            .position(|bytes| bytes == b"topix")
            .unwrap();
        frame[at + 4] = 0xc0;
        client.send_bytes(&frame);
        assert!(!client.receive_frame().is_empty());
    }
}

#[test]
fn a_frame_that_never_ends_is_given_up() {
    let server = TestServer::start(&[("connections.max.idle.ms", "200")]);
    let mut client = server.connect();
    client.send_bytes_if_open(&announced(100 * 1024 * 1024, b"a few bytes"));
    client.assert_closed();
    // Who takes as long to ask for something is closed as well.
    testkit::wait_until("another one is served", || {
        let mut other = server.connect();
        other.send_if_open(9, &MetadataRequest::default());
        other.receive_frame_if_any(testkit::LIMIT).is_some()
    });
    server.stop();
}

#[test]
fn a_request_of_an_unknown_kind_closes_the_connection() {
    let server = TestServer::start(&[]);
    for (what, key, version) in [
        ("no such API", 999, 0),
        ("a negative key", -1, 0),
        ("an API of controllers only", 52, 0),
        ("a version below the lowest", 0, 2),
        ("a version above the highest", 3, 14),
        ("a negative version", 3, -1),
        ("the highest version", 1, i16::MAX),
    ] {
        let mut client = server.connect();
        let frame = client.frame_of(key, version, false, &[0; 64]);
        client.send_bytes(&frame);
        println!("{what}");
        client.assert_closed();
    }
    server.assert_serves();
}

#[test]
fn a_body_that_is_not_the_message_closes_the_connection() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let bodies: [(&str, &[u8]); 3] = [
        ("nothing", &[]),
        ("a count beyond the frame", &[0x7f, 0xff, 0xff, 0xff]),
        ("a name beyond the frame", &[0, 0, 0, 1, 0x7f, 0xff, b'a']),
    ];
    for (what, body) in bodies {
        let frame = client.frame_of(ApiKey::Metadata as i16, 1, false, body);
        let mut client = server.connect();
        client.send_bytes(&frame);
        println!("{what}");
        client.assert_closed();
    }
    server.assert_serves();
}

#[test]
fn answers_before_a_bad_request_are_sent() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.send(9, &MetadataRequest::default());
    client.send(9, &MetadataRequest::default());
    client.send_bytes(&announced(-5, &[]));
    client.receive();
    client.receive();
    client.assert_closed();
}
