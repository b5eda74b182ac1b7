//! Requests that name a topic or a partition twice, or a topic without partitions: what is done
//! once, and what is answered.

use model::{BrokerId, ErrorCode, Uuid};
use testkit::{Client, TestServer, batch};
use wire::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::describe_topic_partitions_request::TopicRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::*;

fn server_with_topic() -> (TestServer, Client) {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    (server, client)
}

/// Index, error and base offset of each partition in the answer to a request for one topic, whose
/// partitions are named by one entry each.
fn produce(client: &mut Client, acks: i16, batches: &[(i32, &[u8])]) -> Vec<(i32, ErrorCode, i64)> {
    let topics = batches.iter().map(|(index, records)| TopicProduceData {
        name: "topic",
        partition_data: vec![PartitionProduceData {
            index: *index,
            records: Some(records),
        }]
        .into(),
        ..TopicProduceData::default()
    });
    let empty = TopicProduceData {
        name: "topic",
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks,
        timeout_ms: 1_000,
        topic_data: topics.chain([empty]).collect(),
        ..ProduceRequest::default()
    };
    let answer = client.call(9, &request);
    let response: ProduceResponse<'_> = answer.read();
    let partitions = response.responses.iter().flat_map(|topic| {
        let partitions = topic.partition_responses.iter();
        let partitions = partitions.map(|one| {
            (
                one.index,
                ErrorCode::from_code(one.error_code),
                one.base_offset,
            )
        });
        partitions.collect::<Vec<_>>()
    });
    partitions.collect()
}

#[test]
fn as_many_partitions_as_are_named_have_their_batch() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 300, &[]);
    let records = batch(&["a"]);
    // More than are served on a worker, in no order, and one of them twice.
    let mut batches: Vec<(i32, &[u8])> = (0..300).rev().map(|at| (at, &records[..])).collect();
    batches.push((7, &records));
    for offset in 0..2 {
        let answered = produce(&mut client, -1, &batches);
        let expected = (0..300).map(|at| (at, ErrorCode::None, offset));
        assert_eq!(answered, expected.collect::<Vec<_>>());
    }
    for index in [0, 7, 299] {
        assert_eq!(client.fetch("topic", index, 0).values(), ["a", "a"]);
    }
}

#[test]
fn the_last_valid_batch_of_a_partition_is_produced() {
    let (server, mut client) = server_with_topic();
    let [a, b, c] = ["a", "b", "c"].map(|value| batch(&[value]));
    let answered = produce(&mut client, 1, &[(1, &a), (0, &b), (1, &c)]);
    assert_eq!(answered, [(0, ErrorCode::None, 0), (1, ErrorCode::None, 0)]);
    assert_eq!(client.fetch("topic", 1, 0).values(), ["c"]);
    // What is wrong with either is the answer, and the other is produced.
    let two = [&a[..], &b].concat();
    for batches in [[(1, &two[..]), (1, &a)], [(1, &a), (1, &two[..])]] {
        let answered = produce(&mut client, 1, &batches);
        assert_eq!(answered, [(1, ErrorCode::InvalidRecord, -1)]);
    }
    assert_eq!(client.fetch("topic", 1, 0).values(), ["c", "a", "a"]);
    let answered = produce(&mut client, 7, &[(1, &two), (0, &a), (9, &a)]);
    let expected = [
        (0, ErrorCode::InvalidRequiredAcks, -1),
        (1, ErrorCode::InvalidRecord, -1),
        (9, ErrorCode::UnknownTopicOrPartition, -1),
    ];
    assert_eq!(answered, expected);
    server.assert_serves();
}

#[test]
fn a_batch_that_is_none_refuses_the_whole_request() {
    let (server, mut client) = server_with_topic();
    let good = batch(&["good"]);
    let mut magic = good.clone();
    magic[16] = 3;
    let short = |length: i32| {
        let mut bytes = good.clone();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes
    };
    for bad in [&magic, &short(13)] {
        let answered = produce(&mut client, 1, &[(0, &good), (1, bad), (9, &good)]);
        let expected = [0, 1, 9].map(|index| (index, ErrorCode::CorruptMessage, -1));
        assert_eq!(answered, expected);
    }
    // Behind the first batch it concerns the partition only, and so does one without room for its header.
    let second = [&good[..], &magic].concat();
    for (offset, bad) in [(0, &second), (1, &short(14)), (2, &short(48))] {
        let answered = produce(&mut client, 1, &[(0, &good), (1, bad)]);
        let expected = [
            (0, ErrorCode::None, offset),
            (1, ErrorCode::CorruptMessage, -1),
        ];
        assert_eq!(answered, expected);
    }
    server.assert_serves();
}

