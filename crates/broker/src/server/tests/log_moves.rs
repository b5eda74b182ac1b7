//! Moves of logs between directories, one of which is stuck or fails.

use super::stuck::{StuckCall, Two, block_queue, hold_controller, refused};
use super::*;
use crate::logs::checkpoints;
use crate::scheduling::disk_watch::DiskSpeed;
use model::Offset;
use replication::Partition;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The log is locked for the last step of a move, and the disk that it goes to is stuck.
#[test]
fn nobody_waits_for_a_move_who_uses_only_the_directory_that_it_is_from() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = two.create_in(&mut client, "topic", 0);
    two.create_in(&mut client, "other", 0);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    let (release, stuck) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let (moved, to) = (partition, two.broker().logs.directories[1].clone());
    let moving = std::thread::spawn(move || {
        let complete = |_: &mut storage::Log<RealDisk>, _: &replication::Moving<'_, RealDisk>| {
            begun.send(()).unwrap();
            let _ = stuck.recv();
            Err(refused())
        };
        moved.move_log(to.shared_name(), complete).map(drop)
    });
    has_begun.recv().unwrap();
    let first = &two.broker().logs.directories[0];
    let (broker, upkept) = (two.broker().clone(), first.clone());
    let upkeep = std::thread::spawn(move || {
        idle_logs::rest(&broker.logs, &upkept);
        let write = |kind| checkpoints::write_unless_written(&broker.logs, &upkept, kind);
        crate::logs::checkpoint_files::Kind::ALL
            .into_iter()
            .find_map(write)
    });
    wait_until(
        "upkeep of the directory that it is still in is done",
        || upkeep.is_finished(),
    );
    assert!(upkeep.join().unwrap().is_none());
    let text = fs::read_to_string(first.path().join("replication-offset-checkpoint")).unwrap();
    assert!(text.contains("topic 0 1"), "{text}");
    client.alter_topic("topic", &[("retention.ms", "1000000")]);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    assert_eq!(two.pace(0), DiskSpeed::Prompt);
    assert!(two.pace(1) >= DiskSpeed::Late);
    two.create_in(&mut client, "another", 0);
    for topic in ["other", "another"] {
        client
            .produce(topic, 0, &batch(&["value"]))
            .assert_accepted();
    }
    drop(release);
    assert!(moving.join().unwrap().is_err());
    let log = first.path().join("topic-0");
    wait_until("the log is deleted", || !log.exists());
}

/// Asks for copies of so many bytes a second.
fn limit_copies(client: &mut Client, bytes: &str) {
    use wire::messages::incremental_alter_configs_request::{
        AlterConfigsResource, AlterableConfig,
    };
    use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
    let config = AlterableConfig {
        name: "replica.alter.log.dirs.io.max.bytes.per.second",
        config_operation: 0,
        value: Some(bytes),
    };
    let resource = AlterConfigsResource {
        resource_type: 4,
        resource_name: "",
        configs: vec![config].into(),
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![resource].into(),
        ..Default::default()
    };
    let answer = client.call(1, &request);
    let response: IncrementalAlterConfigsResponse<'_> = answer.read();
    assert!(response.responses.iter().all(|one| one.error_code == 0));
}

/// A move of `topic` from the first directory to the second that has begun, and takes its time.
fn begin_slow_move(two: &Two, client: &mut Client) -> Arc<Partition> {
    let partition = two.create_in(client, "topic", 0);
    let value = "x".repeat(600_000);
    for _ in 0..4 {
        client
            .produce("topic", 0, &batch(&[&value]))
            .assert_accepted();
    }
    limit_copies(client, "1");
    let to = two.broker().logs.directories[1].clone();
    let name = TopicPartition::new("topic", 0);
    let begun = future_replicas::begin(&two.broker().logs, &name, to.name());
    two.running.runtime.block_on(begun).unwrap();
    wait_until("some of it is copied", || {
        let copy = two.broker().logs.future_replicas.copy_of(&partition);
        copy.is_some_and(|copy| copy.end_offset > Offset(0))
    });
    partition
}

