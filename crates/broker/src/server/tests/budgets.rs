//! Who waits for memory that connections share, and who does not.

use super::*;
use crate::net::{AnswerSize, Weight};
use crate::scheduling::heavy_work::Lane;
use model::{LeaderEpoch, Offset};
use std::sync::mpsc;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::elect_leaders_request::TopicPartitions as ElectedPartitions;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, DescribeGroupsRequest,
    ElectLeadersRequest, EnvelopeRequest, FindCoordinatorRequest, ListGroupsRequest,
    ListPartitionReassignmentsRequest, MetadataRequest, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest,
};

/// A group's offsets take 3.6 MB.
const METADATA_BYTES: usize = 32_000;
const PARTITION_COUNT: i32 = 112;
const OFFSETS_VERSION: i16 = 8;

/// Answers may take little more than one of all offsets of the group takes.
const ANSWER_LIMITS: [(&str, &str); 4] = [
    ("socket.request.max.bytes", "1048576"),
    ("queued.max.request.bytes", "4194304"),
    ("offset.metadata.max.bytes", "32000"),
    ("socket.send.buffer.bytes", "16384"),
];
/// Requests may take 1 MiB in all.
const REQUEST_LIMITS: [(&str, &str); 2] = [
    ("socket.request.max.bytes", "1048576"),
    ("queued.max.request.bytes", "1048576"),
];
const REQUEST_BYTES: usize = 900_000;

/// A request that is made this long, its size included: what is behind its end is passed over.
fn padded(mut frame: Vec<u8>, bytes: usize) -> Vec<u8> {
    frame.resize(bytes, 0);
    frame[..4].copy_from_slice(&(bytes as u32 - 4).to_be_bytes());
    frame
}

/// A server with a group `large`, and a group `small` that has one offset.
fn start_with_groups(directory: &Path) -> Running {
    let running = Running::start_with(&[directory], &ANSWER_LIMITS);
    let mut client = running.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    client.wait_for_coordinator("large");
    let metadata = "m".repeat(METADATA_BYTES);
    for partition_index in 0..PARTITION_COUNT {
        let partition = OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 1,
            committed_metadata: Some(&metadata),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "large",
            generation_id_or_member_epoch: -1,
            topics: vec![OffsetCommitRequestTopic {
                name: "topic",
                partitions: vec![partition].into(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        };
        let answer = client.call(OFFSETS_VERSION, &request);
        let response: OffsetCommitResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        assert_eq!(partition.error_code, 0);
    }
    client.commit_offset("small", "topic", 1);
    running
}

/// A request for all offsets of a group.
fn offsets_of(group_id: &str) -> OffsetFetchRequest<'_> {
    OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id,
            topics: None,
            ..Default::default()
        }]
        .into(),
        ..Default::default()
    }
}

/// Clients that read nothing of a large answer each, until there is room for no more; the last one
/// has no answer.
fn fill(running: &Running) -> (Vec<Client>, Client) {
    let answers = running.broker().sockets.answer_memory.large();
    let mut deaf = Vec::new();
    loop {
        let mut client = running.connect();
        client.send(OFFSETS_VERSION, &offsets_of("large"));
        wait_until("it is answered, or waits", || {
            answers.waiting() > 0 || client.has_something()
        });
        if answers.waiting() > 0 {
            return (deaf, client);
        }
        deaf.push(client);
    }
}

#[test]
fn small_answers_do_not_wait_for_large_ones() {
    let directory = trials::directory();
    let running = start_with_groups(directory.path());
    let (mut deaf, mut waiting) = fill(&running);
    assert_eq!(deaf.len(), 2, "as many as find something left");
    let mut client = running.connect();
    client.call(9, &MetadataRequest::default());
    client.call(OFFSETS_VERSION, &offsets_of("small"));
    client.call(3, &FindCoordinatorRequest::default());
    client.call(4, &ListGroupsRequest::default());
    // There is still no room for large ones.
    assert_eq!(running.broker().sockets.answer_memory.large().waiting(), 1);
    for client in &mut deaf {
        let size = client.receive().body.len();
        assert!(size > PARTITION_COUNT as usize * METADATA_BYTES);
    }
    waiting.receive();
}

