//! A server whose inner state a test can hold: turns that are taken, a metadata log without room,
//! logs that are out of reach.

mod budgets;
mod cluster;
mod coordinators;
mod log_moves;
mod quick_events;
mod replica_fetchers;
mod roles;
mod stuck;
mod transactions;
mod transports;
mod two_brokers;
mod unplaced;

use super::*;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::coordinators::transactions::TRANSACTION_TOPIC;
use crate::logs::metadata_changes;
use crate::scheduling::clock::{now_ms, random_uuid};
use crate::scheduling::off_workers::is_off_workers;
use crate::{logs::idle_logs, logs::maintenance};
use config::sources::{Sources, load};
use controller::metadata_log::AppendedMetadata;
use metadata::MetadataRecord;
use model::{BrokerId, ErrorCode, MonotonicTime, Offset, TopicPartition};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use storage::clean_shutdown::{CLEAN_SHUTDOWN_FILE, take_clean_shutdown};
use storage::log_directory::PartitionDirectory;
use testkit::{Client, batch, compressed_batch, wait_until};
use tokio::runtime::Runtime;

/// How long it is looked whether somebody waits.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Workers of a runtime.
const WORKERS: usize = 2;

struct Running {
    /// Before the runtime that it lives in.
    server: Option<Server>,
    runtime: Runtime,
}

impl Running {
    fn start(directories: &[&Path]) -> Self {
        Self::start_with(directories, &[])
    }

    /// A server with these settings.
    fn start_with(directories: &[&Path], more: &[(&str, &str)]) -> Self {
        let names = directories.iter().map(|path| path.display().to_string());
        let names = names.collect::<Vec<_>>().join(",");
        let keys = [
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("log.dirs", &names),
            ("offsets.topic.num.partitions", "1"),
            ("num.recovery.threads.per.data.dir", "1"),
        ];
        let keys = keys.iter().chain(more);
        let overrides = keys.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let overrides: Vec<_> = overrides.collect();
        let sources = Sources {
            overrides: &overrides,
            ..Sources::default()
        };
        let values = load(&sources).unwrap().values;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .unwrap();
        let config = ServerConfig::read(&values).unwrap();
        let server = runtime.block_on(Server::start(config)).unwrap();
        Self {
            server: Some(server),
            runtime,
        }
    }

    fn broker(&self) -> &Arc<Broker> {
        let server = self.server.as_ref().expect("it runs");
        server.broker.as_ref().expect("it is one")
    }

    fn connect(&self) -> Client {
        Client::connect(self.broker().sockets.listeners[0].address)
    }

    fn stop(mut self) {
        let server = self.server.take().expect("it runs");
        self.runtime.block_on(server.stop());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.server.take());
    }
}

/// Produces in one request to each of these partitions.
fn send_to_many(client: &mut Client, topic: &str, indexes: Range<i32>) {
    use wire::messages::ProduceRequest;
    use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
    let records = batch(&["value"]);
    let partition = |index| PartitionProduceData {
        index,
        records: Some(&records),
    };
    let topic = TopicProduceData {
        name: topic,
        partition_data: indexes.map(partition).collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    client.send(testkit::PRODUCE_VERSION, &request);
}

/// How many partitions have taken their batch.
fn receive_accepted(client: &mut Client) -> usize {
    let answer = client.receive();
    let response: wire::messages::ProduceResponse<'_> = answer.read();
    let topics = response.responses.iter();
    let accepted = topics.map(|topic| {
        let partitions = topic.partition_responses.iter();
        partitions.filter(|one| one.error_code == 0).count()
    });
    accepted.sum()
}

#[test]
fn what_takes_long_to_append_waits_for_its_turn_and_the_rest_does_not() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[("max.message.bytes", "4000000")]);
    client.create_topic("wide", 257, &[]);
    let records = vec![""; 50_001];
    let compressed = |values: &[&str]| compressed_batch(record::Compression::Zstd, values);
    let large = "x".repeat(1024 * 1024);
    let slow = [
        ("longer than a megabyte", batch(&[&large])),
        ("expands to more", compressed(&[&large, &large])),
        ("more than 50,000 records", compressed(&records)),
    ];
    let quick = [
        ("shorter than a megabyte", batch(&[&large[..1_000_000]])),
        ("as many records", compressed(&records[1..])),
    ];
    let taken = running.broker().heavy_work.take_large();
    let taken = running.runtime.block_on(taken);
    for (what, records) in &quick {
        println!("{what}");
        client.produce("topic", 0, records).assert_accepted();
    }
    send_to_many(&mut client, "wide", 0..256);
    assert_eq!(receive_accepted(&mut client), 256);
    let mut waiting: Vec<Client> = slow.iter().map(|_| running.connect()).collect();
    for (client, (_, records)) in waiting.iter_mut().zip(&slow) {
        client.send_produce("topic", 0, records, -1);
    }
    let mut wide = running.connect();
    send_to_many(&mut wide, "wide", 0..257);
    for client in waiting.iter_mut().chain([&mut wide]) {
        assert!(client.is_silent_for(LOOK));
    }
    drop(taken);
    for client in &mut waiting {
        client.receive_produced().assert_accepted();
    }
    assert_eq!(receive_accepted(&mut wide), 257);
}

