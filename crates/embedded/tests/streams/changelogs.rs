//! What is restored when a store or its changelog is damaged, cut or gone.

use crate::harness::{self, Error};
use crate::world::{CHANGELOG, EXACTLY_ONCE, World, await_state, counts, until};
use riverrun_client::TopicPartition;
use riverrun_client::admin::NewTopic;
use riverrun_streams::Failure;
use riverrun_streams::dsl::{Materialized, StreamsBuilder, TimeWindows};
use riverrun_streams::processor::{Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State};
use riverrun_streams::serde::DefaultSerde;
use riverrun_streams::state::{KeyValueStore, Stores};
use riverrun_streams::topology::Topology;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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

/// Counts the words of each second.
fn windows() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .group_by_key()
        .windowed_by(TimeWindows::of_size_with_no_grace(1_000))
        .count_with(Materialized::named("counts"));
    Ok(builder.build()?)
}

#[test]
fn a_changelog_with_a_damaged_record_tells_where() -> Result<(), Error> {
    let world = World::start(1)?;
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

/// Which of two instances stands by, the group decides.
#[test]
fn a_standby_tells_where_its_changelog_is_damaged() -> Result<(), Error> {
    let world = World::start(1)?;
    let directories = [trials::directory(), trials::directory()];
    let start = |directory: &Path| {
        let mut config = world.config(directory)?;
        config.num_standby_replicas = 1;
        config.heartbeat_interval_ms = 100;
        world.start_streams(windows()?, config)
    };
    let instances = [start(directories[0].path())?, start(directories[1].path())?];
    let stands_by = |streams: &KafkaStreams| {
        let threads = streams.metadata_for_local_threads();
        threads.iter().any(|one| !one.standby_tasks.is_empty())
    };
    until("one stands by", || Ok(instances.iter().any(stands_by)))?;
    let offset = world.write(CHANGELOG, 0, "short", b"")?;
    let has_failed = |streams: &KafkaStreams| streams.state() == State::Error;
    until("it fails", || Ok(instances.iter().any(has_failed)))?;
    let expected = format!(
        "state store `counts` cannot be restored (topic `{CHANGELOG}`, partition 0, offset {offset})"
    );
    // The other one may have got the task, and fails as well.
    for error in instances.iter().filter_map(|streams| streams.close().err()) {
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
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

/// The files as a process leaves them that is ended now.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), target).map(|_| ())?,
        }
    }
    Ok(())
}

/// A record that is committed is not processed again: no row of it may wait for others.
#[test]
fn rows_without_a_changelog_are_written_when_their_records_are_committed() -> Result<(), Error> {
    let world = World::start(1)?;
    world.create(NewTopic::new("twice").partitions(1))?;
    let (state, killed) = (trials::directory(), trials::directory());
    let mut config = world.config(state.path())?;
    let first = world.start_streams(count_twice()?, config.clone())?;
    // Stores have noted a commit when the next one is made.
    for count in 1..=2 {
        world.write("words", 0, "be", b"")?;
        until("it is committed", || {
            Ok(world.committed("words", 0)? == Some(count))
        })?;
    }
    copy(state.path(), killed.path())?;
    first.close()?;
    config.state_dir = killed.path().to_owned();
    let second = world.start_streams(count_twice()?, config)?;
    world.write("words", 0, "be", b"")?;
    let values = harness::read_values(&world.broker, "twice", 3)?;
    let last = values.last().ok_or("a value")?;
    assert!(["3 2", "3 3"].contains(&last.as_str()), "{last}");
    second.close()?;
    Ok(())
}
