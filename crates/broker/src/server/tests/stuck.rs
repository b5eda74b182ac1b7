//! Logs, and work on them, that are stuck for as long as a test wants.

use super::*;
use crate::logs::Logs;
use crate::logs::log_dir_queue::Handed;
use crate::logs::new_partitions;
use crate::logs::removals::NamesInUse;
use crate::scheduling::disk_watch::DiskSpeed;
use replication::Partition;
use std::time::Instant;

/// A call on a log that does not end before this does.
pub(super) struct StuckCall {
    release: mpsc::Sender<()>,
    call: std::thread::JoinHandle<()>,
}

impl StuckCall {
    pub(super) fn begin(running: &Running, topic: &str) -> Self {
        let topic = running.broker().logs.partitions.topic(topic).unwrap();
        let partition = topic.partition(0).unwrap();
        let ((release, stuck), (begun, has_begun)) = (mpsc::channel(), mpsc::channel());
        let call = std::thread::spawn(move || {
            let call = |_: &mut storage::Log<RealDisk>| {
                begun.send(()).unwrap();
                let _ = stuck.recv();
            };
            partition.with_log(call).unwrap();
        });
        has_begun.recv().unwrap();
        Self { release, call }
    }

    pub(super) fn end(self) {
        drop(self.release);
        self.call.join().unwrap();
    }
}

/// Whoever has asked for the new one waits for its place, and the log of the old one does not come back.
#[test]
fn a_topic_whose_log_is_late_is_deleted_and_made_anew() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let (mut client, mut other) = (running.connect(), running.connect());
    client.create_topic("topic", 1, &[]);
    client.create_topic("other", 1, &[]);
    client
        .produce("topic", 0, &batch(&["old"]))
        .assert_accepted();
    let stuck = StuckCall::begin(&running, "topic");
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    let creating = std::thread::spawn(move || {
        client.create_topic("topic", 1, &[]);
        client.produce("topic", 0, &batch(&["new"])).error
    });
    wait_until("it is in the metadata", || {
        other.topics().contains(&"topic".to_owned())
    });
    // Nobody else waits, and nobody is told of a disk that has failed.
    let early = other.produce("topic", 0, &batch(&["early"]));
    assert_eq!(early.error, ErrorCode::NotLeaderOrFollower);
    other
        .produce("other", 0, &batch(&["value"]))
        .assert_accepted();
    assert!(!creating.is_finished());
    stuck.end();
    assert_eq!(creating.join().unwrap(), ErrorCode::None);
    assert_eq!(other.fetch("topic", 0, 0).values(), ["new"]);
    running.stop();
    let running = Running::start(&[directory.path()]);
    assert_eq!(running.connect().fetch("topic", 0, 0).values(), ["new"]);
    running.stop();
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.find(|name| name.ends_with("-stray")), None);
}

/// A disk that does not answer is waited for as long as one that is late may be.
#[test]
fn a_topic_whose_log_is_stuck_is_made_anew_when_its_disk_answers() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let stuck = StuckCall::begin(&running, "topic");
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    client.create_topic("topic", 1, &[]);
    // Whether it is late or stuck is looked at now and then.
    wait_until("clients are told", || {
        let refused = client.produce("topic", 0, &batch(&["early"]));
        refused.error == ErrorCode::KafkaStorageError
    });
    stuck.end();
    wait_until("the new one has its log", || {
        client.produce("topic", 0, &batch(&["new"])).error.is_none()
    });
    assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
}

/// A server with two log directories, the first of which has the metadata.
pub(super) struct Two {
    pub(super) root: trials::Directory,
    pub(super) running: Running,
}

impl Two {
    pub(super) fn start() -> Self {
        let root = trials::directory();
        let running = Running::start(&[&root.path().join("one"), &root.path().join("two")]);
        Self { root, running }
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        self.running.broker()
    }

    /// A topic of one partition, which goes to the directory of this place.
    pub(super) fn create_in(
        &self,
        client: &mut Client,
        topic: &str,
        directory_index: usize,
    ) -> Arc<Partition> {
        let broker = self.broker();
        let name = TopicPartition::new(topic, 0);
        let directory = &broker.logs.directories[directory_index];
        broker
            .logs
            .future_replicas
            .destinations
            .note(&name, directory);
        client.create_topic(topic, 1, &[]);
        let partition = broker.logs.partitions.find(topic, 0).unwrap();
        assert_eq!(partition.directory_index(), directory_index);
        partition
    }

