//! Suite `cross`: the records that every client writes alike and reads from every other, and the sum
//! that tells them apart. `interop/README.md` defines both.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::NewTopic;
use riverrun_client::consumer::OwnedRecord;
use riverrun_client::producer::{Header, ProducerRecord};
use sha2::{Digest as _, Sha256};

use super::lab::{CLOSE, Lab, POLL};

const START_MS: i64 = 1_700_000_000_000;
const KINDS: [&str; 6] = ["none", "gzip", "snappy", "lz4", "zstd", "small"];

/// How many records the topic of a kind has, and how many partitions.
fn size_of(kind: &str) -> (usize, i32) {
    match kind {
        "small" => (100_000, 8),
        _ => (1_000, 4),
    }
}

fn topic_of(writer: &str, kind: &str) -> String {
    format!("cross-{writer}-{kind}")
}

/// What record `i` of a kind holds.
struct Contents {
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, String)>,
}

fn contents(kind: &str, i: usize) -> Contents {
    if kind == "small" {
        return Contents {
            key: None,
            value: Some(i.to_string()),
            headers: Vec::new(),
        };
    }
    let number = |h: usize| match h {
        1 => String::new(),
        _ => (i * h).to_string(),
    };
    Contents {
        key: (!i.is_multiple_of(3) || i.is_multiple_of(5)).then(|| format!("key-{i}")),
        value: (!i.is_multiple_of(5)).then(|| format!("value-{i};").repeat(i % 50)),
        headers: (0..i % 4)
            .map(|h| (format!("header-{h}"), number(h)))
            .collect(),
    }
}

/// Makes the topics, writes their records and prints what a reader of them should.
pub(crate) async fn write(lab: &Lab, writer: &str) -> Result<()> {
    let admin = lab.admin()?;
    for kind in KINDS {
        let (count, partitions) = size_of(kind);
        let topic = topic_of(writer, kind);
        let new = NewTopic::new(&*topic)
            .partitions(partitions)
            .config("retention.ms", "-1");
        for (_, created) in admin.create_topics(&[new]).await {
            created?;
        }
        let codec = if kind == "small" { "none" } else { kind };
        let producer = lab.producer(&[("compression.type", codec)])?;
        let mut deliveries = Vec::new();
        for i in 0..count {
            let contents = contents(kind, i);
            let headers: Vec<Header<'_>> = contents
                .headers
                .iter()
                .map(|(key, value)| Header {
                    key: key.as_bytes(),
                    value: Some(value.as_bytes()),
                })
                .collect();
            let mut record = ProducerRecord::new(&topic)
                .partition((i % partitions as usize) as i32)
                .timestamp(START_MS + i as i64)
                .headers(&headers);
            if let Some(key) = &contents.key {
                record = record.key(key.as_bytes());
            }
            if let Some(value) = &contents.value {
                record = record.value(value.as_bytes());
            }
            deliveries.push(producer.send(record).await?);
        }
        for (i, delivery) in deliveries.into_iter().enumerate() {
            let written = delivery.await?;
            let expected = (i / partitions as usize) as i64;
            ensure!(written.offset == Some(expected), "record {i}: {written:?}");
        }
        producer.close(CLOSE).await?;
        let records = (0..partitions).flat_map(|partition| {
            (partition as usize..count)
                .step_by(partitions as usize)
                .map(move |i| (partition, i))
        });
        let mut sum = Sum::default();
        for (partition, i) in records {
            let contents = contents(kind, i);
            let offset = (i / partitions as usize) as i64;
            sum.add_position(partition, offset, START_MS + i as i64);
            sum.add_bytes(contents.key.as_deref().map(str::as_bytes));
            sum.add_bytes(contents.value.as_deref().map(str::as_bytes));
            sum.add_count(contents.headers.len());
            for (key, value) in &contents.headers {
                sum.add_bytes(Some(key.as_bytes()));
                sum.add_bytes(Some(value.as_bytes()));
            }
        }
        println!("{topic} {count} {}", sum.text());
    }
    Ok(())
}

/// Reads the records of `writer` and prints what was read.
pub(crate) async fn read(lab: &Lab, writer: &str) -> Result<()> {
    for kind in KINDS {
        let (count, partitions) = size_of(kind);
        let topic = topic_of(writer, kind);
        let mut consumer = lab.consumer(&[("enable.auto.commit", "false")])?;
        let all = (0..partitions).map(|index| TopicPartition::new(&topic, index));
        consumer.assign(all)?;
        let mut records: Vec<OwnedRecord> = Vec::new();
        while records.len() < count {
            records.extend(consumer.poll(POLL).await?.into_owned()?);
        }
        consumer.close(CLOSE).await?;
        records.sort_by_key(|record| (record.partition.partition, record.offset));
        let mut sum = Sum::default();
        for record in &records {
            sum.add_position(
                record.partition.partition,
                record.offset,
                record.timestamp_ms,
            );
            sum.add_bytes(record.key.as_deref());
            sum.add_bytes(record.value.as_deref());
            sum.add_count(record.headers.len());
            for (key, value) in &record.headers {
                sum.add_bytes(Some(key.as_bytes()));
                sum.add_bytes(value.as_deref());
            }
        }
        println!("{topic} {} {}", records.len(), sum.text());
    }
    Ok(())
}

/// The sum over records in order.
#[derive(Default)]
struct Sum(Sha256);

impl Sum {
    fn add_position(&mut self, partition: i32, offset: i64, timestamp_ms: i64) {
        self.0.update(partition.to_be_bytes());
        self.0.update(offset.to_be_bytes());
        self.0.update(timestamp_ms.to_be_bytes());
    }

    fn add_count(&mut self, count: usize) {
        self.0.update((count as i32).to_be_bytes());
    }

    fn add_bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.add_count(bytes.len());
                self.0.update(bytes);
            }
            None => self.0.update((-1_i32).to_be_bytes()),
        }
    }

    fn text(self) -> String {
        let mut text = String::new();
        for byte in self.0.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}
