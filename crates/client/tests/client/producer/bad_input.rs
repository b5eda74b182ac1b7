//! What cannot be sent: each error comes in time and names what to change.

use super::{producer, send};
use crate::nowhere::Nowhere;
use riverrun_client::Error;
use riverrun_client::producer::ProducerRecord;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use testkit::TestServer;

/// The error of one record, which must come within a few seconds.
async fn error(address: SocketAddr, keys: &[(&str, &str)], record: ProducerRecord<'_>) -> Error {
    let producer = producer(address, keys);
    let started = Instant::now();
    let error = match producer.send(record).await {
        Ok(delivery) => delivery.await.expect_err("it cannot be sent"),
        Err(error) => error,
    };
    assert!(started.elapsed() < Duration::from_secs(20), "{error}");
    error
}

#[track_caller]
fn assert_names(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is missing: {text}");
    }
}

#[tokio::test]
async fn a_record_that_is_too_large() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("max.message.bytes", "1000")]);
    let value = vec![7; 2_000];
    let record = ProducerRecord::new("topic").value(&value);
    let by_request = error(server.address(), &[("max.request.size", "1500")], record).await;
    assert_names(&by_request, &["2086 bytes", "`max.request.size` = 1500"]);
    let memory = [("buffer.memory", "1500"), ("batch.size", "100")];
    let by_memory = error(server.address(), &memory, record).await;
    assert_names(&by_memory, &["2086 bytes", "`buffer.memory` = 1500"]);
    let by_broker = error(server.address(), &[], record).await;
    assert_names(&by_broker, &["topic-0", "`max.message.bytes`"]);
}

#[tokio::test]
async fn a_partition_or_topic_that_does_not_exist() {
    let server = TestServer::start(&[("auto.create.topics.enable", "false")]);
    server.connect().create_topic("topic", 2, &[]);
    for index in [2, -1] {
        let record = ProducerRecord::new("topic").partition(index);
        let partition = error(server.address(), &[], record).await;
        assert_names(
            &partition,
            &[&format!("`topic-{index}`"), "the topic has 2 partitions"],
        );
    }
    let keys = [("max.block.ms", "2000")];
    let topic = error(server.address(), &keys, ProducerRecord::new("none")).await;
    assert_names(&topic, &["`none`", "UNKNOWN_TOPIC_OR_PARTITION"]);
    let name = error(server.address(), &[], ProducerRecord::new("no/topic")).await;
    assert_names(&name, &["`no/topic`", "INVALID_TOPIC"]);
    let early = ProducerRecord::new("topic").timestamp(-2);
    assert_names(&error(server.address(), &[], early).await, &["-2"]);
}

#[tokio::test]
async fn a_broker_that_is_missing_or_silent() {
    let keys = [("max.block.ms", "2000")];
    let record = ProducerRecord::new("topic");
    // The listener accepts and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = error(address, &keys, record).await;
    assert_names(&silent, &[&address.to_string()]);
    let nowhere = Nowhere::new();
    let missing = error(nowhere.address, &keys, record).await;
    assert_names(&missing, &[&nowhere.address.to_string()]);
}

#[tokio::test]
async fn a_full_buffer() {
    let server = TestServer::start(&[]);
    let address = server.address();
    server.connect().create_topic("topic", 1, &[]);
    let keys = [
        ("buffer.memory", "4000"),
        ("batch.size", "2000"),
        ("max.block.ms", "2000"),
        ("request.timeout.ms", "5000"),
        ("delivery.timeout.ms", "6000"),
    ];
    let producer = producer(address, &keys);
    assert_eq!(send(&producer, "topic", "first").await.unwrap(), 0);
    server.crash();
    let value = [7; 1_500];
    let record = ProducerRecord::new("topic").value(&value);
    let waiting = [producer.send(record).await, producer.send(record).await];
    let full = producer.send(record).await.expect_err("there is no room");
    assert_names(&full, &["`buffer.memory` = 4000", "`max.block.ms`"]);
    assert!(full.is_retriable());
    for delivery in waiting {
        let late = delivery.unwrap().await.expect_err("nobody takes it");
        assert_names(&late, &["topic-0", "`delivery.timeout.ms`"]);
    }
    // What has failed gives its memory back.
    drop(producer.send(record).await.unwrap());
}

#[tokio::test]
async fn an_advertised_address_that_nobody_reaches() {
    // Port 1 is nobody's; the bootstrap address answers, and names it.
    let advertised = [("advertised.listeners", "PLAINTEXT://127.0.0.1:1")];
    let server = TestServer::start(&advertised);
    server.connect().create_topic("topic", 1, &[]);
    let keys = [
        ("max.block.ms", "3000"),
        ("request.timeout.ms", "3000"),
        ("delivery.timeout.ms", "4000"),
    ];
    let error = error(server.address(), &keys, ProducerRecord::new("topic")).await;
    assert_names(&error, &["127.0.0.1:1", "`advertised.listeners`"]);
}
