//! A disk that is stuck holds up nobody but who uses it.
//!
//! The disk is stuck where a log that nobody has used is opened: a file of it is a FIFO, which can be
//! opened when somebody opens its other end.

use crate::directory::names_beginning;
use crate::log_directories::{
    Directories, leaders, listed, move_to, receive_moved, send_move, send_moves,
};
use model::{BrokerId, ErrorCode};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::{Client, TestServer, batch, wait_until};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

/// More clients than the test's server has workers, those in reserve included.
const CLIENTS: usize = 6;
/// Long enough for answers that nothing holds up, of all clients.
const MOMENT: Duration = Duration::from_millis(200);

/// A server with a partition in each of two log directories, one of which is stuck.
struct Stuck {
    server: Option<TestServer>,
    /// Index of the partition whose directory is stuck, and of the other one.
    stuck: i32,
    free: i32,
    /// The log directory that is stuck.
    directory: PathBuf,
    fifo: PathBuf,
    directories: Directories,
}

impl Stuck {
    /// With the directory stuck that has the metadata; their log is not.
    fn start(keys: &[(&str, &str)], configs: &[(&str, &str)]) -> Self {
        let directories = Directories::new();
        let directory = directories.one.clone();
        Self::start_in(directories, directory, keys, configs)
    }

    /// With the other one stuck.
    fn start_beside_metadata() -> Self {
        let directories = Directories::new();
        let directory = directories.two.clone();
        Self::start_in(directories, directory, &[], &[])
    }

    fn start_in(
        directories: Directories,
        directory: PathBuf,
        keys: &[(&str, &str)],
        configs: &[(&str, &str)],
    ) -> Self {
        let server = directories.start(&[]);
        let mut client = server.connect();
        client.create_topic("topic", 2, configs);
        for index in 0..2 {
            let produced = client.produce("topic", index, &batch(&["first"]));
            produced.assert_accepted();
        }
        let (_, here) = listed(&mut client, &directory, "topic");
        assert_eq!(here.len(), 1, "one in each directory");
        let stuck = here[0].index;
        server.stop();
        let fifo = block(&directory.join(format!("topic-{stuck}")));
        Self {
            server: Some(directories.start(keys)),
            stuck,
            free: 1 - stuck,
            directory,
            fifo,
            directories,
        }
    }

    fn connect_one(&self) -> Client {
        self.server
            .as_ref()
            .expect("it runs until it is stopped")
            .connect()
    }

    fn connect(&self) -> Vec<Client> {
        (0..CLIENTS).map(|_| self.connect_one()).collect()
    }

    fn stop(mut self) {
        self.server
            .take()
            .expect("it runs until it is stopped")
            .stop();
    }

    /// Somebody who uses the other directory, and who uses none.
    fn assert_others_are_served(&self) {
        let mut client = self.connect_one();
        assert!(client.topics().contains(&"topic".to_owned()));
        for value in ["other", "and another"] {
            let produced = client.produce("topic", self.free, &batch(&[value]));
            produced.assert_accepted();
            let fetched = client.fetch("topic", self.free, produced.base_offset);
            assert_eq!(fetched.values(), [value]);
            let end = client.list_offset("topic", self.free, -1).offset;
            assert_eq!(end, produced.base_offset + 1);
        }
        let deleted = client.delete_records("topic", self.free, 1);
        assert_eq!(deleted.1, 1);
    }

    /// Lets the disk go on.
    fn release(&self) {
        drop(File::options().write(true).open(&self.fifo).unwrap());
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // A test that has failed waits for its server to end. Nobody has to be at the other end.
        let ends = File::options().read(true).write(true).open(&self.fifo);
        std::mem::forget(ends);
        drop(self.server.take());
    }
}

/// Makes opening a log wait; gives the file that it waits for.
fn block(log: &Path) -> PathBuf {
    let (fifo, reference) = (log.join("partition.metadata"), log.with_extension("moved"));
    let modified = fs::metadata(log).unwrap().modified().unwrap();
    fs::rename(&fifo, &reference).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    // By the times of its files the log is as it was, so the start has no reason to open it.
    let touch = [Path::new("-r"), &reference, &fifo];
    assert!(
        Command::new("touch")
            .args(touch)
            .status()
            .unwrap()
            .success()
    );
    fs::remove_file(&reference).unwrap();
    File::open(log).unwrap().set_modified(modified).unwrap();
    fifo
}

