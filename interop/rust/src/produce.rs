//! The producer: codecs, order, callbacks, partitions, what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use riverrun_client::producer::{Header, ProducerRecord, partition_of_key};

use crate::lab::{CLOSE, Lab, ensure_names, number, partitions, read};

crate::scenarios! {
    "produce-codecs" => codecs,
    "produce-order" => order,
    "produce-acks" => acks,
    "produce-keys" => keys,
    "produce-callbacks" => callbacks,
    "produce-refusals" => refusals,
}

/// Every codec carries keys, values, headers and times unchanged.
async fn codecs(lab: Lab) -> Result<()> {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = lab.topic(codec, 1, &[]).await?;
        let producer = lab.producer(&[("compression.type", codec), ("linger.ms", "20")])?;
        let mut deliveries = Vec::new();
        for index in 0..200_i64 {
            let key = format!("key-{index}");
            let value = "value;".repeat(index as usize);
            let headers = [
                Header {
                    key: b"first",
                    value: Some(b"1"),
                },
                Header {
                    key: b"none",
                    value: None,
                },
            ];
            let record = ProducerRecord {
                key: (index % 3 != 0).then_some(key.as_bytes()),
                value: (index % 5 != 0).then_some(value.as_bytes()),
                headers: &headers[..(index % 3) as usize],
                ..ProducerRecord::new(&topic).timestamp(1_700_000_000_000 + index)
            };
            deliveries.push(producer.send(record).await?);
        }
        for (index, delivery) in deliveries.into_iter().enumerate() {
            let written = delivery.await?;
            ensure!(written.offset == Some(index as i64), "{written:?}");
        }
        producer.close(CLOSE).await?;
        let mut consumer = lab.consumer(&[])?;
        consumer.assign(partitions(&topic, 1))?;
        for (index, record) in read(&mut consumer, 200).await?.into_iter().enumerate() {
            let key = (index % 3 != 0).then(|| format!("key-{index}"));
            let value = (index % 5 != 0).then(|| "value;".repeat(index));
            let text =
                |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8_lossy(b).into_owned());
            ensure!(record.offset == index as i64, "{codec}: {record:?}");
            ensure!(text(record.key.as_deref()) == key, "{codec}: {record:?}");
            ensure!(
                text(record.value.as_deref()) == value,
                "{codec}: {record:?}"
            );
            ensure!(record.headers.len() == index % 3, "{codec}: {record:?}");
            ensure!(record.timestamp_ms == 1_700_000_000_000 + index as i64);
        }
    }
    Ok(())
}

/// Small batches, several in flight: nothing is lost, doubled or out of order.
async fn order(lab: Lab) -> Result<()> {
    const COUNT: usize = 20_000;
    let topic = lab.topic("t", 2, &[]).await?;
    let producer = lab.producer(&[("batch.size", "500"), ("linger.ms", "0")])?;
    for index in 0..COUNT {
        let value = index.to_string();
        let record = ProducerRecord::new(&topic)
            .partition((index % 2) as i32)
            .value(value.as_bytes());
        drop(producer.send(record).await?);
    }
    producer.flush().await;
    producer.close(CLOSE).await?;
    let mut consumer = lab.consumer(&[("max.poll.records", "5000")])?;
    consumer.assign(partitions(&topic, 2))?;
    let mut next = [0, 1];
    for record in read(&mut consumer, COUNT).await? {
        let expected = &mut next[record.partition.partition as usize];
        ensure!(
            number(&record)? == *expected,
            "{record:?} instead of {expected}"
        );
        *expected += 2;
    }
    Ok(())
}

/// Each kind of acknowledgement writes; without any there is no offset.
async fn acks(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    for (acks, offset) in [("0", None), ("1", Some(1)), ("all", Some(2))] {
        let producer = lab.producer(&[("acks", acks)])?;
        let record = ProducerRecord::new(&topic).value(acks.as_bytes());
        let written = producer.send(record).await?.await?;
        ensure!(written.offset == offset, "{acks}: {written:?}");
        producer.close(CLOSE).await?;
        // What was not acknowledged must be there before the next one is sent.
        let mut consumer = lab.consumer(&[])?;
        consumer.assign(partitions(&topic, 1))?;
        read(&mut consumer, offset.unwrap_or(0) as usize + 1).await?;
    }
    Ok(())
}

/// Keys choose partitions as Java's client does; records without one stick together.
async fn keys(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 7, &[]).await?;
    let producer = lab.producer(&[])?;
    for index in 0..50 {
        let key = format!("key {index}");
        let record = ProducerRecord::new(&topic).key(key.as_bytes());
        let written = producer.send(record).await?.await?;
        let expected = partition_of_key(key.as_bytes(), 7) as i32;
        ensure!(written.partition == expected, "{key}: {written:?}");
    }
    ensure!(producer.partitions_for(&topic).await?.len() == 7);
    producer.close(CLOSE).await?;
    Ok(())
}

/// Callbacks are called once each, in order.
async fn callbacks(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let producer = lab.producer(&[])?;
    let called = Arc::new(AtomicUsize::new(0));
    for index in 0..1_000_usize {
        let called = called.clone();
        let callback = move |written: Result<
            riverrun_client::producer::RecordMetadata,
            riverrun_client::Error,
        >| {
            let is_next = written.is_ok_and(|written| written.offset == Some(index as i64));
            if is_next {
                called.fetch_add(1, Ordering::SeqCst);
            }
        };
        producer
            .send_with(ProducerRecord::new(&topic).value(b"v"), callback)
            .await?;
    }
    producer.flush().await;
    ensure!(called.load(Ordering::SeqCst) == 1_000, "{called:?}");
    producer.close(CLOSE).await?;
    Ok(())
}

/// What cannot be written is refused in words that name it.
async fn refusals(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[("max.message.bytes", "1000")]).await?;
    let producer = lab.producer(&[("max.block.ms", "2000")])?;
    let value = vec![b'v'; 3_000];
    let large = producer
        .send(ProducerRecord::new(&topic).value(&value))
        .await?
        .await;
    ensure_names(
        &large.err().context("too large")?,
        &[&topic, "`max.message.bytes`"],
    )?;
    let partition = producer
        .send(ProducerRecord::new(&topic).partition(9))
        .await;
    ensure_names(
        &partition.err().context("no such partition")?,
        &[&format!("`{topic}-9`"), "the topic has 2 partitions"],
    )?;
    let name = producer.send(ProducerRecord::new("no/topic")).await;
    ensure_names(
        &name.err().context("no such name")?,
        &["`no/topic`", "INVALID_TOPIC"],
    )?;
    // A batch that is too large in all, but not in one record, is divided.
    let producer = lab.producer(&[("linger.ms", "200")])?;
    let mut deliveries = Vec::new();
    for _ in 0..20 {
        let record = ProducerRecord::new(&topic)
            .partition(0)
            .value(&value[..200]);
        deliveries.push(producer.send(record).await?);
    }
    for (index, delivery) in deliveries.into_iter().enumerate() {
        ensure!(delivery.await?.offset == Some(index as i64));
    }
    producer.close(CLOSE).await?;
    Ok(())
}
