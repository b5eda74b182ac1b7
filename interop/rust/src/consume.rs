//! The consumer by itself: positions, seeks, pauses, offsets by time, a stream.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::producer::ProducerRecord;

use crate::lab::{CLOSE, Lab, POLL, ensure_names, number, numbers, partitions, read};

crate::scenarios! {
    "consume-all" => all,
    "consume-seek" => seek,
    "consume-pause" => pause,
    "consume-times" => times,
    "consume-reset" => reset,
    "consume-stream" => stream,
}

/// Everything of several partitions, each in order, within a small budget.
async fn all(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 5, &[]).await?;
    lab.write(&topic, 5, 0..5_000).await?;
    let small = [
        ("fetch.max.bytes", "2000"),
        ("max.partition.fetch.bytes", "700"),
    ];
    let mut consumer = lab.consumer(&small)?;
    consumer.assign(partitions(&topic, 5))?;
    let records = read(&mut consumer, 5_000).await?;
    ensure!(numbers(&records)? == (0..5_000).collect::<Vec<i32>>());
    let mut next = BTreeMap::new();
    for record in &records {
        let expected = next.entry(record.partition.clone()).or_insert(0);
        ensure!(record.offset == *expected, "{record:?}");
        *expected += 1;
    }
    let first = TopicPartition::new(&topic, 0);
    ensure!(consumer.position(&first) == Some(1_000));
    ensure!(consumer.current_lag(&first) == Some(0));
    Ok(())
}

async fn seek(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    lab.write(&topic, 1, 0..100).await?;
    let partition = TopicPartition::new(&topic, 0);
    let mut consumer = lab.consumer(&[("max.poll.records", "1")])?;
    consumer.assign([partition.clone()])?;
    for to in [90, 3, 57] {
        consumer.seek(&partition, to)?;
        let records = read(&mut consumer, 1).await?;
        ensure!(i64::from(number(&records[0])?) == to, "{records:?}");
    }
    consumer.seek_to_beginning(&partition)?;
    ensure!(number(&read(&mut consumer, 1).await?[0])? == 0);
    consumer.seek_to_end(&partition)?;
    ensure!(consumer.poll(POLL).await?.is_empty());
    lab.write(&topic, 1, 100..101).await?;
    ensure!(number(&read(&mut consumer, 1).await?[0])? == 100);
    Ok(())
}

async fn pause(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    lab.write(&topic, 2, 0..20).await?;
    let [first, second] = [0, 1].map(|index| TopicPartition::new(&topic, index));
    let mut consumer = lab.consumer(&[])?;
    consumer.assign([first.clone(), second])?;
    consumer.pause(&first)?;
    let records = read(&mut consumer, 10).await?;
    ensure!(records.iter().all(|record| record.partition.partition == 1));
    ensure!(consumer.poll(POLL).await?.is_empty());
    consumer.resume(&first)?;
    let records = read(&mut consumer, 10).await?;
    ensure!(records.iter().all(|record| record.partition.partition == 0));
    Ok(())
}

/// Offsets by time, and both ends.
async fn times(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let producer = lab.producer(&[])?;
    for index in 0..10 {
        let record = ProducerRecord::new(&topic).timestamp(1_000_000 + index * 100);
        producer.send(record).await?.await?;
    }
    let partition = TopicPartition::new(&topic, 0);
    let consumer = lab.consumer(&[])?;
    for (time, expected) in [
        (0, Some(0)),
        (1_000_250, Some(3)),
        (1_000_900, Some(9)),
        (2_000_000, None),
    ] {
        let wanted = BTreeMap::from([(partition.clone(), time)]);
        let found = consumer.offsets_for_times(&wanted).await?;
        let found = found.get(&partition).map(|found| found.offset);
        ensure!(found == expected, "at {time}: {found:?}");
    }
    let of = std::slice::from_ref(&partition);
    ensure!(consumer.beginning_offsets(of).await?[&partition] == 0);
    ensure!(consumer.end_offsets(of).await?[&partition] == 10);
    Ok(())
}

/// What is out of range follows the policy, or is an error without one.
async fn reset(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    lab.write(&topic, 1, 0..10).await?;
    let partition = TopicPartition::new(&topic, 0);
    let mut consumer = lab.consumer(&[])?;
    consumer.assign([partition.clone()])?;
    consumer.seek(&partition, 1_000)?;
    ensure!(read(&mut consumer, 10).await?.len() == 10);
    let mut strict = lab.consumer(&[("auto.offset.reset", "none")])?;
    strict.assign([partition.clone()])?;
    strict.seek(&partition, 1_000)?;
    let error = loop {
        match strict.poll(POLL).await {
            Ok(records) => ensure!(records.is_empty()),
            Err(error) => break error,
        }
    };
    ensure_names(&error, &[&partition.to_string(), "1000"])
}

async fn stream(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 3, &[]).await?;
    lab.write(&topic, 3, 0..300).await?;
    let mut consumer = lab.consumer(&[])?;
    consumer.subscribe([topic])?;
    let mut read = Vec::new();
    while read.len() < 300 {
        read.push(consumer.next().await?);
    }
    ensure!(numbers(&read)? == (0..300).collect::<Vec<i32>>());
    consumer.commit().await?;
    consumer.close(CLOSE).await.context("close")
}