/// The same; its task has the copy in hand, and reads from a log that is stuck.
fn begin_stuck_move(two: &Two, client: &mut Client) -> StuckCall {
    let partition = begin_slow_move(two, client);
    let stuck = StuckCall::begin(&two.running, "topic");
    limit_copies(client, "100000000");
    wait_until("the task reads", || {
        two.broker().logs.future_replicas.is_copying(&partition)
    });
    stuck
}

/// The disk that it was to go to is stuck, and keeps what there is of the copy.
#[test]
fn a_log_that_is_moved_no_more_may_be_compacted() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = begin_slow_move(&two, &mut client);
    let release = block_queue(two.broker(), 1);
    assert!(two.broker().logs.cleaner.is_paused(&partition));
    let back = two.broker().logs.directories[0].name();
    let name = TopicPartition::new("topic", 0);
    let begun = future_replicas::begin(&two.broker().logs, &name, back);
    two.running.runtime.block_on(begun).unwrap();
    wait_until("the task has ended", || {
        !two.broker().logs.future_replicas.is_running(&partition)
    });
    assert!(!two.broker().logs.cleaner.is_paused(&partition));
    let second = two.broker().logs.directories[1].work();
    assert_eq!(second.unended_count(), 2, "what is left of the copy");
    drop(release);
}

/// Neither its queue nor the name of the log that will not come there any more.
#[test]
fn a_move_from_a_log_that_is_stuck_holds_up_nothing_where_it_goes_to() {
    let two = Two::start();
    let mut client = two.running.connect();
    let stuck = begin_stuck_move(&two, &mut client);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    let unended_count = |directory_index: usize| {
        two.broker().logs.directories[directory_index]
            .work()
            .unended_count()
    };
    wait_until("all is done there", || unended_count(1) == 0);
    assert!(unended_count(0) > 0);
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["new"]))
        .assert_accepted();
    stuck.end();
    wait_until("all is done", || unended_count(0) == 0);
    wait_until("nothing is left of the copy", || {
        let entries = fs::read_dir(two.root.path().join("two")).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        !names.any(|name| name.ends_with("-future"))
    });
    assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
}

/// Counts what moves of partitions log as errors, in all tests of this process.
struct MoveErrors;

static MOVE_ERRORS: AtomicUsize = AtomicUsize::new(0);

impl tracing::Subscriber for MoveErrors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
            && metadata.target() == "broker::logs::future_replicas"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(
            &mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                let is_of_place = format!("{value:?}").contains("do not take its new place");
                MOVE_ERRORS.fetch_add(is_of_place.into(), Ordering::Relaxed);
            },
        );
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_move_that_the_metadata_do_not_take_is_told_once() {
    tracing::subscriber::set_global_default(MoveErrors).expect("this is the only test of the log");
    let two = Two::start();
    let mut client = two.running.connect();
    let stuck = begin_stuck_move(&two, &mut client);
    let closing = two.broker().controller.close();
    two.running.runtime.block_on(closing).unwrap().unwrap();
    let partition = two.broker().logs.partitions.find("topic", 0).unwrap();
    stuck.end();
    wait_until("the move has ended", || {
        !two.broker().logs.future_replicas.is_running(&partition)
    });
    assert_eq!(MOVE_ERRORS.load(Ordering::Relaxed), 1);
}

/// Its last step waits for the log when the topic is deleted.
#[test]
fn a_log_that_is_deleted_in_the_last_step_of_its_move_goes_nowhere() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = begin_slow_move(&two, &mut client);
    let moves = &two.broker().logs.future_replicas;
    let is_moved = moves.complete_after(&two.broker().logs, &partition, || {
        assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    });
    assert!(!is_moved);
    assert!(!two.root.path().join("two/topic-0").exists());
    let mut directories = two.broker().logs.directories.iter();
    assert!(directories.all(|one| !one.is_offline()));
}

#[test]
fn a_move_that_was_given_up_is_known_until_its_last_step_is_over() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = begin_slow_move(&two, &mut client);
    let moves = &two.broker().logs.future_replicas;
    moves.complete_after(&two.broker().logs, &partition, || {
        for _ in 0..2 {
            let given_up = moves.give_up(&partition).expect("it may complete");
            assert_eq!(given_up.directory_index_to_leave(), Some(0));
        }
    });
}

