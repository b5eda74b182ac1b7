//! Stores on disk that are being restored when something happens: more than memory has room for has come of their
//! changelog, and waits in files.

use crate::harness::{Error, IN_TIME};
use crate::world::{EXACTLY_ONCE, World, await_state, until};
use riverrun_client::TopicPartition;
use riverrun_client::admin::NewTopic;
use riverrun_client::producer::ProducerRecord;
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{
    FailureReason, KafkaStreams, ProcessingGuarantee, RangeQuery, StandbyUpdateListener, State,
    StateQueryRequest, StateRestoreListener, StreamsConfig,
};
use riverrun_streams::topology::{Consumed, Topology};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

const CHANGELOG: &str = "app-names-changelog";
const BOTH: [ProcessingGuarantee; 2] = [ProcessingGuarantee::AtLeastOnce, EXACTLY_ONCE];

/// Values by key.
type Names = BTreeMap<String, String>;

fn names() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder.table_with::<String, String>(
        "words",
        Consumed::default(),
        Materialized::named("names"),
    );
    Ok(builder.build()?)
}

/// A world whose changelog has so many records of so many bytes in each partition: most keys have several, and some are
/// deleted. What a store has that is restored from one of them.
fn world(partitions: i32, count: usize, value_bytes: usize) -> Result<(World, Names), Error> {
    let world = World::start(partitions)?;
    let changelog = NewTopic::new(CHANGELOG).partitions(partitions);
    world.create(changelog.config("cleanup.policy", "compact"))?;
    let mut names = Names::new();
    let padding = "x".repeat(value_bytes);
    let mut sent = Vec::new();
    for number in 0..count {
        let key = format!("{:04}", number * 7 % (count / 2));
        let value = (number % 5 != 0).then(|| format!("{number}{padding}"));
        for partition in 0..partitions {
            let record = ProducerRecord::new(CHANGELOG).key(key.as_bytes());
            sent.push(world.producer.send(ProducerRecord {
                partition: Some(partition),
                value: value.as_deref().map(str::as_bytes),
                ..record
            })?);
        }
        match value {
            Some(value) => names.insert(key, value),
            None => names.remove(&key),
        };
    }
    for sent in sent {
        sent.wait()?;
    }
    Ok((world, names))
}

fn config(
    world: &World,
    guarantee: ProcessingGuarantee,
    state_dir: &Path,
) -> Result<StreamsConfig, Error> {
    let mut config = world.config(state_dir)?;
    config.processing_guarantee = guarantee;
    // Many batches.
    config.max_poll_records = 50;
    config.heartbeat_interval_ms = 100;
    Ok(config)
}

/// Stops a thread when so many records have come, until it is told to go on, and hears where a restore begins.
#[derive(Clone)]
struct Gate(Arc<Mutex<Passing>>);

struct Passing {
    left: u64,
    is_reached: mpsc::Sender<()>,
    goes_on: mpsc::Receiver<()>,
    began_at: BTreeMap<i32, i64>,
    suspended_at: BTreeMap<i32, u64>,
}

/// What a test has of a gate.
struct Keeper {
    gate: Gate,
    is_reached: mpsc::Receiver<()>,
    goes_on: mpsc::Sender<()>,
}

impl Keeper {
    fn after(count: u64) -> Self {
        let (reached, is_reached) = mpsc::channel();
        let (goes_on, going_on) = mpsc::channel();
        let passing = Passing {
            left: count,
            is_reached: reached,
            goes_on: going_on,
            began_at: BTreeMap::new(),
            suspended_at: BTreeMap::new(),
        };
        Self {
            gate: Gate(Arc::new(Mutex::new(passing))),
            is_reached,
            goes_on,
        }
    }

    fn began_at(&self) -> BTreeMap<i32, i64> {
        let passing = self.gate.0.lock().expect("nobody panics with it");
        passing.began_at.clone()
    }

    fn suspended_at(&self) -> BTreeMap<i32, u64> {
        let passing = self.gate.0.lock().expect("nobody panics with it");
        passing.suspended_at.clone()
    }
}

impl Gate {
    fn pass(&self, count: u64) {
        let mut passing = self.0.lock().expect("nobody panics with it");
        let before = passing.left;
        passing.left = before.saturating_sub(count);
        if before > 0 && passing.left == 0 {
            let _ = passing.is_reached.send(());
            let _ = passing.goes_on.recv_timeout(IN_TIME);
        }
    }
}

