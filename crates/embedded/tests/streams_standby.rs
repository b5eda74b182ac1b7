//! Standby tasks, warm-ups and listeners of streams applications, against a broker in the process of the test.

use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, NewTopic};
use riverrun_client::blocking::{Admin, Consumer, Producer};
use riverrun_client::consumer::ConsumerConfig;
use riverrun_client::producer::{ProducerConfig, ProducerRecord};
use riverrun_embedded::EmbeddedBroker;
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{
    KafkaStreams, ProcessingGuarantee, StandbyUpdateListener, State, StateRestoreListener,
    StreamsConfig, SuspendReason,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// How long a test waits for what must come.
const IN_TIME: Duration = Duration::from_secs(120);
const PARTITIONS: i32 = 4;

/// Counts words, and keeps the counts on disk.
fn instance(
    broker: &EmbeddedBroker,
    guarantee: ProcessingGuarantee,
    state_dir: &Path,
) -> Result<KafkaStreams, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"));
    let mut config = StreamsConfig::new("words", broker.bootstrap_servers())?;
    config.processing_guarantee = guarantee;
    config.state_dir = state_dir.to_owned();
    config.commit_interval_ms = Some(20);
    config.linger_ms = 0;
    config.heartbeat_interval_ms = 100;
    config.num_standby_replicas = 1;
    // Who misses a record warms up first.
    config.acceptable_recovery_lag = 0;
    config.probing_rebalance_interval_ms = 200;
    Ok(KafkaStreams::new(builder.build()?, config))
}

fn create_topic(broker: &EmbeddedBroker) -> Result<(), Error> {
    let config = AdminConfig::with_bootstrap_servers(broker.bootstrap_servers())?;
    let topics = [NewTopic::new("lines").partitions(PARTITIONS)];
    let created = Admin::new(config)?.call(async |admin| admin.create_topics(&topics).await)?;
    created
        .into_values()
        .try_for_each(|created| created.map(|_| ()))?;
    Ok(())
}

/// Every word as often as it is in `count` lines of all words.
fn write_lines(broker: &EmbeddedBroker, count: usize) -> Result<(), Error> {
    let config = ProducerConfig::with_bootstrap_servers(broker.bootstrap_servers())?;
    let producer = Producer::new(config)?;
    for _ in 0..count {
        let record = ProducerRecord::new("lines").value(b"a b c d e f g h i j k l m n o p");
        producer.send(record)?.wait()?;
    }
    Ok(())
}

fn changelogs() -> Vec<TopicPartition> {
    (0..PARTITIONS)
        .map(|index| TopicPartition::new("words-counts-changelog", index))
        .collect()
}

fn reader(broker: &EmbeddedBroker) -> Result<Consumer, Error> {
    let mut config = ConsumerConfig::new(broker.bootstrap_servers(), "reader")?;
    config.set("auto.offset.reset", "earliest")?;
    config.set("isolation.level", "read_committed")?;
    config.set("enable.auto.commit", "false")?;
    config.group_id = None;
    Ok(Consumer::new(config)?)
}

