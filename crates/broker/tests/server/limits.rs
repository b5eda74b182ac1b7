//! What a request may bring and ask for: repetitions are answered once, and what is too much is
//! refused or waits.

use model::ErrorCode;
use record::Compression;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, PRODUCE_VERSION, TestServer, batch, compressed_batch, idempotent_batch};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest,
    OffsetFetchRequest, OffsetFetchResponse, ProduceRequest, ProduceResponse,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

#[test]
fn a_resource_is_described_once() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let resource = |kind, name, keys: &[&'static str]| DescribeConfigsResource {
        resource_type: kind,
        resource_name: name,
        configuration_keys: (!keys.is_empty()).then(|| keys.to_vec().into()),
    };
    let mut resources = vec![resource(BROKER, "1", &[]); 1000];
    resources.extend(vec![resource(TOPIC, "topic", &[]); 1000]);
    resources.push(resource(GROUP, "group", &[]));
    // Other keys of the same resource are asked for beside it.
    let keys = ["retention.ms", "retention.ms"];
    resources.extend(vec![resource(TOPIC, "topic", &keys); 10]);
    resources.extend(vec![resource(BROKER, "1", &[]); 1000]);
    for version in [1, 4] {
        let request = DescribeConfigsRequest {
            resources: resources.clone().into(),
            include_synonyms: true,
            include_documentation: version >= 3,
        };
        let answer = client.call(version, &request);
        let response: DescribeConfigsResponse<'_> = answer.read();
        let described = response.results.iter().map(|one| {
            assert_eq!(one.error_code, 0);
            (one.resource_type, one.resource_name, one.configs.len())
        });
        let described: Vec<_> = described.collect();
        assert_eq!(described.len(), 4, "{described:?}");
        assert_eq!((described[0].0, described[0].1), (BROKER, "1"));
        assert!(described[1].2 > 20);
        assert_eq!(described[3], (TOPIC, "topic", 1));
    }
}

#[test]
fn what_is_named_again_is_described_once() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    client.wait_for_coordinator("b");
    let (producer_id, producer_epoch) = client.init_producer_id();
    client
        .produce(
            "topic",
            0,
            &idempotent_batch(producer_id, producer_epoch, 0, &["value"]),
        )
        .assert_accepted();
    let names = ["b", "a", "b", "b", "a"];

    let request = DescribeGroupsRequest {
        groups: names.to_vec().into(),
        ..Default::default()
    };
    let answer = client.call(5, &request);
    let response: DescribeGroupsResponse<'_> = answer.read();
    let groups: Vec<_> = response.groups.iter().map(|one| one.group_id).collect();
    assert_eq!(groups, ["b", "a"]);

    let request = ConsumerGroupDescribeRequest {
        group_ids: names.to_vec().into(),
        ..Default::default()
    };
    let answer = client.call(0, &request);
    let response: ConsumerGroupDescribeResponse<'_> = answer.read();
    let groups: Vec<_> = response.groups.iter().map(|one| one.group_id).collect();
    assert_eq!(groups, ["b", "a"]);

    let request = FindCoordinatorRequest {
        coordinator_keys: names.to_vec().into(),
        ..Default::default()
    };
    let answer = client.call(4, &request);
    let response: FindCoordinatorResponse<'_> = answer.read();
    let keys: Vec<_> = response.coordinators.iter().map(|one| one.key).collect();
    assert_eq!(keys, ["b", "a"]);

    let request = DescribeTransactionsRequest {
        transactional_ids: names.to_vec().into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeTransactionsResponse<'_> = answer.read();
    let ids = response.transaction_states.iter();
    let ids: Vec<_> = ids.map(|one| one.transactional_id).collect();
    assert_eq!(ids, ["b", "a"]);

    let topic = |indexes: &[i32]| TopicRequest {
        name: "topic",
        partition_indexes: indexes.to_vec().into(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic(&[1, 0, 0, 1]), topic(&[0, 5])].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeProducersResponse<'_> = answer.read();
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|one| (one.partition_index, one.active_producers.len()));
        partitions.collect::<Vec<_>>()
    });
    assert_eq!(topics.collect::<Vec<_>>(), [[(0, 1), (1, 0), (5, 0)]]);
}

/// A group of the answer: its topics with the partitions and their offsets.
type FetchedGroup = (String, Vec<Vec<(i32, i64)>>);