#[test]
fn what_takes_a_log_long_holds_up_no_worker() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let logs = running.broker().logs.host.clone();
    let aside = async move { logs.open_files().aside().run(is_off_workers) };
    let is_aside = running.runtime.block_on(running.runtime.spawn(aside));
    assert!(is_aside.unwrap());
}

/// More batches wait than the runtime has threads for what blocks.
#[test]
fn however_many_wait_for_a_flush_others_find_a_thread_and_all_are_answered() {
    const PRODUCERS: i32 = 3;
    const EACH: i32 = 180;
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    let flushed = [("flush.messages", "1")];
    client.create_topic("topic", PRODUCERS * EACH, &flushed);
    client.create_topic("other", 1, &[]);
    client.wait_for_coordinator("group");
    let taken = running.broker().logs.flushes.take_all();
    let taken = running.runtime.block_on(taken);
    let mut producers: Vec<Client> = (0..PRODUCERS).map(|_| running.connect()).collect();
    for (producer, at) in producers.iter_mut().zip(0..) {
        send_to_many(producer, "topic", at * EACH..(at + 1) * EACH);
    }
    wait_until("every batch is in its log", || {
        let partitions = running.broker().logs.partitions.topic("topic").unwrap();
        let mut partitions = partitions.partitions().into_iter();
        partitions.all(|one| one.offsets().log_end_offset == Offset(1))
    });
    // What blocks a thread elsewhere.
    for _ in 0..3 {
        client
            .produce("other", 0, &batch(&["value"]))
            .assert_accepted();
        assert_eq!(client.commit_offset("group", "other", 1), ErrorCode::None);
    }
    for producer in &mut producers {
        assert!(producer.is_silent_for(LOOK));
    }
    drop(taken);
    for producer in &mut producers {
        assert_eq!(receive_accepted(producer), EACH as usize);
    }
}

/// Nothing can be read of a log whose directory is elsewhere, and whoever tries takes the log
/// directory offline, or says so.
#[test]
fn the_upkeep_of_logs_that_nobody_uses_leaves_their_files_alone() {
    const COUNT: i32 = 40;
    let root = trials::directory();
    let (directory, elsewhere) = (root.path().join("data"), root.path().join("elsewhere"));
    let running = Running::start(&[&directory]);
    let mut client = running.connect();
    client.create_topic("topic", COUNT, &[("flush.ms", "1")]);
    for index in 0..COUNT {
        client
            .produce("topic", index, &batch(&["value"]))
            .assert_accepted();
    }
    let broker = running.broker().clone();
    wait_until("every log is idle and noted", || {
        let directories = broker.logs.directories.iter();
        directories.for_each(|one| idle_logs::rest(&broker.logs, one));
        broker.logs.host.open_logs().is_empty() && broker.logs.host.unsettled_logs().is_empty()
    });
    fs::create_dir(&elsewhere).unwrap();
    let move_all = |from: &Path, to: &Path| {
        for index in 0..COUNT {
            let name = format!("topic-{index}");
            fs::rename(from.join(&name), to.join(&name)).unwrap();
        }
    };
    move_all(&directory, &elsewhere);
    for _ in 0..3 {
        maintenance::keep_up(&broker.logs);
        let directories = broker.logs.directories.iter();
        directories.for_each(|one| idle_logs::rest(&broker.logs, one));
    }
    assert!(broker.logs.host.open_logs().is_empty());
    assert!(broker.logs.host.changed_logs().is_empty());
    assert!(broker.logs.directories.iter().all(|one| one.is_usable()));
    move_all(&elsewhere, &directory);
    for index in 0..COUNT {
        assert_eq!(client.fetch("topic", index, 0).values(), ["value"]);
    }
}

