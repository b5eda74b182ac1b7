//! Retention on a running server: old and superfluous segments go by themselves.

use crate::configs::{BROKER, alter, set};
use std::time::{Duration, Instant};
use testkit::{Client, TestServer, batch, wait_until};

const EARLIEST: i64 = -2;
const QUICK: [(&str, &str); 2] = [
    ("log.retention.check.interval.ms", "10"),
    ("log.initial.task.delay.ms", "0"),
];

/// A topic with three segments of one record each.
fn three_segments(client: &mut Client, settings: &[(&str, &str)]) {
    let mut all = vec![("segment.bytes", "1048576"), ("file.delete.delay.ms", "0")];
    all.extend(settings);
    client.create_topic("topic", 1, &all);
    let large = "x".repeat(600_000);
    for _ in 0..3 {
        client
            .produce("topic", 0, &batch(&[&large]))
            .assert_accepted();
    }
}

#[test]
fn a_log_that_is_too_large_loses_its_oldest_segments() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    three_segments(&mut client, &[("retention.bytes", "1000000")]);
    wait_until("the log starts later", || {
        client.list_offset("topic", 0, EARLIEST).offset == 1
    });
    assert_eq!(client.fetch("topic", 0, 1).log_start_offset, 1);
    let path = server.directory().join("topic-0");
    wait_until("the files are removed", || {
        !path.join("00000000000000000000.log.deleted").exists()
            && !path.join("00000000000000000000.log").exists()
    });
}

#[test]
fn records_that_are_too_old_go() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    three_segments(&mut client, &[("retention.ms", "1")]);
    wait_until("all but nothing is left", || {
        client.list_offset("topic", 0, EARLIEST).offset == 3
    });
    assert_eq!(client.fetch("topic", 0, 3).high_watermark, 3);
}

#[test]
fn the_first_check_waits_for_the_initial_delay() {
    let delay = Duration::from_millis(400);
    let start = Instant::now();
    let server = TestServer::start(&[
        ("log.retention.check.interval.ms", "1"),
        ("log.initial.task.delay.ms", "400"),
    ]);
    let mut client = server.connect();
    three_segments(&mut client, &[("retention.bytes", "1000000")]);
    wait_until("the log starts later", || {
        client.list_offset("topic", 0, EARLIEST).offset == 1
    });
    assert!(start.elapsed() >= delay);
}

#[test]
fn a_brokers_retention_that_changes_holds_at_once() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    three_segments(&mut client, &[]);
    let all = set(BROKER, "", "log.retention.bytes", "1400000");
    assert_eq!(alter(&mut client, vec![all]), [(0, String::new())]);
    client
        .produce("topic", 0, &batch(&[&"x".repeat(600_000)]))
        .assert_accepted();
    wait_until("the limit of all brokers holds", || {
        client.list_offset("topic", 0, EARLIEST).offset == 1
    });
    let one = set(BROKER, "1", "log.retention.bytes", "700000");
    assert_eq!(alter(&mut client, vec![one]), [(0, String::new())]);
    wait_until("the limit of this broker holds", || {
        client.list_offset("topic", 0, EARLIEST).offset == 2
    });
}