/// That nobody has an answer; waits long enough for the directory to be known as slow.
fn assert_waiting(clients: &mut [Client]) {
    for client in clients {
        assert!(client.is_silent_for(MOMENT / CLIENTS as u32));
    }
}

#[test]
fn appends_to_a_stuck_disk_hold_up_nobody_else() {
    let stuck = Stuck::start(&[], &[]);
    let mut clients = stuck.connect();
    for client in &mut clients {
        client.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    }
    assert_waiting(&mut clients);
    stuck.assert_others_are_served();
    // Those who come later find it slow.
    let mut late = stuck.connect();
    for client in &mut late {
        client.send_produce("topic", stuck.stuck, &batch(&["later"]), 1);
    }
    stuck.assert_others_are_served();
    clients.append(&mut late);
    assert_waiting(&mut clients);
    stuck.release();
    for client in &mut clients {
        client.receive_produced().assert_accepted();
    }
    let mut client = stuck.connect_one();
    let values = client.fetch("topic", stuck.stuck, 0).values();
    assert_eq!(values.len(), 1 + 2 * CLIENTS);
    stuck.stop();
}

#[test]
fn reads_from_a_stuck_disk_hold_up_nobody_else() {
    let stuck = Stuck::start(&[], &[]);
    let mut clients = stuck.connect();
    for client in &mut clients {
        client.send_fetch("topic", stuck.stuck, 0, 500);
    }
    assert_waiting(&mut clients);
    stuck.assert_others_are_served();
    let mut late = stuck.connect();
    for client in &mut late {
        client.send_fetch("topic", stuck.stuck, 0, 500);
    }
    let mut producers = stuck.connect();
    for client in &mut producers {
        client.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    }
    assert_waiting(&mut producers);
    stuck.assert_others_are_served();
    clients.append(&mut late);
    assert_waiting(&mut clients);
    assert_waiting(&mut producers);
    stuck.release();
    for client in &mut clients {
        assert_eq!(client.receive_fetched().values()[0], "first");
    }
    for client in &mut producers {
        client.receive_produced().assert_accepted();
    }
    stuck.stop();
}

/// Nobody has anything to do any more: one worker polls the sockets, and is the one that is lost. The
/// next one may be awake by chance, and poll them all the same; so this is tried several times.
#[test]
fn a_single_call_that_is_stuck_leaves_the_sockets_to_the_others() {
    for _ in 0..4 {
        let stuck = Stuck::start(&[], &[]);
        let mut others: Vec<Client> = stuck.connect();
        let mut client = stuck.connect_one();
        assert!(client.topics().contains(&"topic".to_owned()));
        assert!(client.is_silent_for(MOMENT));
        client.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
        for other in &mut others {
            assert!(client.is_silent_for(MOMENT / CLIENTS as u32));
            assert!(other.topics().contains(&"topic".to_owned()));
        }
        stuck.release();
        client.receive_produced().assert_accepted();
        stuck.stop();
    }
}