    pub(super) fn pace(&self, directory_index: usize) -> DiskSpeed {
        self.broker().logs.directories[directory_index]
            .work()
            .pace()
    }
}

/// Work that the queue of a log directory is blocked by, until this is dropped.
pub(super) fn block_queue(broker: &Arc<Broker>, directory_index: usize) -> mpsc::Sender<()> {
    let (release, stuck) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let shares = [(directory_index, (begun, stuck))].into();
    let block = |_: &Arc<Logs>, (begun, stuck): (mpsc::Sender<()>, mpsc::Receiver<()>)| {
        begun.send(()).unwrap();
        let _ = stuck.recv();
    };
    Handed::new(&broker.logs).in_each(shares, block).leave();
    has_begun.recv().unwrap();
    release
}

/// Where there is nothing new to be synced, a disk is not asked by a sync.
#[test]
fn who_asks_a_disk_has_something_new_for_it() {
    let two = Two::start();
    let directory = &two.broker().logs.directories[1];
    let before = std::time::SystemTime::UNIX_EPOCH;
    let opened = File::open(directory.path()).unwrap();
    opened.set_modified(before).unwrap();
    new_partitions::ask_disk(&two.broker().logs, directory);
    assert!(opened.metadata().unwrap().modified().unwrap() > before);
    assert!(!directory.is_offline());
    let names = fs::read_dir(directory.path()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.all(|name| !name.contains("probe")));
}

/// Nothing has shown yet that the disk does not answer.
#[test]
fn disks_are_asked_before_logs_are_made_on_them() {
    let two = Two::start();
    let mut client = two.running.connect();
    let release = block_queue(two.broker(), 1);
    client.create_topic("topic", 4, &[]);
    let partitions = two
        .broker()
        .logs
        .partitions
        .topic("topic")
        .unwrap()
        .partitions();
    assert_eq!(partitions.len(), 4);
    assert!(partitions.iter().all(|one| one.directory_index() == 0));
    assert!(two.pace(1) >= DiskSpeed::Late);
    drop(release);
    wait_until("it has caught up", || two.pace(1) == DiskSpeed::Prompt);
}

/// Partitions that the metadata put there have nowhere else to go.
#[test]
fn a_partition_on_a_disk_that_is_late_is_waited_for() {
    let two = Two::start();
    let (mut client, mut other) = (two.running.connect(), two.running.connect());
    let release = block_queue(two.broker(), 1);
    let name = TopicPartition::new("topic", 0);
    let second = &two.broker().logs.directories[1];
    two.broker()
        .logs
        .future_replicas
        .destinations
        .note(&name, second);
    let creating = std::thread::spawn(move || {
        client.create_topic("topic", 1, &[]);
        client.produce("topic", 0, &batch(&["value"])).error
    });
    wait_until("it is in the metadata", || {
        other.topics().contains(&"topic".to_owned())
    });
    assert!(!creating.is_finished());
    // The controller waits for nothing.
    other.create_topic("other", 1, &[]);
    other
        .produce("other", 0, &batch(&["value"]))
        .assert_accepted();
    drop(release);
    assert_eq!(creating.join().unwrap(), ErrorCode::None);
}

/// A server with log directories that answer, and one that does not, which a partition waits for.
struct Waiting {
    _root: trials::Directory,
    running: Running,
    release: mpsc::Sender<()>,
    creating: std::thread::JoinHandle<()>,
}

impl Waiting {
    fn start() -> Self {
        let root = trials::directory();
        let paths = ["one", "two", "three", "four"].map(|name| root.path().join(name));
        let running = Running::start(&paths.each_ref().map(|path| &**path));
        let broker = running.broker();
        let release = block_queue(broker, 3);
        let name = TopicPartition::new("topic", 0);
        let fourth = &broker.logs.directories[3];
        broker.logs.future_replicas.destinations.note(&name, fourth);
        let mut client = running.connect();
        let creating = std::thread::spawn(move || {
            client.create_topic("topic", 1, &[]);
        });
        wait_until("it waits for its log", || {
            !broker.logs.new_partitions.is_empty()
        });
        Self {
            _root: root,
            running,
            release,
            creating,
        }
    }

