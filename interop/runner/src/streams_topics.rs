//! The topics of streams applications: made, written, and read whole; and how far their groups have come.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::{
    Admin, AdminConfig, ConfigResource, ConfigSource, DescribeConfigsOptions, IsolationLevel,
    NewTopic, OffsetSpec,
};
use riverrun_client::consumer::{Consumer, ConsumerConfig, OwnedRecord};
use riverrun_client::producer::{Header, Producer, ProducerConfig, ProducerRecord};
use tokio::runtime::{Builder, Runtime};

/// How long one poll of a consumer waits.
const POLL: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long topics may take to be read, and applications to come to the ends of theirs.
const LIMIT: Duration = Duration::from_secs(120);

/// A record to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRecord {
    pub(crate) topic: &'static str,
    /// None for the partition of the key.
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    /// None for now.
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

/// An application, and the topics that others write for it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) inputs: &'static [&'static str],
}

/// Clients of one server.
pub(crate) struct Topics {
    bootstrap: String,
    // Before the runtime: clients end within it.
    admin: Admin,
    producer: Producer,
    runtime: Runtime,
}

impl Topics {
    pub(crate) fn connect(bootstrap: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let within = runtime.enter();
        let admin = Admin::new(AdminConfig::with_bootstrap_servers(bootstrap)?)?;
        let producer = Producer::new(ProducerConfig::with_bootstrap_servers(bootstrap)?)?;
        drop(within);
        Ok(Self {
            bootstrap: bootstrap.to_owned(),
            admin,
            producer,
            runtime,
        })
    }

    pub(crate) fn create(&self, names: &[&str], partitions: i32) -> Result<()> {
        let new = names
            .iter()
            .map(|name| NewTopic::new(*name).partitions(partitions))
            .collect::<Vec<_>>();
        let created = self.runtime.block_on(self.admin.create_topics(&new));
        for (topic, created) in created {
            created.with_context(|| format!("topic {topic}"))?;
        }
        Ok(())
    }

    /// Writes records in order, and waits until they are acknowledged.
    pub(crate) fn write(&self, records: &[NewRecord]) -> Result<()> {
        self.runtime.block_on(async {
            let mut deliveries = Vec::new();
            for record in records {
                let headers: Vec<Header<'_>> = record
                    .headers
                    .iter()
                    .map(|(key, value)| Header {
                        key: key.as_bytes(),
                        value: value.as_ref().map(String::as_bytes),
                    })
                    .collect();
                let mut written = ProducerRecord::new(record.topic).headers(&headers);
                if let Some(key) = &record.key {
                    written = written.key(key.as_bytes());
                }
                if let Some(value) = &record.value {
                    written = written.value(value.as_bytes());
                }
                if let Some(partition) = record.partition {
                    written = written.partition(partition);
                }
                if let Some(timestamp_ms) = record.timestamp_ms {
                    written = written.timestamp(timestamp_ms);
                }
                deliveries.push(self.producer.send(written).await?);
            }
            for delivery in deliveries {
                delivery.await?;
            }
            Ok(())
        })
    }

