//! Copies one topic to another, each record exactly once whatever fails on the way: what is written
//! and what is read count together.
//!
//! ```text
//! cargo run -p riverrun-client --example transactions -- localhost:9092 orders invoices
//! ```
//!
//! Read the copy with `isolation.level` = `read_committed`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, ConsumerConfig, OwnedRecord};
use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};

/// Writes the records and the consumer's positions as one transaction.
async fn copy(
    records: &[OwnedRecord],
    consumer: &Consumer,
    producer: &Producer,
    target: &str,
) -> Result<(), Error> {
    producer.begin_transaction()?;
    for record in records {
        let copied = ProducerRecord {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            ..ProducerRecord::new(target)
        };
        // What becomes of it is what becomes of the transaction.
        drop(producer.send(copied).await?);
    }
    let group = consumer.group_metadata()?;
    producer
        .send_offsets_to_transaction(consumer.offsets(), &group)
        .await?;
    producer.commit_transaction().await
}

/// Goes back to the committed offsets, as if the last records had not been read.
async fn rewind(consumer: &mut Consumer) -> Result<(), Error> {
    let partitions: Vec<_> = consumer.assignment().into_iter().collect();
    let committed = consumer.committed(&partitions).await?;
    for partition in &partitions {
        match committed.get(partition) {
            Some(offset) => consumer.seek(partition, offset.offset)?,
            None => consumer.seek_to_beginning(partition)?,
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or("localhost:9092".to_owned());
    let source = arguments.next().unwrap_or("orders".to_owned());
    let target = arguments.next().unwrap_or("invoices".to_owned());
    let group = format!("{source}-to-{target}");

    let mut config = ConsumerConfig::new(&servers, &group)?;
    config.set("enable.auto.commit", "false")?;
    config.set("auto.offset.reset", "earliest")?;
    config.set("isolation.level", "read_committed")?;
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe([source.as_str()])?;

    let mut config = ProducerConfig::with_bootstrap_servers(&servers)?;
    config.set("transactional.id", &group)?;
    let producer = Producer::new(config)?;
    producer.init_transactions().await?;

    loop {
        let records = tokio::select! {
            polled = consumer.poll(Duration::from_secs(1)) => polled?.into_owned()?,
            _ = tokio::signal::ctrl_c() => break,
        };
        if records.is_empty() {
            continue;
        }
        match copy(&records, &consumer, &producer, &target).await {
            Ok(()) => println!("{} records are copied", records.len()),
            Err(Error::TransactionFailed(reason)) => {
                println!("again from the committed offsets: {reason}");
                producer.abort_transaction().await?;
                rewind(&mut consumer).await?;
            }
            Err(error) => return Err(error),
        }
    }
    consumer.close(Duration::from_secs(10)).await?;
    producer.close(Duration::from_secs(10)).await
}
