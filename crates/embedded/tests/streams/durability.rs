//! What applications of the streams library keep and count when something goes wrong, against a broker in the process
//! of the test.

use crate::harness::{self, Error, IN_TIME, TestBroker};
use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, IsolationLevel, MembersToRemove, NewTopic, OffsetSpec};
use riverrun_client::blocking::{Admin, Producer};
use riverrun_client::producer::{ProducerConfig, ProducerRecord};
use riverrun_streams::Failure;
use riverrun_streams::dsl::{
    Materialized, Optimization, StreamsBuilder, TimeWindows, TopologyConfig,
};
use riverrun_streams::processor::{DeadLetterTopic, Handlers, Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::runtime::{
    KafkaStreams, ProcessingGuarantee, State, StateRestoreListener, StreamsConfig,
};
use riverrun_streams::serde::DefaultSerde;
use riverrun_streams::state::{KeyValueStore, Stores};
use riverrun_streams::topology::Topology;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long nothing may happen that must not.
const A_WHILE: Duration = Duration::from_secs(2);
/// No commit but at the end, or at a rebalance; brokers let transactions be open for as long.
const NEVER_MS: u64 = 900_000;

const CHANGELOG: &str = "app-counts-changelog";
const EXACTLY_ONCE: ProcessingGuarantee = ProcessingGuarantee::ExactlyOnceV2;

/// A broker, and clients that look at it.
struct World {
    broker: TestBroker,
    admin: Admin,
    producer: Producer,
}

impl World {
    /// With topic `words`, of this many partitions.
    fn start(partitions: i32) -> Result<Self, Error> {
        let broker = TestBroker::start()?;
        let servers = broker.bootstrap_servers();
        let world = Self {
            admin: Admin::new(AdminConfig::with_bootstrap_servers(servers)?)?,
            producer: Producer::new(ProducerConfig::with_bootstrap_servers(servers)?)?,
            broker,
        };
        world.create(NewTopic::new("words").partitions(partitions))?;
        Ok(world)
    }

    fn create(&self, topic: NewTopic) -> Result<(), Error> {
        let topics = [topic];
        let created = self
            .admin
            .call(async |admin| admin.create_topics(&topics).await)?;
        created.into_values().try_for_each(|one| one.map(|_| ()))?;
        Ok(())
    }

    fn write(&self, topic: &str, partition: i32, key: &str, value: &[u8]) -> Result<i64, Error> {
        self.write_at(topic, partition, key, value, None)
    }

    fn write_at(
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

    fn config(&self, state_dir: &Path) -> Result<StreamsConfig, Error> {
        let mut config = StreamsConfig::new("app", self.broker.bootstrap_servers())?;
        config.state_dir = state_dir.to_owned();
        config.commit_interval_ms = Some(20);
        config.linger_ms = 0;
        config.statestore_cache_max_bytes = 0;
        Ok(config)
    }

    fn start_streams(
        &self,
        topology: Topology,
        config: StreamsConfig,
    ) -> Result<KafkaStreams, Error> {
        let streams = KafkaStreams::new(topology, config);
        streams.start()?;
        Ok(streams)
    }

    /// The end of a partition, committed or not.
    fn end(&self, topic: &str, partition: i32) -> Result<i64, Error> {
        let name = TopicPartition::new(topic, partition);
        let asked = BTreeMap::from([(name.clone(), OffsetSpec::Latest)]);
        let isolation = IsolationLevel::ReadUncommitted;
        let mut listed = self
            .admin
            .call(async |admin| admin.list_offsets(&asked, isolation).await)?;
        Ok(listed.remove(&name).ok_or("an answer")??.offset)
    }

    fn committed(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let names = [TopicPartition::new(topic, partition)];
        let mut offsets = self
            .admin
            .call(async |admin| admin.list_group_offsets("app", Some(&names), false).await)??;
        let offset = offsets.remove(&names[0]).ok_or("an answer")??;
        Ok(offset.map(|committed| committed.offset))
    }

    /// Reads the committed records of a topic until its newest values are `expected`, and goes no further.
    fn await_values(
        &self,
        topic: &str,
        partitions: i32,
        expected: &[(&str, i64)],
    ) -> Result<(), Error> {
        harness::await_values(&self.broker, (topic, partitions), expected)
    }

    /// A producer that has an open transaction with this record in it.
    fn open_transaction(&self, topic: &str, key: &str, value: &[u8]) -> Result<Producer, Error> {
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

    fn evict_members(&self) -> Result<(), Error> {
        let removed = self
            .admin
            .call(async |admin| admin.remove_members("app", &MembersToRemove::All).await)??;
        removed.into_values().collect::<Result<(), _>>()?;
        Ok(())
    }

    fn has_members(&self) -> Result<bool, Error> {
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
fn until(what: &str, mut is_so: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
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

fn await_state(streams: &KafkaStreams, wanted: State) -> Result<(), Error> {
    until("the state", || Ok(streams.state() == wanted))
}

/// Counts the records of each key, on disk.
fn counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .group_by_key()
        .count_with(Materialized::named("counts"));
    Ok(builder.build()?)
}

#[test]
fn a_restore_waits_for_open_transactions_of_the_changelog() -> Result<(), Error> {
    let world = World::start(1)?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let first = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    first.close()?;
    // As a member leaves it whose transaction is being committed: its input offsets count already.
    let another = world.open_transaction(CHANGELOG, "be", &41_i64.to_be_bytes())?;
    world.write("words", 0, "be", b"")?;
    let before = world.end(CHANGELOG, 0)?;
    let mut config = world.config(two.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let second = world.start_streams(counts()?, config)?;
    until("it joins", || world.has_members())?;
    stays("nothing is processed", || {
        Ok(world.end(CHANGELOG, 0)? == before)
    })?;
    another.call(async |another| another.commit_transaction().await)?;
    world.await_values(CHANGELOG, 1, &[("be", 42)])?;
    second.close()?;
    Ok(())
}

#[test]
fn nothing_is_processed_by_who_is_closed_while_it_restores() -> Result<(), Error> {
    let world = World::start(1)?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let first = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    first.close()?;
    let another = world.open_transaction(CHANGELOG, "not", &1_i64.to_be_bytes())?;
    world.write("words", 0, "be", b"")?;
    world.write("words", 0, "or", b"")?;
    let mut elsewhere = config;
    elsewhere.state_dir = two.path().to_owned();
    // So that records come with the task, which must wait all the same.
    elsewhere.poll_ms = 1_000;
    let second = world.start_streams(counts()?, elsewhere.clone())?;
    until("it joins", || world.has_members())?;
    stays("it restores", || Ok(second.state() == State::Rebalancing))?;
    second.close()?;
    another.call(async |another| another.abort_transaction().await)?;
    assert_eq!(world.committed("words", 0)?, Some(1));
    let third = world.start_streams(counts()?, elsewhere)?;
    world.await_values(CHANGELOG, 1, &[("be", 2), ("or", 1)])?;
    third.close()?;
    Ok(())
}

/// Tells where each restore begins, and of each batch.
#[derive(Clone)]
struct Restores {
    begun: mpsc::Sender<i64>,
    put: mpsc::Sender<u64>,
}

impl StateRestoreListener for Restores {
    fn on_restore_start(&self, _: &TopicPartition, _: &str, starting_offset: i64, _: i64) {
        let _ = self.begun.send(starting_offset);
    }

    fn on_batch_restored(&self, _: &TopicPartition, _: &str, restored_count: u64) {
        let _ = self.put.send(restored_count);
    }
}

/// A restore that takes longer than its member lives in the group would never end otherwise.
#[test]
fn what_a_lost_member_has_restored_is_not_restored_again() -> Result<(), Error> {
    let world = World::start(1)?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    config.heartbeat_interval_ms = 50;
    let first = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    first.close()?;
    let another = world.open_transaction(CHANGELOG, "be", &41_i64.to_be_bytes())?;
    config.state_dir = two.path().to_owned();
    let (begun, is_begun) = mpsc::channel();
    let (put, is_put) = mpsc::channel();
    let second = KafkaStreams::new(counts()?, config);
    second.set_state_restore_listener(Restores { begun, put });
    second.start()?;
    assert_eq!(is_begun.recv_timeout(IN_TIME)?, 0);
    assert_eq!(is_put.recv_timeout(IN_TIME)?, 1);
    world.evict_members()?;
    assert!(is_begun.recv_timeout(IN_TIME)? > 0);
    another.call(async |another| another.commit_transaction().await)?;
    await_state(&second, State::Running)?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 42)])?;
    second.close()?;
    Ok(())
}

#[test]
fn a_task_does_not_wait_for_the_restore_of_another() -> Result<(), Error> {
    let world = World::start(2)?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let first = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 2, &[("be", 1)])?;
    first.close()?;
    let another = world.open_transaction(CHANGELOG, "be", &41_i64.to_be_bytes())?;
    let mut config = world.config(two.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let second = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    world.write("words", 1, "to", b"")?;
    world.await_values(CHANGELOG, 2, &[("be", 1), ("to", 1)])?;
    another.call(async |another| another.commit_transaction().await)?;
    world.await_values(CHANGELOG, 2, &[("be", 42), ("to", 1)])?;
    second.close()?;
    Ok(())
}

#[test]
fn what_a_lost_member_has_not_committed_is_counted_once() -> Result<(), Error> {
    let world = World::start(1)?;
    let state = trials::directory();
    let mut config = world.config(state.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    config.commit_interval_ms = Some(NEVER_MS);
    config.heartbeat_interval_ms = 50;
    config.transaction_timeout_ms = NEVER_MS;
    let streams = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    until("it is processed", || Ok(world.end(CHANGELOG, 0)? == 1))?;
    world.evict_members()?;
    // A marker of the transaction that was given up, and the record of the next one.
    until(
        "it is processed again",
        || Ok(world.end(CHANGELOG, 0)? == 3),
    )?;
    streams.close()?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    assert_eq!(world.committed("words", 0)?, Some(1));
    Ok(())
}

#[test]
fn who_was_given_up_is_closed_without_an_error() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        let state = trials::directory();
        let mut config = world.config(state.path())?;
        config.processing_guarantee = guarantee;
        config.commit_interval_ms = Some(NEVER_MS);
        config.transaction_timeout_ms = NEVER_MS;
        let streams = world.start_streams(counts()?, config.clone())?;
        world.write("words", 0, "be", b"")?;
        until("it is processed", || Ok(world.end(CHANGELOG, 0)? == 1))?;
        world.evict_members()?;
        streams.close()?;
        assert_eq!(world.committed("words", 0)?, None);
        let end = world.end(CHANGELOG, 0)?;
        let again = world.start_streams(counts()?, config)?;
        until("it is processed", || Ok(world.end(CHANGELOG, 0)? > end))?;
        again.close()?;
        assert_eq!(world.committed("words", 0)?, Some(1));
    }
    Ok(())
}

#[test]
fn tasks_that_stay_keep_their_stores_when_others_go() -> Result<(), Error> {
    let world = World::start(2)?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    config.commit_interval_ms = Some(NEVER_MS);
    config.heartbeat_interval_ms = 50;
    config.transaction_timeout_ms = NEVER_MS;
    let first = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.write("words", 1, "to", b"")?;
    let is_processed = || Ok(world.end(CHANGELOG, 0)? == 1 && world.end(CHANGELOG, 1)? == 1);
    until("both are processed", is_processed)?;
    let marks: Vec<_> = (0..2)
        .map(|partition| one.path().join(format!("app/0_{partition}/mark")))
        .collect();
    marks.iter().try_for_each(|mark| std::fs::write(mark, ""))?;
    config.state_dir = two.path().to_owned();
    let second = world.start_streams(counts()?, config)?;
    // The rebalance commits what was processed until then.
    world.await_values(CHANGELOG, 2, &[("be", 1), ("to", 1)])?;
    await_state(&second, State::Running)?;
    assert!(
        marks.iter().all(|mark| mark.exists()),
        "a store was given up"
    );
    first.close()?;
    second.close()?;
    Ok(())
}

#[test]
fn a_table_whose_topic_is_its_changelog_is_restored() -> Result<(), Error> {
    let topology = || {
        let builder = StreamsBuilder::new();
        let users = builder.table::<String, i64>("users");
        builder
            .stream::<String, String>("words")
            .join_table(&users, |_, number| *number)
            .to("numbers");
        let optimization = Optimization::ALL;
        builder.build_with(&TopologyConfig {
            optimization,
            ..TopologyConfig::default()
        })
    };
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        world.create(NewTopic::new("users").partitions(1))?;
        world.create(NewTopic::new("numbers").partitions(1))?;
        let (one, two) = (trials::directory(), trials::directory());
        let mut config = world.config(one.path())?;
        config.processing_guarantee = guarantee;
        let first = world.start_streams(topology()?, config.clone())?;
        world.write("users", 0, "anna", &7_i64.to_be_bytes())?;
        until("the table is read", || {
            Ok(world.committed("users", 0)? == Some(1))
        })?;
        first.close()?;
        config.state_dir = two.path().to_owned();
        let second = world.start_streams(topology()?, config.clone())?;
        world.write("words", 0, "anna", b"")?;
        world.await_values("numbers", 1, &[("anna", 7)])?;
        second.close()?;
        // What the store has noted fits to what is committed.
        let third = world.start_streams(topology()?, config)?;
        world.write("users", 0, "anna", &8_i64.to_be_bytes())?;
        until("the table is read", || {
            Ok(world.committed("users", 0)? == Some(2))
        })?;
        world.write("words", 0, "anna", b"")?;
        world.await_values("numbers", 1, &[("anna", 8)])?;
        third.close()?;
    }
    Ok(())
}

#[test]
fn records_that_are_skipped_are_committed() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        world.create(NewTopic::new("dead").partitions(1))?;
        let state = trials::directory();
        let mut config = world.config(state.path())?;
        config.processing_guarantee = guarantee;
        config.handlers = Handlers::log_and_continue(DeadLetterTopic(Some("dead".into())));
        let streams = world.start_streams(counts()?, config)?;
        world.write("words", 0, "be", &[0xff])?;
        until("it is committed", || {
            Ok(world.committed("words", 0)? == Some(1))
        })?;
        streams.close()?;
        assert!(world.end("dead", 0)? >= 1);
    }
    Ok(())
}