#[test]
fn the_last_offset_of_a_partition_is_deleted_to() {
    let (_server, mut client) = server_with_topic();
    client
        .produce("topic", 0, &batch(&["a", "b", "c"]))
        .assert_accepted();
    let topic = |offsets: &[i64]| {
        let partitions = offsets.iter().map(|offset| DeleteRecordsPartition {
            partition_index: 0,
            offset: *offset,
        });
        DeleteRecordsTopic {
            name: "topic",
            partitions: partitions.collect(),
        }
    };
    let request = DeleteRecordsRequest {
        topics: vec![topic(&[3, 1]), topic(&[]), topic(&[2])].into(),
        ..DeleteRecordsRequest::default()
    };
    let answer = client.call(2, &request);
    let response: DeleteRecordsResponse<'_> = answer.read();
    let topics = response.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|one| one.low_watermark).collect::<Vec<_>>()
    });
    assert_eq!(topics.collect::<Vec<_>>(), [2]);
}

#[test]
fn offsets_of_a_partition_named_twice_are_not_listed() {
    let (_server, mut client) = server_with_topic();
    let topic = |indices: &[i32]| {
        let partitions = indices.iter().map(|index| ListOffsetsPartition {
            partition_index: *index,
            timestamp: -1,
            ..ListOffsetsPartition::default()
        });
        ListOffsetsTopic {
            name: "topic",
            partitions: partitions.collect(),
        }
    };
    let listed = |client: &mut Client, isolation_level: i8| {
        let request = ListOffsetsRequest {
            replica_id: BrokerId::NONE,
            isolation_level,
            topics: vec![topic(&[1, 0]), topic(&[]), topic(&[1])].into(),
            ..ListOffsetsRequest::default()
        };
        let answer = client.call(6, &request);
        let response: ListOffsetsResponse<'_> = answer.read();
        let topics = response.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions =
                partitions.map(|one| (one.partition_index, ErrorCode::from_code(one.error_code)));
            partitions.collect::<Vec<_>>()
        });
        topics.collect::<Vec<_>>()
    };
    let expected = vec![(0, ErrorCode::None), (1, ErrorCode::InvalidRequest)];
    assert_eq!(listed(&mut client, 1), [expected]);
    let unknown = |index: i32| (index, ErrorCode::UnknownServerError);
    let expected = [vec![unknown(1), unknown(0)], vec![], vec![unknown(1)]];
    assert_eq!(listed(&mut client, 2), expected);
}

#[test]
fn a_partition_named_twice_is_fetched_as_named_last() {
    let (_server, mut client) = server_with_topic();
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    let topic = |partitions: &[(i32, i64)]| {
        let partitions = partitions.iter().map(|(index, offset)| FetchPartition {
            partition: *index,
            fetch_offset: *offset,
            partition_max_bytes: 1_000,
            ..FetchPartition::default()
        });
        FetchTopic {
            topic: "topic",
            partitions: partitions.collect(),
            ..FetchTopic::default()
        }
    };
    let fetched = |client: &mut Client, replica_id: i32| {
        let request = FetchRequest {
            replica_id: BrokerId(replica_id),
            session_epoch: -1,
            topics: vec![topic(&[(0, 99), (7, 0)]), topic(&[(1, 0), (0, 1)])].into(),
            ..FetchRequest::default()
        };
        let answer = client.call(12, &request);
        let response: FetchResponse<'_> = answer.read();
        let topics = response.responses.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions =
                partitions.map(|one| (one.partition_index, ErrorCode::from_code(one.error_code)));
            partitions.collect::<Vec<_>>()
        });
        topics.collect::<Vec<_>>()
    };
    let missing = (7, ErrorCode::UnknownTopicOrPartition);
    let expected = [(0, ErrorCode::None), (1, ErrorCode::None), missing];
    assert_eq!(fetched(&mut client, -1), expected);
    // A broker that is no replica reads nothing.
    let refused = |index| (index, ErrorCode::NotLeaderOrFollower);
    assert_eq!(fetched(&mut client, 3), [refused(0), refused(1), missing]);
}