#[test]
fn a_request_that_is_served_is_not_held_while_its_answer_is_not_read() {
    let directory = trials::directory();
    let running = start_with_groups(directory.path());
    let mut deaf = running.connect();
    let frame = deaf.frame(OFFSETS_VERSION, &offsets_of("large"));
    deaf.send_bytes(&padded(frame, REQUEST_BYTES));
    let broker = running.broker();
    wait_until(
        "its answer waits, and nothing of the request is left",
        || {
            broker.sockets.answer_memory.large().spent() > 0
                && broker.sockets.request_memory.budget().spent() == 0
        },
    );
    let size = deaf.receive_frame().len();
    assert!(size > PARTITION_COUNT as usize * METADATA_BYTES);
}

/// A request of [`REQUEST_BYTES`].
fn large_request(client: &mut Client) -> Vec<u8> {
    let request = MetadataRequest {
        topics: Some(vec![].into()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    padded(client.frame(9, &request), REQUEST_BYTES)
}

/// A connection that has sent so many bytes of a large request, and the rest of them.
fn begin_request(running: &Running, bytes: usize) -> (Client, Vec<u8>) {
    let mut client = running.connect();
    let mut frame = large_request(&mut client);
    let rest = frame.split_off(bytes);
    client.send_bytes(&frame);
    (client, rest)
}

#[test]
fn requests_wait_for_the_memory_of_those_before_them() {
    let directory = trials::directory();
    let running = Running::start_with(&[directory.path()], &REQUEST_LIMITS);
    let requests = running.broker().sockets.request_memory.budget();
    let mut other = running.connect();
    // Two that have nearly arrived take more than there is. One that has begun may go on then, and
    // the others wait.
    let mut begun = Vec::new();
    for count in 1..=2 {
        begun.push(begin_request(&running, REQUEST_BYTES - 1));
        // Before the next one begins, which might have to wait for the end of this one.
        wait_until("it has nearly arrived", || {
            requests.spent() == count * (REQUEST_BYTES as u64 - 1)
        });
    }
    assert!(requests.is_spent());
    // As little as the system keeps of what nobody reads.
    let sizes = [10_000; 2];
    begun.extend(sizes.map(|bytes| begin_request(&running, bytes)));
    wait_until("they wait", || requests.waiting() >= sizes.len());
    // Small requests need not wait for more of them.
    other.brokers();
    assert!(requests.waiting() >= sizes.len());
    // In whichever order they are read.
    std::thread::scope(|scope| {
        for (client, rest) in &mut begun {
            scope.spawn(|| client.send_bytes(rest));
        }
    });
    for (client, _) in &mut begun {
        assert!(!client.receive_frame().is_empty());
    }
    wait_until("all of it is given back", || requests.spent() == 0);
}

#[test]
fn what_is_announced_and_not_sent_takes_no_memory() {
    const SENT_BYTES: usize = 100;
    const COUNT: usize = 20;
    let directory = trials::directory();
    let running = Running::start_with(&[directory.path()], &REQUEST_LIMITS);
    let requests = running.broker().sockets.request_memory.budget();
    let begun: Vec<_> = (0..COUNT)
        .map(|_| begin_request(&running, SENT_BYTES))
        .collect();
    wait_until("all have arrived", || {
        requests.spent() == (COUNT * SENT_BYTES) as u64
    });
    let mut other = running.connect();
    let frame = large_request(&mut other);
    other.send_bytes(&frame);
    assert!(!other.receive_frame().is_empty());
    drop(begun);
}

/// A request that makes a topic.
fn creation(client: &mut Client, name: &str) -> Vec<u8> {
    let topic = CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic].into(),
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    client.frame(7, &request)
}

/// Keeps the controller busy until something is sent, or nobody can send any more.
fn hold_controller(running: &Running) -> mpsc::Sender<()> {
    let (go_on, told) = mpsc::channel::<()>();
    let (is_busy, busy) = mpsc::channel();
    let controller = running.broker().controller.clone();
    running.runtime.spawn(async move {
        let hold = controller.run(move |_| {
            is_busy.send(()).expect("the test listens");
            let _ = told.recv();
        });
        hold.await
    });
    busy.recv().expect("the controller takes the job");
    go_on
}

#[test]
fn large_requests_to_the_controller_wait_for_memory_and_small_ones_do_not() {
    let directory = trials::directory();
    // As much as one request may be long.
    let keys = [("socket.request.max.bytes", "1048576")];
    let running = Running::start_with(&[directory.path()], &keys);
    let (controller, memory) = (
        &running.broker().controller,
        &running.broker().sockets.controller_memory,
    );
    let go_on = hold_controller(&running);
    let names = ["one", "two", "three"];
    let mut clients = names.map(|name| {
        let mut client = running.connect();
        let frame = creation(&mut client, name);
        client.send_bytes(&padded(frame, REQUEST_BYTES));
        client
    });
    wait_until("one waits for the memory of two", || {
        memory.waiting() == 1 && controller.queued_count() == 2
    });
    let mut small = running.connect();
    let frame = creation(&mut small, "small");
    small.send_bytes(&frame);
    wait_until("a small one is in the queue", || {
        controller.queued_count() == 3
    });
    assert_eq!(memory.waiting(), 1);
    go_on.send(()).expect("the controller listens");
    for client in clients.iter_mut().chain([&mut small]) {
        assert!(!client.receive_frame().is_empty());
    }
    wait_until("all of it is given back", || memory.spent() == 0);
    let mut topics = small.topics();
    topics.sort();
    assert_eq!(topics, ["one", "small", "three", "two"]);
}

/// A request for what is known of so many groups.
fn describe_groups(count: usize) -> DescribeGroupsRequest<'static> {
    DescribeGroupsRequest {
        groups: vec!["a group with quite a long name"; count].into(),
        ..Default::default()
    }
}