#[test]
fn a_store_that_another_thread_has_open_is_waited_for() -> Result<(), Error> {
    let world = World::start(1)?;
    let state = trials::directory();
    let config = world.config(state.path())?;
    let streams = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    streams.close()?;
    let lock = File::options()
        .write(true)
        .open(state.path().join("app/0_0/stores/lock"))?;
    lock.lock()?;
    let streams = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    until("it joins", || world.has_members())?;
    stays("it waits", || Ok(streams.state() == State::Rebalancing))?;
    lock.unlock()?;
    world.await_values(CHANGELOG, 1, &[("be", 2)])?;
    streams.close()?;
    Ok(())
}

#[test]
fn a_record_that_the_broker_refuses_ends_the_instance() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        let small = NewTopic::new("loud")
            .partitions(1)
            .config("max.message.bytes", "200");
        world.create(small)?;
        let builder = StreamsBuilder::new();
        builder.stream::<String, String>("words").to("loud");
        let state = trials::directory();
        let mut config = world.config(state.path())?;
        config.processing_guarantee = guarantee;
        let streams = world.start_streams(builder.build()?, config)?;
        world.write("words", 0, "be", "be".repeat(500).as_bytes())?;
        await_state(&streams, State::Error)?;
        let error = streams.close().expect_err("the record is too large");
        assert!(
            error.to_string().contains("cannot write to topic `loud`"),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn windows_outlive_another_retention() -> Result<(), Error> {
    let world = World::start(1)?;
    let windows = |retention_ms| {
        let builder = StreamsBuilder::new();
        builder
            .stream::<String, String>("words")
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(1_000))
            .count_with(Materialized::named("counts").with_retention(retention_ms))
            .to_stream_by(|windowed, _| windowed.key.clone())
            .to("counts");
        builder.build()
    };
    world.create(NewTopic::new("counts").partitions(1))?;
    let state = trials::directory();
    let config = world.config(state.path())?;
    for (retention_ms, count) in [(200_000, 1), (400_000, 2)] {
        let streams = world.start_streams(windows(retention_ms)?, config.clone())?;
        world.write_at("words", 0, "be", b"", Some(400_000))?;
        world.await_values("counts", 1, &[("be", count)])?;
        streams.close()?;
    }
    Ok(())
}