#[test]
fn a_topic_without_partitions_is_not_committed() {
    let (_server, mut client) = server_with_topic();
    let topic = |name: &'static str, indices: &[i32]| {
        let partitions = indices.iter().map(|index| OffsetCommitRequestPartition {
            partition_index: *index,
            committed_offset: 1,
            ..OffsetCommitRequestPartition::default()
        });
        OffsetCommitRequestTopic {
            name,
            partitions: partitions.collect(),
            ..OffsetCommitRequestTopic::default()
        }
    };
    let mut committed = |topics: Vec<OffsetCommitRequestTopic<'_>>| {
        let request = OffsetCommitRequest {
            group_id: "group",
            generation_id_or_member_epoch: -1,
            topics: topics.into(),
            ..OffsetCommitRequest::default()
        };
        let answer = client.call(8, &request);
        let response: OffsetCommitResponse<'_> = answer.read();
        let topics = response.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|one| (one.partition_index, one.error_code));
            (topic.name.to_owned(), partitions.collect::<Vec<_>>())
        });
        topics.collect::<Vec<_>>()
    };
    // There are no groups before somebody has asked for a coordinator.
    let none = ErrorCode::NotCoordinator.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let answered = committed(vec![topic("topic", &[]), topic("missing", &[])]);
    assert_eq!(answered, [("missing".to_owned(), vec![])]);
    let answered = committed(vec![topic("topic", &[0]), topic("topic", &[1])]);
    let entry = |partitions: &[(i32, i16)]| ("topic".to_owned(), partitions.to_vec());
    assert_eq!(answered, [entry(&[(0, none)]), entry(&[(1, none)])]);
    let answered = committed(vec![topic("topic", &[0]), topic("topic", &[1, 5])]);
    assert_eq!(answered, [entry(&[(5, unknown), (0, none), (1, none)])]);
}

#[test]
fn a_topic_named_twice_is_described_once() {
    let (_server, mut client) = server_with_topic();
    let named = |name: Option<&'static str>, topic_id| MetadataRequestTopic { name, topic_id };
    let mut described = |names: Vec<MetadataRequestTopic<'_>>| {
        let request = MetadataRequest {
            topics: Some(names.into()),
            ..MetadataRequest::default()
        };
        let answer = client.call(12, &request);
        let response: MetadataResponse<'_> = answer.read();
        let topics = response.topics.iter();
        let topics = topics.map(|one| (one.name.map(str::to_owned), one.topic_id));
        topics.collect::<Vec<_>>()
    };
    let by_name = |name| named(Some(name), Uuid::ZERO);
    let topics = ["topic", "a b", "topic", "a b"].map(by_name);
    let answered = described(topics.to_vec());
    assert_eq!(answered.len(), 2, "{answered:?}");
    let id = answered[0].1;
    let unknown = Uuid::from_bytes([7; 16]);
    let topics = [id, unknown, id, unknown].map(|id| named(None, id));
    let expected = [(Some("topic".to_owned()), id), (None, unknown)];
    assert_eq!(described(topics.to_vec()), expected);
}

#[test]
fn a_page_ends_before_a_topic_that_does_not_exist() {
    let (_server, mut client) = server_with_topic();
    let names = ["topic", "zzz"].map(|name| TopicRequest { name });
    let request = DescribeTopicPartitionsRequest {
        topics: names.to_vec().into(),
        response_partition_limit: 2,
        ..DescribeTopicPartitionsRequest::default()
    };
    let answer = client.call(0, &request);
    let response: DescribeTopicPartitionsResponse<'_> = answer.read();
    assert_eq!(response.topics.len(), 1);
    let next = response.next_cursor.unwrap();
    assert_eq!((next.topic_name, next.partition_index), ("zzz", 0));
}