/// What is answered to a request for these groups and partitions; `None` for all.
fn fetched(
    client: &mut Client,
    groups: &[(&'static str, Option<Vec<Vec<i32>>>)],
) -> Vec<FetchedGroup> {
    let groups = groups.iter().map(|(group_id, topics)| {
        let topics = topics.as_ref().map(|topics| {
            let topics = topics.iter().map(|indexes| OffsetFetchRequestTopics {
                name: "topic",
                partition_indexes: indexes.into(),
                ..Default::default()
            });
            topics.collect()
        });
        OffsetFetchRequestGroup {
            group_id,
            topics,
            ..Default::default()
        }
    });
    let request = OffsetFetchRequest {
        groups: groups.collect(),
        ..Default::default()
    };
    let answer = client.call(8, &request);
    let response: OffsetFetchResponse<'_> = answer.read();
    let groups = response.groups.iter().map(|group| {
        let topics = group.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|one| (one.partition_index, one.committed_offset));
            partitions.collect()
        });
        (group.group_id.to_owned(), topics.collect())
    });
    groups.collect()
}

#[test]
fn an_offset_is_fetched_once() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 7), ErrorCode::None);
    let all = ("group", None);
    let some = |indexes: &[&[i32]]| {
        let topics = indexes.iter().map(|indexes| indexes.to_vec());
        ("group", Some(topics.collect::<Vec<_>>()))
    };
    let group = |topics: &[&[(i32, i64)]]| {
        let topics = topics.iter().map(|partitions| partitions.to_vec());
        ("group".to_owned(), topics.collect::<Vec<_>>())
    };
    let answered = fetched(&mut client, &[all.clone(), all.clone(), all]);
    assert_eq!(answered, [group(&[&[(0, 7)]])]);
    let answered = fetched(&mut client, &[some(&[&[0, 0, 3], &[], &[3, 0]])]);
    assert_eq!(answered, [group(&[&[(0, 7), (3, -1)], &[]])]);
    let answered = fetched(&mut client, &[some(&[&[0]]), some(&[&[0], &[3]])]);
    assert_eq!(answered, [group(&[&[(0, 7)]]), group(&[&[(3, -1)]])]);
}

#[test]
fn a_request_of_more_partitions_than_batches_is_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let good = batch(&["value"]);
    let produce = |client: &mut Client, count: i32, acks: i16| {
        let partition = |index| PartitionProduceData {
            index,
            records: (index == 0).then_some(&good[..]),
        };
        let half = |range: std::ops::Range<i32>| TopicProduceData {
            name: "topic",
            partition_data: range.map(partition).collect(),
            ..Default::default()
        };
        let request = ProduceRequest {
            acks,
            timeout_ms: 1000,
            topic_data: vec![half(0..count / 2), half(0..0), half(count / 2..count)].into(),
            ..Default::default()
        };
        let frame = client.frame(PRODUCE_VERSION, &request);
        client.send_bytes(&frame);
    };
    let count = 20_000;
    for acks in [1, 0] {
        produce(&mut client, count, acks);
        client.assert_closed();
        client = server.connect();
    }
    // Nothing of it is appended.
    assert_eq!(client.list_offset("topic", 0, -1).offset, 0);
    server.assert_serves();
}

#[test]
fn an_answer_lists_a_bounded_number_of_faulty_records() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let count = 30;
    client.create_topic("topic", count, &[("cleanup.policy", "compact")]);
    // None has a key.
    let records = compressed_batch(Compression::Lz4, &["value"; 1000]);
    let partition = |index| PartitionProduceData {
        index,
        records: Some(&records[..]),
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "topic",
            partition_data: (0..count).map(partition).collect(),
            ..Default::default()
        }]
        .into(),
        ..Default::default()
    };
    let answer = client.call(PRODUCE_VERSION, &request);
    let response: ProduceResponse<'_> = answer.read();
    let mut listed = Vec::new();
    for topic in response.responses.iter() {
        for part in topic.partition_responses.iter() {
            assert_eq!(part.error_code, ErrorCode::InvalidRecord.code());
            assert!(part.error_message.is_some());
            listed.push(part.record_errors.len());
        }
    }
    let (explained, only_refused) = listed.split_at(10);
    assert!(explained.iter().all(|count| *count == 1000), "{listed:?}");
    assert_eq!(only_refused, vec![0; 20]);
}

/// Requests may take 1 MiB in all.
const REQUEST_LIMITS: [(&str, &str); 2] = [
    ("socket.request.max.bytes", "1048576"),
    ("queued.max.request.bytes", "1048576"),
];
const REQUEST_BYTES: usize = 900_000;

