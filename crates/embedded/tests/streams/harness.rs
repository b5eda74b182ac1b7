//! What the tests of applications share: topics, records written and read, and waiting for a state.

use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, NewTopic};
use riverrun_client::blocking::{Admin, Consumer, Producer};
use riverrun_client::consumer::{ConsumerConfig, OwnedRecord};
use riverrun_client::producer::{ProducerConfig, ProducerRecord};
use riverrun_embedded::{EmbeddedBroker, EmbeddedBrokerBuilder};
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State, StreamsConfig};
use riverrun_streams::topology::Topology;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) type Error = Box<dyn std::error::Error>;

/// How long a test waits for what must come.
pub(crate) const IN_TIME: Duration = Duration::from_secs(120);

/// A broker with its files where those of tests are.
#[derive(Debug)]
pub(crate) struct TestBroker {
    broker: EmbeddedBroker,
    /// Removed after the broker has ended.
    _directory: trials::Directory,
}

impl TestBroker {
    pub(crate) fn start() -> Result<Self, Error> {
        Self::start_with(|broker| broker)
    }

    pub(crate) fn start_with(
        set: impl FnOnce(EmbeddedBrokerBuilder) -> EmbeddedBrokerBuilder,
    ) -> Result<Self, Error> {
        let directory = trials::directory();
        let data = directory.path().join("data");
        Ok(Self {
            broker: set(EmbeddedBroker::builder()).directory(data).start()?,
            _directory: directory,
        })
    }
}

impl Deref for TestBroker {
    type Target = EmbeddedBroker;

    fn deref(&self) -> &EmbeddedBroker {
        &self.broker
    }
}

pub(crate) fn config(
    broker: &EmbeddedBroker,
    guarantee: ProcessingGuarantee,
    state_dir: &Path,
) -> Result<StreamsConfig, Error> {
    let mut config = StreamsConfig::new("words", broker.bootstrap_servers())?;
    config.processing_guarantee = guarantee;
    config.state_dir = state_dir.to_owned();
    config.commit_interval_ms = Some(20);
    config.linger_ms = 0;
    config.num_stream_threads = 2;
    Ok(config)
}

/// Counts the words of topic `lines`, and keeps the counts on disk.
pub(crate) fn word_count() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"));
    Ok(builder.build()?)
}

pub(crate) fn create_topic(
    broker: &EmbeddedBroker,
    name: &str,
    partitions: i32,
) -> Result<(), Error> {
    create_topic_with(broker, name, partitions, &[])
}