    /// How many partitions each topic has whose name begins so.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Result<BTreeMap<String, i32>> {
        let listed = self.runtime.block_on(self.admin.list_topics())?;
        let names: Vec<&str> = listed
            .iter()
            .map(|topic| topic.name.as_str())
            .filter(|name| name.starts_with(prefix))
            .collect();
        self.partitions(&names)
    }

    fn partitions(&self, names: &[&str]) -> Result<BTreeMap<String, i32>> {
        let described = self.runtime.block_on(self.admin.describe_topics(names));
        described
            .into_iter()
            .map(|(name, topic)| Ok((name, i32::try_from(topic?.partitions.len())?)))
            .collect()
    }

    /// The configuration that a topic was made with.
    pub(crate) fn configs(&self, topic: &str) -> Result<BTreeMap<String, Option<String>>> {
        let resource = ConfigResource::topic(topic);
        let options = DescribeConfigsOptions::default();
        let asked = self
            .admin
            .describe_configs(std::slice::from_ref(&resource), &options);
        let mut described = self.runtime.block_on(asked);
        let described = described.remove(&resource).context("no answer")??;
        let own = described
            .into_iter()
            .filter(|entry| entry.source == ConfigSource::Topic);
        Ok(own.map(|entry| (entry.name, entry.value)).collect())
    }

    /// All records of a topic that are committed, in order within their partitions.
    pub(crate) fn read(&self, topic: &str) -> Result<Vec<OwnedRecord>> {
        let partitions = *self
            .partitions(&[topic])?
            .get(topic)
            .with_context(|| format!("no topic {topic}"))?;
        let places: Vec<TopicPartition> = places(topic, partitions).collect();
        self.runtime.block_on(async {
            let mut config = ConsumerConfig::new(&self.bootstrap, "reader")?;
            for (key, value) in [
                ("auto.offset.reset", "earliest"),
                ("enable.auto.commit", "false"),
                ("isolation.level", "read_committed"),
            ] {
                config.set(key, value)?;
            }
            let mut consumer = Consumer::new(config)?;
            consumer.assign(places.clone())?;
            let ends = consumer.end_offsets(&places).await?;
            for place in &places {
                consumer.seek(place, 0)?;
            }
            let deadline = Instant::now() + LIMIT;
            let mut records = Vec::new();
            while ends
                .iter()
                .any(|(place, end)| consumer.position(place).unwrap_or(0) < *end)
            {
                ensure!(
                    Instant::now() < deadline,
                    "{topic} is not read after {LIMIT:?}: it ends at {ends:?}"
                );
                records.extend(consumer.poll(POLL).await?.into_owned()?);
            }
            Ok(records)
        })
    }

    /// Waits until each application has committed the ends of all topics that it reads: it has written what it makes of
    /// them. Nobody writes inputs meanwhile.
    pub(crate) fn await_settled(&self, groups: &[Group]) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let mut waiting: Vec<&Group> = groups.iter().collect();
        let mut topics = self.with_prefix("")?;
        topics.retain(|name, _| {
            let is_internal = ["-repartition", "-topic"]
                .iter()
                .any(|end| name.ends_with(end));
            is_internal || groups.iter().any(|group| group.inputs.contains(&&**name))
        });
        loop {
            let mut still = Vec::new();
            for group in waiting {
                if !self.is_settled(group, &topics)? {
                    still.push(group);
                }
            }
            if still.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "not at the ends of their topics after {LIMIT:?}: {}",
                still
                    .iter()
                    .map(|group| &*group.id)
                    .collect::<Vec<_>>()
                    .join(" ")
            );
            waiting = still;
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// What is committed is asked for before the ends: what an application writes to itself is there before it commits
    /// what that was made of.
    fn is_settled(&self, group: &Group, topics: &BTreeMap<String, i32>) -> Result<bool> {
        let own = format!("{}-", group.id);
        let read: BTreeSet<TopicPartition> = topics
            .iter()
            .filter(|(name, _)| group.inputs.contains(&&***name) || name.starts_with(&own))
            .flat_map(|(name, partitions)| places(name, *partitions))
            .collect();
        self.runtime.block_on(async {
            let committed = self
                .admin
                .list_group_offsets(&group.id, None, false)
                .await?;
            let wanted = read.into_iter().map(|place| (place, OffsetSpec::Latest));
            let ends = self
                .admin
                .list_offsets(&wanted.collect(), IsolationLevel::ReadUncommitted)
                .await;
            for (place, end) in ends {
                let offset = match committed.get(&place) {
                    Some(Ok(Some(committed))) => committed.offset,
                    _ => 0,
                };
                if offset < end?.offset {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

fn places(topic: &str, partitions: i32) -> impl Iterator<Item = TopicPartition> + use<'_> {
    (0..partitions).map(move |partition| TopicPartition::new(topic, partition))
}