/// The error of a commit of a consumer that knows the topic by its id.
fn commit_by_id(client: &mut Client, topic_id: model::Uuid) -> ErrorCode {
    use wire::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
    let topic = OffsetCommitRequestTopic {
        topic_id,
        partitions: vec![OffsetCommitRequestPartition::default()].into(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: "group",
        generation_id_or_member_epoch: -1,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    let answer = client.call(10, &request);
    let response: OffsetCommitResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}

#[test]
fn no_offset_is_committed_for_a_topic_whose_offsets_have_been_deleted() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let broker = running.broker().clone();
    let mut client = running.connect();
    let topic_id = client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
    assert_eq!(commit_by_id(&mut client, topic_id), ErrorCode::None);
    let deleting = broker.clone();
    let deleted = broker.controller.run(move |controller| {
        let removal = MetadataRecord::RemoveTopic { topic_id };
        let appended = controller
            .controller
            .log
            .append(&[removal], now_ms())
            .unwrap();
        metadata_changes::apply(&deleting.logs, &appended.delta);
        appended.image
    });
    let image = running.runtime.block_on(deleted).unwrap();
    // A request that comes now finds the topic in the metadata.
    assert!(broker.node.image().topics.by_id(topic_id).is_some());
    let refused = client.commit_offset("group", "topic", 2);
    assert_eq!(refused, ErrorCode::UnknownTopicOrPartition);
    let refused = commit_by_id(&mut client, topic_id);
    assert_eq!(refused, ErrorCode::UnknownTopicId);
    broker.node.set_image(image);
    assert_eq!(client.committed_offset("group", "topic", 0), -1);
}

#[test]
fn who_asks_for_all_offsets_of_many_groups_waits_for_its_turn_and_who_names_partitions_does_not() {
    use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
    use wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
    const COUNT: usize = 200;
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 7), ErrorCode::None);
    let ids: Vec<String> = (0..COUNT).map(|at| format!("group-{at}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).chain(["group"]).collect();
    let request = |names_partitions: bool| {
        let topics = OffsetFetchRequestTopics {
            name: "topic",
            partition_indexes: vec![0].into(),
            ..Default::default()
        };
        let group = |group_id| OffsetFetchRequestGroup {
            group_id,
            topics: names_partitions.then(|| vec![topics.clone()].into()),
            ..Default::default()
        };
        OffsetFetchRequest {
            groups: names.iter().map(|name| group(*name)).collect(),
            ..Default::default()
        }
    };
    let assert_answered = |client: &mut Client| {
        let answer = client.receive();
        let response: OffsetFetchResponse<'_> = answer.read();
        assert_eq!(response.groups.len(), names.len());
        let group = response.groups.iter().last().expect("the last group");
        let topic = group.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        assert_eq!(partition.committed_offset, 7);
    };
    let taken = running.broker().heavy_work.take_large();
    let taken = running.runtime.block_on(taken);
    client.send(8, &request(true));
    assert_answered(&mut client);
    client.send(8, &request(false));
    assert!(client.is_silent_for(LOOK));
    drop(taken);
    assert_answered(&mut client);
}

/// The path of a directory as seen from the working directory.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let up = here.components().skip(1).map(|_| "..");
    let root: PathBuf = up.collect();
    root.join(path.strip_prefix("/").unwrap())
}

#[test]
fn a_log_that_is_moved_between_directories_of_relative_paths_becomes_idle() {
    let root = trials::directory();
    let directories = ["one", "two"].map(|name| relative(&root.path().join(name)));
    let running = Running::start(&directories.each_ref().map(|path| &**path));
    let broker = running.broker().clone();
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    let name = TopicPartition::new("topic", 0);
    let partition = broker.logs.partitions.find("topic", 0).unwrap();
    for _ in 0..2 {
        let from = held(&broker, "topic");
        let mut directories = broker.logs.directories.iter();
        let to = directories.find(|one| one.id() != from).unwrap();
        let begun = future_replicas::begin(&broker.logs, &name, to.name());
        running.runtime.block_on(begun).unwrap();
        wait_until("the log is in the other directory, and idle", || {
            let directories = broker.logs.directories.iter();
            directories.for_each(|one| idle_logs::rest(&broker.logs, one));
            *partition.log_directory() == *to.name() && broker.logs.host.open_logs().is_empty()
        });
        assert_eq!(client.fetch("topic", 0, 0).values(), ["value"]);
    }
    assert!(broker.logs.directories.iter().all(|one| one.is_usable()));
}