pub(crate) fn create_topic_with(
    broker: &EmbeddedBroker,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> Result<(), Error> {
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    let topic = NewTopic::new(name).partitions(partitions);
    let topic = configs
        .iter()
        .fold(topic, |topic, (key, value)| topic.config(*key, *value));
    let topics = [topic];
    for created in admin
        .call(async |admin| admin.create_topics(&topics).await)?
        .into_values()
    {
        created?;
    }
    Ok(())
}

/// Deletes the records of a partition before an offset.
pub(crate) fn cut(
    broker: &EmbeddedBroker,
    partition: TopicPartition,
    before: i64,
) -> Result<(), Error> {
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    let before = BTreeMap::from([(partition, before)]);
    let cut = admin.call(async |admin| admin.delete_records(&before).await)?;
    cut.into_values().try_for_each(|cut| cut.map(|_| ()))?;
    Ok(())
}

pub(crate) fn write_lines(broker: &EmbeddedBroker, lines: &[&str]) -> Result<(), Error> {
    let producer = Producer::new(ProducerConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    for line in lines {
        let record = ProducerRecord::new("lines").value(line.as_bytes());
        producer.send(record)?.wait()?;
    }
    Ok(())
}

/// Writes keys and values of text.
pub(crate) fn write(
    broker: &EmbeddedBroker,
    topic: &str,
    records: &[(&str, &str)],
) -> Result<(), Error> {
    write_each(broker, records, |(key, value)| {
        ProducerRecord::new(topic)
            .key(key.as_bytes())
            .value(value.as_bytes())
    })
}

/// Writes a key without a value.
pub(crate) fn write_tombstone(
    broker: &EmbeddedBroker,
    topic: &str,
    key: &str,
) -> Result<(), Error> {
    write_each(broker, &[key], |key| {
        ProducerRecord::new(topic).key(key.as_bytes())
    })
}

/// Writes keys and values of text, and their timestamps.
pub(crate) fn write_at(
    broker: &EmbeddedBroker,
    topic: &str,
    records: &[(&str, &str, i64)],
) -> Result<(), Error> {
    write_each(broker, records, |(key, value, timestamp_ms)| {
        let record = ProducerRecord::new(topic);
        ProducerRecord {
            timestamp: Some(*timestamp_ms),
            ..record.key(key.as_bytes()).value(value.as_bytes())
        }
    })
}

fn write_each<'a, R>(
    broker: &EmbeddedBroker,
    records: &'a [R],
    record: impl Fn(&'a R) -> ProducerRecord<'a>,
) -> Result<(), Error> {
    let producer = Producer::new(ProducerConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    for one in records {
        producer.send(record(one))?.wait()?;
    }
    Ok(())
}

/// The first `count` values of partition 0 of a topic, as text.
pub(crate) fn read_values(
    broker: &EmbeddedBroker,
    topic: &str,
    count: usize,
) -> Result<Vec<String>, Error> {
    read(broker, topic, count)?
        .into_iter()
        .map(|record| Ok(String::from_utf8(record.value.ok_or("a value")?.to_vec())?))
        .collect()
}

/// The first `count` records of partition 0 of a topic.
pub(crate) fn read(
    broker: &EmbeddedBroker,
    topic: &str,
    count: usize,
) -> Result<Vec<OwnedRecord>, Error> {
    let mut consumer = reader(broker, topic, 1)?;
    let deadline = Instant::now() + IN_TIME;
    let mut records = Vec::new();
    while records.len() < count {
        if Instant::now() > deadline {
            return Err(format!("`{topic}` has only {records:?}").into());
        }
        records.extend(consumer.poll(Duration::from_millis(100))?.into_owned()?);
    }
    Ok(records)
}

/// Reads what is committed of the first partitions of a topic, from the beginning.
pub(crate) fn reader(
    broker: &EmbeddedBroker,
    topic: &str,
    partitions: i32,
) -> Result<Consumer, Error> {
    let mut config = ConsumerConfig::new(broker.bootstrap_servers(), "reader")?;
    config.set("auto.offset.reset", "earliest")?;
    config.set("isolation.level", "read_committed")?;
    config.set("enable.auto.commit", "false")?;
    // An application makes its own topics, with as many partitions as it needs.
    config.set("allow.auto.create.topics", "false")?;
    config.group_id = None;
    let mut consumer = Consumer::new(config)?;
    let names = partitions_of(topic, partitions);
    consumer.call(async |consumer| consumer.assign(names.clone()))?;
    Ok(consumer)
}

pub(crate) fn partitions_of(topic: &str, partitions: i32) -> Vec<TopicPartition> {
    (0..partitions)
        .map(|index| TopicPartition::new(topic, index))
        .collect()
}

/// Reads the committed records of a topic until its newest values are `expected`, and goes no further.
pub(crate) fn await_values(
    broker: &EmbeddedBroker,
    (topic, partitions): (&str, i32),
    expected: &[(&str, i64)],
) -> Result<(), Error> {
    let mut consumer = reader(broker, topic, partitions)?;
    let expected: BTreeMap<String, i64> = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value))
        .collect();
    let mut values = BTreeMap::new();
    let deadline = Instant::now() + IN_TIME;
    while values != expected {
        if Instant::now() > deadline {
            return Err(format!("`{topic}` has {values:?} instead of {expected:?}").into());
        }
        for record in consumer.poll(Duration::from_millis(50))?.into_owned()? {
            let key = String::from_utf8(record.key.ok_or("a key")?.to_vec())?;
            let value = record.value.ok_or("a value")?;
            values.insert(key, i64::from_be_bytes((&*value).try_into()?));
        }
    }
    Ok(())
}

/// Waits until the application has committed this offset of partition 0 of a topic.
pub(crate) fn await_committed(
    broker: &EmbeddedBroker,
    topic: &str,
    offset: i64,
) -> Result<(), Error> {
    let config = ConsumerConfig::new(broker.bootstrap_servers(), "words")?;
    let mut consumer = Consumer::new(config)?;
    let partitions = [TopicPartition::new(topic, 0)];
    until(&mut consumer, async |consumer| {
        let committed = consumer.committed(&partitions).await?;
        Ok(committed.values().any(|known| known.offset >= offset))
    })
}

/// Asks again and again until the answer is yes.
pub(crate) fn until(
    consumer: &mut Consumer,
    mut is_so: impl AsyncFnMut(
        &mut riverrun_client::consumer::Consumer,
    ) -> Result<bool, riverrun_client::Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + IN_TIME;
    while Instant::now() < deadline {
        let answer = consumer.call(async |consumer| {
            let answer = is_so(consumer).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(answer)
        })?;
        if answer {
            return Ok(());
        }
    }
    Err("it is not so in time".into())
}

/// Every file below but locks has something else in it.
pub(crate) fn damage(directory: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => damage(&path)?,
            false if path.ends_with("lock") => {}
            false => std::fs::write(&path, "damaged")?,
        }
    }
    Ok(())
}

pub(crate) fn await_state(streams: &KafkaStreams, wanted: State) -> Result<(), Error> {
    let mut states = streams.watch_state();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        tokio::time::timeout(IN_TIME, states.wait_for(|state| *state == wanted)).await??;
        Ok(())
    })
}

/// Starts an instance that cannot go on. Why, in words.
pub(crate) fn await_error(topology: Topology, config: StreamsConfig) -> Result<String, Error> {
    let streams = KafkaStreams::new(topology, config);
    streams.start()?;
    await_state(&streams, State::Error)?;
    let errors = streams.errors();
    let error = streams.close().expect_err("it has failed").to_string();
    assert_eq!(errors.first(), Some(&error));
    Ok(error)
}