#[test]
fn damaged_stores_are_restored() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        let state = trials::directory();
        let mut config = world.config(state.path())?;
        config.processing_guarantee = guarantee;
        for count in 1..3 {
            let streams = world.start_streams(counts()?, config.clone())?;
            world.write("words", 0, "be", b"")?;
            world.await_values(CHANGELOG, 1, &[("be", count)])?;
            streams.close()?;
            harness::damage(&state.path().join("app/0_0/stores"))?;
        }
    }
    Ok(())
}

#[test]
fn a_changelog_with_a_damaged_record_tells_where() -> Result<(), Error> {
    let world = World::start(1)?;
    let windows = || {
        let builder = StreamsBuilder::new();
        builder
            .stream::<String, String>("words")
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(1_000))
            .count_with(Materialized::named("counts"));
        builder.build()
    };
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = world.config(one.path())?;
    world.start_streams(windows()?, config.clone())?.close()?;
    let offset = world.write(CHANGELOG, 0, "short", b"")?;
    config.state_dir = two.path().to_owned();
    let streams = world.start_streams(windows()?, config)?;
    await_state(&streams, State::Error)?;
    let error = streams.close().expect_err("the key has no time");
    let expected = format!(
        "state store `counts` cannot be restored (topic `{CHANGELOG}`, partition 0, offset {offset})"
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    Ok(())
}

