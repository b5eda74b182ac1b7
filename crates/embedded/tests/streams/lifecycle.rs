//! Threads that fail, come and go, and instances that rest or end.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_committed, await_state, config, create_topic, read_values,
    reader, write,
};
use crate::world::stays;
use riverrun_client::TopicPartition;
use riverrun_client::admin::AdminConfig;
use riverrun_client::blocking::Admin;
use riverrun_streams::Failure;
use riverrun_streams::dsl::{Materialized, StoreType, StreamsBuilder};
use riverrun_streams::processor::{Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::runtime::{
    CloseOptions, GroupMembershipOperation, KafkaStreams, ProcessingGuarantee, State,
    StreamThreadExceptionResponse, ThreadMetadata, ThreadState,
};
use riverrun_streams::topology::Topology;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Copies values, but fails at `bad` and panics at `worse`: once each if `passes`.
fn brittle(passes: bool) -> Result<Topology, Error> {
    let met = [AtomicBool::new(false), AtomicBool::new(false)];
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .try_map_values(move |_, value| {
            let is_first = |index: usize| !(met[index].swap(true, Ordering::Relaxed) && passes);
            match value.as_str() {
                "bad" if is_first(0) => Err("it is bad"),
                "worse" if is_first(1) => panic!("it is worse"),
                _ => Ok(value.clone()),
            }
        })
        .to("out");
    Ok(builder.build()?)
}

/// Writes values under one key.
fn write_values(broker: &TestBroker, values: &[&str]) -> Result<(), Error> {
    let records: Vec<(&str, &str)> = values.iter().map(|value| ("key", *value)).collect();
    write(broker, "in", &records)
}

fn number(streams: &KafkaStreams, name: &str) -> Option<f64> {
    streams.metrics().number("stream-metrics", name, &[])
}

/// A thread that fails or panics is replaced, and what it has not committed is processed by the next one.
fn threads_are_replaced(guarantee: ProcessingGuarantee) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    create_topic(&broker, "out", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, guarantee, state.path())?;
    config.num_stream_threads = 1;
    let streams = KafkaStreams::new(brittle(true)?, config);
    let (told, errors) = mpsc::channel();
    streams.set_uncaught_exception_handler(move |error| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default().to_owned();
        let _ = told.send((name, error.to_string()));
        StreamThreadExceptionResponse::ReplaceThread
    });
    streams.start()?;
    let values = ["a", "bad", "b", "worse", "c"];
    for (index, value) in values.iter().enumerate() {
        // At least once would give again what is not committed.
        write_values(&broker, &[value])?;
        await_committed(&broker, "in", index as i64 + 1)?;
    }
    assert_eq!(read_values(&broker, "out", values.len())?, values);
    await_state(&streams, State::Running)?;
    let told: Vec<(String, String)> = errors.try_iter().collect();
    let [(first, bad), (second, worse)] = &told[..] else {
        return Err(format!("{told:?}").into());
    };
    assert!(
        first.ends_with("-StreamThread-1") && bad.contains("it is bad"),
        "{told:?}"
    );
    assert!(
        second.ends_with("-StreamThread-2") && worse.contains("it is worse"),
        "{told:?}"
    );
    assert!(streams.errors().is_empty());
    assert_eq!(number(&streams, "failed-stream-threads"), Some(2.0));
    assert_eq!(number(&streams, "alive-stream-threads"), Some(1.0));
    streams.close()?;
    assert_eq!(streams.state(), State::NotRunning);
    Ok(())
}

#[test]
fn threads_are_replaced_at_least_once() -> Result<(), Error> {
    threads_are_replaced(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn threads_are_replaced_exactly_once() -> Result<(), Error> {
    threads_are_replaced(ProcessingGuarantee::ExactlyOnceV2)
}

/// Nobody hears of the error before everything is committed and closed.
#[test]
fn an_error_ends_an_instance_for_good() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    create_topic(&broker, "out", 1)?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(brittle(false)?, config);
    let (told, changes) = mpsc::channel();
    streams.set_state_listener(move |state, _| {
        let _ = told.send(state);
    });
    streams.start()?;
    assert!(streams.clean_up().is_err());
    await_state(&streams, State::Running)?;
    write_values(&broker, &["bad"])?;
    await_state(&streams, State::Error)?;
    // The state directory is free: the next instance may be started.
    streams.clean_up()?;
    for _ in 0..2 {
        let error = streams.close().expect_err("it has failed").to_string();
        assert!(error.contains("it is bad"), "{error}");
        assert_eq!(streams.errors(), [error]);
        assert_eq!(streams.state(), State::Error);
    }
    let changes: Vec<State> = changes.try_iter().collect();
    assert_eq!(changes[0], State::Rebalancing);
    assert_eq!(
        changes[changes.len() - 2..],
        [State::PendingError, State::Error]
    );
    assert_eq!(number(&streams, "client-state"), Some(6.0));
    Ok(())
}

/// Fails at each record, and tells when it is closed.
struct Closing(mpsc::Sender<()>);

impl Processor<String, String, (), ()> for Closing {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, (), ()>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Err(std::io::Error::other("it does not want to").into())
    }

    fn close(&mut self) {
        let _ = self.0.send(());
    }
}