#[test]
fn offsets_of_topics_named_twice_are_deleted_once() {
    let (server, mut client) = server_with_topic();
    let topic = |name: &'static str, indices: &[i32]| {
        let partitions = indices.iter().map(|index| OffsetDeleteRequestPartition {
            partition_index: *index,
        });
        OffsetDeleteRequestTopic {
            name,
            partitions: partitions.collect(),
        }
    };
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
    let request = OffsetDeleteRequest {
        group_id: "group",
        topics: vec![
            topic("topic", &[9]),
            topic("topic", &[]),
            topic("missing", &[]),
            topic("topic", &[0]),
        ]
        .into(),
    };
    let answer = client.call(0, &request);
    let response: OffsetDeleteResponse<'_> = answer.read();
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|one| (one.partition_index, one.error_code));
        (topic.name, partitions.collect::<Vec<_>>())
    });
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let expected = [("topic", vec![(9, unknown), (0, 0)]), ("missing", vec![])];
    assert_eq!(topics.collect::<Vec<_>>(), expected);
    server.assert_serves();
}

#[test]
fn a_marker_is_written_once_to_a_partition_named_twice() {
    let (server, mut client) = server_with_topic();
    let topic = |indexes: &[i32]| WritableTxnMarkerTopic {
        name: "topic",
        partition_indexes: indexes.to_vec().into(),
    };
    let marker = WritableTxnMarker {
        producer_id: 7,
        producer_epoch: 1,
        transaction_result: true,
        topics: vec![topic(&[0, 0, 0]), topic(&[0])].into(),
        ..WritableTxnMarker::default()
    };
    let request = WriteTxnMarkersRequest {
        markers: vec![marker].into(),
    };
    let answer = client.call(1, &request);
    let response: WriteTxnMarkersResponse<'_> = answer.read();
    let marker = response.markers.iter().next().expect("one marker");
    let topic = marker.topics.iter().next().expect("one topic");
    let errors = topic.partitions.iter().map(|one| one.error_code);
    assert_eq!(errors.collect::<Vec<_>>(), [0]);
    let end = client.fetch_committed("topic", 0, 0).fetched;
    assert_eq!(end.last_stable_offset, 1);
    server.assert_serves();
}

