//! Global tables and stores: every thread reads what one thread has restored and follows.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_state, config, create_topic, create_topic_with, cut, damage,
    read_values, write, write_tombstone,
};
use crate::world::stays;
use riverrun_client::TopicPartition;
use riverrun_embedded::EmbeddedBroker;
use riverrun_streams::Failure;
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::processor::{Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::runtime::{
    KafkaStreams, ProcessingGuarantee, State, ThreadMetadata, ThreadState,
};
use riverrun_streams::serde::DefaultSerde;
use riverrun_streams::state::{KeyValueStore, StoreType, Stores};
use riverrun_streams::topology::{Consumed, Topology};
use std::sync::{Arc, Mutex, mpsc};

/// Orders name a user; the table of users is global.
fn named_orders(materialized: Materialized<String, String>) -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    let users = builder.global_table_with("users", Consumed::default(), materialized);
    builder
        .stream::<String, String>("orders")
        .join_global_table(
            &users,
            |_, user: &String| Some(user.clone()),
            |_, order, name: &String| format!("{order} by {name}"),
        )
        .to("named-orders");
    Ok(builder.build()?)
}

fn create_topics(broker: &EmbeddedBroker) -> Result<(), Error> {
    create_topic(broker, "users", 3)?;
    create_topic(broker, "orders", 2)?;
    create_topic(broker, "named-orders", 1)
}

fn a_join_reads_a_global_table(
    guarantee: ProcessingGuarantee,
    materialized: impl Fn() -> Materialized<String, String>,
) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    write(
        &broker,
        "users",
        &[("u1", "anna"), ("u2", "bert"), ("u3", "cora")],
    )?;
    write(&broker, "orders", &[("1", "u1"), ("2", "u2"), ("3", "u3")])?;
    let state = trials::directory();
    let config = config(&broker, guarantee, state.path())?;
    let streams = KafkaStreams::new(named_orders(materialized())?, config.clone());
    streams.start()?;
    // Nothing is joined before the table has what its topic had.
    let mut joined = read_values(&broker, "named-orders", 3)?;
    joined.sort();
    assert_eq!(joined, ["u1 by anna", "u2 by bert", "u3 by cora"]);
    streams.close()?;
    write(&broker, "users", &[("u2", "berta"), ("u4", "dora")])?;
    write(&broker, "orders", &[("4", "u2"), ("5", "u4"), ("6", "u1")])?;
    let streams = KafkaStreams::new(named_orders(materialized())?, config);
    streams.start()?;
    await_state(&streams, State::Running)?;
    let mut joined = read_values(&broker, "named-orders", 6)?.split_off(3);
    joined.sort();
    assert_eq!(joined, ["u1 by anna", "u2 by berta", "u4 by dora"]);
    streams.close()?;
    assert_eq!(streams.state(), State::NotRunning);
    Ok(())
}

#[test]
fn a_join_reads_a_global_table_on_disk() -> Result<(), Error> {
    a_join_reads_a_global_table(ProcessingGuarantee::AtLeastOnce, || {
        Materialized::named("users-by-id")
    })
}

#[test]
fn a_join_reads_a_global_table_in_memory_exactly_once() -> Result<(), Error> {
    a_join_reads_a_global_table(ProcessingGuarantee::ExactlyOnceV2, || {
        Materialized::named("users-by-id").with_store_type(StoreType::InMemory)
    })
}

/// Keeps the length of each user's name in a global store.
struct KeepLength;

impl Processor<String, String, (), ()> for KeepLength {
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, (), ()>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let store = context.store::<KeyValueStore<String, i64>>("lengths")?;
        let length = i64::try_from(record.value.len())?;
        let mut store = store.borrow();
        store.put(context.task(), &record.key, Some(&length))?;
        Ok(())
    }
}

/// The same, but tells of each record, and waits until it may go on.
struct KeepLengthLater {
    told: mpsc::Sender<()>,
    may_go_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Processor<String, String, (), ()> for KeepLengthLater {
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, (), ()>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let _ = self.told.send(());
        let _ = self.may_go_on.lock().expect("nobody panics with it").recv();
        KeepLength.process(context, record)
    }
}

/// Reads that store without being connected to it, and may not write it.
struct ReadLength;

impl Processor<String, String, String, String> for ReadLength {
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, String, String>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let store = context.store::<KeyValueStore<String, i64>>("lengths")?;
        let length = store.borrow().get(&record.value)?.unwrap_or(-1);
        let all = store.borrow().all()?.count();
        let refused = store.borrow().put(context.task(), &record.value, None);
        let refused = refused.expect_err("a reader has written").to_string();
        context.forward(Record {
            key: record.key,
            value: format!("{length} of {all}; {refused}"),
            timestamp_ms: record.timestamp_ms,
            headers: record.headers,
        })
    }
}

#[test]
fn a_processor_reads_a_global_store_that_another_one_fills() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    write(&broker, "users", &[("u1", "anna"), ("u2", "bo")])?;
    let builder = StreamsBuilder::new();
    let supplier = Stores::persistent_key_value_store("lengths");
    let store = Stores::key_value_store_builder(supplier, String::serde(), i64::serde());
    builder.add_global_store(
        Arc::new(store.with_logging_disabled()),
        "users",
        Consumed::default(),
        || KeepLength,
    );
    builder
        .stream::<String, String>("orders")
        .process(|| ReadLength, &[])
        .to("named-orders");
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write(&broker, "orders", &[("1", "u2")])?;
    assert_eq!(
        read_values(&broker, "named-orders", 1)?,
        [
            "2 of 2; state store `lengths`: a global store is written by the processor that fills it only"
        ]
    );
    streams.close()?;
    Ok(())
}