/// The log directory that the metadata name for a partition.
fn noted(broker: &Broker, topic: &str) -> Option<model::Uuid> {
    let image = broker.node.image();
    let partition = image.topics.by_name(topic)?.partition(0)?;
    let id = partition.directory_of(broker.node.id)?;
    let mut directories = broker.logs.directories.iter();
    directories.find(|one| one.id() == id).map(|one| one.id())
}

/// The log directory that a partition is in.
fn held(broker: &Broker, topic: &str) -> model::Uuid {
    let name = TopicPartition::new(topic, 0).to_string();
    let parsed = PartitionDirectory::parse(&name);
    assert!(
        parsed.is_some(),
        "{name} is the name of a partition's directory"
    );
    let mut directories = broker.logs.directories.iter();
    let found = directories.find(|one| one.path().join(&name).exists());
    found.expect("it is in one of them").id()
}

/// Brokers go on asking while the node of their controller stops. That is no failure of its disk.
#[test]
fn a_controller_that_has_closed_its_log_is_no_controller_and_does_not_fail() {
    let root = trials::directory();
    let running = Running::start(&[root.path()]);
    let broker = running.broker().clone();
    let closed = running.runtime.block_on(broker.controller.close());
    assert!(matches!(closed, Ok(Ok(_))), "{closed:?}");
    let request = controller::AllocateProducerIds {
        broker_id: broker.node.id,
        broker_epoch: model::BrokerEpoch::NONE,
    };
    let decided = running.runtime.block_on(broker.controller.request(request));
    assert!(
        matches!(decided, Err(ErrorCode::NotController)),
        "{decided:?}"
    );
    assert!(!*broker.node.stop.borrow(), "nothing has failed");
}

#[test]
fn the_place_of_a_partition_that_could_not_be_noted_is_noted_later() {
    for (stops, is_refused_again) in [(false, false), (true, false), (true, true)] {
        let root = trials::directory();
        let directories = ["one", "two"].map(|name| root.path().join(name));
        let directories = directories.each_ref().map(|path| &**path);
        let running = Running::start(&directories);
        let broker = running.broker().clone();
        // The topic is taken; where its partition is finds no room.
        let refused = broker.controller.run(|controller| {
            controller.requests_before_refusal = Some(1);
        });
        running.runtime.block_on(refused).unwrap();
        let mut client = running.connect();
        client.create_topic("topic", 1, &[]);
        let is_to_refuse = broker
            .controller
            .run(|controller| controller.requests_before_refusal.is_some());
        assert_eq!(running.runtime.block_on(is_to_refuse), Ok(false));
        let held = held(&broker, "topic");
        client
            .produce("topic", 0, &batch(&["value"]))
            .assert_accepted();
        if stops {
            // Nor does the stop note it: the start finds where it is.
            if is_refused_again {
                let refused = broker.controller.run(|controller| {
                    controller.requests_before_refusal = Some(0);
                });
                running.runtime.block_on(refused).unwrap();
            }
            drop((client, broker));
            running.stop();
            let running = Running::start(&directories);
            assert_eq!(noted(running.broker(), "topic"), Some(held));
            let mut client = running.connect();
            assert_eq!(client.fetch("topic", 0, 0).values(), ["value"]);
            continue;
        }
        wait_until("the place is noted", || {
            noted(&broker, "topic") == Some(held)
        });
        wait_until("nothing is left to be done", || {
            broker.logs.new_partitions.is_empty()
        });
    }
}

/// A batch of one record with a key, of so many of which a segment has one.
fn large_batch() -> Vec<u8> {
    let mut builder = record::BatchBuilder::new(record::BatchHeader::default());
    let value = vec![b'v'; 600_000];
    builder.append(testkit::now_ms(), Some(b"key"), Some(&value), &[]);
    builder.into_uncompressed()
}

