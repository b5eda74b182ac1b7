//! What a request may bring and ask for: repetitions are answered once, and what is too much is
//! refused or waits.

use model::ErrorCode;
use record::Compression;
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

#[test]
fn who_does_not_go_on_sending_gives_way_to_those_that_wait() {
    const REQUEST_BYTES: usize = 900_000;
    let server = TestServer::start(&[
        ("socket.request.max.bytes", "1048576"),
        ("queued.max.request.bytes", "1048576"),
    ]);
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    let request = MetadataRequest {
        topics: Some(vec![].into()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let mut frame = clients[0].frame(9, &request);
    // What is behind its end is passed over.
    frame.resize(REQUEST_BYTES, 0);
    frame[..4].copy_from_slice(&(REQUEST_BYTES as u32 - 4).to_be_bytes());
    let mut other = clients.remove(0);
    // Two have all of their memory; the other two are one that is read on and one that waits for it,
    // also where the whole request is answered before them.
    for client in &mut clients {
        client.send_bytes(&frame[..REQUEST_BYTES / 2]);
    }
    other.send_bytes(&frame);
    assert!(!other.receive_frame().is_empty());
    testkit::wait_until("one is closed", || {
        clients.iter_mut().any(Client::is_closed)
    });
}
