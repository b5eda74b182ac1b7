//! Reads a topic as a member of a group and prints each record, until Ctrl-C.
//!
//! `cargo run -p riverrun-client --example consumer -- 127.0.0.1:9092 my-group my-topic [KEY=VALUE...]`

#![expect(clippy::print_stdout, reason = "an example shows what it reads")]
#![expect(clippy::print_stderr, reason = "an example shows what goes wrong")]

use riverrun_client::consumer::{Consumer, ConsumerConfig, Offsets, RebalanceListener};
use riverrun_client::{Error, TopicPartition};
use std::borrow::Cow;
use std::time::Duration;

/// Shows which partitions come and go.
struct Show;

impl RebalanceListener for Show {
    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        eprintln!("assigned {partitions:?}");
        Offsets::new()
    }

    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        eprintln!("revoked {partitions:?}");
        Offsets::new()
    }
}

/// What is not UTF-8 is replaced, and what is missing is empty.
fn text(bytes: Option<&[u8]>) -> Cow<'_, str> {
    bytes.map(String::from_utf8_lossy).unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, group, topic, settings @ ..] = &arguments[..] else {
        eprintln!("usage: consumer BROKERS GROUP TOPIC [KEY=VALUE...]");
        return Ok(());
    };
    let mut config = ConsumerConfig::new(brokers, group)?;
    config.set("auto.offset.reset", "earliest")?;
    for setting in settings {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        config.set(key, value)?;
    }
    let mut consumer = Consumer::new(config)?;
    consumer.set_rebalance_listener(Show);
    consumer.subscribe([topic.as_str()])?;
    loop {
        let mut records = tokio::select! {
            polled = consumer.poll(Duration::from_secs(1)) => polled?,
            _ = tokio::signal::ctrl_c() => break,
        };
        records.for_each(|record| {
            println!(
                "{}-{} at {}: {} = {}",
                record.topic,
                record.partition,
                record.offset,
                text(record.key),
                text(record.value),
            );
        })?;
    }
    consumer.close(Duration::from_secs(10)).await
}
