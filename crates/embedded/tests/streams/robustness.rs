//! Instances that are asked too early, from within, or to end while they are busy.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_committed, await_state, config, create_topic, read_values,
    write,
};
use riverrun_client::admin::{AdminConfig, NewPartitions};
use riverrun_client::blocking::{Admin, Producer};
use riverrun_client::producer::{ProducerConfig, ProducerRecord};
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{
    InvalidStateStore, KafkaStreams, ProcessingGuarantee, QueryableStore, State, StreamsConfig,
};
use riverrun_streams::state::KeyValueStore;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

type Counts = QueryableStore<KeyValueStore<String, i64>>;

/// A thread that waits for its application answers no query and does not end: both are told in time.
#[test]
fn nobody_waits_for_a_thread_without_end() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let builder = StreamsBuilder::new();
    let words = builder.stream::<String, String>("words");
    words
        .group_by_key()
        .count_with(Materialized::named("counts"));
    words.for_each(move |_, _| {
        let _ = reached.send(());
        let _ = may_go_on.lock().expect("nobody panics with it").recv();
    });
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write(&broker, "words", &[("a", "")])?;
    is_reached.recv_timeout(IN_TIME)?;
    let counts: Counts = streams.store("counts")?;
    let counts = counts.with_timeout(Duration::from_millis(50));
    let asked = counts.get("a".to_owned());
    assert!(
        matches!(asked, Err(InvalidStateStore::TimedOut { .. })),
        "{asked:?}"
    );
    assert!(!streams.close_within(Duration::from_millis(50))?);
    drop(go_on);
    streams.close()?;
    Ok(())
}

/// Questions that come faster than they are answered leave the thread time for its records.
#[test]
fn records_are_processed_however_many_ask() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    let builder = StreamsBuilder::new();
    let words = builder.stream::<String, String>("words");
    words
        .group_by_key()
        .count_with(Materialized::named("counts"));
    let (processed, is_processed) = mpsc::channel();
    words.for_each(move |_, _| {
        let _ = processed.send(());
    });
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    await_state(&streams, State::Running)?;
    let is_over = AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        for _ in 0..4 {
            let counts: Counts = streams.store("counts").expect("the store is there");
            scope.spawn(|| {
                let counts = counts;
                while !is_over.load(Ordering::Relaxed) {
                    let _ = counts.query(|_| {
                        let began = Instant::now();
                        while began.elapsed() < Duration::from_millis(2) {
                            std::hint::spin_loop();
                        }
                    });
                }
            });
        }
        let written = write(&broker, "words", &[("a", "")]);
        let received = is_processed.recv_timeout(IN_TIME);
        is_over.store(true, Ordering::Relaxed);
        written.map(|()| received)
    })?;
    received?;
    streams.close()?;
    Ok(())
}

/// A thread that works through many slow records lives in the eyes of its group.
#[test]
fn who_works_for_longer_than_a_session_stays_a_member() -> Result<(), Error> {
    process_slowly(ProcessingGuarantee::AtLeastOnce, |config| {
        config.session_timeout_ms = 1_500;
        config.heartbeat_interval_ms = 100;
        config.commit_interval_ms = Some(3_600_000);
    })
}

/// It commits in time, however many records wait: else the coordinator would abort its transaction, again and again.
#[test]
fn who_works_for_longer_than_a_transaction_may_last_commits_meanwhile() -> Result<(), Error> {
    process_slowly(ProcessingGuarantee::ExactlyOnceV2, |config| {
        let timeout = ("transaction.timeout.ms".to_owned(), "1000".to_owned());
        config.overrides.producer.extend([timeout]);
        config.commit_interval_ms = Some(100);
    })
}

