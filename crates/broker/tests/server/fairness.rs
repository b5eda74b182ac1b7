//! Nobody is held up by others: not by clients that do not read their answers, nor by those that
//! send requests as large as may be, nor by those that ask for all that there is, nor by records that
//! have to come from the disk.

use model::{BrokerId, Message};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, PRODUCE_VERSION, TestServer, batch};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DeleteGroupsRequest,
    DeleteRecordsRequest, DescribeConfigsRequest, DescribeLogDirsRequest, ListTransactionsRequest,
    MetadataRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    ProduceResponse, WriteTxnMarkersRequest,
};

/// More clients of a kind than the test's server has threads.
const CLIENTS: usize = 3;
const BATCH_COUNT: usize = 8;
/// Of a huge request: 16 MiB.
const PARTITION_COUNT: i32 = 32;

/// Half a megabyte that tells it from the others.
fn large_value(salt: usize) -> String {
    format!("{salt:>8}").repeat(64 * 1024)
}

fn large_batch(salt: usize) -> Vec<u8> {
    batch(&[&large_value(salt)])
}

/// A topic of 4 MiB.
fn fill(client: &mut Client, configs: &[(&str, &str)]) {
    client.create_topic("topic", 1, configs);
    for salt in 0..BATCH_COUNT {
        let produced = client.produce("topic", 0, &large_batch(salt));
        produced.assert_accepted();
    }
}

fn assert_all(client: &mut Client, from: usize) {
    let mut offset = from;
    while offset < BATCH_COUNT {
        let values = client.fetch("topic", 0, offset as i64).values();
        assert!(!values.is_empty());
        for value in values {
            assert!(value == large_value(offset), "offset {offset}");
            offset += 1;
        }
    }
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    fill(&mut client, &[]);
    let mut slow: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut slow {
        for _ in 0..BATCH_COUNT {
            client.send_fetch("topic", 0, 0, 0);
        }
    }
    server.assert_serves();
    for client in &mut slow {
        for _ in 0..BATCH_COUNT {
            assert!(!client.receive_fetched().records.is_empty());
        }
    }
    server.stop();
}

#[test]
fn who_sends_huge_requests_slowly_holds_up_nobody() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    let batches: Vec<Vec<u8>> = (0..PARTITION_COUNT as usize).map(large_batch).collect();
    let partitions = batches.iter().zip(0..).map(|(records, index)| {
        let records = Some(&records[..]);
        PartitionProduceData { index, records }
    });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    let mut slow: Vec<(Client, Vec<u8>)> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            let frame = client.frame(PRODUCE_VERSION, &request);
            (client, frame)
        })
        .collect();
    for part in 0..3 {
        for (client, frame) in &mut slow {
            let third = frame.len() / 3;
            let end = if part == 2 {
                frame.len()
            } else {
                third * (part + 1)
            };
            client.send_bytes(&frame[third * part..end]);
        }
        server.assert_serves();
    }
    for (client, _) in &mut slow {
        let frame = client.receive_frame();
        // The header of the answer is a correlation id and no tagged fields.
        let response = ProduceResponse::from_bytes(&frame[5..], PRODUCE_VERSION);
        let response = response.expect("an answer");
        let partitions = response.responses.iter().flat_map(|one| {
            let partitions: Vec<_> = one.partition_responses.iter().collect();
            partitions
        });
        assert_eq!(
            partitions.filter(|one| one.error_code == 0).count(),
            PARTITION_COUNT as usize
        );
    }
    server.stop();
}

#[test]
fn records_that_are_not_in_memory_come_from_the_disk() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    // What is durable can be dropped from memory.
    fill(&mut client, &[("flush.messages", "1")]);
    let log = server.directory().join("topic-0/00000000000000000000.log");
    let drop_from_memory = || {
        let file = File::open(&log).unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    for from in [0, 1, BATCH_COUNT - 1] {
        drop_from_memory();
        assert_all(&mut client, from);
    }
    client
        .produce("topic", 0, &batch(&["small"]))
        .assert_accepted();
    drop_from_memory();
    assert_eq!(
        client.fetch("topic", 0, BATCH_COUNT as i64).values(),
        ["small"]
    );
    server.stop();
}

/// How many requests are answered at least while others name much.
const ANSWERED_MIN: usize = 12;
/// Groups have settings whether they exist or not.
const GROUP_RESOURCE: i8 = 32;
/// Metadata of a few topics that are asked for while others ask for all that there is.
const QUICK_COUNT: usize = 100;

/// How many large requests are served at a time, and how many of a kind that is small.
fn lanes() -> usize {
    thread::available_parallelism().map_or(1, |count| (count.get() / 2).max(1))
}

