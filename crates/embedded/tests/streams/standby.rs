//! Standby tasks, warm-ups and listeners of streams applications, against a broker in the process of the test.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_committed, await_values, config, create_topic,
    create_topic_with, cut, partitions_of, reader, word_count, write, write_lines, write_tombstone,
};
use crate::world::{A_WHILE, NEVER_MS};
use riverrun_client::TopicPartition;
use riverrun_embedded::EmbeddedBroker;
use riverrun_streams::dsl::{Materialized, Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::runtime::{
    KafkaStreams, ProcessingGuarantee, StandbyUpdateListener, State, StateRestoreListener,
    StreamsConfig, SuspendReason,
};
use riverrun_streams::state::KeyValueStore;
use riverrun_streams::topology::Consumed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

const PARTITIONS: i32 = 4;
const CHANGELOG: &str = "words-counts-changelog";
const WORDS: &str = "a b c d e f g h i j k l m n o p";

fn instance(
    broker: &EmbeddedBroker,
    guarantee: ProcessingGuarantee,
    state_dir: &Path,
) -> Result<KafkaStreams, Error> {
    let mut config = config(broker, guarantee, state_dir)?;
    config.num_stream_threads = 1;
    config.heartbeat_interval_ms = 100;
    config.num_standby_replicas = 1;
    // Who misses a record warms up first.
    config.acceptable_recovery_lag = 0;
    config.probing_rebalance_interval_ms = 200;
    Ok(KafkaStreams::new(word_count()?, config))
}

/// Writes as many lines of all words.
fn write_all_words(broker: &EmbeddedBroker, count: usize) -> Result<(), Error> {
    write_lines(broker, &vec![WORDS; count])
}

/// Waits until every word has this count in the changelog.
fn await_counts(broker: &EmbeddedBroker, expected: i64) -> Result<(), Error> {
    let expected: Vec<_> = WORDS.split(' ').map(|word| (word, expected)).collect();
    await_values(broker, (CHANGELOG, PARTITIONS), &expected)
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
        let changelogs = [format!("words-{store}-changelog"), "lines".to_owned()];
        assert!(changelogs.contains(&changelog.topic), "{changelog}");
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
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", PARTITIONS)?;
    let (one, two) = (trials::directory(), trials::directory());
    let first = instance(&broker, guarantee, one.path())?;
    first.start()?;
    write_all_words(&broker, 20)?;
    await_counts(&broker, 20)?;
    let (told, events) = mpsc::channel();
    let ears = Ears {
        heard: Arc::default(),
        told,
    };
    let second = instance(&broker, guarantee, two.path())?;
    second.set_state_restore_listener(ears.clone());
    second.set_standby_update_listener(ears.clone());
    second.start()?;
    // Half of the tasks come to the second when it has warmed up; it stands by for the others.
    await_heard(&ears, &events, |heard| {
        heard.promoted.len() == 2 && heard.followed.len() == 2
    })?;
    write_all_words(&broker, 10)?;
    await_counts(&broker, 30)?;
    let changelogs = partitions_of(CHANGELOG, PARTITIONS);
    let ends = reader(&broker, CHANGELOG, PARTITIONS)?
        .call(async |consumer| consumer.end_offsets(&changelogs).await)?;
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
    write_all_words(&broker, 1)?;
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
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", PARTITIONS)?;
    let state = trials::directory();
    let streams = instance(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
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

#[test]
fn threads_are_static_members_and_run_without_tasks() -> Result<(), Error> {
    let broker = EmbeddedBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    let state = tempfile::tempdir()?;
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 3;
    let id = ("group.instance.id".to_owned(), "one".to_owned());
    config.overrides.consumer.extend([id]);
    let streams = KafkaStreams::new(word_count()?, config);
    let (told, changes) = mpsc::channel();
    streams.set_state_listener(move |state, _| {
        let _ = told.send(state);
    });
    streams.start()?;
    while changes.recv_timeout(IN_TIME)? != State::Running {}
    write_lines(&broker, &[WORDS])?;
    let expected: Vec<_> = WORDS.split(' ').map(|word| (word, 1)).collect();
    await_values(&broker, (CHANGELOG, 1), &expected)?;
    streams.close()?;
    Ok(())
}

/// An instance that keeps a table of one partition, or stands by for it.
fn keeper(
    broker: &EmbeddedBroker,
    guarantee: ProcessingGuarantee,
    state_dir: &Path,
) -> Result<(KafkaStreams, Ears, mpsc::Receiver<()>), Error> {
    let config = config(broker, guarantee, state_dir)?;
    keeper_with(config, &TopologyConfig::default())
}

fn keeper_with(
    mut config: StreamsConfig,
    topology: &TopologyConfig,
) -> Result<(KafkaStreams, Ears, mpsc::Receiver<()>), Error> {
    config.num_stream_threads = 1;
    config.heartbeat_interval_ms = 100;
    // Who is behind stands by.
    config.acceptable_recovery_lag = 0;
    config.num_standby_replicas = 1;
    config.statestore_cache_max_bytes = 0;
    let builder = StreamsBuilder::new();
    builder.table_with::<String, String>(
        "lines",
        Consumed::default(),
        Materialized::named("names"),
    );
    let (told, events) = mpsc::channel();
    let ears = Ears {
        heard: Arc::default(),
        told,
    };
    let streams = KafkaStreams::new(builder.build_with(topology)?, config);
    streams.set_state_restore_listener(ears.clone());
    streams.set_standby_update_listener(ears.clone());
    Ok((streams, ears, events))
}

/// The instance that stands by comes to have what the active one has, and takes over.
fn takes_over_with(
    (active, standby): (KafkaStreams, KafkaStreams),
    (ears, events): (&Ears, &mpsc::Receiver<()>),
    expected: [Option<&str>; 2],
) -> Result<(), Error> {
    await_heard(ears, events, |heard| {
        heard.followed.get(&0).is_some_and(|next| *next >= 3)
    })?;
    active.close()?;
    await_heard(ears, events, |heard| heard.promoted.contains_key(&0))?;
    crate::harness::await_state(&standby, State::Running)?;
    let store = standby.store::<KeyValueStore<String, String>>("names")?;
    for (key, expected) in ["a", "b"].into_iter().zip(expected) {
        let found = store.get(key.to_owned())?;
        assert_eq!(found.as_deref(), expected, "{key}");
    }
    standby.close()?;
    Ok(())
}

fn a_standby_whose_changelog_was_cut_begins_anew(
    guarantee: ProcessingGuarantee,
) -> Result<(), Error> {
    const CHANGELOG: &str = "words-names-changelog";
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    // Who only compacts a topic does not cut it.
    create_topic_with(
        &broker,
        CHANGELOG,
        1,
        &[("cleanup.policy", "compact,delete")],
    )?;
    let (one, two) = (trials::directory(), trials::directory());
    let (behind, ..) = keeper(&broker, guarantee, two.path())?;
    behind.start()?;
    write(&broker, "lines", &[("a", "1")])?;
    await_committed(&broker, "lines", 1)?;
    behind.close()?;
    let (active, ..) = keeper(&broker, guarantee, one.path())?;
    active.start()?;
    write_tombstone(&broker, "lines", "a")?;
    write(&broker, "lines", &[("b", "1"), ("b", "2")])?;
    await_committed(&broker, "lines", 4)?;
    let changelog = partitions_of(CHANGELOG, 1);
    let ends = reader(&broker, CHANGELOG, 1)?
        .call(async |consumer| consumer.end_offsets(&changelog).await)?;
    cut(&broker, changelog[0].clone(), ends[&changelog[0]])?;
    write(&broker, "lines", &[("b", "3")])?;
    await_committed(&broker, "lines", 5)?;
    let (standby, ears, events) = keeper(&broker, guarantee, two.path())?;
    standby.start()?;
    takes_over_with((active, standby), (&ears, &events), [None, Some("3")])
}

#[test]
fn a_standby_whose_changelog_was_cut_begins_anew_at_least_once() -> Result<(), Error> {
    a_standby_whose_changelog_was_cut_begins_anew(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn a_standby_whose_changelog_was_cut_begins_anew_exactly_once() -> Result<(), Error> {
    a_standby_whose_changelog_was_cut_begins_anew(ProcessingGuarantee::ExactlyOnceV2)
}

#[test]
fn a_standby_that_has_more_than_its_changelog_begins_anew() -> Result<(), Error> {
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let (one, two) = (trials::directory(), trials::directory());
    let old = TestBroker::start()?;
    create_topic(&old, "lines", 1)?;
    let (behind, ..) = keeper(&old, guarantee, two.path())?;
    behind.start()?;
    write(&old, "lines", &[("a", "1"); 9])?;
    await_committed(&old, "lines", 9)?;
    behind.close()?;
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    let (active, ..) = keeper(&broker, guarantee, one.path())?;
    active.start()?;
    write(&broker, "lines", &[("b", "1"), ("b", "2"), ("b", "3")])?;
    await_committed(&broker, "lines", 3)?;
    let (standby, ears, events) = keeper(&broker, guarantee, two.path())?;
    standby.start()?;
    await_heard(&ears, &events, |heard| heard.followed.get(&0) == Some(&3))?;
    takes_over_with((active, standby), (&ears, &events), [None, Some("3")])
}

/// The topic of a table is its changelog, and has records that are not committed: they are processed when the table
/// comes to the instance that stands by.
fn a_standby_follows_an_input_as_far_as_it_is_committed(
    guarantee: ProcessingGuarantee,
) -> Result<(), Error> {
    let topology = TopologyConfig {
        optimization: Optimization::ALL,
        ..TopologyConfig::default()
    };
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    let (one, two) = (trials::directory(), trials::directory());
    let before = config(&broker, guarantee, one.path())?;
    let (before, ..) = keeper_with(before, &topology)?;
    before.start()?;
    write(&broker, "lines", &[("a", "1"), ("b", "1"), ("b", "2")])?;
    await_committed(&broker, "lines", 3)?;
    before.close()?;
    let mut at_the_end = config(&broker, guarantee, one.path())?;
    at_the_end.commit_interval_ms = Some(NEVER_MS);
    at_the_end.transaction_timeout_ms = NEVER_MS;
    let (active, ..) = keeper_with(at_the_end, &topology)?;
    active.start()?;
    crate::harness::await_state(&active, State::Running)?;
    write_tombstone(&broker, "lines", "a")?;
    write(&broker, "lines", &[("b", "3")])?;
    let store = active.store::<KeyValueStore<String, String>>("names")?;
    while store.get("b".to_owned())?.as_deref() != Some("3") {}
    let standby = config(&broker, guarantee, two.path())?;
    let (standby, ears, events) = keeper_with(standby, &topology)?;
    standby.start()?;
    await_heard(&ears, &events, |heard| heard.followed.get(&0) == Some(&3))?;
    // It asks again meanwhile.
    assert!(events.recv_timeout(A_WHILE).is_err(), "{:?}", ears.heard);
    assert_eq!(
        ears.heard.lock().expect("no panic").followed.get(&0),
        Some(&3)
    );
    takes_over_with((active, standby), (&ears, &events), [None, Some("3")])?;
    let heard = ears.heard.lock().expect("nobody panics with it");
    assert!(
        heard.restored_from.iter().all(|(_, from)| *from >= 3),
        "{heard:?}"
    );
    Ok(())
}

#[test]
fn a_standby_follows_an_input_as_far_as_it_is_committed_at_least_once() -> Result<(), Error> {
    a_standby_follows_an_input_as_far_as_it_is_committed(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn a_standby_follows_an_input_as_far_as_it_is_committed_exactly_once() -> Result<(), Error> {
    a_standby_follows_an_input_as_far_as_it_is_committed(ProcessingGuarantee::ExactlyOnceV2)
}
