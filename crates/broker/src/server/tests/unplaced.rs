//! Partitions for which the metadata name no log directory, and of which there is no log.

use super::stuck::{Two, refused};
use super::*;
use crate::logs::partitions::Unavailable;
use std::path::PathBuf;

/// Two log directories, and the metadata of a topic of one partition whose log was never made, as after
/// a crash.
struct Unmade {
    _root: trials::Directory,
    one: PathBuf,
    two: PathBuf,
}

impl Unmade {
    fn new() -> Self {
        let root = trials::directory();
        let [one, two] = ["one", "two"].map(|name| root.path().join(name));
        Self::after(root, one, two)
    }

    /// The same; these directories may have been used before.
    fn after(root: trials::Directory, one: PathBuf, two: PathBuf) -> Self {
        let running = Running::start(&[&one, &two]);
        for _ in 0..1000 {
            let source = std::io::Error::from_raw_os_error(28);
            let error = storage::StorageError {
                source,
                ..refused()
            };
            running.broker().logs.new_partitions.refuse_next(error);
        }
        running.connect().create_topic("topic", 1, &[]);
        assert!(running.broker().logs.partitions.find("topic", 0).is_err());
        assert_eq!(noted(running.broker(), "topic"), None);
        running.stop();
        Self {
            _root: root,
            one,
            two,
        }
    }

    fn start(&self) -> Running {
        Running::start(&[&self.one, &self.two])
    }

    /// A start during which the second directory cannot be used.
    fn start_without_two(&self) -> Running {
        // The mark of the clean shutdown cannot be taken.
        let mark = self.two.join(CLEAN_SHUTDOWN_FILE);
        let _ = fs::remove_file(&mark);
        fs::create_dir(&mark).unwrap();
        let running = self.start();
        assert!(running.broker().logs.directories[1].is_offline());
        fs::remove_dir(&mark).unwrap();
        running
    }
}

fn produced(running: &Running) -> ErrorCode {
    running
        .connect()
        .produce("topic", 0, &batch(&["value"]))
        .error
}

#[test]
fn a_partition_that_was_not_made_is_not_in_a_directory_that_was_taken_out_before() {
    let root = trials::directory();
    let [one, two, three] = ["one", "two", "three"].map(|name| root.path().join(name));
    let running = Running::start(&[&one, &two, &three]);
    let mut client = running.connect();
    client.create_topic("old", 6, &[]);
    drop(client);
    running.stop();
    assert!(
        fs::read_dir(&three).unwrap().count() > 3,
        "it holds partitions"
    );
    Running::start(&[&one, &two]).stop();
    let unmade = Unmade::after(root, one, two);
    let running = unmade.start();
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
}

#[test]
fn a_partition_that_was_not_made_is_not_in_a_new_directory_that_cannot_be_used() {
    let unmade = Unmade::new();
    let three = unmade.two.with_extension("three");
    fs::write(&three, "a file").unwrap();
    let running = Running::start(&[&unmade.one, &unmade.two, &three]);
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
}

/// Else the next start would not know that it may hold a partition.
#[test]
fn places_are_noted_before_it_is_reported_that_their_directory_has_failed() {
    let two = Two::start();
    let broker = two.broker();
    let runtime = &two.running.runtime;
    let telling = runtime.block_on(broker.logs.new_partitions.hold_telling());
    let name = TopicPartition::new("topic", 0);
    let directory = &broker.logs.directories[1];
    broker
        .logs
        .future_replicas
        .destinations
        .note(&name, directory);
    let mut client = two.running.connect();
    let creating = std::thread::spawn(move || client.create_topic("topic", 1, &[]));
    wait_until("its log is made", || {
        broker.node.image().topics.by_name("topic").is_some()
            && broker.logs.partitions.find("topic", 0).is_ok()
    });
    broker
        .logs
        .fail_directory(directory.name(), &"a test of this");
    let is_registered = || {
        let image = broker.node.image();
        let registration = image.cluster.broker(broker.node.id).unwrap();
        registration.directories.contains(&directory.id())
    };
    std::thread::sleep(LOOK);
    assert_eq!((is_registered(), noted(broker, "topic")), (true, None));
    drop(telling);
    wait_until("it is reported", || !is_registered());
    assert_eq!(noted(broker, "topic"), Some(directory.id()));
    creating.join().unwrap();
}