/// A compaction waits for a segment to be opened, which is a FIFO meanwhile.
#[test]
fn a_directory_that_is_stuck_keeps_no_other_from_its_mark() {
    let root = trials::directory();
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    let running = Running::start(&[&one, &two]);
    let mut client = running.connect();
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0"),
    ];
    client.create_topic("topic", 2, &compacted);
    let is_there = |index: &i32| two.join(format!("topic-{index}")).exists();
    let index = (0..2).find(is_there).expect("one in each directory");
    client
        .produce("topic", index, &large_batch())
        .assert_accepted();
    let log = two.join(format!("topic-{index}"));
    let segment = log.join("00000000000000000000.log");
    fs::rename(&segment, root.path().join("segment")).unwrap();
    let made = Command::new("mkfifo").arg(&segment).status().unwrap();
    assert!(made.success());
    client
        .produce("topic", index, &large_batch())
        .assert_accepted();
    let broker = running.broker().clone();
    cleaner::start(&broker.logs);
    wait_until("the log is being compacted", || {
        broker.logs.cleaner.is_compacting()
    });
    drop(broker);
    let stopping = std::thread::spawn(move || running.stop());
    let is_marked = |directory: &Path| directory.join(CLEAN_SHUTDOWN_FILE).exists();
    wait_until("the other one has its mark", || is_marked(&one));
    assert!(!is_marked(&two) && !stopping.is_finished());
    drop(File::options().write(true).open(&segment).unwrap());
    stopping.join().unwrap();
    // What was there is no segment.
    assert!(!is_marked(&two));
}

/// As after a deletion when there was no room for its checkpoints.
#[test]
fn what_checkpoints_say_of_a_deleted_topic_is_gone_before_another_has_its_name() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let file = directory.path().join("log-start-offset-checkpoint");
    fs::write(&file, "0\n1\ntopic 0 50\n").unwrap();
    let checkpoints = running.broker().logs.directories[0].checkpoints();
    checkpoints.note_leftovers();
    running.connect().create_topic("topic", 1, &[]);
    assert!(!checkpoints.have_leftovers());
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("topic 0 50"), "{text}");
}

#[test]
fn a_broker_is_registered_with_the_listeners_of_clients() {
    let directory = trials::directory();
    let both = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0";
    let running = Running::start_with(&[directory.path()], &[("listeners", both)]);
    let broker = running.broker();
    let image = broker.node.image();
    let registered = image.cluster.broker(broker.node.id).unwrap();
    let endpoints = registered.endpoints.iter();
    let endpoints: Vec<_> = endpoints.map(|one| (&*one.name, one.port)).collect();
    let port = broker.sockets.listeners[0].address.port();
    assert_eq!(endpoints, [("PLAINTEXT", port)]);
}

#[test]
fn the_mark_of_a_stop_has_the_epoch_and_says_that_the_metadata_are_closed_too() {
    for is_metadata_closed in [false, true] {
        let directory = trials::directory();
        let running = Running::start(&[directory.path()]);
        let broker = running.broker();
        let epoch = broker
            .node
            .image()
            .cluster
            .broker(broker.node.id)
            .unwrap()
            .epoch;
        closing_log_dirs::leave(&broker.logs, is_metadata_closed);
        let mark = take_clean_shutdown(&RealDisk, directory.path()).unwrap();
        let noted = mark.and_then(|mark| mark.broker_epoch);
        assert_eq!(noted, is_metadata_closed.then_some(epoch));
    }
}

/// Keeps every worker of the runtime, until what it gives is dropped.
fn hold_workers(running: &Running) -> Vec<mpsc::Sender<()>> {
    let workers = (0..WORKERS).map(|_| {
        let ((resume, held), (begun, has_begun)) = (mpsc::channel::<()>(), mpsc::channel());
        running.runtime.spawn(async move {
            begun.send(()).unwrap();
            let _ = held.recv();
        });
        has_begun.recv().unwrap();
        resume
    });
    workers.collect()
}

/// Who tells the controller begins when the metadata have gone on.
#[test]
fn places_of_topics_that_are_made_one_after_the_other_are_noted() {
    let root = trials::directory();
    let directories = ["one", "two"].map(|name| root.path().join(name));
    let directories = directories.each_ref().map(|path| &**path);
    let running = Running::start(&directories);
    let broker = running.broker().clone();
    let names = ["first", "second", "third"];
    let workers = hold_workers(&running);
    let caller = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for name in names {
        let create = controller::CreateTopics {
            topics: vec![controller::create_topics::NewTopic::of_defaults(name)],
            validate_only: false,
        };
        let created = caller.block_on(broker.controller.request(create)).unwrap();
        assert!(created[0].result.is_ok());
    }
    drop(workers);
    for name in names {
        wait_until("the place is noted", || {
            noted(&broker, name) == Some(held(&broker, name))
        });
    }
}

#[test]
fn who_has_made_a_topic_finds_its_place_in_the_metadata() {
    let root = trials::directory();
    let directories = ["one", "two"].map(|name| root.path().join(name));
    let directories = directories.each_ref().map(|path| &**path);
    let running = Running::start(&directories);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut client, broker) = (running.connect(), running.broker());
            scope.spawn(move || {
                for index in 0..10 {
                    let topic = format!("topic-{thread}-{index}");
                    client.create_topic(&topic, 1, &[]);
                    assert_eq!(noted(broker, &topic), Some(held(broker, &topic)));
                }
            });
        }
    });
}

