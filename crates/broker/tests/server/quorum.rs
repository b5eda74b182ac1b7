//! What the controller answers to nodes that want to lead the quorum, lead it, or no longer do.

use crate::cluster::{HEARTBEATS, SESSION};
use expect_test::{Expect, expect};
use model::{BrokerId, ErrorCode};
use std::fmt::Write as _;
use testkit::{Client, TestServer};
use wire::messages::{
    BeginQuorumEpochRequest, BeginQuorumEpochResponse, EndQuorumEpochRequest,
    EndQuorumEpochResponse, VoteRequest, VoteResponse, begin_quorum_epoch_request,
    end_quorum_epoch_request, vote_request,
};

/// What a node says: of which log, and who leads in which epoch.
struct Said {
    what: &'static str,
    cluster_id: Option<&'static str>,
    topic: &'static str,
    partition: i32,
    leader: i32,
    epoch: i32,
}

const RIGHT: Said = Said {
    what: "right",
    cluster_id: None,
    topic: "__cluster_metadata",
    partition: 0,
    leader: 1,
    epoch: 1,
};

const SAID: [Said; 7] = [
    RIGHT,
    Said {
        what: "another cluster",
        cluster_id: Some("another"),
        ..RIGHT
    },
    Said {
        what: "another topic",
        topic: "topic",
        ..RIGHT
    },
    Said {
        what: "another partition",
        partition: 1,
        ..RIGHT
    },
    Said {
        what: "another leader",
        leader: 2,
        ..RIGHT
    },
    Said {
        what: "an old epoch",
        epoch: 0,
        ..RIGHT
    },
    Said {
        what: "a later epoch",
        epoch: 2,
        ..RIGHT
    },
];

/// The error of a response; those of its partitions, with leader and epoch; how many endpoints it has.
macro_rules! shown {
    ($response:expr) => {{
        let mut line = ErrorCode::from_code($response.error_code).to_string();
        for partition in $response.topics.iter().flat_map(|topic| topic.partitions) {
            let error = ErrorCode::from_code(partition.error_code);
            let (leader, epoch) = (partition.leader_id, partition.leader_epoch);
            write!(line, ", {error} {leader} in {epoch}").unwrap();
        }
        for node in $response.node_endpoints.iter() {
            write!(line, ", {} at {}", node.node_id, node.host).unwrap();
        }
        line
    }};
}

#[expect(clippy::needless_pass_by_value, reason = "as expectations are written")]
fn check(ask: impl Fn(&mut Client, &Said) -> String, expected: Expect) {
    let server = TestServer::start(&[
        ("process.roles", "controller"),
        ("node.id", "1"),
        ("listeners", "CONTROLLER://127.0.0.1:0"),
        SESSION,
        HEARTBEATS,
    ]);
    let mut client = Client::connect(server.address_of("CONTROLLER"));
    let lines = SAID
        .iter()
        .map(|said| format!("{}: {}\n", said.what, ask(&mut client, said)));
    expected.assert_eq(&lines.collect::<String>());
    server.stop();
}

/// Who says that it leads, or that it leads no longer, sends the same fields.
macro_rules! announced {
    ($request:ident, $response:ident, $fields:ident) => {
        |client: &mut Client, said: &Said| {
            let partition = $fields::PartitionData {
                partition_index: said.partition,
                leader_id: BrokerId(said.leader),
                leader_epoch: said.epoch,
                ..Default::default()
            };
            let topic = $fields::TopicData {
                topic_name: said.topic,
                partitions: vec![partition].into(),
            };
            let request = $request {
                cluster_id: said.cluster_id,
                topics: vec![topic].into(),
                ..Default::default()
            };
            let response = client.call(1, &request);
            let response: $response<'_> = response.read();
            shown!(response)
        }
    };
}

#[test]
fn who_leads_or_no_longer_leads_is_told_who_does() {
    let begins = announced!(
        BeginQuorumEpochRequest,
        BeginQuorumEpochResponse,
        begin_quorum_epoch_request
    );
    let ends = announced!(
        EndQuorumEpochRequest,
        EndQuorumEpochResponse,
        end_quorum_epoch_request
    );
    for ask in [begins as fn(&mut Client, &Said) -> String, ends] {
        check(
            ask,
            expect![[r#"
                right: NONE, NONE 1 in 1, 1 at 127.0.0.1
                another cluster: INCONSISTENT_CLUSTER_ID
                another topic: INVALID_REQUEST
                another partition: INVALID_REQUEST
                another leader: NONE, INCONSISTENT_VOTER_SET 1 in 1, 1 at 127.0.0.1
                an old epoch: NONE, FENCED_LEADER_EPOCH 1 in 1, 1 at 127.0.0.1
                a later epoch: NONE, INCONSISTENT_VOTER_SET 1 in 1, 1 at 127.0.0.1
            "#]],
        );
    }
}

#[test]
fn nobody_else_is_elected() {
    let ask = |client: &mut Client, said: &Said| {
        let partition = vote_request::PartitionData {
            partition_index: said.partition,
            replica_id: BrokerId(said.leader),
            replica_epoch: said.epoch,
            ..Default::default()
        };
        let topic = vote_request::TopicData {
            topic_name: said.topic,
            partitions: vec![partition].into(),
        };
        let request = VoteRequest {
            cluster_id: said.cluster_id,
            topics: vec![topic].into(),
            ..Default::default()
        };
        let response = client.call(1, &request);
        let response: VoteResponse<'_> = response.read();
        let granted = response.topics.iter().flat_map(|topic| topic.partitions);
        assert!(granted.into_iter().all(|one| !one.vote_granted));
        shown!(response)
    };
    check(
        ask,
        expect![[r#"
        right: NONE, NONE 1 in 1, 1 at 127.0.0.1
        another cluster: INCONSISTENT_CLUSTER_ID
        another topic: INVALID_REQUEST
        another partition: INVALID_REQUEST
        another leader: NONE, NONE 1 in 1, 1 at 127.0.0.1
        an old epoch: NONE, INVALID_REQUEST 1 in 1, 1 at 127.0.0.1
        a later epoch: NONE, NONE 1 in 1, 1 at 127.0.0.1
    "#]],
    );
}
