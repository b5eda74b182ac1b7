//! Topics and their records: the same in every run, but for their times, which end now. Older ones would be deleted.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use riverrun_client::admin::{Admin, AdminConfig, NewTopic};
use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};

use super::random::Random;

/// The time from the first record to the last: ten windows of a minute.
const SPAN_MS: u64 = 600_000;
/// Words of a line.
const WORDS: usize = 4;
/// `min.compaction.lag.ms` of a changelog, a week: the broker would take half of it away while it is measured.
const UNCOMPACTED_MS: &str = "604800000";

/// What records are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lines of words, without keys.
    Words,
    /// A number for a key, over ten minutes.
    Windows,
    /// Values of a store.
    Changelog,
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "words" => Self::Words,
            "windows" => Self::Windows,
            "changelog" => Self::Changelog,
            _ => bail!("no records `{text}`"),
        })
    }
}

/// The records of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) partition_count: i32,
    pub(crate) record_count: u64,
    /// How many keys, or words.
    pub(crate) key_count: u64,
    /// Of a value of a changelog.
    pub(crate) value_bytes: usize,
}

/// Makes an empty topic.
pub(crate) fn create_topic(servers: &str, topic: &str, partition_count: i32) -> Result<()> {
    runtime()?.block_on(create(
        servers,
        NewTopic::new(topic).partitions(partition_count),
    ))
}

/// Makes a topic and fills it.
pub(crate) fn run(servers: &str, topic: &str, shape: Shape) -> Result<()> {
    runtime()?.block_on(fill(servers, topic, shape))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

async fn create(servers: &str, topic: NewTopic) -> Result<()> {
    let mut config = AdminConfig::default();
    config.client.set("bootstrap.servers", servers)?;
    let admin = Admin::new(config)?;
    for (_, created) in admin.create_topics(&[topic]).await {
        created?;
    }
    Ok(())
}

async fn fill(servers: &str, topic: &str, shape: Shape) -> Result<()> {
    let mut new_topic = NewTopic::new(topic).partitions(shape.partition_count);
    if shape.kind == Kind::Changelog {
        new_topic = new_topic
            .config("cleanup.policy", "compact")
            .config("min.compaction.lag.ms", UNCOMPACTED_MS);
    }
    create(servers, new_topic).await?;
    let mut config = ProducerConfig::with_bootstrap_servers(servers)?;
    config.batch_size_bytes = 256 << 10;
    let producer = Producer::new(config)?;
    let start_ms = now_ms()? - SPAN_MS as i64;
    let mut random = Random(12);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for at in 0..shape.record_count {
        key.clear();
        value.clear();
        match shape.kind {
            Kind::Words => {
                for place in 0..WORDS {
                    if place > 0 {
                        value.push(b' ');
                    }
                    write_name(b"word", random.word_below(shape.key_count), &mut value);
                }
            }
            Kind::Windows => {
                write_name(b"key", random.below(shape.key_count), &mut key);
                value.extend_from_slice(&(random.below(1000) as i64).to_be_bytes());
            }
            Kind::Changelog => {
                write_name(b"key", random.below(shape.key_count), &mut key);
                value.resize(shape.value_bytes, 0);
                random.fill(&mut value);
            }
        }
        let passed_ms = at * SPAN_MS / shape.record_count;
        let record = ProducerRecord {
            topic,
            // A line goes to any partition; in turn they get equally many.
            partition: key
                .is_empty()
                .then(|| (at % shape.partition_count as u64) as i32),
            timestamp: Some(start_ms + passed_ms as i64),
            key: (!key.is_empty()).then_some(&key[..]),
            value: Some(&value),
            headers: &[],
        };
        producer
            .send_with(record, |result| {
                result.expect("the broker takes every record");
            })
            .await?;
    }
    producer.flush().await;
    producer.close(std::time::Duration::from_secs(30)).await?;
    Ok(())
}

/// Milliseconds since 1970.
fn now_ms() -> Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_millis())?)
}

/// Writes a name with a number of seven digits.
fn write_name(name: &[u8], number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    let digits = (0..7).rev().map(|place| 10_u64.pow(place));
    out.extend(digits.map(|unit| b'0' + (number / unit % 10) as u8));
}