#[test]
fn a_resource_that_is_altered_twice_is_refused_and_answered_once() {
    let (server, mut client) = server_with_topic();
    let altered = |name, value| AlterConfigsResource {
        resource_type: 2,
        resource_name: name,
        configs: vec![AlterableConfig {
            name: "retention.ms",
            value: Some(value),
        }]
        .into(),
    };
    let request = AlterConfigsRequest {
        resources: vec![
            altered("topic", "1000"),
            altered("missing", "1"),
            altered("topic", "2000"),
        ]
        .into(),
        ..AlterConfigsRequest::default()
    };
    let answer = client.call(2, &request);
    let response: AlterConfigsResponse<'_> = answer.read();
    let results = response.responses.iter();
    let results = results.map(|one| (one.resource_name, ErrorCode::from_code(one.error_code)));
    let expected = [
        ("topic", ErrorCode::InvalidRequest),
        ("missing", ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    server.assert_serves();
}

#[test]
fn a_topic_that_is_to_grow_twice_does_not_grow() {
    let (_server, mut client) = server_with_topic();
    let growing = |name, count| CreatePartitionsTopic {
        name,
        count,
        assignments: None,
    };
    let request = CreatePartitionsRequest {
        topics: vec![
            growing("topic", 3),
            growing("missing", 3),
            growing("topic", 4),
        ]
        .into(),
        timeout_ms: 10_000,
        ..CreatePartitionsRequest::default()
    };
    let answer = client.call(3, &request);
    let response: CreatePartitionsResponse<'_> = answer.read();
    let results = response.results.iter();
    let results = results.map(|one| (one.name, ErrorCode::from_code(one.error_code)));
    let expected = [
        ("topic", ErrorCode::InvalidRequest),
        ("missing", ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    let third = client.produce("topic", 2, &batch(&["a"]));
    assert_eq!(third.error, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_partition_named_for_two_directories_is_answered_once() {
    let (_server, mut client) = server_with_topic();
    let directory = |path, partitions: &[i32]| AlterReplicaLogDir {
        path,
        topics: vec![AlterReplicaLogDirTopic {
            name: "topic",
            partitions: partitions.iter().copied().collect(),
        }]
        .into(),
    };
    let request = AlterReplicaLogDirsRequest {
        dirs: vec![
            directory("/nowhere", &[1, 0, 1, 9]),
            directory("/elsewhere", &[0]),
        ]
        .into(),
    };
    let answer = client.call(2, &request);
    let response: AlterReplicaLogDirsResponse<'_> = answer.read();
    let topics = response.results.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions =
            partitions.map(|one| (one.partition_index, ErrorCode::from_code(one.error_code)));
        (topic.topic_name, partitions.collect::<Vec<_>>())
    });
    let nowhere = |index| (index, ErrorCode::LogDirNotFound);
    let expected = vec![nowhere(0), nowhere(1), nowhere(9)];
    assert_eq!(topics.collect::<Vec<_>>(), [("topic", expected)]);
}

#[test]
fn the_last_level_of_a_feature_counts() {
    let (_server, mut client) = server_with_topic();
    let mut updated = |version: i16, levels: &[i16]| {
        let updates = levels.iter().map(|level| FeatureUpdateKey {
            feature: "group.version",
            max_version_level: *level,
            upgrade_type: 1,
            ..FeatureUpdateKey::default()
        });
        let request = UpdateFeaturesRequest {
            feature_updates: updates.collect(),
            validate_only: true,
            ..UpdateFeaturesRequest::default()
        };
        let answer = client.call(version, &request);
        let response: UpdateFeaturesResponse<'_> = answer.read();
        let error = ErrorCode::from_code(response.error_code);
        let results = response.results.iter();
        let messages = results.map(|one| one.error_message.map(str::to_owned));
        (error, messages.collect::<Vec<_>>())
    };
    let refused = ErrorCode::InvalidUpdateVersion;
    assert_eq!(updated(2, &[99, 1]), (ErrorCode::None, vec![]));
    assert_eq!(updated(2, &[1, 99]), (refused, vec![]));
    let none = Some("NONE".to_owned());
    let two = vec![none.clone(), none];
    assert_eq!(updated(1, &[99, 1]), (ErrorCode::None, two));
    assert_eq!(updated(1, &[1, 99]), (refused, vec![]));
}

#[test]
fn a_topic_named_twice_is_once_in_a_page() {
    let (_server, mut client) = server_with_topic();
    let names = ["zzz", "topic", "zzz", "topic"].map(|name| TopicRequest { name });
    let request = DescribeTopicPartitionsRequest {
        topics: names.to_vec().into(),
        response_partition_limit: 100,
        ..DescribeTopicPartitionsRequest::default()
    };
    let answer = client.call(0, &request);
    let response: DescribeTopicPartitionsResponse<'_> = answer.read();
    let topics = response.topics.iter();
    let topics = topics.map(|one| (one.name.unwrap_or_default(), one.partitions.len()));
    assert_eq!(topics.collect::<Vec<_>>(), [("topic", 2), ("zzz", 0)]);
}

#[test]
fn offsets_of_a_transaction_are_answered_as_they_are_named() {
    let (_server, mut client) = server_with_topic();
    let topic = |name, indices: &[i32]| {
        let partitions = indices.iter().map(|index| TxnOffsetCommitRequestPartition {
            partition_index: *index,
            ..TxnOffsetCommitRequestPartition::default()
        });
        TxnOffsetCommitRequestTopic {
            name,
            partitions: partitions.collect(),
        }
    };
    let mut committed = |group_id, topics: Vec<TxnOffsetCommitRequestTopic<'_>>| {
        let request = TxnOffsetCommitRequest {
            transactional_id: "id",
            group_id,
            topics: topics.into(),
            ..TxnOffsetCommitRequest::default()
        };
        let answer = client.call(3, &request);
        let response: TxnOffsetCommitResponse<'_> = answer.read();
        let topics = response.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|one| (one.partition_index, one.error_code));
            (topic.name.to_owned(), partitions.collect::<Vec<_>>())
        });
        topics.collect::<Vec<_>>()
    };
    // The group has no name.
    let none = ErrorCode::InvalidGroupId.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let entry = |partitions: &[(i32, i16)]| ("topic".to_owned(), partitions.to_vec());
    let answered = committed("", vec![topic("topic", &[1, 0]), topic("topic", &[1])]);
    assert_eq!(
        answered,
        [entry(&[(1, none), (0, none)]), entry(&[(1, none)])]
    );
    // Nobody has asked for a coordinator.
    let nowhere = ErrorCode::CoordinatorNotAvailable.code();
    let answered = committed("group", vec![topic("topic", &[1])]);
    assert_eq!(answered, [entry(&[(1, nowhere)])]);
    // An entry for what is refused takes in what is not.
    let answered = committed("", vec![topic("topic", &[1]), topic("topic", &[0, 9, 0])]);
    let expected = [(9, unknown), (1, none), (0, none), (0, none)];
    assert_eq!(answered, [entry(&expected)]);
}