/// Whatever processors have besides their stores is let go of, although nothing is committed.
#[test]
fn processors_are_closed_when_their_thread_fails() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let (told, is_closed) = mpsc::channel();
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .process(move || Closing(told.clone()), &[])
        .for_each(|_, ()| ());
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write_values(&broker, &["a"])?;
    await_state(&streams, State::Error)?;
    assert_eq!(is_closed.try_iter().count(), 1);
    assert!(streams.close().is_err());
    Ok(())
}

/// The thread that has failed is the only one of its instance: another one tells the group.
#[test]
fn one_member_ends_all_instances() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 2)?;
    create_topic(&broker, "out", 1)?;
    let states = [trials::directory(), trials::directory()];
    let mut instances = Vec::new();
    for state in &states {
        let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
        config.num_stream_threads = 1;
        let streams = KafkaStreams::new(brittle(false)?, config);
        streams
            .set_uncaught_exception_handler(|_| StreamThreadExceptionResponse::ShutdownApplication);
        streams.start()?;
        await_state(&streams, State::Running)?;
        instances.push(streams);
    }
    write_values(&broker, &["bad"])?;
    for streams in &instances {
        await_state(streams, State::Error)?;
    }
    let mut errors: Vec<String> = instances.iter().flat_map(KafkaStreams::errors).collect();
    errors.sort();
    let asked = "a member of the application has asked for the end of all its instances";
    let asked_count = errors.iter().filter(|error| *error == asked).count();
    assert_eq!(asked_count, 2, "{errors:?}");
    assert!(
        errors.iter().any(|error| error.contains("it is bad")),
        "{errors:?}"
    );
    Ok(())
}

#[test]
fn threads_come_and_go() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 2)?;
    create_topic(&broker, "out", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let streams = Arc::new(KafkaStreams::new(brittle(true)?, config));
    assert_eq!(streams.add_stream_thread(), None);
    assert_eq!(streams.remove_stream_thread(), None);
    streams.start()?;
    await_state(&streams, State::Running)?;
    let names =
        |name: Option<String>| name.map(|name| name.chars().rev().take(2).collect::<String>());
    assert_eq!(names(streams.add_stream_thread()).as_deref(), Some("2-"));
    assert_eq!(number(&streams, "alive-stream-threads"), Some(2.0));
    assert_eq!(names(streams.remove_stream_thread()).as_deref(), Some("1-"));
    write_values(&broker, &["a"])?;
    assert_eq!(read_values(&broker, "out", 1)?, ["a"]);
    // The name is free again.
    assert_eq!(names(streams.add_stream_thread()).as_deref(), Some("1-"));
    let timeout = Duration::from_secs(60);
    for _ in 0..2 {
        assert!(streams.remove_stream_thread_within(timeout)?.is_some());
    }
    assert_eq!(streams.remove_stream_thread(), None);
    assert_eq!(number(&streams, "alive-stream-threads"), Some(0.0));
    assert!(streams.state().is_running_or_rebalancing());
    write_values(&broker, &["b"])?;
    assert!(streams.add_stream_thread().is_some());
    assert_eq!(read_values(&broker, "out", 2)?, ["a", "b"]);
    streams.close()?;
    assert_eq!(streams.add_stream_thread(), None);
    Ok(())
}

/// A thread may remove itself, from a listener or a processor.
#[test]
fn a_thread_removes_itself() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let (told, removed) = mpsc::channel();
    let (gave, given) = mpsc::channel::<std::sync::Weak<KafkaStreams>>();
    let given = std::sync::Mutex::new(given);
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .for_each(move |_, _| {
            let given = given.lock().expect("nobody panics with it").recv();
            let streams = given.ok().and_then(|streams| streams.upgrade());
            let _ = told.send(streams.and_then(|streams| streams.remove_stream_thread()));
        });
    let streams = Arc::new(KafkaStreams::new(builder.build()?, config));
    gave.send(Arc::downgrade(&streams))?;
    streams.start()?;
    write_values(&broker, &["a"])?;
    assert!(removed.recv_timeout(IN_TIME)?.is_some());
    // What was processed is committed.
    await_committed(&broker, "in", 1)?;
    streams.close()?;
    Ok(())
}

/// Counts the records of each key in memory.
fn counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .group_by_key()
        .count_with(Materialized::named("counts").with_store_type(StoreType::InMemory))
        .to_stream()
        .map_values(|count| format!("{count:?}"))
        .to("out");
    Ok(builder.build()?)
}

