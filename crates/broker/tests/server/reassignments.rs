//! Leaders elected and replicas moved, as far as there are brokers to move them to.

use model::{BrokerId, ErrorCode};
use testkit::TestServer;
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::messages::elect_leaders_request::TopicPartitions;
use wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ElectLeadersRequest,
    ElectLeadersResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

/// The whole request's error, then `topic-partition error` of each partition.
fn elect(version: i16, election_type: i8, topics: Option<&[(&str, &[i32])]>) -> Vec<String> {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("t", 2, &[]);
    let topics = topics.map(|topics| {
        let topics = topics.iter().map(|(topic, partitions)| TopicPartitions {
            topic,
            partitions: partitions.iter().copied().collect(),
        });
        topics.collect()
    });
    let request = ElectLeadersRequest {
        election_type,
        topic_partitions: topics,
        timeout_ms: 10_000,
    };
    let answer = client.call(version, &request);
    let response: ElectLeadersResponse<'_> = answer.read();
    let mut shown = vec![ErrorCode::from_code(response.error_code).name().to_owned()];
    for topic in response.replica_election_results.iter() {
        shown.push(topic.topic.to_owned());
        for one in topic.partition_result.iter() {
            let error = ErrorCode::from_code(one.error_code).name();
            shown.push(format!("{}-{} {error}", topic.topic, one.partition_id));
        }
    }
    shown
}

#[test]
fn the_only_replica_leads_already() {
    let asked: &[(&str, &[i32])] = &[("t", &[1]), ("u", &[0])];
    for version in 0..=2 {
        assert_eq!(
            elect(version, 0, Some(asked)),
            [
                "NONE",
                "t",
                "t-1 ELECTION_NOT_NEEDED",
                "u",
                "u-0 UNKNOWN_TOPIC_OR_PARTITION"
            ]
        );
    }
    assert_eq!(elect(2, 0, None), ["NONE", "t"]);
    assert_eq!(elect(2, 7, Some(&[])), ["NONE"]);
    assert_eq!(
        elect(2, 7, Some(&[("t", &[1])])),
        ["INVALID_REQUEST", "t", "t-1 INVALID_REQUEST"]
    );
}

#[test]
fn replicas_stay_on_the_only_broker() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    for (replicas, error) in [
        (Some(vec![1]), ErrorCode::None),
        (Some(vec![2]), ErrorCode::InvalidReplicaAssignment),
        (Some(vec![]), ErrorCode::InvalidReplicaAssignment),
        (None, ErrorCode::NoReassignmentInProgress),
    ] {
        let partition = ReassignablePartition {
            partition_index: 0,
            replicas: replicas
                .clone()
                .map(|ids| ids.into_iter().map(BrokerId).collect()),
        };
        let topic = ReassignableTopic {
            name: "t",
            partitions: vec![partition].into(),
        };
        let request = AlterPartitionReassignmentsRequest {
            topics: vec![topic].into(),
            ..Default::default()
        };
        let answer = client.call(1, &request);
        let response: AlterPartitionReassignmentsResponse<'_> = answer.read();
        let topic = response.responses.iter().next().unwrap();
        let result = topic.partitions.iter().next().unwrap();
        assert_eq!((response.error_code, response.error_message), (0, None));
        assert_eq!(
            ErrorCode::from_code(result.error_code),
            error,
            "{replicas:?}"
        );
    }
    let asked = ListPartitionReassignmentsTopics {
        name: "t",
        partition_indexes: vec![0, 7].into(),
    };
    for topics in [None, Some(vec![asked].into())] {
        let request = ListPartitionReassignmentsRequest {
            topics,
            ..Default::default()
        };
        let answer = client.call(0, &request);
        let response: ListPartitionReassignmentsResponse<'_> = answer.read();
        assert_eq!((response.error_code, response.topics.len()), (0, 0));
        assert_eq!(response.error_message, None);
    }
    let answer = client.call(1, &AlterPartitionReassignmentsRequest::default());
    let response: AlterPartitionReassignmentsResponse<'_> = answer.read();
    assert_eq!(response, AlterPartitionReassignmentsResponse::default());
    server.stop();
}
