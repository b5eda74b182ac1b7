//! Threads whose brokers do not answer.

use super::auxiliary_consumer::auxiliary_config;
use super::directory::StateDirectory;
use super::inbox::Inbox;
use super::listeners::Listeners;
use super::member::StreamsAssignor;
use super::news::Told;
use super::preparation::Preparation;
use super::shared::Shared;
use super::standbys::Standbys;
use super::task_registry::TaskRegistry;
use super::thread::StreamThread;
use super::thread_setup::ThreadSetup;
use super::topics::{ApplicationTopics, not_there};
use super::{KafkaStreams, ProcessingGuarantee, StreamsConfig};
use crate::dsl::{Materialized, StreamsBuilder};
use crate::formats::group::{LATEST_VERSION, MemberSubscription};
use crate::processor::TaskId;
use crate::state::SharedRows;
use crate::topology::Topology;
use riverrun_client::consumer::{IsolationLevel, Member, OffsetReset, PartitionAssignor, Topics};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

type Error = Box<dyn std::error::Error>;

/// What takes as long waits for its brokers.
const AT_ONCE: Duration = Duration::from_secs(15);

/// Takes connections, and answers nothing.
fn silent_broker() -> Result<(TcpListener, String), Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

fn counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .group_by_key()
        .count_with(Materialized::named("counts"));
    Ok(builder.build()?)
}

fn setup(mut config: StreamsConfig, state_dir: &Path) -> Result<ThreadSetup, Error> {
    config.state_dir = state_dir.to_owned();
    let config = Arc::new(config);
    let topology = Arc::new(counts()?);
    let topics = Arc::new(ApplicationTopics::of(&topology, &config)?);
    let shared: Arc<Shared> = Arc::default();
    let directory = StateDirectory::open(state_dir, "app")?;
    Ok(ThreadSetup {
        index: 0,
        name: Arc::from("app-StreamThread-1"),
        topology,
        preparation: Arc::new(Preparation::new(&topics, &config, &shared)),
        process_id: directory.process_id()?,
        directory: Arc::new(directory),
        topics,
        config,
        shared,
        global_rows: SharedRows::default(),
        registry: Arc::new(TaskRegistry::default()),
        hosts: Arc::default(),
        metrics: Arc::default(),
        listeners: Listeners::default(),
        inbox: Arc::new(Inbox::default()),
        board: Arc::default(),
    })
}

#[test]
fn all_topics_that_are_missing_are_told() {
    let check = |topics: &[&str], expected: &str| {
        let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
        assert_eq!(not_there(&topics).to_string(), expected);
    };
    check(
        &["input topic `lines`"],
        "input topic `lines` does not exist; create it before the application starts",
    );
    check(
        &["input topic `lines`", "global topic `names`"],
        "input topic `lines`, global topic `names` do not exist; create them before the application starts",
    );
}

#[test]
fn a_standby_waits_until_brokers_tell_where_its_changelog_begins() -> Result<(), Error> {
    let (_broker, address) = silent_broker()?;
    let state = trials::directory();
    let mut config = StreamsConfig::new("app", &address)?;
    let timeout = ("default.api.timeout.ms".to_owned(), "50".to_owned());
    config.overrides.consumer.extend([timeout]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut open = |task_timeout_ms| {
        config.task_timeout_ms = task_timeout_ms;
        let setup = Arc::new(setup(config.clone(), &state.path().join("state"))?);
        let mut standbys = Standbys::new(&setup);
        let task = TaskId {
            subtopology: 0,
            partition: 0,
        };
        Ok::<_, Error>(runtime.block_on(standbys.begin_offsets(task)))
    };
    assert!(matches!(open(60_000)?, Ok(None)));
    assert!(open(0)?.is_err());
    Ok(())
}

/// Who may lead the group, and its coordinator, may be of another topology.
#[test]
fn what_there_cannot_be_is_not_taken_and_what_cannot_be_opened_is_let_go() -> Result<(), Error> {
    let (_broker, address) = silent_broker()?;
    let state = trials::directory();
    let mut config = StreamsConfig::new("app", &address)?;
    let timeout = ("default.api.timeout.ms".to_owned(), "50".to_owned());
    config.overrides.consumer.extend([timeout]);
    config.task_timeout_ms = 0;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let setup = Arc::new(setup(config, state.path())?);
        let counts = ["words", "app-counts-changelog"].map(|topic| (Arc::from(topic), 2));
        setup.preparation.tell(BTreeMap::from(counts));
        let mut thread = StreamThread::open(&setup).await?;
        let task = |subtopology, partition| TaskId {
            subtopology,
            partition,
        };
        let told = |active: TaskId, standby: TaskId| Told {
            active: BTreeSet::from([active]),
            standby: BTreeSet::from([standby]),
            ..Told::default()
        };
        let there = task(0, 0);
        for not_there in [task(0, -1), task(0, 2), task(1, 0), task(-1, 0)] {
            let hearing = [told(not_there, there), told(there, not_there)];
            for told in hearing {
                assert!(thread.worker.hear(told).is_err(), "{not_there}");
            }
        }
        let unreadable = Told {
            unknown: Some("one_0".to_owned()),
            ..told(there, there)
        };
        let error = thread.worker.hear(unreadable).expect_err("there is none");
        assert!(error.to_string().contains("task one_0"), "{error}");
        assert!(!thread.worker.is_told());
        assert!(!thread.worker.follow(&thread.consumer).await?);
        thread.worker.hear(told(there, task(0, 1)))?;
        // Brokers do not answer.
        assert!(thread.worker.follow(&thread.consumer).await.is_err());
        assert!(
            setup.registry.claim(task(0, 1), 1),
            "another thread may take it"
        );
        Ok(())
    })
}