/// Tasks that rest process nothing, and stores are not restored.
#[test]
fn tasks_rest_until_they_are_to_go_on() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    create_topic(&broker, "out", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let streams = KafkaStreams::new(counts()?, config.clone());
    streams.start()?;
    write_values(&broker, &["a"])?;
    read_values(&broker, "out", 1)?;
    streams.pause();
    assert!(streams.is_paused());
    write_values(&broker, &["b"])?;
    let mut reader = reader(&broker, "out", 1)?;
    let mut count = 0;
    stays("it rests", || {
        count += reader.poll(Duration::from_millis(50))?.into_owned()?.len();
        Ok(count <= 1 && streams.state() == State::Running)
    })?;
    streams.resume();
    read_values(&broker, "out", 2)?;
    streams.close()?;

    let streams = KafkaStreams::new(counts()?, config);
    streams.pause();
    streams.start()?;
    stays("nothing is restored", || {
        Ok(streams.state() == State::Rebalancing)
    })?;
    streams.resume();
    await_state(&streams, State::Running)?;
    write_values(&broker, &["c"])?;
    assert_eq!(
        read_values(&broker, "out", 3)?.last().map(String::as_str),
        Some("Some(3)")
    );
    streams.close()?;
    Ok(())
}

/// How many members the application's group has.
fn member_count(broker: &TestBroker) -> Result<usize, Error> {
    let config = AdminConfig::with_bootstrap_servers(broker.bootstrap_servers())?;
    let described =
        Admin::new(config)?.call(async |admin| admin.describe_groups(&["words"]).await)?;
    let described = described.into_values().next().ok_or("no group")??;
    Ok(described.members.len())
}

#[test]
fn members_leave_or_remain_as_they_are_told() -> Result<(), Error> {
    use GroupMembershipOperation::{LeaveGroup, RemainInGroup};
    for (instance_id, operation, left_count) in [
        (None, None, 0),
        (None, Some(RemainInGroup), 1),
        (Some("one"), None, 1),
        (Some("one"), Some(LeaveGroup), 0),
    ] {
        let broker = TestBroker::start()?;
        create_topic(&broker, "in", 1)?;
        let state = trials::directory();
        let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
        config.num_stream_threads = 1;
        let id = instance_id.map(|id| ("group.instance.id".to_owned(), id.to_owned()));
        config.overrides.main_consumer.extend(id);
        let streams = KafkaStreams::new(brittle(true)?, config);
        streams.start()?;
        await_state(&streams, State::Running)?;
        assert_eq!(member_count(&broker)?, 1);
        let options = CloseOptions::timeout(IN_TIME);
        let options = match operation {
            Some(operation) => options.with_group_membership_operation(operation),
            None => options,
        };
        assert!(streams.close_with(options)?);
        assert_eq!(
            member_count(&broker)?,
            left_count,
            "{instance_id:?} {operation:?}"
        );
    }
    Ok(())
}

/// Whether an instance of one thread tells that it has processed and committed two records of its input, or stands by,
/// and that its store has all of its changelog.
fn tells_all(streams: &KafkaStreams) -> Result<bool, Error> {
    let threads = streams.metadata_for_local_threads();
    let [thread] = &threads[..] else {
        return Err(format!("{threads:?}").into());
    };
    let name = &thread.thread_name;
    assert!(name.ends_with("-StreamThread-1"), "{name}");
    assert_eq!(thread.consumer_client_id, format!("{name}-consumer"));
    let input = TopicPartition::new("in", 0);
    let is_at_end = match (&thread.active_tasks[..], &thread.standby_tasks[..]) {
        ([task], []) => {
            task.topic_partitions == BTreeSet::from([input.clone()])
                && task.committed_offsets.get(&input) == Some(&2)
                && task.end_offsets.get(&input) == Some(&2)
        }
        ([], [task]) => task.topic_partitions.is_empty(),
        _ => false,
    };
    let lags = streams.all_local_store_partition_lags()?;
    let lag = lags.get("counts").and_then(|lags| lags.get(&0));
    let has_all = lag.is_some_and(|lag| {
        lag.offset_lag == 0
            && lag.current_offset_position == lag.end_offset_position
            && lag.end_offset_position > 0
    });
    Ok(is_at_end && has_all && thread.thread_state == ThreadState::Running)
}

/// The tasks of threads and the lags of stores, of one instance that counts and one that stands by.
#[test]
fn threads_tell_what_they_have() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in", 1)?;
    create_topic(&broker, "out", 1)?;
    let states = [trials::directory(), trials::directory()];
    let mut instances = Vec::new();
    for state in &states {
        let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
        config.num_stream_threads = 1;
        config.num_standby_replicas = 1;
        let streams = KafkaStreams::new(counts()?, config);
        assert!(streams.metadata_for_local_threads().is_empty());
        assert!(streams.all_local_store_partition_lags()?.is_empty());
        streams.start()?;
        await_state(&streams, State::Running)?;
        instances.push(streams);
    }
    write_values(&broker, &["a", "b"])?;
    await_committed(&broker, "in", 2)?;
    let threads = || {
        instances
            .iter()
            .flat_map(KafkaStreams::metadata_for_local_threads)
    };
    let stands_by = |thread: &ThreadMetadata| !thread.standby_tasks.is_empty();
    let deadline = Instant::now() + IN_TIME;
    while threads().filter(stands_by).count() != 1
        || !(tells_all(&instances[0])? && tells_all(&instances[1])?)
    {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            threads().collect::<Vec<_>>()
        );
        std::thread::yield_now();
    }
    for streams in &instances {
        streams.close()?;
        assert!(streams.metadata_for_local_threads().is_empty());
    }
    Ok(())
}