    /// How often the disks that answer have been asked, or given other work.
    fn handed_count(&self) -> u64 {
        let directories = &self.running.broker().logs.directories;
        let counts = directories[1..3].iter();
        counts.map(|one| one.work().handed_count()).max().unwrap()
    }

    fn end(self) {
        drop(self.release);
        self.creating.join().unwrap();
        let partition = self
            .running
            .broker()
            .logs
            .partitions
            .find("topic", 0)
            .unwrap();
        assert_eq!(partition.directory_index(), 3);
    }
}

/// Each attempt asks the disks of the others whether they answer, which is no reason for the next one.
#[test]
fn a_partition_that_waits_for_its_disk_is_tried_now_and_then() {
    const TOPICS: u64 = 10;
    let waiting = Waiting::start();
    let mut other = waiting.running.connect();
    let (before, begun_at) = (waiting.handed_count(), Instant::now());
    for number in 0..TOPICS {
        other.create_topic(&format!("other-{number}"), 1, &[]);
    }
    // Each of them asks, and so does an attempt in each second.
    let asked_count = waiting.handed_count() - before;
    let expected_max = TOPICS + begun_at.elapsed().as_secs() + 2;
    assert!(asked_count <= expected_max, "{asked_count}");
    waiting.end();
}

#[test]
fn attempts_that_the_metadata_loader_has_not_begun_are_one() {
    let waiting = Waiting::start();
    let broker = waiting.running.broker();
    let resume = hold_loader(&waiting.running);
    let (before, begun_at) = (waiting.handed_count(), Instant::now());
    for _ in 0..30 {
        broker.logs.create_missing();
    }
    drop(resume);
    // Whatever waits has its turn before these.
    for _ in 0..3 {
        let (done, is_done) = mpsc::channel();
        broker
            .controller
            .run_in_loader(move || done.send(()).unwrap());
        is_done.recv().unwrap();
    }
    let asked_count = waiting.handed_count() - before;
    let expected_max = begun_at.elapsed().as_secs() + 2;
    assert!(asked_count <= expected_max, "{asked_count}");
    waiting.end();
}

/// No room, and no file descriptor.
#[test]
fn a_partition_that_could_not_be_made_is_made_where_it_is_wanted() {
    for number in [28, 24] {
        let two = Two::start();
        let source = std::io::Error::from_raw_os_error(number);
        let error = storage::StorageError {
            source,
            ..refused()
        };
        assert!(error.is_passing());
        two.broker().logs.new_partitions.refuse_next(error);
        let name = TopicPartition::new("topic", 0);
        let broker = two.broker();
        // The other one has as few partitions, and comes first.
        let second = &broker.logs.directories[1];
        broker.logs.future_replicas.destinations.note(&name, second);
        two.running.connect().create_topic("topic", 1, &[]);
        let find = || broker.logs.partitions.find("topic", 0);
        wait_until("it is made", || find().is_ok());
        assert_eq!(find().unwrap().directory_index(), 1);
        // What was asked for is forgotten after it is found.
        let asked = || broker.logs.future_replicas.destinations.of(&name);
        wait_until("it is forgotten", || asked().is_none());
    }
}

#[test]
fn what_a_log_that_is_stuck_is_to_be_told_is_kept_once() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let stuck = StuckCall::begin(&running, "topic");
    let times: Vec<String> = (1..=20)
        .map(|time| (time * 1_000_000).to_string())
        .collect();
    for time in &times {
        client.alter_topic("topic", &[("retention.ms", time)]);
    }
    let work = running.broker().logs.directories[0].work();
    // The one that the log has not taken yet, and one for all that came after.
    assert!((1..=2).contains(&work.unended_count()));
    stuck.end();
    work.wait_for_all();
    let partition = running.broker().logs.partitions.find("topic", 0).unwrap();
    assert_eq!(partition.config().retention_ms, 20_000_000);
}