#[test]
fn who_tries_an_answer_waits_for_nobody_in_another_lane() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let broker = running.broker();
    let spent = broker.sockets.answer_memory.spend();
    let taken = running.runtime.block_on(broker.heavy_work.take_large());
    // More than may try at a time.
    let mut large: Vec<Client> = (0..3).map(|_| running.connect()).collect();
    for client in &mut large {
        client.send(5, &describe_groups(100));
        assert!(client.is_silent_for(LOOK));
    }
    let mut client = running.connect();
    client.call(4, &ListGroupsRequest::default());
    client.call(5, &describe_groups(1));
    drop(taken);
    for client in &mut large {
        client.receive();
    }
    drop(spent);
}

#[test]
fn who_waits_for_answers_to_be_read_keeps_nobody_from_the_controller() {
    let directory = trials::directory();
    let most = [("socket.request.max.bytes", "100000")];
    let running = Running::start_with(&[directory.path()], &most);
    let spent = running.broker().sockets.answer_memory.spend();
    let name = "n".repeat(30_000);
    let topic = ElectedPartitions {
        topic: &name,
        partitions: vec![0].into(),
    };
    let elections = ElectLeadersRequest {
        topic_partitions: Some(vec![topic; 2].into()),
        timeout_ms: 30_000,
        ..Default::default()
    };
    // Together they bring more than may be before the controller.
    let mut waiting: Vec<Client> = (0..2).map(|_| running.connect()).collect();
    for client in &mut waiting {
        client.send(2, &elections);
    }
    wait_until("they wait", || {
        running.broker().sockets.answer_memory.large().waiting() == 2
    });
    let deletion = DeleteTopicsRequest {
        topic_names: vec![&name[..10_000]].into(),
        timeout_ms: 30_000,
        ..Default::default()
    };
    running.connect().call(5, &deletion);
    drop(spent);
    for client in &mut waiting {
        client.receive();
    }
}

#[test]
fn settings_of_many_are_described_one_request_at_a_time() {
    const GROUP: i8 = 32;
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let names: Vec<String> = (0..257).map(|at| at.to_string()).collect();
    let describe = |count: usize| DescribeConfigsRequest {
        resources: names[..count]
            .iter()
            .map(|name| DescribeConfigsResource {
                resource_type: GROUP,
                resource_name: name,
                configuration_keys: None,
            })
            .collect(),
        ..Default::default()
    };
    let answer_memory = &running.broker().sockets.answer_memory;
    let making = running.runtime.block_on(answer_memory.making());
    let mut waiting = running.connect();
    waiting.send(4, &describe(257));
    // It is in the same lane, and stands behind those before it.
    running.connect().call(4, &describe(256));
    assert!(waiting.is_silent_for(LOOK));
    drop(making);
    waiting.receive();
    // Nor is one begun while there is no room for it.
    let spent = answer_memory.spend();
    waiting.send(4, &describe(257));
    assert!(waiting.is_silent_for(LOOK));
    drop(spent);
    waiting.receive();
}

