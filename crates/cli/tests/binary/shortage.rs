//! What clients are told while there is no file descriptor left for a log that nobody has used.

use crate::process::Process;
use model::{BrokerId, ErrorCode};
use testkit::{Client, batch, wait_until};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{
    DescribeProducersRequest, DescribeProducersResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};

const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;

/// Where an epoch of partition 0 ends.
fn end_of_epoch(client: &mut Client, leader_epoch: i32) -> (ErrorCode, i32, i64) {
    let partition = OffsetForLeaderPartition {
        partition: 0,
        current_leader_epoch: -1,
        leader_epoch,
    };
    let request = OffsetForLeaderEpochRequest {
        replica_id: BrokerId::NONE,
        topics: vec![OffsetForLeaderTopic {
            topic: "topic",
            partitions: vec![partition].into(),
        }]
        .into(),
    };
    let answer = client.call(4, &request);
    let response: OffsetForLeaderEpochResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let found = topic.partitions.iter().next().unwrap();
    let error = ErrorCode::from_code(found.error_code);
    (error, found.leader_epoch, found.end_offset)
}

fn describe_producers(client: &mut Client) -> ErrorCode {
    let topic = TopicRequest {
        name: "topic",
        partition_indexes: vec![0].into(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeProducersResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    ErrorCode::from_code(topic.partitions.iter().next().unwrap().error_code)
}

fn list_offset(client: &mut Client, timestamp: i64) -> (ErrorCode, i64, i32) {
    let found = client.list_offset("topic", 0, timestamp);
    (found.error, found.offset, found.leader_epoch)
}

#[test]
fn what_cannot_be_looked_up_is_an_error_that_passes() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    for value in ["a", "b"] {
        client
            .produce("topic", 0, &batch(&[value]))
            .assert_accepted();
    }
    drop(client);
    process.stop();

    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    // Who has been answered has been accepted.
    client.brokers();
    // Fewer than it has open already.
    process.limit_descriptors(5);
    let refused = ErrorCode::KafkaStorageError;
    for _ in 0..3 {
        // Without an error, a consumer would take the log for one that was cut.
        assert_eq!(end_of_epoch(&mut client, 0), (refused, -1, -1));
        assert_eq!(list_offset(&mut client, EARLIEST), (refused, -1, -1));
        assert_eq!(list_offset(&mut client, MAX_TIMESTAMP).0, refused);
        assert_eq!(list_offset(&mut client, 0).0, refused);
        assert_eq!(describe_producers(&mut client), refused);
        assert_eq!(client.delete_records("topic", 0, 1), (refused, -1));
    }
    let told = |what: &str| process.log().matches(what).count();
    wait_until("the limit is named", || told("ulimit -n") >= 2);
    // Once, however often it is met.
    assert_eq!(told("a log is not read: there is no file descriptor"), 1);
    assert_eq!(told("records are not deleted: there is no file"), 1);

    process.limit_descriptors(500);
    assert_eq!(end_of_epoch(&mut client, 0), (ErrorCode::None, 0, 2));
    let first = (ErrorCode::None, 0, 0);
    assert_eq!(list_offset(&mut client, EARLIEST), first);
    assert_eq!(list_offset(&mut client, 0), first);
    assert_eq!(describe_producers(&mut client), ErrorCode::None);
    assert_eq!(client.delete_records("topic", 0, 1), (ErrorCode::None, 1));
    process.stop();
}