/// What a panic leaves of a log is set aside when its name is needed.
#[test]
fn work_that_panics_holds_up_nothing_and_frees_its_names() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let broker = running.broker();
    let name = TopicPartition::new("topic", 0);
    let directory = &broker.logs.directories[0];
    directory.begin_leaving(&name);
    let shares = [(0, name.clone())].into();
    let panics = |logs: &Arc<Logs>, name: TopicPartition| {
        let _names = NamesInUse::new(logs, vec![(0, name)]);
        panic!("a test of this");
    };
    Handed::new(&broker.logs).in_each(shares, panics).wait();
    directory.work().wait_for_all();
    assert_eq!(directory.leaving_for(&name), None);
    running.connect().create_topic("topic", 1, &[]);
}

pub(super) fn refused() -> storage::StorageError {
    storage::StorageError {
        operation: "move",
        file: PathBuf::new(),
        source: std::io::Error::other("a test of this"),
    }
}

#[test]
fn a_log_that_is_stuck_keeps_no_other_from_being_compacted() {
    let two = Two::start();
    let mut client = two.running.connect();
    for (topic, directory_index) in [("other", 1), ("topic", 0)] {
        two.create_in(&mut client, topic, directory_index);
        let compacted = [
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1048576"),
            ("min.cleanable.dirty.ratio", "0"),
        ];
        client.alter_topic(topic, &compacted);
        for _ in 0..2 {
            client.produce(topic, 0, &large_batch()).assert_accepted();
        }
    }
    let stuck = StuckCall::begin(&two.running, "topic");
    cleaner::start(&two.broker().logs);
    let name = TopicPartition::new("other", 0);
    let checkpoints = two.broker().logs.directories[1].checkpoints();
    wait_until("the other one is compacted", || {
        let offset = checkpoints.cleaner_offsets.of(&name, LOOK);
        offset.flatten().is_some()
    });
    stuck.end();
}

/// The log of its group is in a call that is stuck.
#[test]
fn a_topic_is_deleted_while_a_group_is_stuck_that_has_offsets_of_it() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
    let stuck = StuckCall::begin(&running, OFFSETS_TOPIC);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    let mut asking = running.connect();
    let asked = std::thread::spawn(move || asking.committed_offset("group", "topic", 0));
    stuck.end();
    assert_eq!(asked.join().unwrap(), -1);
    running.stop();
}

/// Nothing is noted for a shard that nobody will ask, and no more than a bound for one that is stuck.
#[test]
fn deleted_topics_are_not_noted_for_groups_that_cannot_be_loaded() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.wait_for_coordinator("group");
    // An offset of a version that is not known.
    let key = b"\0\x01\0\x01g\0\x01t\0\0\0\0";
    let mut builder = record::BatchBuilder::new(record::BatchHeader::default());
    builder.append(testkit::now_ms(), Some(key), Some(&[0, 9]), &[]);
    let mut batch = builder.into_batch(record::Compression::None);
    let partition = running
        .broker()
        .logs
        .partitions
        .find(OFFSETS_TOPIC, 0)
        .unwrap();
    partition
        .append_as_coordinator(&mut batch, now_ms())
        .unwrap();
    drop(client);
    running.stop();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    let groups = &running.broker().coordinators.groups;
    wait_until("the groups have failed to load", || {
        client.try_committed_offset("group", "topic", 0) == Err(ErrorCode::NotCoordinator)
    });
    for topic in ["topic", "other"] {
        client.create_topic(topic, 1, &[]);
        assert_eq!(client.delete_topic(topic), ErrorCode::None);
    }
    assert_eq!(groups.noted_topic_count(), 0);
}

/// Keeps the controller's thread until what it gives is dropped.
pub(super) fn hold_controller(running: &Running) -> mpsc::Sender<()> {
    let ((resume, held), (begun, has_begun)) = (mpsc::channel::<()>(), mpsc::channel());
    let controller = running.broker().controller.clone();
    running.runtime.spawn(async move {
        let hold = controller.run(move |_| {
            begun.send(()).unwrap();
            let _ = held.recv();
        });
        hold.await
    });
    has_begun.recv().unwrap();
    resume
}

/// Keeps the metadata loader until what it gives is dropped.
pub(super) fn hold_loader(running: &Running) -> mpsc::Sender<()> {
    let ((resume, held), (begun, has_begun)) = (mpsc::channel::<()>(), mpsc::channel());
    running.broker().controller.run_in_loader(move || {
        begun.send(()).unwrap();
        let _ = held.recv();
    });
    has_begun.recv().unwrap();
    resume
}