/// A request of [`REQUEST_BYTES`], its size included.
fn large_request(client: &mut Client) -> Vec<u8> {
    let request = MetadataRequest {
        topics: Some(vec![].into()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let mut frame = client.frame(9, &request);
    // What is behind its end is passed over.
    frame.resize(REQUEST_BYTES, 0);
    frame[..4].copy_from_slice(&(REQUEST_BYTES as u32 - 4).to_be_bytes());
    frame
}

/// A connection that has sent so many bytes of a large request, and the rest of them.
fn begin_request(server: &TestServer, bytes: usize) -> (Client, Vec<u8>) {
    let mut client = server.connect();
    let mut frame = large_request(&mut client);
    let rest = frame.split_off(bytes);
    client.send_bytes(&frame);
    (client, rest)
}

#[test]
fn who_sends_a_byte_now_and_then_holds_up_others_for_a_while_only() {
    // Together as much as requests may take, and each hardly more than a small one.
    const EACH_BYTES: usize = 66_000;
    const COUNT: usize = 16;
    let server = TestServer::start(&REQUEST_LIMITS);
    let mut quiet = server.connect();
    quiet.brokers();
    let mut other = server.connect();
    let is_answered = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..COUNT {
            let (mut client, rest) = begin_request(&server, EACH_BYTES);
            let is_answered = &is_answered;
            scope.spawn(move || {
                let mut rest = rest.chunks(1);
                while !is_answered.load(Ordering::Relaxed) {
                    rest.next()
                        .into_iter()
                        .for_each(|byte| client.send_bytes_if_open(byte));
                    thread::sleep(Duration::from_millis(200));
                }
            });
        }
        let frame = large_request(&mut other);
        other.send_bytes(&frame);
        assert!(!other.receive_frame().is_empty());
        is_answered.store(true, Ordering::Relaxed);
    });
    // Who asked for nothing all that time is not taken to be slow when it does.
    let frame = large_request(&mut quiet);
    let (begin, rest) = frame.split_at(EACH_BYTES);
    quiet.send_bytes(begin);
    let (mut first, rest_of_first) = begin_request(&server, REQUEST_BYTES - 1);
    let (mut second, rest_of_second) = begin_request(&server, REQUEST_BYTES / 2);
    thread::sleep(Duration::from_millis(1_200));
    quiet.send_bytes(rest);
    first.send_bytes(&rest_of_first);
    second.send_bytes(&rest_of_second);
    for client in [&mut quiet, &mut first, &mut second] {
        assert!(!client.receive_frame().is_empty());
    }
}

/// Whether a large request is answered though its end comes after a while.
fn is_served_in_pieces(server: &TestServer) -> bool {
    let (mut client, rest) = begin_request(server, REQUEST_BYTES / 2);
    let _ = client.is_silent_for(Duration::from_millis(20));
    client.send_bytes_if_open(&rest);
    client
        .receive_frame_if_any(Duration::from_millis(300))
        .is_some()
}

#[test]
fn requests_wait_for_the_memory_of_those_before_them() {
    let server = TestServer::start(&REQUEST_LIMITS);
    let mut other = server.connect();
    other.brokers();
    // Two that have nearly arrived take all that there is. The one that comes then is read on
    // while nothing is left, and those after it wait for it.
    let first = begin_request(&server, REQUEST_BYTES - 1);
    let second = begin_request(&server, REQUEST_BYTES - 1);
    let mut last = Vec::new();
    testkit::wait_until("a request waits", || {
        last.push(begin_request(&server, REQUEST_BYTES / 2));
        !is_served_in_pieces(&server)
    });
    // Small requests need not wait for more of them.
    other.brokers();
    last.extend([first, second]);
    for (client, rest) in &mut last {
        client.send_bytes(rest);
    }
    for (client, _) in &mut last {
        assert!(!client.receive_frame().is_empty());
    }
    assert!(is_served_in_pieces(&server));
}

#[test]
fn what_is_announced_and_not_sent_takes_no_memory() {
    let server = TestServer::start(&REQUEST_LIMITS);
    let _announced: Vec<_> = (0..10).map(|_| begin_request(&server, 100)).collect();
    for _ in 0..3 {
        assert!(is_served_in_pieces(&server));
    }
}

#[test]
fn who_does_not_go_on_sending_gives_way_to_those_that_wait() {
    let server = TestServer::start(&REQUEST_LIMITS);
    let mut silent: Vec<_> = (0..3)
        .map(|_| begin_request(&server, REQUEST_BYTES / 2))
        .collect();
    testkit::wait_until("requests come again", || is_served_in_pieces(&server));
    assert!(silent.iter_mut().any(|(client, _)| client.is_closed()));
}