/// Many may wait for a coordinator at once, each of whom has seen room before.
#[test]
fn who_has_waited_for_a_coordinator_looks_for_room_again() {
    use wire::messages::OffsetFetchRequest;
    use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.wait_for_coordinator("group");
    let group = OffsetFetchRequestGroup {
        group_id: "group",
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group].into(),
        ..Default::default()
    };
    let groups = &running.broker().coordinators.groups;
    let held = running.runtime.block_on(groups.take_room_of("group"));
    client.send(8, &request);
    assert!(client.is_silent_for(LOOK), "it waits for the coordinator");
    let spent = running.broker().sockets.answer_memory.spend();
    drop(held);
    assert!(client.is_silent_for(LOOK), "it waits for room");
    drop(spent);
    client.receive();
}

/// Whoever asks for a topic that is to be made waits for the controller, as many may at once.
#[test]
fn who_has_waited_for_the_controller_looks_for_room_again() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let go_on = hold_controller(&running);
    let mut client = running.connect();
    let topic = wire::messages::metadata_request::MetadataRequestTopic {
        name: Some("topic"),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![topic].into()),
        ..Default::default()
    };
    // However little it asks for, it may be for much.
    let frame = client.frame(9, &request);
    client.send_bytes(&padded(frame, 10_000));
    let controller = &running.broker().controller;
    wait_until("it is before the controller", || {
        controller.queued_count() == 1
    });
    let spent = running.broker().sockets.answer_memory.spend();
    go_on.send(()).expect("the controller listens");
    let answers = running.broker().sockets.answer_memory.large();
    wait_until("it waits for room", || {
        answers.waiting() == 1 || client.has_something()
    });
    assert!(!client.has_something());
    drop(spent);
    assert!(!client.receive_frame().is_empty());
}

/// Those who do not read hold up who asks for as much, and no other consumer.
#[test]
fn a_fetch_of_very_many_partitions_waits_for_room_and_others_do_not() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let request = |count: i32| {
        let partitions: Vec<(i32, i64)> = (0..count).map(|index| (index, 0)).collect();
        wire::messages::FetchRequest {
            session_epoch: -1,
            topics: vec![testkit::fetch_topic("topic", &partitions)].into(),
            ..Default::default()
        }
    };
    let spent = running.broker().sockets.answer_memory.spend();
    client.call(testkit::FETCH_VERSION, &request(1_000));
    client.send(testkit::FETCH_VERSION, &request(5_000));
    assert!(client.is_silent_for(LOOK), "it waits for room");
    drop(spent);
    client.receive();
}

/// The parts of the metadata log and of its snapshot that are asked for go out of their files.
#[test]
fn who_follows_the_metadata_waits_for_no_room_and_takes_none() {
    let directory = trials::directory();
    let settings = [
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        ),
        ("metadata.log.max.record.bytes.between.snapshots", "500000"),
        ("socket.send.buffer.bytes", "16384"),
    ];
    let running = Running::start_with(&[directory.path()], &settings);
    let broker = running.broker();
    let folder = directory.path().join("__cluster_metadata-0");
    let log = || fs::read(folder.join("00000000000000000000.log")).unwrap();
    let asking = broker
        .controller
        .ask_quorum(|replica| (replica.epoch(), replica.high_watermark()));
    let (epoch, offset) = running.runtime.block_on(asking).unwrap();
    let before_bytes = log().len();
    let mut client = running.connect();
    let throttled = vec!["0:0"; 8_000].join(",");
    let config = [("leader.replication.throttled.replicas", &*throttled)];
    for index in 0..20 {
        client.create_topic(&format!("topic-{index}"), 1, &config);
    }
    let snapshot = || {
        let names = fs::read_dir(&folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut ids = names.filter_map(|name| name.parse::<metadata::SnapshotId>().ok());
        ids.find(|id| *id != metadata::SnapshotId::BOOTSTRAP)
    };
    wait_until("there is a snapshot", || snapshot().is_some());
    let snapshot = snapshot().unwrap();

    let spent = broker.sockets.answer_memory.spend();
    let address = broker.sockets.listeners[1].address;
    let [mut of_log, mut of_snapshot] = [0; 2].map(|_| Client::connect(address));
    of_log.send(17, &fetch_of_metadata(epoch, offset));
    of_snapshot.send(1, &fetch_of_snapshot(epoch, snapshot));
    wait_until("both are answered", || {
        of_log.has_something() && of_snapshot.has_something()
    });
    drop(spent);
    assert_eq!(broker.sockets.answer_memory.large().spent(), 0);
    let answer = of_log.receive();
    let response: wire::messages::FetchResponse<'_> = answer.read();
    let topic = response.responses.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    let records = partition.records.expect("some");
    assert!(records.len() > 500_000, "{}", records.len());
    let at = before_bytes..before_bytes + records.len();
    assert!(log().get(at) == Some(records), "as they are in the file");
    let answer = of_snapshot.receive();
    let response: wire::messages::FetchSnapshotResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    let whole = fs::read(folder.join(snapshot.to_string())).unwrap();
    assert!(whole.len() > 500_000, "{}", whole.len());
    assert!(partition.unaligned_records == Some(&*whole));
}

