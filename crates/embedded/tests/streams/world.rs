//! A broker with a topic of words, clients that look at it, and applications that count the words.

use crate::harness::{self, Error, IN_TIME, TestBroker};
use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, IsolationLevel, MembersToRemove, NewTopic, OffsetSpec};
use riverrun_client::blocking::{Admin, Producer};
use riverrun_client::producer::{ProducerConfig, ProducerRecord};
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State, StreamsConfig};
use riverrun_streams::topology::Topology;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long nothing may happen that must not.
pub(crate) const A_WHILE: Duration = Duration::from_secs(2);
/// No commit but at the end, or at a rebalance; brokers let transactions be open for as long.
pub(crate) const NEVER_MS: u64 = 900_000;

pub(crate) const CHANGELOG: &str = "app-counts-changelog";
pub(crate) const EXACTLY_ONCE: ProcessingGuarantee = ProcessingGuarantee::ExactlyOnceV2;

/// A broker, and clients that look at it.
pub(crate) struct World {
    pub(crate) broker: TestBroker,
    pub(crate) admin: Admin,
    pub(crate) producer: Producer,
}

impl World {
    /// With topic `words`, of this many partitions.
    pub(crate) fn start(partitions: i32) -> Result<Self, Error> {
        Self::start_on(TestBroker::start()?, partitions)
    }

    /// The same, on a broker that was started for it.
    pub(crate) fn start_on(broker: TestBroker, partitions: i32) -> Result<Self, Error> {
        let servers = broker.bootstrap_servers();
        let world = Self {
            admin: Admin::new(AdminConfig::with_bootstrap_servers(servers)?)?,
            producer: Producer::new(ProducerConfig::with_bootstrap_servers(servers)?)?,
            broker,
        };
        world.create(NewTopic::new("words").partitions(partitions))?;
        Ok(world)
    }

    pub(crate) fn create(&self, topic: NewTopic) -> Result<(), Error> {
        let topics = [topic];
        let created = self
            .admin
            .call(async |admin| admin.create_topics(&topics).await)?;
        created.into_values().try_for_each(|one| one.map(|_| ()))?;
        Ok(())
    }

    pub(crate) fn write(
        &self,
        topic: &str,
        partition: i32,
        key: &str,
        value: &[u8],
    ) -> Result<i64, Error> {
        self.write_at(topic, partition, key, value, None)
    }

    pub(crate) fn write_at(
        &self,
        topic: &str,
        partition: i32,
        key: &str,
        value: &[u8],
        timestamp: Option<i64>,
    ) -> Result<i64, Error> {
        let record = ProducerRecord {
            partition: Some(partition),
            timestamp,
            ..ProducerRecord::new(topic).key(key.as_bytes()).value(value)
        };
        let written = self.producer.send(record)?.wait()?;
        Ok(written.offset.ok_or("an offset")?)
    }

    pub(crate) fn config(&self, state_dir: &Path) -> Result<StreamsConfig, Error> {
        let mut config = StreamsConfig::new("app", self.broker.bootstrap_servers())?;
        config.state_dir = state_dir.to_owned();
        config.commit_interval_ms = Some(20);
        config.linger_ms = 0;
        config.statestore_cache_max_bytes = 0;
        Ok(config)
    }

    pub(crate) fn start_streams(
        &self,
        topology: Topology,
        config: StreamsConfig,
    ) -> Result<KafkaStreams, Error> {
        let streams = KafkaStreams::new(topology, config);
        streams.start()?;
        Ok(streams)
    }

    /// The end of a partition, committed or not.
    pub(crate) fn end(&self, topic: &str, partition: i32) -> Result<i64, Error> {
        let name = TopicPartition::new(topic, partition);
        let asked = BTreeMap::from([(name.clone(), OffsetSpec::Latest)]);
        let isolation = IsolationLevel::ReadUncommitted;
        let mut listed = self
            .admin
            .call(async |admin| admin.list_offsets(&asked, isolation).await)?;
        Ok(listed.remove(&name).ok_or("an answer")??.offset)
    }

    pub(crate) fn committed(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let names = [TopicPartition::new(topic, partition)];
        let mut offsets = self
            .admin
            .call(async |admin| admin.list_group_offsets("app", Some(&names), false).await)??;
        let offset = offsets.remove(&names[0]).ok_or("an answer")??;
        Ok(offset.map(|committed| committed.offset))
    }

    /// Reads the committed records of a topic until its newest values are `expected`, and goes no further.
    pub(crate) fn await_values(
        &self,
        topic: &str,
        partitions: i32,
        expected: &[(&str, i64)],
    ) -> Result<(), Error> {
        harness::await_values(&self.broker, (topic, partitions), expected)
    }

    /// A producer that has an open transaction with this record in it.
    pub(crate) fn open_transaction(
        &self,
        topic: &str,
        key: &str,
        value: &[u8],
    ) -> Result<Producer, Error> {
        let servers = self.broker.bootstrap_servers();
        let mut config = ProducerConfig::with_bootstrap_servers(servers)?;
        config.transactional_id = Some("another".to_owned());
        let producer = Producer::new(config)?;
        producer.call(async |producer| producer.init_transactions().await)?;
        producer.call(async |producer| producer.begin_transaction())?;
        let record = ProducerRecord {
            partition: Some(0),
            ..ProducerRecord::new(topic).key(key.as_bytes()).value(value)
        };
        producer.send(record)?.wait()?;
        Ok(producer)
    }

    pub(crate) fn evict_members(&self) -> Result<(), Error> {
        let removed = self
            .admin
            .call(async |admin| admin.remove_members("app", &MembersToRemove::All).await)??;
        removed.into_values().collect::<Result<(), _>>()?;
        Ok(())
    }

    pub(crate) fn has_members(&self) -> Result<bool, Error> {
        let mut groups = self
            .admin
            .call(async |admin| admin.describe_groups(&["app"]).await)?;
        let group = groups.remove("app").ok_or("an answer")??;
        let is_stable = group.state == "Stable";
        Ok(is_stable
            && group
                .members
                .iter()
                .any(|member| !member.assignment.is_empty()))
    }
}

/// Asks until it is so.
pub(crate) fn until(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + IN_TIME;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(format!("not in time: {what}").into());
        }
    }
    Ok(())
}

/// Asks for a while whether it stays so.
pub(crate) fn stays(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + A_WHILE;
    while Instant::now() < deadline {
        if !is_so()? {
            return Err(format!("it did not stay so: {what}").into());
        }
    }
    Ok(())
}

pub(crate) fn await_state(streams: &KafkaStreams, wanted: State) -> Result<(), Error> {
    until("the state", || Ok(streams.state() == wanted))
}

/// Counts the records of each key, on disk.
pub(crate) fn counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .group_by_key()
        .count_with(Materialized::named("counts"));
    Ok(builder.build()?)
}