/// A frame that names much, most of which does not exist.
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn frame_of_many(client: &mut Client, kind: &str) -> Vec<u8> {
    const COUNT: i32 = 200_000;
    match kind {
        "settings" => {
            let names: Vec<String> = (0..COUNT / 20).map(|at| format!("group-{at}")).collect();
            let resource = |name| DescribeConfigsResource {
                resource_type: GROUP_RESOURCE,
                resource_name: name,
                configuration_keys: None,
            };
            let request = DescribeConfigsRequest {
                resources: names.iter().map(|name| resource(&**name)).collect(),
                include_synonyms: true,
                include_documentation: true,
            };
            client.frame(4, &request)
        }
        "epochs" => {
            let partition = |partition| OffsetForLeaderPartition {
                partition,
                current_leader_epoch: -1,
                leader_epoch: 0,
            };
            let request = OffsetForLeaderEpochRequest {
                replica_id: BrokerId::NONE,
                topics: vec![OffsetForLeaderTopic {
                    topic: "topic",
                    partitions: (0..COUNT).map(partition).collect(),
                }]
                .into(),
            };
            client.frame(4, &request)
        }
        "groups" => {
            let names: Vec<String> = (0..COUNT / 10).map(|at| at.to_string()).collect();
            let names = names.iter().map(String::as_str);
            let request = DeleteGroupsRequest {
                groups_names: names.collect(),
            };
            client.frame(2, &request)
        }
        "offsets" => {
            let names: Vec<String> = (0..COUNT / 4).map(|at| at.to_string()).collect();
            let group = |group_id| OffsetFetchRequestGroup {
                group_id,
                topics: Some(
                    vec![OffsetFetchRequestTopics {
                        name: "topic",
                        partition_indexes: vec![0].into(),
                        ..Default::default()
                    }]
                    .into(),
                ),
                ..Default::default()
            };
            let request = OffsetFetchRequest {
                groups: names.iter().map(|name| group(name)).collect(),
                ..Default::default()
            };
            client.frame(8, &request)
        }
        "markers" => {
            let marker = WritableTxnMarker {
                producer_id: 7,
                topics: vec![WritableTxnMarkerTopic {
                    name: "topic",
                    partition_indexes: (0..COUNT).collect(),
                }]
                .into(),
                ..Default::default()
            };
            let request = WriteTxnMarkersRequest {
                markers: vec![marker].into(),
            };
            client.frame(1, &request)
        }
        _ => {
            let partition = |partition_index| DeleteRecordsPartition {
                partition_index,
                offset: 0,
            };
            let request = DeleteRecordsRequest {
                topics: vec![DeleteRecordsTopic {
                    name: "topic",
                    partitions: (0..COUNT).map(partition).collect(),
                }]
                .into(),
                timeout_ms: 1000,
            };
            client.frame(2, &request)
        }
    }
}

#[test]
fn who_names_much_lets_others_have_their_turn() {
    let server = TestServer::start(&[]);
    let mut other = server.connect();
    other.create_topic("topic", 2, &[]);
    other.wait_for_coordinator("group");
    for kind in [
        "epochs", "records", "groups", "offsets", "settings", "markers",
    ] {
        let mut large: Vec<Client> = (0..lanes()).map(|_| server.connect()).collect();
        for client in &mut large {
            let frame = frame_of_many(client, kind);
            client.send_bytes(&frame);
        }
        let mut answered = 0;
        while large
            .iter_mut()
            .any(|client| client.is_silent_for(Duration::from_micros(100)))
        {
            // It is for what others have made, and stands behind large requests.
            other.call(0, &ListTransactionsRequest::default());
            answered += 1;
        }
        assert!(
            answered >= ANSWERED_MIN,
            "{kind}: {answered} answers meanwhile"
        );
    }
    server.stop();
}

#[test]
fn metadata_of_a_few_topics_do_not_stand_behind_those_who_ask_for_all() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("small", 1, &[]);
    // None of them takes long to make.
    for number in 0..20 {
        client.create_topic(&format!("large-{number}"), 101, &[]);
    }
    let named = |name| MetadataRequest {
        topics: Some(
            vec![MetadataRequestTopic {
                name: Some(name),
                ..Default::default()
            }]
            .into(),
        ),
        ..Default::default()
    };
    // As many as are served at a time, and always some that wait: who waits for a turn behind many has
    // no answer in time where the machine is busy.
    let (described, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..lanes() + 2 {
            let mut client = server.connect();
            let (described, is_over) = (&described, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    client.call(1, &DescribeLogDirsRequest { topics: None });
                    described.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        testkit::wait_until("it is busy", || described.load(Ordering::Relaxed) > 0);
        let before = described.load(Ordering::Relaxed);
        for _ in 0..QUICK_COUNT {
            client.call(9, &named("small"));
        }
        let meanwhile = described.load(Ordering::Relaxed) - before;
        is_over.store(true, Ordering::Relaxed);
        assert!(meanwhile < QUICK_COUNT, "{meanwhile} were described before");
    });
}

/// The epoch of a member of a consumer group after a heartbeat; one that joins brings an expression.
fn beat(client: &mut Client, group_id: &str, epoch: i32, joins_with: Option<&str>) -> i32 {
    let request = ConsumerGroupHeartbeatRequest {
        group_id,
        member_id: "member",
        member_epoch: epoch,
        rebalance_timeout_ms: if epoch == 0 { 30_000 } else { -1 },
        subscribed_topic_regex: joins_with,
        topic_partitions: (epoch == 0).then(|| vec![].into()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let answer = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
    assert_eq!(response.error_code, 0, "{:?}", response.error_message);
    response.member_epoch
}

#[test]
fn an_expression_that_takes_long_to_match_holds_up_no_other_group() {
    const TOPICS: usize = 50;
    // All groups are in one partition, and share its lock.
    let server = TestServer::start(&[
        ("offsets.topic.num.partitions", "1"),
        ("group.consumer.assignment.interval.ms", "0"),
    ]);
    let mut client = server.connect();
    for at in 0..TOPICS {
        client.create_topic(&format!("{at:03}{}", "a".repeat(240)), 1, &[]);
    }
    client.wait_for_coordinator("slow");
    // Every character of a name goes through most of a megabyte.
    let expression = "(?:.{0,1000}x?){7}";
    let joined = beat(&mut client, "slow", 0, Some(expression));
    // The answers are made while the names are matched, or have been.
    let mut other = server.connect();
    let mut epoch = beat(&mut other, "quick", 0, Some("0.*"));
    while epoch == joined {
        epoch = beat(&mut other, "quick", epoch, None);
        other.commit_offset("simple", "topic", 1);
    }
    assert_eq!(
        beat(&mut client, "slow", joined, None),
        joined,
        "it is not resolved before those that came later"
    );
    server.stop();
}