/// As all that the instance starts with.
#[test]
fn a_thread_that_is_added_waits_for_global_stores() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    write(&broker, "users", &[("u1", "anna")])?;
    write(&broker, "orders", &[("1", "u1")])?;
    let (told, is_filling) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let builder = StreamsBuilder::new();
    let supplier = Stores::in_memory_key_value_store("lengths");
    let store = Stores::key_value_store_builder(supplier, String::serde(), i64::serde());
    builder.add_global_store(
        Arc::new(store.with_logging_disabled()),
        "users",
        Consumed::default(),
        move || KeepLengthLater {
            told: told.clone(),
            may_go_on: Arc::clone(&may_go_on),
        },
    );
    builder
        .stream::<String, String>("orders")
        .process(|| ReadLength, &[])
        .to("named-orders");
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(builder.build()?, config);
    let within = &streams;
    std::thread::scope(move |scope| {
        // Whatever comes of this, the start is let go on.
        let go_on: mpsc::Sender<()> = go_on;
        let starting = scope.spawn(move || within.start());
        is_filling.recv_timeout(IN_TIME)?;
        assert!(within.add_stream_thread().is_some());
        stays("no thread begins", || {
            let threads = within.metadata_for_local_threads();
            let waits = |thread: &ThreadMetadata| thread.thread_state == ThreadState::Starting;
            Ok(threads.len() == 3 && threads.iter().all(waits))
        })?;
        drop(go_on);
        starting.join().expect("it has not panicked")?;
        Ok::<_, Error>(())
    })?;
    let joined = read_values(&broker, "named-orders", 1)?;
    assert!(joined[0].starts_with("4 of 1;"), "{joined:?}");
    streams.close()?;
    Ok(())
}

#[test]
fn a_global_store_of_a_kind_that_threads_cannot_share_ends_the_start() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    let builder = StreamsBuilder::new();
    let supplier = Stores::persistent_versioned_key_value_store("versions", 60_000);
    let store = Stores::versioned_key_value_store_builder(supplier, String::serde(), i64::serde());
    builder.add_global_store(
        Arc::new(store.with_logging_disabled()),
        "users",
        Consumed::default(),
        || KeepLength,
    );
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(builder.build()?, config);
    let error = streams
        .start()
        .expect_err("it cannot be shared")
        .to_string();
    assert!(
        error.starts_with("state store `versions`: threads cannot share"),
        "{error}"
    );
    assert_eq!(streams.state(), State::Error);
    Ok(())
}

#[test]
fn a_missing_global_topic_is_told() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "orders", 1)?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let topology = named_orders(Materialized::default())?;
    let error = KafkaStreams::new(topology, config)
        .start()
        .expect_err("there is no topic of users")
        .to_string();
    assert!(
        error.starts_with("global topic `users`")
            && error.ends_with("create it before the application starts"),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_global_topic_that_was_made_anew_is_told() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    write(&broker, "users", &[("u1", "anna")])?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let topology = || named_orders(Materialized::named("users-by-id"));
    let streams = KafkaStreams::new(topology()?, config);
    streams.start()?;
    streams.close()?;
    let anew = TestBroker::start()?;
    create_topics(&anew)?;
    let config = crate::harness::config(&anew, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let error = KafkaStreams::new(topology()?, config)
        .start()
        .expect_err("the topic has less than the store")
        .to_string();
    assert!(
        error.starts_with(
            "state store `users-by-id`: it has records up to offset 0 of global topic `users`"
        ),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_damaged_global_store_is_restored() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topics(&broker)?;
    write(&broker, "users", &[("u1", "anna")])?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let topology = || named_orders(Materialized::named("users-by-id"));
    let streams = KafkaStreams::new(topology()?, config.clone());
    streams.start()?;
    streams.close()?;
    damage(&state.path().join("words/global/stores"))?;
    let streams = KafkaStreams::new(topology()?, config);
    streams.start()?;
    write(&broker, "orders", &[("1", "u1")])?;
    assert_eq!(read_values(&broker, "named-orders", 1)?, ["u1 by anna"]);
    streams.close()?;
    Ok(())
}

#[test]
fn a_global_topic_that_was_cut_is_restored_anew() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    // Who only compacts a topic does not cut it.
    create_topic_with(&broker, "users", 1, &[("cleanup.policy", "delete")])?;
    create_topic(&broker, "orders", 1)?;
    create_topic(&broker, "named-orders", 1)?;
    write(&broker, "users", &[("u1", "anna")])?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let topology = || named_orders(Materialized::named("users-by-id"));
    let streams = KafkaStreams::new(topology()?, config.clone());
    streams.start()?;
    streams.close()?;
    write_tombstone(&broker, "users", "u1")?;
    write(&broker, "users", &[("u2", "bert"), ("u3", "cora")])?;
    cut(&broker, TopicPartition::new("users", 0), 3)?;
    let streams = KafkaStreams::new(topology()?, config);
    streams.start()?;
    write(&broker, "orders", &[("1", "u1"), ("2", "u3")])?;
    assert_eq!(read_values(&broker, "named-orders", 1)?, ["u3 by cora"]);
    streams.close()?;
    Ok(())
}