/// Waits until all 16 words have this count in the changelog.
fn await_counts(broker: &EmbeddedBroker, expected: i64) -> Result<(), Error> {
    let mut consumer = reader(broker)?;
    consumer.call(async |consumer| consumer.assign(changelogs()))?;
    let mut counts = BTreeMap::new();
    let deadline = Instant::now() + IN_TIME;
    while counts.len() < 16 || counts.values().any(|count| *count != expected) {
        if Instant::now() > deadline {
            return Err(format!("counts are {counts:?} instead of {expected}").into());
        }
        for record in consumer.poll(Duration::from_millis(100))?.into_owned()? {
            let count = record.value.ok_or("a count")?;
            let count = i64::from_be_bytes((&*count).try_into()?);
            counts.insert(record.key.ok_or("a key")?, count);
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Heard {
    /// The next record of each changelog that is followed.
    followed: BTreeMap<i32, i64>,
    /// Where each changelog was when its task was to run.
    promoted: BTreeMap<i32, i64>,
    /// Where each restore began.
    restored_from: Vec<(i32, i64)>,
}

/// Hears what becomes of an instance's stores; told of everything that happens.
#[derive(Clone)]
struct Ears {
    heard: Arc<Mutex<Heard>>,
    told: mpsc::Sender<()>,
}

impl Ears {
    fn note(&self, change: impl FnOnce(&mut Heard)) {
        change(&mut self.heard.lock().expect("nobody panics with it"));
        let _ = self.told.send(());
    }
}

impl StateRestoreListener for Ears {
    fn on_restore_start(&self, changelog: &TopicPartition, _: &str, from: i64, _: i64) {
        self.note(|heard| heard.restored_from.push((changelog.partition, from)));
    }
}

impl StandbyUpdateListener for Ears {
    fn on_update_start(&self, changelog: &TopicPartition, store: &str, from: i64) {
        assert_eq!(store, "counts");
        self.note(|heard| {
            heard.followed.insert(changelog.partition, from);
        });
    }

    fn on_batch_loaded(&self, changelog: &TopicPartition, _: &str, _: u64, end_offset: i64) {
        self.note(|heard| {
            heard.followed.insert(changelog.partition, end_offset);
        });
    }

    fn on_update_suspended(
        &self,
        changelog: &TopicPartition,
        _: &str,
        store_offset: i64,
        reason: SuspendReason,
    ) {
        self.note(|heard| {
            heard.followed.remove(&changelog.partition);
            if reason == SuspendReason::Promoted {
                heard.promoted.insert(changelog.partition, store_offset);
            }
        });
    }
}

/// Waits until `is_met` of what was heard.
fn await_heard(
    ears: &Ears,
    events: &mpsc::Receiver<()>,
    is_met: impl Fn(&Heard) -> bool,
) -> Result<(), Error> {
    while !is_met(&ears.heard.lock().expect("nobody panics with it")) {
        events
            .recv_timeout(IN_TIME)
            .map_err(|error| format!("{error}: {:?}", ears.heard))?;
    }
    Ok(())
}

fn a_standby_takes_over_with_the_tail_only(guarantee: ProcessingGuarantee) -> Result<(), Error> {
    let broker = EmbeddedBroker::start()?;
    create_topic(&broker)?;
    let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut first = instance(&broker, guarantee, one.path())?;
    first.start()?;
    write_lines(&broker, 20)?;
    await_counts(&broker, 20)?;
    let (told, events) = mpsc::channel();
    let ears = Ears {
        heard: Arc::default(),
        told,
    };
    let mut second = instance(&broker, guarantee, two.path())?;
    second.set_state_restore_listener(ears.clone());
    second.set_standby_update_listener(ears.clone());
    second.start()?;
    // Half of the tasks come to the second when it has warmed up; it stands by for the others.
    await_heard(&ears, &events, |heard| {
        heard.promoted.len() == 2 && heard.followed.len() == 2
    })?;
    write_lines(&broker, 10)?;
    await_counts(&broker, 30)?;
    let ends = reader(&broker)?.call(async |consumer| consumer.end_offsets(&changelogs()).await)?;
    let ends: BTreeMap<i32, i64> = ends
        .into_iter()
        .map(|(partition, end)| (partition.partition, end))
        .collect();
    await_heard(&ears, &events, |heard| {
        let has_all = |(partition, next): (&i32, &i64)| *next >= ends[partition];
        heard.followed.len() == 2 && heard.followed.iter().all(has_all)
    })?;
    first.close()?;
    await_heard(&ears, &events, |heard| heard.promoted.len() == 4)?;
    write_lines(&broker, 1)?;
    await_counts(&broker, 31)?;
    second.close()?;
    let heard = ears.heard.lock().expect("nobody panics with it");
    for (partition, offset) in &heard.promoted {
        assert!(*offset > 0, "partition {partition} was followed: {heard:?}");
    }
    for (partition, from) in &heard.restored_from {
        assert_eq!(heard.promoted[partition], *from, "only the tail is read");
    }
    Ok(())
}

#[test]
fn a_standby_takes_over_at_least_once() -> Result<(), Error> {
    a_standby_takes_over_with_the_tail_only(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn a_standby_takes_over_exactly_once() -> Result<(), Error> {
    a_standby_takes_over_with_the_tail_only(ProcessingGuarantee::ExactlyOnceV2)
}

#[test]
fn state_changes_are_told() -> Result<(), Error> {
    let broker = EmbeddedBroker::start()?;
    create_topic(&broker)?;
    let state = tempfile::tempdir()?;
    let mut streams = instance(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let (told, changes) = mpsc::channel();
    streams.set_state_listener(move |state, before| {
        let _ = told.send((before, state));
    });
    streams.start()?;
    let mut path = vec![State::Created];
    while path.last() != Some(&State::Running) {
        let (before, state) = changes.recv_timeout(IN_TIME)?;
        assert_eq!(path.last(), Some(&before));
        path.push(state);
    }
    streams.close()?;
    path.extend(changes.try_iter().map(|(_, state)| state));
    let expected = [
        State::Created,
        State::Rebalancing,
        State::Running,
        State::PendingShutdown,
        State::NotRunning,
    ];
    assert_eq!(path, expected);
    Ok(())
}