/// It is locked for as long as the disk that it goes to does not answer.
#[test]
fn a_directory_whose_log_could_not_be_closed_in_the_last_step_of_a_move_has_no_mark() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = begin_slow_move(&two, &mut client);
    let moves = &two.broker().logs.future_replicas;
    moves.complete_after(&two.broker().logs, &partition, || {
        closing_log_dirs::leave(&two.broker().logs, true);
    });
    let mark = take_clean_shutdown(&RealDisk, &two.root.path().join("one")).unwrap();
    assert!(mark.is_none());
}

/// It belongs to a topic that is gone, and could not be renamed.
#[test]
fn what_has_the_name_of_a_log_where_it_is_moved_to_is_set_aside() {
    let two = Two::start();
    let mut client = two.running.connect();
    let partition = two.create_in(&mut client, "topic", 0);
    let left = two.root.path().join("two/topic-0");
    fs::create_dir(&left).unwrap();
    File::create(left.join("00000000000000000000.log")).unwrap();
    let second = two.broker().logs.directories[1].name();
    let name = TopicPartition::new("topic", 0);
    let begun = future_replicas::begin(&two.broker().logs, &name, second);
    two.running.runtime.block_on(begun).unwrap();
    wait_until("it has ended", || {
        !two.broker().logs.future_replicas.is_running(&partition)
            && two
                .broker()
                .logs
                .future_replicas
                .copy_of(&partition)
                .is_none()
    });
    assert_eq!(partition.directory_index(), 1);
    assert!(!two.broker().logs.directories[1].is_offline());
}

/// A move of `topic` from the first directory to the second, all of which is copied, and which asks the
/// controller for its place.
fn begin_held_move(two: &Two, client: &mut Client) -> (Arc<Partition>, mpsc::Sender<()>) {
    let partition = two.create_in(client, "topic", 0);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    let resume = hold_controller(&two.running);
    let name = TopicPartition::new("topic", 0);
    let second = two.broker().logs.directories[1].name();
    let begun = future_replicas::begin(&two.broker().logs, &name, second);
    two.running.runtime.block_on(begun).unwrap();
    let controller = &two.broker().controller;
    wait_until("it asks for its place", || controller.queued_count() > 0);
    (partition, resume)
}

/// To sync its copy has taken so long that nobody has used it meanwhile.
#[test]
fn a_log_that_cannot_be_opened_for_the_last_step_of_its_move_is_no_fault_of_where_it_goes_to() {
    let two = Two::start();
    let mut client = two.running.connect();
    let (partition, resume) = begin_held_move(&two, &mut client);
    wait_until("the log is idle", || {
        partition.become_idle(now_ms(), true).unwrap()
    });
    let log = two.root.path().join("one/topic-0/00000000000000000000.log");
    fs::rename(&log, log.with_extension("gone")).unwrap();
    drop(resume);
    wait_until("the move has ended", || {
        !two.broker().logs.future_replicas.is_running(&partition)
    });
    assert_eq!(partition.directory_index(), 0);
    assert!(!two.broker().logs.directories[1].is_offline());
}

/// It had none while the metadata had it where it was to go.
#[test]
fn a_log_that_stays_where_it_is_as_its_destination_fails_has_a_leader_again() {
    let two = Two::start();
    let mut client = two.running.connect();
    let (partition, resume) = begin_held_move(&two, &mut client);
    let stuck = StuckCall::begin(&two.running, "topic");
    drop(resume);
    let broker = two.broker();
    wait_until("it waits for the log", || {
        broker.logs.future_replicas.is_left(0)
    });
    broker
        .logs
        .fail_directory(broker.logs.directories[1].name(), &"a test of this");
    let leader = || {
        let image = broker.node.image();
        let topic = image.topics.by_name("topic").unwrap();
        topic.partition(0).unwrap().leader
    };
    wait_until("it has no leader", || leader() == metadata::NO_LEADER);
    stuck.end();
    wait_until("the move has ended", || {
        !broker.logs.future_replicas.is_running(&partition)
    });
    assert_eq!(partition.directory_index(), 0);
    assert_eq!(leader(), broker.node.id);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
}