#[test]
fn a_leader_waits_for_the_ends_of_changelogs_as_long_as_its_group_allows() -> Result<(), Error> {
    let (_broker, address) = silent_broker()?;
    let state = trials::directory();
    let setup = setup(StreamsConfig::new("app", &address)?, state.path())?;
    let (news, _told) = mpsc::unbounded_channel();
    let assignor = StreamsAssignor::new(&setup, news, Duration::from_millis(600));
    let members: Vec<Member> = (1..=2)
        .map(|process| {
            let told = MemberSubscription {
                version: LATEST_VERSION,
                latest_supported_version: LATEST_VERSION,
                process_id: [process; 16],
                user_endpoint: String::new(),
                task_offset_sums: BTreeMap::new(),
                unique_field: 0,
                error_code: 0,
                client_tags: BTreeMap::new(),
            };
            let mut member = Member {
                member_id: format!("m{process}"),
                ..Member::default()
            };
            member.subscription.user_data = Some(told.to_bytes());
            member
        })
        .collect();
    let topics = Topics::from([("words".to_owned(), vec![Vec::new(); 2])]);
    let began = Instant::now();
    let assignments = assignor.assign(&topics, &members);
    // Or its group would take the leader for dead.
    assert!(began.elapsed() < Duration::from_secs(5));
    let partitions = assignments.iter().map(|assigned| assigned.partitions.len());
    assert_eq!(partitions.sum::<usize>(), 2);
    Ok(())
}

#[test]
fn an_instance_starts_without_brokers_and_ends_at_once() -> Result<(), Error> {
    let (_broker, address) = silent_broker()?;
    let state = trials::directory();
    let mut config = StreamsConfig::new("app", &address)?;
    config.state_dir = state.path().to_owned();
    let began = Instant::now();
    let streams = KafkaStreams::new(counts()?, config);
    streams.start()?;
    assert_eq!(streams.state(), super::State::Rebalancing);
    streams.close()?;
    assert_eq!(streams.state(), super::State::NotRunning);
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    Ok(())
}

/// Global tables are waited for at the start, and whoever asks for the end of that is heard.
#[test]
fn an_instance_ends_while_its_global_tables_are_waited_for() -> Result<(), Error> {
    let (broker, address) = silent_broker()?;
    let state = trials::directory();
    let mut config = StreamsConfig::new("app", &address)?;
    config.state_dir = state.path().to_owned();
    let builder = StreamsBuilder::new();
    builder.global_table::<String, String>("users");
    builder.stream::<String, String>("in").to("out");
    let streams = KafkaStreams::new(builder.build()?, config);
    // The global thread has begun when it connects.
    let closing = || {
        let connected = broker.accept();
        let closed = streams.close();
        connected.map(|connected| (closed, connected))
    };
    let (refused, closed) = std::thread::scope(|scope| {
        let closing = scope.spawn(closing);
        let started = streams.start();
        let (closed, _connected) = closing.join().expect("it has not panicked")?;
        Ok::<_, Error>((started.expect_err("the tables are empty"), closed))
    })?;
    closed?;
    let words = "the instance was asked to end before its global stores were filled";
    assert_eq!(refused.to_string(), words);
    assert_eq!(streams.state(), super::State::NotRunning);
    streams.close()?;
    Ok(())
}

#[test]
fn consumers_that_restore_see_what_is_cut_off_and_are_no_members() -> Result<(), Error> {
    let required = [("application.id", "app"), ("bootstrap.servers", "one:9092")];
    let wanted = [
        ("auto.offset.reset", "latest"),
        ("consumer.group.instance.id", "one"),
        ("restore.consumer.auto.offset.reset", "earliest"),
    ];
    let config = StreamsConfig::from_pairs(required.into_iter().chain(wanted))?;
    let overrides = &config.overrides.restore_consumer;
    let isolation = IsolationLevel::ReadUncommitted;
    let restoring = auxiliary_config(&config, "restorer", isolation, overrides)?;
    assert_eq!(restoring.auto_offset_reset, OffsetReset::None);
    assert_eq!(restoring.group_instance_id, None);
    Ok(())
}

#[test]
fn transactions_outlive_the_time_between_commits() -> Result<(), Error> {
    let mut config = StreamsConfig::new("app", "one:9092")?;
    config.commit_interval_ms = Some(30_000);
    config.check_transactions()?;
    config.processing_guarantee = ProcessingGuarantee::ExactlyOnceV2;
    let refused = config.check_transactions().err();
    let told = refused.ok_or("taken")?.to_string();
    assert!(
        told.starts_with(
            "`commit.interval.ms` is 30000, above `transaction.timeout.ms`, which is 10000"
        ),
        "{told}"
    );
    let timeout = ("transaction.timeout.ms".to_owned(), "30000".to_owned());
    config.overrides.producer.extend([timeout]);
    config.check_transactions()?;
    Ok(())
}
