//! Clients of the server under test, and what scenarios need again and again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::{Admin, AdminConfig, NewTopic};
use riverrun_client::consumer::{Consumer, ConsumerConfig, OwnedRecord};
use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};
use riverrun_client::transport::Transport;

/// How long one poll waits; scenarios poll until they have what they expect.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// Time to close a client.
pub(crate) const CLOSE: Duration = Duration::from_secs(20);

/// The server under test, and a name that is the scenario's own.
#[derive(Debug, Clone)]
pub(crate) struct Lab {
    pub(crate) bootstrap: String,
    /// The scenario's name: its topics and groups begin with it.
    pub(crate) name: String,
    /// What producers and consumers connect by, if not over TCP.
    pub(crate) transport: Option<Arc<dyn Transport>>,
}

impl Lab {
    pub(crate) fn new(bootstrap: &str, name: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
            name: format!("client-{name}"),
            transport: None,
        }
    }

    /// A name that no other scenario has.
    pub(crate) fn named(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    pub(crate) fn admin(&self) -> Result<Admin> {
        let config = AdminConfig::with_bootstrap_servers(&self.bootstrap)?;
        Ok(Admin::new(config)?)
    }

    /// A producer with these settings beside the defaults.
    pub(crate) fn producer(&self, settings: &[(&str, &str)]) -> Result<Producer> {
        let mut config = ProducerConfig::with_bootstrap_servers(&self.bootstrap)?;
        for (key, value) in settings {
            config.set(key, value)?;
        }
        config.client.connector.transport = self.transport.clone();
        Ok(Producer::new(config)?)
    }

    /// A consumer of the scenario's group that starts at the beginning.
    pub(crate) fn consumer(&self, settings: &[(&str, &str)]) -> Result<Consumer> {
        let mut config = ConsumerConfig::new(&self.bootstrap, &self.name)?;
        let mut usual = vec![
            ("auto.offset.reset", "earliest"),
            ("fetch.max.wait.ms", "100"),
        ];
        if !settings.contains(&("group.protocol", "consumer")) {
            usual.push(("heartbeat.interval.ms", "100"));
        }
        for (key, value) in usual.iter().chain(settings) {
            config.set(key, value)?;
        }
        config.client.connector.transport = self.transport.clone();
        Ok(Consumer::new(config)?)
    }

    /// Creates a topic of the scenario's own.
    pub(crate) async fn topic(
        &self,
        end: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<String> {
        let name = self.named(end);
        let mut topic = NewTopic::new(&name).partitions(partitions);
        for (key, value) in configs {
            topic = topic.config(*key, *value);
        }
        let created = self.admin()?.create_topics(&[topic]).await;
        created
            .into_values()
            .next()
            .context("no answer for the topic")??;
        Ok(name)
    }

    /// Writes the numbers as values, by turns to the topic's partitions.
    pub(crate) async fn write(
        &self,
        topic: &str,
        partitions: i32,
        numbers: std::ops::Range<i32>,
    ) -> Result<()> {
        let producer = self.producer(&[])?;
        let mut deliveries = Vec::new();
        for number in numbers {
            let value = number.to_string();
            let record = ProducerRecord::new(topic)
                .partition(number % partitions)
                .value(value.as_bytes());
            deliveries.push(producer.send(record).await?);
        }
        for delivery in deliveries {
            delivery.await?;
        }
        producer.close(CLOSE).await?;
        Ok(())
    }
}

/// Polls until `count` records have come.
pub(crate) async fn read(consumer: &mut Consumer, count: usize) -> Result<Vec<OwnedRecord>> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(consumer.poll(POLL).await?.into_owned()?);
    }
    ensure!(
        records.len() == count,
        "{} records, not {count}",
        records.len()
    );
    Ok(records)
}

/// The value as a number.
pub(crate) fn number(record: &OwnedRecord) -> Result<i32> {
    let value = record.value.as_ref().context("a record without a value")?;
    Ok(std::str::from_utf8(value)?.parse()?)
}

/// The values as numbers, sorted.
pub(crate) fn numbers(records: &[OwnedRecord]) -> Result<Vec<i32>> {
    let mut numbers = records.iter().map(number).collect::<Result<Vec<i32>>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// All partitions of a topic.
pub(crate) fn partitions(topic: &str, count: i32) -> Vec<TopicPartition> {
    (0..count)
        .map(|index| TopicPartition::new(topic, index))
        .collect()
}

/// Polls all consumers by turns until each has what `is_settled` wants; returns what they read.
pub(crate) async fn poll_until(
    consumers: &mut [Consumer],
    is_settled: impl Fn(&[BTreeSet<TopicPartition>]) -> bool,
) -> Result<Vec<OwnedRecord>> {
    let mut records = Vec::new();
    loop {
        for consumer in consumers.iter_mut() {
            let polled = consumer.poll(Duration::from_millis(20)).await?;
            records.extend(polled.into_owned()?);
        }
        let assignments: Vec<_> = consumers.iter().map(Consumer::assignment).collect();
        if is_settled(&assignments) {
            return Ok(records);
        }
    }
}

/// Whether every partition of `count` has one owner, and no member has fewer than its share.
pub(crate) fn is_shared(assignments: &[BTreeSet<TopicPartition>], count: usize) -> bool {
    let all: BTreeSet<_> = assignments.iter().flatten().collect();
    let sum: usize = assignments.iter().map(BTreeSet::len).sum();
    let share = count / assignments.len();
    all.len() == count && sum == count && assignments.iter().all(|one| one.len() >= share)
}

/// Fails unless the error's text has all of `words`.
pub(crate) fn ensure_names(error: &riverrun_client::Error, words: &[&str]) -> Result<()> {
    let text = error.to_string();
    for word in words {
        ensure!(text.contains(word), "`{word}` is missing in `{text}`");
    }
    Ok(())
}