/// A topic that does not exist, with so many partitions that `topic` begins in another piece of the
/// request.
fn behind_many<'a>(
    many: &'a [u8],
    batches: impl Iterator<Item = (i32, &'a [u8])>,
) -> [TopicProduceData<'a>; 2] {
    let data = |(index, records)| PartitionProduceData {
        index,
        records: Some(records),
    };
    let absent = (0..2_200).map(|index| data((index, many)));
    let topic = |name, partition_data| TopicProduceData {
        name,
        partition_data,
        ..TopicProduceData::default()
    };
    [
        topic("absent", absent.collect()),
        topic("topic", batches.map(data).collect()),
    ]
}

fn produce_topics(
    client: &mut Client,
    transactional_id: Option<&str>,
    topics: &[TopicProduceData<'_>],
) -> Vec<(String, Vec<(i32, ErrorCode)>)> {
    let request = ProduceRequest {
        transactional_id,
        acks: -1,
        timeout_ms: 1_000,
        topic_data: topics.to_vec().into(),
    };
    let answer = client.call(9, &request);
    let response: ProduceResponse<'_> = answer.read();
    let topics = response.responses.iter().map(|topic| {
        let partitions = topic.partition_responses.iter();
        let partitions = partitions.map(|one| (one.index, ErrorCode::from_code(one.error_code)));
        (topic.name.to_owned(), partitions.collect())
    });
    topics.collect()
}

#[test]
fn a_request_of_many_pieces_has_one_answer_in_the_order_of_its_partitions() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 300, &[]);
    let (first, last) = (batch(&["first"]), batch(&["last"]));
    // Each partition twice, of which the last counts; some are unknown.
    let known = (0..300).map(|index| (index, &first[..]));
    let again = (0..310).rev().map(|index| (index, &last[..]));
    let topics = behind_many(&first, known.chain(again));
    for offset in 0..2 {
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let answered = produce_topics(&mut client, None, &topics);
        let absent = (0..2_200).map(|index| (index, unknown)).collect();
        let error = |index| match index {
            0..300 => ErrorCode::None,
            _ => unknown,
        };
        let present = (0..310).map(|index| (index, error(index))).collect();
        let expected = [("absent".to_owned(), absent), ("topic".to_owned(), present)];
        assert_eq!(answered, expected);
        assert_eq!(client.list_offset("topic", 299, -1).offset, offset + 1);
    }
    for index in [0, 150, 299] {
        assert_eq!(client.fetch("topic", index, 0).values(), ["last", "last"]);
    }
}

#[test]
fn a_request_of_two_transactional_producers_is_refused_before_any_of_its_pieces() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2_100, &[]);
    let producer = testkit::TransactionalProducer::init(&mut client, "transaction");
    let of = |id| testkit::transactional_batch(id, producer.epoch, 0, &["a"]);
    let (own, other) = (of(producer.id), of(producer.id + 1));
    let batches = (0..2_100).map(|index| match index {
        2_099 => (index, &other[..]),
        _ => (index, &own[..]),
    });
    let topics = behind_many(&own, batches);
    let answered = produce_topics(&mut client, Some("transaction"), &topics);
    let refused = |(_, error): &(i32, ErrorCode)| *error == ErrorCode::InvalidProducerIdMapping;
    assert!(answered.iter().all(|(_, all)| all.iter().all(refused)));
    for index in [0, 2_099] {
        assert_eq!(client.list_offset("topic", index, -1).offset, 0);
    }
}