#[test]
fn a_changelog_that_was_cut_is_restored_anew() -> Result<(), Error> {
    let world = World::start(1)?;
    // Who only compacts a topic does not cut it.
    let changelog = NewTopic::new(CHANGELOG).partitions(1);
    world.create(changelog.config("cleanup.policy", "compact,delete"))?;
    let (one, two) = (trials::directory(), trials::directory());
    let config = world.config(one.path())?;
    let first = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    first.close()?;
    let mut elsewhere = config.clone();
    elsewhere.state_dir = two.path().to_owned();
    let second = world.start_streams(counts()?, elsewhere)?;
    for count in 2..5 {
        world.write("words", 0, "be", b"")?;
        world.await_values(CHANGELOG, 1, &[("be", count)])?;
    }
    second.close()?;
    let before = BTreeMap::from([(TopicPartition::new(CHANGELOG, 0), 3)]);
    let cut = world
        .admin
        .call(async |admin| admin.delete_records(&before).await)?;
    cut.into_values().try_for_each(|cut| cut.map(|_| ()))?;
    let mark = one.path().join("app/0_0/mark");
    std::fs::write(&mark, "")?;
    let first = world.start_streams(counts()?, config)?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 5)])?;
    assert!(!mark.exists());
    first.close()?;
    Ok(())
}

