//! The consumer against a server in the same process.

mod group;
mod hostile;
mod reading;
mod refusals;
mod streams;

use model::TopicPartition;
use riverrun_client::consumer::{Consumer, ConsumerConfig, OwnedRecord};
use std::future::Future;
use std::time::Duration;
use testkit::{LIMIT, TestServer};

/// How long one poll waits; tests poll until they have what they expect.
const POLL: Duration = Duration::from_millis(100);

/// A server whose groups rebalance at once.
fn server() -> TestServer {
    TestServer::start(&[("group.initial.rebalance.delay.ms", "0")])
}

/// A configuration for `server`, with the pairs over settings for fast tests.
fn config(server: &TestServer, pairs: &[(&str, &str)]) -> ConsumerConfig {
    let address = server.address().to_string();
    let mut config = ConsumerConfig::new(&address, "group").unwrap();
    for (key, value) in [
        ("auto.offset.reset", "earliest"),
        ("heartbeat.interval.ms", "50"),
        ("fetch.max.wait.ms", "50"),
    ] {
        config.set(key, value).unwrap();
    }
    for (key, value) in pairs {
        config.set(key, value).unwrap();
    }
    config
}

/// Runs a test's asynchronous part, for a limited time.
fn run<T>(test: impl Future<Output = T>) -> T {
    run_within(LIMIT, test)
}

/// Runs a test's asynchronous part, for so long.
fn run_within<T>(limit: Duration, test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let limited = async { tokio::time::timeout(limit, test).await };
    runtime.block_on(limited).expect("the test ends in time")
}

/// Polls until `count` records have come, then returns them.
async fn read(consumer: &mut Consumer, count: usize) -> Vec<OwnedRecord> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(consumer.poll(POLL).await.unwrap().into_owned().unwrap());
    }
    records
}

/// The values of records as text, sorted.
fn values(records: &[OwnedRecord]) -> Vec<String> {
    let mut values: Vec<String> = records.iter().map(value).collect();
    values.sort();
    values
}

fn value(record: &OwnedRecord) -> String {
    String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap()
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(topic, index)
}