/// What was decided is followed before the logs are closed.
#[test]
fn a_stop_waits_for_the_metadata_loader() {
    let root = trials::directory();
    let directories = ["one", "two"].map(|name| root.path().join(name));
    let directories = directories.each_ref().map(|path| &**path);
    let running = Running::start(&directories);
    let broker = running.broker().clone();
    let resume = stuck::hold_loader(&running);
    let create = controller::CreateTopics {
        topics: vec![controller::create_topics::NewTopic::of_defaults("topic")],
        validate_only: false,
    };
    let controller = broker.controller.clone();
    let created = running
        .runtime
        .spawn(async move { controller.request(create).await });
    let is_decided = || {
        let is_there = broker.controller.run(|controller| {
            controller
                .controller
                .log
                .image()
                .topics
                .id_of("topic")
                .is_some()
        });
        running.runtime.block_on(is_there).unwrap()
    };
    wait_until("the topic is decided", is_decided);
    let stopping = std::thread::spawn(move || running.stop());
    std::thread::sleep(LOOK);
    assert!(!stopping.is_finished());
    drop(resume);
    stopping.join().unwrap();
    drop(created);
    assert_eq!(noted(&broker, "topic"), Some(held(&broker, "topic")));
    let hosted = broker.logs.partitions.topic("topic").unwrap();
    let partition = hosted.partition(0).unwrap();
    assert!(partition.is_closed());
}

/// Other nodes wait for no disk of this one, and what waits for the loader takes no more memory the longer it
/// does.
#[test]
fn the_controller_goes_on_while_the_metadata_loader_waits() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let broker = running.broker();
    let controller = &broker.controller;
    let resume = stuck::hold_loader(&running);
    let names: Vec<String> = (0..50).map(|number| format!("topic-{number}")).collect();
    let others = controller.for_others();
    for name in &names {
        let create = controller::CreateTopics {
            topics: vec![controller::create_topics::NewTopic::of_defaults(name)],
            validate_only: false,
        };
        let created = running.runtime.block_on(others.request(create)).unwrap();
        assert!(created[0].result.is_ok(), "{created:?}");
    }
    // They change nothing, and wait until all before is served here.
    let asked = (0..1500).map(|_| {
        let controller = controller.clone();
        let unregister = controller::UnregisterBroker {
            broker_id: BrokerId(7),
        };
        running
            .runtime
            .spawn(async move { controller.request(unregister).await })
    });
    let asked: Vec<_> = asked.collect();
    let decided = running.runtime.block_on(controller.run(|_| ()));
    decided.unwrap();
    wait_until("all are decided", || controller.queued_count() == 0);
    assert!(controller.loading_count() <= 17);
    assert!(broker.logs.partitions.topic(&names[0]).is_none());
    drop(resume);
    for one in asked {
        let refused = running.runtime.block_on(one).unwrap().unwrap();
        assert_eq!(refused.unwrap_err().code, ErrorCode::BrokerIdNotRegistered);
    }
    for name in &names {
        assert!(broker.logs.partitions.topic(name).is_some(), "{name}");
    }
}

/// Appends these records, and has the metadata loader take them, after all that came before: it is not to find an
/// older change after them. Brokers that register are heard of for ever.
fn append_and_take(
    running: &Running,
    records: Vec<MetadataRecord>,
    take: impl FnOnce(&Broker, &AppendedMetadata) + Send + 'static,
) {
    let broker = running.broker().clone();
    let taking = broker.clone();
    let appended = broker.controller.run(move |thread| {
        let controller = &mut thread.controller;
        let appended = controller.log.append(&records, now_ms()).unwrap();
        controller.follow_log();
        for record in &records {
            if let MetadataRecord::RegisterBroker(broker) = record {
                let later = MonotonicTime::from_ms(i64::MAX / 2);
                controller.contacts().note(broker.id, broker.epoch, later);
            }
        }
        let (sender, taken) = mpsc::channel();
        let loader = taking.controller.clone();
        loader.run_in_loader(move || {
            take(&taking, &appended);
            taking.node.set_image(appended.image);
            sender.send(()).unwrap();
        });
        taken
    });
    let taken = running.runtime.block_on(appended).unwrap();
    taken.recv().unwrap();
}