/// Processes records for three seconds, each once.
fn process_slowly(
    guarantee: ProcessingGuarantee,
    change: impl FnOnce(&mut StreamsConfig),
) -> Result<(), Error> {
    const RECORDS: usize = 200;
    let broker = TestBroker::start_with(|broker| {
        let aborts = "transaction.abort.timed.out.transaction.cleanup.interval.ms";
        broker
            .set("group.min.session.timeout.ms", "1")
            .set(aborts, "50")
    })?;
    create_topic(&broker, "words", 1)?;
    create_topic(&broker, "out", 1)?;
    let builder = StreamsBuilder::new();
    let (processed, is_processed) = mpsc::channel();
    let words = builder.stream::<String, String>("words");
    words
        .peek(move |_, _| {
            // It works, and does not wait.
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(15) {
                std::hint::spin_loop();
            }
            let _ = processed.send(());
        })
        .to("out");
    write(&broker, "words", &[("a", ""); RECORDS])?;
    let state = trials::directory();
    let mut config = config(&broker, guarantee, state.path())?;
    config.num_stream_threads = 1;
    change(&mut config);
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    for _ in 0..RECORDS {
        is_processed.recv_timeout(IN_TIME)?;
    }
    streams.close()?;
    // Whoever was given up, or whose transaction was aborted, has committed nothing, or has processed again.
    await_committed(&broker, "words", i64::try_from(RECORDS)?)?;
    assert!(is_processed.try_recv().is_err());
    Ok(())
}

/// A stream thread that asks its own instance would wait for itself.
#[test]
fn a_query_from_a_stream_thread_is_refused_at_once() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    let (answer, answered) = mpsc::channel();
    let counts: Arc<Mutex<Option<Counts>>> = Arc::default();
    let within = Arc::clone(&counts);
    let builder = StreamsBuilder::new();
    let words = builder.stream::<String, String>("words");
    words
        .group_by_key()
        .count_with(Materialized::named("counts"));
    words.for_each(move |word, _| {
        if let Some(counts) = &*within.lock().expect("nobody panics with it") {
            let _ = answer.send(counts.get(word.clone()).map_err(|error| error.to_string()));
        }
    });
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    *counts.lock().expect("nobody panics with it") = Some(streams.store("counts")?);
    write(&broker, "words", &[("a", "")])?;
    let error = answered
        .recv_timeout(IN_TIME)?
        .expect_err("it would wait for itself");
    assert!(
        error.starts_with("state store `counts` cannot be queried from a stream thread"),
        "{error}"
    );
    streams.close()?;
    Ok(())
}

/// Brokers that are not there at the start are taken up when they come.
#[test]
fn an_instance_starts_before_its_brokers() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    create_topic(&broker, "loud", 1)?;
    write(&broker, "words", &[("1", "a")])?;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .map_values(|word| word.to_uppercase())
        .to("loud");
    let way = TcpListener::bind("127.0.0.1:0")?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config
        .client
        .set("bootstrap.servers", &way.local_addr()?.to_string())?;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    // Whoever has waited until now, and whoever comes, is let through.
    let address = broker.bootstrap_servers().to_owned();
    std::thread::spawn(move || {
        for client in way.incoming() {
            let server = TcpStream::connect(&address);
            let (Ok(client), Ok(server)) = (client, server) else {
                return;
            };
            let _ = pass_on(&client, &server).and_then(|()| pass_on(&server, &client));
        }
    });
    assert_eq!(read_values(&broker, "loud", 1)?, ["A"]);
    streams.close()?;
    Ok(())
}

/// Writes to one end what comes of the other.
fn pass_on(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    Ok(())
}

/// More partitions are more tasks, of an application that keeps nothing.
#[test]
fn partitions_that_come_later_are_read() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    create_topic(&broker, "loud", 1)?;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .map_values(|word| word.to_uppercase())
        .to("loud");
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.client.set("metadata.max.age.ms", "100")?;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write(&broker, "words", &[("1", "a")])?;
    assert_eq!(read_values(&broker, "loud", 1)?, ["A"]);
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    let two = NewPartitions {
        total_count: 2,
        ..NewPartitions::default()
    };
    let growth = BTreeMap::from([("words".to_owned(), two)]);
    let grown = admin.call(async |admin| admin.create_partitions(&growth).await)?;
    grown.into_values().try_for_each(|one| one)?;
    let producer = Producer::new(ProducerConfig::with_bootstrap_servers(
        broker.bootstrap_servers(),
    )?)?;
    let record = ProducerRecord {
        partition: Some(1),
        ..ProducerRecord::new("words").key(b"2").value(b"b")
    };
    producer.send(record)?.wait()?;
    assert_eq!(read_values(&broker, "loud", 2)?, ["A", "B"]);
    streams.close()?;
    Ok(())
}
