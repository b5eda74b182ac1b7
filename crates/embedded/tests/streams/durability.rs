//! What applications of the streams library keep and count when something goes wrong, against a broker in the process
//! of the test.

use crate::harness::{Error, IN_TIME};
use crate::world::{CHANGELOG, EXACTLY_ONCE, NEVER_MS, World, await_state, counts, stays, until};
use riverrun_client::TopicPartition;
use riverrun_client::admin::NewTopic;
use riverrun_streams::Failure;
use riverrun_streams::dsl::{
    Materialized, Optimization, StreamsBuilder, TimeWindows, TopologyConfig,
};
use riverrun_streams::processor::{DeadLetterTopic, Handlers, Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State, StateRestoreListener};
use std::fs::File;
use std::sync::mpsc;

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