/// Those who follow the metadata are cut off from them where they are not answered in time.
#[test]
fn questions_about_the_metadata_log_wait_for_no_more_than_one_decision() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let controller = &running.broker().controller;
    let go_on = hold_controller(&running);
    let (done, order) = mpsc::channel();
    let (asked, decided) = (done.clone(), done);
    let deciding = controller.clone();
    let decision = running
        .runtime
        .spawn(async move { deciding.run(move |_| decided.send("decision")).await });
    wait_until("it waits", || controller.queued_count() == 1);
    let asking = controller.clone();
    let question = running
        .runtime
        .spawn(async move { asking.ask_quorum(move |_| asked.send("question")).await });
    wait_until("both wait", || controller.queued_count() == 2);
    go_on.send(()).expect("the controller listens");
    running
        .runtime
        .block_on(decision)
        .unwrap()
        .unwrap()
        .unwrap();
    running
        .runtime
        .block_on(question)
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(order.iter().collect::<Vec<_>>(), ["question", "decision"]);
}

#[test]
fn what_is_large_waits_at_a_controller_too_and_what_is_forwarded_as_if_it_had_come_there() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    let follow = client.frame(17, &fetch_of_metadata(LeaderEpoch(1), Offset(0)));
    let list = client.frame(0, &ListPartitionReassignmentsRequest::default());
    let create = creation(&mut client, "topic");
    let mut within = |frame: &[u8]| {
        let envelope = EnvelopeRequest {
            request_data: &frame[4..],
            ..EnvelopeRequest::default()
        };
        client.frame(0, &envelope)
    };
    let in_small = (Some(Lane::Small), AnswerSize::Unknown, false);
    for (frame, expect) in [
        (follow.clone(), (None, AnswerSize::Proportional, false)),
        (
            padded(follow, 10_000),
            (Some(Lane::Large), AnswerSize::Proportional, false),
        ),
        (list.clone(), in_small),
        (within(&list), in_small),
        (within(&create), (None, AnswerSize::Proportional, true)),
        (
            within(&padded(create, 10_000)),
            (Some(Lane::Large), AnswerSize::Large, true),
        ),
    ] {
        let weight = Weight::at_controller(&running.broker().cluster_node, &frame[4..]);
        let seen = (weight.lane, weight.answer, weight.is_for_controller);
        assert_eq!(seen, expect, "{:?}", &frame[4..8]);
    }
}

fn fetch_of_metadata(epoch: LeaderEpoch, offset: Offset) -> wire::messages::FetchRequest<'static> {
    use wire::messages::fetch_request::{FetchPartition, FetchTopic};
    let partition = FetchPartition {
        current_leader_epoch: epoch.0,
        fetch_offset: offset.0,
        last_fetched_epoch: epoch.0,
        partition_max_bytes: i32::MAX,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic_id: model::Uuid::METADATA_TOPIC,
        partitions: vec![partition].into(),
        ..Default::default()
    };
    wire::messages::FetchRequest {
        max_wait_ms: 0,
        topics: vec![topic].into(),
        ..Default::default()
    }
}

fn fetch_of_snapshot(
    epoch: LeaderEpoch,
    id: metadata::SnapshotId,
) -> wire::messages::FetchSnapshotRequest<'static> {
    use wire::messages::fetch_snapshot_request::{PartitionSnapshot, SnapshotId, TopicSnapshot};
    let partition = PartitionSnapshot {
        current_leader_epoch: epoch.0,
        snapshot_id: SnapshotId {
            end_offset: id.end_offset.0,
            epoch: id.epoch.0,
        },
        ..Default::default()
    };
    let topic = TopicSnapshot {
        name: "__cluster_metadata",
        partitions: vec![partition].into(),
    };
    wire::messages::FetchSnapshotRequest {
        topics: vec![topic].into(),
        ..Default::default()
    }
}