/// The offset that a checkpoint has for a partition.
fn checkpointed(directory: &Path, index: i32) -> Option<i64> {
    let text = fs::read_to_string(directory.join("replication-offset-checkpoint")).ok()?;
    let entry = format!("topic {index} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&entry));
    line?.parse().ok()
}

#[test]
fn upkeep_of_a_stuck_disk_holds_up_that_of_no_other() {
    let keys = [
        ("replica.high.watermark.checkpoint.interval.ms", "20"),
        ("log.flush.offset.checkpoint.interval.ms", "20"),
        ("log.retention.check.interval.ms", "20"),
        ("log.initial.task.delay.ms", "0"),
    ];
    let configs = [
        ("segment.bytes", "1048576"),
        ("retention.ms", "1000"),
        ("flush.ms", "100"),
    ];
    let stuck = Stuck::start(&keys, &configs);
    let mut client = stuck.connect_one();
    client.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    let mut other = stuck.connect_one();
    let two = &stuck.directories.two;
    for count in 2..5 {
        let produced = other.produce("topic", stuck.free, &batch(&["value"]));
        produced.assert_accepted();
        wait_until("the high watermark is noted", || {
            checkpointed(two, stuck.free).is_some_and(|offset| offset >= count)
        });
    }
    // Everything is old in a second.
    wait_until("old segments are deleted", || {
        other.list_offset("topic", stuck.free, -2).offset >= 4
    });
    assert!(client.is_silent_for(Duration::from_millis(1)));
    stuck.release();
    client.receive_produced().assert_accepted();
    stuck.stop();
}

/// What is expanded, or longer than a worker has time for.
#[test]
fn large_batches_to_a_stuck_disk_hold_up_nobody_else() {
    let stuck = Stuck::start(&[("message.max.bytes", "4000000")], &[]);
    let large = "x".repeat(1_500_000);
    let mut clients = stuck.connect();
    for client in &mut clients {
        client.send_produce("topic", stuck.stuck, &batch(&[&large]), -1);
    }
    assert_waiting(&mut clients);
    stuck.assert_others_are_served();
    let mut client = stuck.connect_one();
    client.send_produce("topic", stuck.free, &batch(&[&large]), -1);
    assert!(!client.is_silent_for(Duration::from_secs(10)));
    client.receive_produced().assert_accepted();
    stuck.release();
    for client in &mut clients {
        client.receive_produced().assert_accepted();
    }
    stuck.stop();
}

/// Whoever sees to the server starts it again at once, and not when the disk answers.
#[test]
fn a_directory_that_fails_while_a_call_is_stuck_halts_the_server() {
    let stuck = Stuck::start(&[], &[]);
    let mut client = stuck.connect_one();
    client.create_topic("other", 6, &[("segment.bytes", "1048576")]);
    let spoilt = listed(&mut client, &stuck.directories.one, "other").1[0].index;
    let produced = client.produce("other", spoilt, &batch(&["first"]));
    produced.assert_accepted();
    let mut waiting = stuck.connect_one();
    waiting.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    assert!(waiting.is_silent_for(MOMENT));
    let spoilt_log = stuck.directories.one.join(format!("other-{spoilt}"));
    fs::rename(&spoilt_log, spoilt_log.with_extension("gone")).unwrap();
    let value = "x".repeat(600_000);
    for _ in 0..3 {
        client.send_produce("other", spoilt, &batch(&[&value]), 1);
    }
    let server = stuck.server.as_ref().unwrap();
    wait_until("it halts", || server.is_halted());
    stuck.release();
}

/// That no client can have its partition, whose directory has failed, is told by the controller, and to
/// whoever waits for something else.
#[test]
fn a_directory_that_fails_while_a_call_is_stuck_is_given_up() {
    let stuck = Stuck::start_beside_metadata();
    let mut client = stuck.connect_one();
    // In the order of names it comes after the one that is stuck.
    client.create_topic("zoo", 6, &[("segment.bytes", "1048576")]);
    let (_, here) = listed(&mut client, &stuck.directory, "zoo");
    let (spoilt, other) = (here[0].index, here[1].index);
    let produced = client.produce("zoo", spoilt, &batch(&["first"]));
    produced.assert_accepted();
    let mut late = stuck.connect_one();
    late.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    assert!(late.is_silent_for(MOMENT));
    let mut waiting = stuck.connect_one();
    waiting.send_fetch("zoo", other, 0, 600_000);
    let spoilt_log = stuck.directory.join(format!("zoo-{spoilt}"));
    fs::rename(&spoilt_log, spoilt_log.with_extension("gone")).unwrap();
    let value = "x".repeat(600_000);
    for _ in 0..3 {
        client.send_produce("zoo", spoilt, &batch(&[&value]), 1);
    }
    assert_eq!(
        waiting.receive_fetched().error,
        ErrorCode::KafkaStorageError
    );
    let mut client = stuck.connect_one();
    let index = stuck.stuck as usize;
    wait_until("it has no leader", || {
        leaders(&mut client, "topic")[index].1 == BrokerId::NONE
    });
    stuck.assert_others_are_served();
    assert!(late.is_silent_for(Duration::from_millis(1)));
    stuck.release();
}

/// The controller waits for no log, and what a deleted topic leaves is not taken for the next one.
#[test]
fn topics_are_made_altered_and_deleted_while_a_log_is_stuck() {
    let stuck = Stuck::start(&[], &[]);
    let mut late = stuck.connect_one();
    late.send_produce("topic", stuck.stuck, &batch(&["late"]), -1);
    assert!(late.is_silent_for(MOMENT));
    let mut client = stuck.connect_one();
    client.create_topic("other", 2, &[]);
    client.alter_topic("topic", &[("retention.ms", "1000000")]);
    client.alter_topic("other", &[("retention.ms", "1000000")]);
    for topic in ["other", "topic"] {
        assert_eq!(client.delete_topic(topic), ErrorCode::None);
    }
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        let produced = client.produce("topic", index, &batch(&["anew"]));
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::None, 0));
    }
    // New partitions go where the disk answers.
    client.create_topic("more", 4, &[]);
    let is_there = |index: &i32| stuck.directory.join(format!("more-{index}")).exists();
    assert_eq!((0..4).find(is_there), None);
    let old_log = stuck.directory.join(format!("topic-{}", stuck.stuck));
    assert!(old_log.exists() && late.is_silent_for(Duration::from_millis(1)));
    stuck.release();
    wait_until("the deletion is done", || !old_log.exists());
    // Whatever has become of its record, it has an answer.
    late.receive_produced();
    for index in 0..2 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["anew"]);
    }
    stuck.stop();
}