impl StateRestoreListener for Gate {
    fn on_restore_start(&self, changelog: &TopicPartition, _: &str, from: i64, _: i64) {
        let mut passing = self.0.lock().expect("nobody panics with it");
        passing.began_at.insert(changelog.partition, from);
    }

    fn on_batch_restored(&self, _: &TopicPartition, _: &str, count: u64) {
        self.pass(count);
    }

    fn on_restore_suspended(&self, changelog: &TopicPartition, _: &str, count: u64) {
        let mut passing = self.0.lock().expect("nobody panics with it");
        passing.suspended_at.insert(changelog.partition, count);
    }
}

impl StandbyUpdateListener for Gate {
    fn on_batch_loaded(&self, _: &TopicPartition, _: &str, count: u64, _: i64) {
        self.pass(count);
    }
}

/// The files as they are at one moment. Threads of a store merge tables meanwhile.
fn copy_of(from: &Path) -> Result<trials::Directory, Error> {
    let mut copies = (0..100).map(|_| trials::directory());
    let copy = copies.find(|copied| copy(from, copied.path()).is_ok());
    Ok(copy.ok_or("files come and go all the time")?)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// What the partitions say of all names.
type Answers = BTreeMap<i32, Result<Names, FailureReason>>;

fn ask(streams: &KafkaStreams, requires_active: bool) -> Result<Answers, Error> {
    let query = RangeQuery::<String, String>::with_no_bounds();
    let mut request = StateQueryRequest::in_store("names").with_query(query);
    if requires_active {
        request = request.require_active();
    }
    let answers = streams.query(&request)?.partition_results.into_iter();
    let answers = answers.map(|(partition, result)| {
        let names = result.outcome.map(|rows| rows.into_iter().collect());
        (partition, names.map_err(|(reason, _)| reason))
    });
    Ok(answers.collect())
}

/// Every one of so many partitions has these names, of this instance, and no others.
fn check_all(streams: &KafkaStreams, partitions: usize, names: &Names) -> Result<(), Error> {
    until("all are restored", || {
        let answers = ask(streams, true)?;
        Ok(answers.len() == partitions && answers.values().all(Result::is_ok))
    })?;
    for (partition, found) in ask(streams, true)? {
        let found = found.map_err(|reason| format!("{reason:?}"))?;
        let differing = names
            .iter()
            .find(|(key, name)| found.get(*key) != Some(name));
        assert!(
            differing.is_none(),
            "{partition}: {:?}",
            differing.map(|(key, _)| key)
        );
        assert_eq!(found.len(), names.len());
    }
    Ok(())
}

fn started(config: StreamsConfig, gate: &Gate) -> Result<KafkaStreams, Error> {
    let streams = KafkaStreams::new(names()?, config);
    streams.set_state_restore_listener(gate.clone());
    streams.set_standby_update_listener(gate.clone());
    streams.start()?;
    Ok(streams)
}

/// What a process leaves on the disk that is ended within a restore.
#[test]
fn who_is_killed_while_it_restores_begins_again() -> Result<(), Error> {
    let (world, names) = world(1, 600, 20_000)?;
    for guarantee in BOTH {
        for after in [50, 450, 590] {
            let state = trials::directory();
            let keeper = Keeper::after(after);
            let config = config(&world, guarantee, state.path())?;
            let killed = started(config.clone(), &keeper.gate)?;
            keeper.is_reached.recv_timeout(IN_TIME)?;
            let left = copy_of(state.path())?;
            keeper.goes_on.send(())?;
            check_all(&killed, 1, &names)?;
            killed.close()?;
            let mut config = config;
            config.state_dir = left.path().to_owned();
            let next = started(config, &Keeper::after(u64::MAX).gate)?;
            check_all(&next, 1, &names)?;
            next.close()?;
        }
    }
    Ok(())
}

/// With little that waits in files, which is merged, and with much, which is given up.
#[test]
fn who_is_closed_while_it_restores_goes_on_where_it_was() -> Result<(), Error> {
    for (count, value_bytes, after, is_kept) in
        [(600, 20_000, 450, true), (130, 900_000, 120, false)]
    {
        let (world, names) = world(1, count, value_bytes)?;
        for guarantee in BOTH {
            let state = trials::directory();
            let keeper = Keeper::after(after);
            let mut config = config(&world, guarantee, state.path())?;
            config.max_poll_records = 10;
            let closed = started(config.clone(), &keeper.gate)?;
            keeper.is_reached.recv_timeout(IN_TIME)?;
            std::thread::scope(|scope| {
                let closing = scope.spawn(|| closed.close().map_err(|error| error.to_string()));
                until("it ends", || Ok(closed.state() == State::PendingShutdown))?;
                keeper.goes_on.send(())?;
                closing.join().expect("no panic")?;
                Ok::<_, Error>(())
            })?;
            assert!(keeper.suspended_at()[&0] >= after);
            let keeper = Keeper::after(u64::MAX);
            let next = started(config, &keeper.gate)?;
            check_all(&next, 1, &names)?;
            let began_at = keeper.began_at()[&0];
            assert_eq!(
                began_at >= i64::try_from(after)?,
                is_kept,
                "from {began_at}"
            );
            next.close()?;
        }
    }
    Ok(())
}

#[test]
fn a_store_with_rows_in_files_answers_when_they_are_merged() -> Result<(), Error> {
    let (world, names) = world(1, 600, 20_000)?;
    let state = trials::directory();
    let keeper = Keeper::after(550);
    let config = config(&world, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = started(config, &keeper.gate)?;
    keeper.is_reached.recv_timeout(IN_TIME)?;
    streams.pause();
    keeper.goes_on.send(())?;
    for _ in 0..3 {
        assert_eq!(ask(&streams, false)?[&0], Err(FailureReason::NotActive));
    }
    streams.resume();
    check_all(&streams, 1, &names)?;
    streams.close()?;
    Ok(())
}

/// A task is taken from who restores it, with rows in files, and comes back.
#[test]
fn a_task_that_is_revoked_while_it_is_restored_is_whole_wherever_it_goes() -> Result<(), Error> {
    let (world, names) = world(2, 600, 20_000)?;
    for guarantee in BOTH {
        let (one, two) = (trials::directory(), trials::directory());
        let keeper = Keeper::after(900);
        let first = started(config(&world, guarantee, one.path())?, &keeper.gate)?;
        keeper.is_reached.recv_timeout(IN_TIME)?;
        first.pause();
        keeper.goes_on.send(())?;
        let others = Keeper::after(u64::MAX);
        let second = started(config(&world, guarantee, two.path())?, &others.gate)?;
        check_all(&second, 1, &names)?;
        first.resume();
        check_all(&first, 1, &names)?;
        second.close()?;
        check_all(&first, 2, &names)?;
        first.close()?;
    }
    Ok(())
}

/// An instance that stands by is to run the task while rows of its store wait in files.
#[test]
fn a_standby_that_takes_over_with_rows_in_files_has_all() -> Result<(), Error> {
    let (world, names) = world(1, 600, 20_000)?;
    for guarantee in BOTH {
        let (one, two) = (trials::directory(), trials::directory());
        let stands_by = |state_dir: &Path| {
            let mut config = config(&world, guarantee, state_dir)?;
            config.num_standby_replicas = 1;
            config.acceptable_recovery_lag = 0;
            Ok::<_, Error>(config)
        };
        let others = Keeper::after(u64::MAX);
        let active = started(stands_by(one.path())?, &others.gate)?;
        check_all(&active, 1, &names)?;
        let keeper = Keeper::after(550);
        let standby = started(stands_by(two.path())?, &keeper.gate)?;
        keeper.is_reached.recv_timeout(IN_TIME)?;
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| active.close().map_err(|error| error.to_string()));
            until("it ends", || Ok(active.state() == State::NotRunning))?;
            keeper.goes_on.send(())?;
            closing.join().expect("no panic")?;
            Ok::<_, Error>(())
        })?;
        check_all(&standby, 1, &names)?;
        standby.close()?;
    }
    Ok(())
}

/// Its store has rows of the one that is gone.
#[test]
fn a_changelog_that_is_made_anew_while_it_is_read_ends_the_instance() -> Result<(), Error> {
    let (world, _) = world(1, 600, 20_000)?;
    let state = trials::directory();
    let keeper = Keeper::after(450);
    let config = config(&world, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = started(config, &keeper.gate)?;
    keeper.is_reached.recv_timeout(IN_TIME)?;
    let deleted = world
        .admin
        .call(async |admin| admin.delete_topics(&[CHANGELOG]).await)?;
    deleted
        .into_values()
        .try_for_each(|deleted| deleted.map(|_| ()))?;
    until("it is made anew", || {
        let anew = NewTopic::new(CHANGELOG).partitions(1);
        Ok(world.create(anew).is_ok())
    })?;
    keeper.goes_on.send(())?;
    await_state(&streams, State::Error)?;
    let error = streams.close().expect_err("it has failed").to_string();
    assert!(error.contains("which ends at 0"), "{error}");
    Ok(())
}