/// Whoever starts an instance again that has failed hears the same: it does not go on without its state.
#[test]
fn a_changelog_that_is_gone_is_told_at_each_start() -> Result<(), Error> {
    let world = World::start(1)?;
    let state = trials::directory();
    let mut config = world.config(state.path())?;
    config.processing_guarantee = EXACTLY_ONCE;
    let first = world.start_streams(counts()?, config.clone())?;
    world.write("words", 0, "be", b"")?;
    world.await_values(CHANGELOG, 1, &[("be", 1)])?;
    first.close()?;
    let mut deleted = world
        .admin
        .call(async |admin| admin.delete_topics(&[CHANGELOG]).await)?;
    deleted.remove(CHANGELOG).ok_or("an answer")??;
    for _ in 0..2 {
        let error = harness::await_error(counts()?, config.clone())?;
        assert!(error.contains("the topic was deleted or cut"), "{error}");
    }
    Ok(())
}

/// Counts the records of each key twice: in a store with a changelog and in one without. A record that says `gone`
/// makes the first forget its key.
struct CountTwice;

impl Processor<String, String, String, String> for CountTwice {
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, String, String>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let mut counts = [0; 2];
        for (name, count) in ["counts", "notes"].iter().zip(&mut counts) {
            let store = context.store::<KeyValueStore<String, i64>>(name)?;
            let mut store = store.borrow();
            *count = store.get(&record.key)?.unwrap_or(0) + 1;
            let kept = (record.value != "gone" || *name == "notes").then_some(&*count);
            store.put(context.task(), &record.key, kept)?;
        }
        let [counted, noted] = counts;
        context.forward(Record {
            value: format!("{counted} {noted}"),
            ..record
        })
    }
}

fn count_twice() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    let store = |name: &str| {
        let supplier = Stores::persistent_key_value_store(name);
        Stores::key_value_store_builder(supplier, String::serde(), i64::serde())
    };
    builder.add_state_store(Arc::new(store("counts")));
    builder.add_state_store(Arc::new(store("notes").with_logging_disabled()));
    builder
        .stream::<String, String>("words")
        .process(|| CountTwice, &["counts", "notes"])
        .to("twice");
    Ok(builder.build()?)
}