/// Another thread takes it offline, which sees no partition there.
#[test]
fn a_directory_that_fails_while_a_log_is_made_there_takes_the_partition_offline_and_is_reported_later()
 {
    for topic in ["topic", OFFSETS_TOPIC] {
        let two = Two::start();
        let broker = two.broker();
        let name = TopicPartition::new(topic, 0);
        let directory = broker.logs.directories[1].clone();
        broker
            .logs
            .future_replicas
            .destinations
            .note(&name, &directory);
        let (told, is_kept) = mpsc::channel();
        let failing = directory.clone();
        broker.logs.new_partitions.interrupt_next(move |logs| {
            logs.fail_directory(failing.name(), &"a test of this");
            let is_kept = logs.new_partitions.has_unnoted_in(logs, failing.id());
            told.send(is_kept).unwrap();
        });
        let mut client = two.running.connect();
        client.create_topic(topic, 1, &[]);
        assert!(is_kept.recv().unwrap(), "it is not reported without it");
        wait_until("it is reported", || {
            let image = broker.node.image();
            let registration = image.cluster.broker(broker.node.id).unwrap();
            !registration.directories.contains(&directory.id())
        });
        assert_eq!(noted(broker, topic), Some(directory.id()));
        let found = broker.logs.partitions.find(topic, 0).map(drop);
        assert_eq!(found, Err(Unavailable::Offline));
        if topic == OFFSETS_TOPIC {
            client.create_topic("topic", 1, &[]);
            let asked = client.commit_offset("group", "topic", 1);
            assert_eq!(asked, ErrorCode::NotCoordinator);
        }
    }
}

#[test]
fn a_partition_that_was_not_made_is_made_when_a_directory_that_could_not_be_used_is_back() {
    let unmade = Unmade::new();
    for _ in 0..2 {
        let running = unmade.start_without_two();
        assert_eq!(produced(&running), ErrorCode::NotLeaderOrFollower);
        running.stop();
    }
    let running = unmade.start();
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
    assert!(
        unmade.two.join("topic-0").exists(),
        "where it may have been"
    );
}

#[test]
fn a_partition_that_may_be_in_a_directory_that_has_failed_is_made_nowhere_without_it() {
    let unmade = Unmade::new();
    unmade.start_without_two().stop();
    // Its disk is taken away for good: nobody knows what was there.
    for _ in 0..2 {
        let running = Running::start(&[&unmade.one]);
        assert_eq!(produced(&running), ErrorCode::NotLeaderOrFollower);
        running.stop();
    }
    let running = unmade.start();
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
}

#[test]
fn of_two_logs_that_the_metadata_do_not_know_the_one_with_records_stays() {
    let root = trials::directory();
    let [one, two] = ["one", "two"].map(|name| root.path().join(name));
    let running = Running::start(&[&one, &two]);
    let broker = running.broker().clone();
    let telling = running
        .runtime
        .block_on(broker.logs.new_partitions.hold_telling());
    let name = TopicPartition::new("topic", 0);
    let second = &broker.logs.directories[1];
    broker.logs.future_replicas.destinations.note(&name, second);
    let mut client = running.connect();
    let creating = std::thread::spawn(move || client.create_topic("topic", 1, &[]));
    wait_until("its log is made", || {
        broker.node.image().topics.by_name("topic").is_some()
            && broker.logs.partitions.find("topic", 0).is_ok()
    });
    let mut client = running.connect();
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    // As a crash leaves it.
    let kept = root.path().join("kept");
    copy_tree(root.path(), &kept, &["kept"]);
    drop(telling);
    creating.join().unwrap();
    drop((client, broker));
    running.stop();
    let [one, two] = ["one", "two"].map(|name| kept.join(name));
    assert!(two.join("topic-0").exists());
    fs::create_dir(one.join("topic-0")).unwrap();
    let running = Running::start(&[&one, &two]);
    assert_eq!(
        noted(running.broker(), "topic"),
        Some(held(running.broker(), "topic"))
    );
    assert_eq!(running.connect().fetch("topic", 0, 0).values(), ["value"]);
    running.stop();
}

fn copy_tree(from: &Path, to: &Path, without: &[&str]) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if without.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        match path.is_dir() {
            true => copy_tree(&path, &copy, &[]),
            false => drop(fs::copy(&path, &copy).unwrap()),
        }
    }
}