#[test]
fn moves_of_a_log_that_is_stuck_hold_up_nobody_else() {
    let stuck = Stuck::start(&[], &[]);
    let (from, to) = (&stuck.directories.one, &stuck.directories.two);
    let mut clients = stuck.connect();
    for client in &mut clients {
        send_move(client, &to.display().to_string(), "topic", stuck.stuck);
    }
    assert_waiting(&mut clients);
    stuck.assert_others_are_served();
    // Moves of other logs begin, those that are asked for after it in one request included.
    let mut others = stuck.connect_one();
    others.create_topic("zoo", 4, &[]);
    let is_there = |index: &i32| to.join(format!("zoo-{index}")).exists();
    let moved: Vec<i32> = (0..4).filter(is_there).collect();
    let (one, many) = moved.split_first().expect("some are in each directory");
    let name = from.display().to_string();
    assert_eq!(move_to(&mut others, &name, "zoo", *one), ErrorCode::None);
    let mut both = stuck.connect_one();
    let to = to.display().to_string();
    let asked = [
        (&*to, ("topic", &[stuck.stuck][..])),
        (&name, ("zoo", many)),
    ];
    send_moves(&mut both, &asked);
    for index in many {
        let copy = format!("zoo-{index}.");
        let log = from.join(format!("zoo-{index}"));
        wait_until("the others are moved", || {
            log.exists() || !names_beginning(from, &copy).is_empty()
        });
    }
    assert_waiting(&mut clients);
    assert!(both.is_silent_for(Duration::from_millis(1)));
    stuck.release();
    both.receive();
    for client in &mut clients {
        assert_eq!(receive_moved(client), ErrorCode::None);
    }
    let log = from.join(format!("topic-{}", stuck.stuck));
    wait_until("the log has moved", || !log.exists());
    stuck.stop();
}

/// To describe producers may take long, and so has its turn, which is over where the disk is stuck.
#[test]
fn what_takes_long_is_done_for_others_while_a_disk_is_stuck() {
    let stuck = Stuck::start(&[], &[]);
    let topic = TopicRequest {
        name: "topic",
        partition_indexes: vec![stuck.stuck].into(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic].into(),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.max(processors) {
        let mut client = stuck.connect_one();
        client.send(0, &request);
        clients.push(client);
    }
    let mut client = stuck.connect_one();
    assert_eq!(client.topic_config("topic", "retention.ms"), "604800000");
    assert_waiting(&mut clients);
    stuck.release();
    for client in &mut clients {
        let answer = client.receive();
        let response: DescribeProducersResponse<'_> = answer.read();
        assert_eq!(response.topics.iter().count(), 1);
    }
    stuck.stop();
}