/// What no topic has stays when a changelog was cut; what the changelog has not any more goes.
#[test]
fn rows_without_a_changelog_stay_when_another_one_was_cut() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        world.create(NewTopic::new("twice").partitions(1))?;
        let changelog = NewTopic::new(CHANGELOG).partitions(1);
        world.create(changelog.config("cleanup.policy", "compact,delete"))?;
        let (one, two) = (trials::directory(), trials::directory());
        let mut config = world.config(one.path())?;
        config.processing_guarantee = guarantee;
        let mut elsewhere = config.clone();
        elsewhere.state_dir = two.path().to_owned();
        let mut read = 0;
        let mut process = |world: &World, word: &str, value: &str| -> Result<String, Error> {
            world.write("words", 0, word, value.as_bytes())?;
            read += 1;
            let values = harness::read_values(&world.broker, "twice", read)?;
            Ok(values.last().ok_or("a value")?.clone())
        };
        let first = world.start_streams(count_twice()?, config.clone())?;
        assert_eq!(process(&world, "be", "")?, "1 1");
        first.close()?;
        let second = world.start_streams(count_twice()?, elsewhere)?;
        assert_eq!(process(&world, "be", "gone")?, "2 1");
        let end = world.end(CHANGELOG, 0)?;
        assert_eq!(process(&world, "to", "")?, "1 1");
        second.close()?;
        harness::cut(&world.broker, TopicPartition::new(CHANGELOG, 0), end)?;
        let first = world.start_streams(count_twice()?, config)?;
        assert_eq!(process(&world, "be", "")?, "1 2", "{guarantee:?}");
        assert_eq!(process(&world, "to", "")?, "2 1", "{guarantee:?}");
        first.close()?;
    }
    Ok(())
}

#[test]
fn markers_of_transactions_are_committed() -> Result<(), Error> {
    for guarantee in [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE] {
        let world = World::start(1)?;
        let state = trials::directory();
        let mut config = world.config(state.path())?;
        config.processing_guarantee = guarantee;
        let streams = world.start_streams(counts()?, config)?;
        let producer = world.open_transaction("words", "be", b"")?;
        producer.call(async |producer| producer.commit_transaction().await)?;
        let end = world.end("words", 0)?;
        assert_eq!(end, 2, "a record and a marker");
        until("nothing is left", || {
            Ok(world.committed("words", 0)? == Some(end))
        })?;
        streams.close()?;
    }
    Ok(())
}

/// Whatever the producer waits for: a commit does not wait for that, and comes after what was processed is written.
#[test]
fn what_comes_of_a_record_is_written_before_the_record_is_committed() -> Result<(), Error> {
    let world = World::start(1)?;
    world.create(NewTopic::new("loud").partitions(1))?;
    let state = trials::directory();
    let mut config = world.config(state.path())?;
    config.linger_ms = NEVER_MS;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .map_values(|word| word.to_uppercase())
        .to("loud");
    let streams = world.start_streams(builder.build()?, config)?;
    for count in 1..=5 {
        world.write("words", 0, "be", b"a")?;
        until("it is committed", || {
            Ok(world.committed("words", 0)? == Some(count))
        })?;
        assert_eq!(world.end("loud", 0)?, count);
    }
    streams.close()?;
    Ok(())
}

/// Panics when it is closed.
struct Stubborn;

impl Processor<String, String, (), ()> for Stubborn {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, (), ()>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    fn close(&mut self) {
        panic!("it does not want to go");
    }
}

#[test]
fn who_panics_at_the_end_leaves_the_group_too() -> Result<(), Error> {
    let world = World::start(1)?;
    let state = trials::directory();
    let mut config = world.config(state.path())?;
    config.session_timeout_ms = 600_000;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .process(|| Stubborn, &[])
        .for_each(|_, ()| ());
    let streams = world.start_streams(builder.build()?, config)?;
    await_state(&streams, State::Running)?;
    let error = streams.close().expect_err("a processor has panicked");
    assert!(error.to_string().contains("not want to go"), "{error}");
    assert!(!world.has_members()?);
    Ok(())
}
