//! Offsets that a transaction holds for a group: when they count, who may see them before, and
//! what is refused.

use model::ErrorCode;
use testkit::{Client, Marker, OffsetInTransaction, TestServer};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{OffsetFetchRequest, OffsetFetchResponse};

/// Partitions ask no coordinator about clients that add partitions themselves, and there is one
/// partition of offsets.
const KEYS: [(&str, &str); 2] = [
    ("transaction.partition.verification.enable", "false"),
    ("offsets.topic.num.partitions", "1"),
];
const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// The last version of TxnOffsetCommit that does not enrol the partition.
const VERSION: i16 = 4;

fn commit(producer_id: i64, offset: i64) -> OffsetInTransaction<'static> {
    OffsetInTransaction {
        transactional_id: "transaction",
        producer: (producer_id, 0),
        group: "group",
        topic: "topic",
        offset,
    }
}

#[track_caller]
fn end(client: &mut Client, producer_id: i64, is_commit: bool) {
    let marker = Marker {
        producer_id,
        producer_epoch: 0,
        coordinator_epoch: 0,
        is_commit,
        transaction_version: 1,
    };
    let error = client.write_marker(&marker, OFFSETS_TOPIC, 0);
    assert_eq!(error, ErrorCode::None);
}

/// The offset of partition 0, as someone reads it who wants none that may change.
fn stable_offset(client: &mut Client) -> Result<i64, ErrorCode> {
    let topic = OffsetFetchRequestTopics {
        name: "topic",
        partition_indexes: vec![0].into(),
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: "group",
        topics: Some(vec![topic].into()),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group].into(),
        require_stable: true,
        ..OffsetFetchRequest::default()
    };
    let answer = client.call(9, &request);
    let response: OffsetFetchResponse<'_> = answer.read();
    let group = response.groups.iter().next().expect("one group");
    assert_eq!(group.error_code, 0);
    let topic = group.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    match ErrorCode::from_code(partition.error_code) {
        ErrorCode::None => Ok(partition.committed_offset),
        error => Err(error),
    }
}

fn server_with_group() -> (TestServer, Client) {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    (server, client)
}

#[test]
fn offsets_count_when_their_transaction_commits() {
    let (server, mut client) = server_with_group();
    let unstable = Err(ErrorCode::UnstableOffsetCommit);
    assert_eq!(
        client.commit_offset_in(VERSION, &commit(7, 5)),
        ErrorCode::None
    );
    assert_eq!(client.committed_offset("group", "topic", 0), -1);
    assert_eq!(stable_offset(&mut client), unstable);
    end(&mut client, 7, true);
    assert_eq!(stable_offset(&mut client), Ok(5));

    assert_eq!(
        client.commit_offset_in(VERSION, &commit(7, 6)),
        ErrorCode::None
    );
    assert_eq!(client.commit_offset_in(0, &commit(8, 9)), ErrorCode::None);
    assert_eq!(client.committed_offset("group", "topic", 0), 5);
    end(&mut client, 7, false);
    // The other transaction is open.
    assert_eq!(stable_offset(&mut client), unstable);
    end(&mut client, 8, false);
    assert_eq!(stable_offset(&mut client), Ok(5));
    server.assert_serves();
}

#[test]
fn offsets_of_open_transactions_outlive_a_restart() {
    for stops_in_order in [true, false] {
        let directory = trials::directory();
        let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        client.wait_for_coordinator("group");
        assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
        assert_eq!(
            client.commit_offset_in(VERSION, &commit(7, 5)),
            ErrorCode::None
        );
        end(&mut client, 7, true);
        assert_eq!(
            client.commit_offset_in(VERSION, &commit(8, 6)),
            ErrorCode::None
        );
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
        let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
        let mut client = server.connect();
        client.wait_for_coordinator("group");
        assert_eq!(client.committed_offset("group", "topic", 0), 5);
        let unstable = Err(ErrorCode::UnstableOffsetCommit);
        assert_eq!(stable_offset(&mut client), unstable);
        end(&mut client, 8, true);
        assert_eq!(stable_offset(&mut client), Ok(6));
    }
}

#[test]
fn what_may_not_be_committed_is_refused() {
    let (server, mut client) = server_with_group();
    let mut refused =
        |version: i16, asked: OffsetInTransaction<'_>| client.commit_offset_in(version, &asked);
    let unknown = OffsetInTransaction {
        topic: "no-such-topic",
        ..commit(7, 1)
    };
    assert_eq!(
        refused(VERSION, unknown),
        ErrorCode::UnknownTopicOrPartition
    );
    let nobody = OffsetInTransaction {
        group: "",
        ..commit(7, 1)
    };
    assert_eq!(refused(VERSION, nobody), ErrorCode::InvalidGroupId);
    assert_eq!(refused(VERSION, commit(7, 1)), ErrorCode::None);
    // A marker of the next epoch shuts the producer out.
    let marker = Marker {
        producer_id: 7,
        producer_epoch: 1,
        coordinator_epoch: 0,
        is_commit: false,
        transaction_version: 2,
    };
    let written = server.connect().write_marker(&marker, OFFSETS_TOPIC, 0);
    assert_eq!(written, ErrorCode::None);
    assert_eq!(
        refused(VERSION, commit(7, 2)),
        ErrorCode::InvalidProducerEpoch
    );
    // No coordinator knows the transaction that version 5 would enrol the partition in.
    assert_ne!(refused(5, commit(9, 2)), ErrorCode::None);
    let mut client = server.connect();
    assert_eq!(stable_offset(&mut client), Ok(-1));
    server.assert_serves();
}

/// Every offset of the group, by topic.
fn all_offsets(client: &mut Client) -> Vec<(String, i64)> {
    let group = OffsetFetchRequestGroup {
        group_id: "group",
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group].into(),
        ..OffsetFetchRequest::default()
    };
    let answer = client.call(9, &request);
    let response: OffsetFetchResponse<'_> = answer.read();
    let group = response.groups.iter().next().expect("one group");
    assert_eq!(group.error_code, 0);
    let topics = group.topics.iter().map(|topic| {
        let partition = topic.partitions.iter().next().expect("one partition");
        (topic.name.to_owned(), partition.committed_offset)
    });
    topics.collect()
}

#[test]
fn a_topic_made_anew_inherits_no_offset_whose_deletion_a_crash_has_lost() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    for topic in ["topic", "gone", "stays"] {
        client.create_topic(topic, 1, &[]);
    }
    client.wait_for_coordinator("group");
    for topic in ["gone", "stays"] {
        assert_eq!(client.commit_offset("group", topic, 7), ErrorCode::None);
    }
    for (producer_id, topic) in [(7, "topic"), (8, "stays")] {
        let commit = OffsetInTransaction {
            topic,
            ..commit(producer_id, 5)
        };
        assert_eq!(client.commit_offset_in(VERSION, &commit), ErrorCode::None);
        end(&mut client, producer_id, true);
    }
    let log = directory.path().join("__consumer_offsets-0");
    let log = log.join("00000000000000000000.log");
    let length = std::fs::metadata(&log).unwrap().len();
    for topic in ["topic", "gone"] {
        assert_eq!(client.delete_topic(topic), ErrorCode::None);
    }
    assert_eq!(all_offsets(&mut client), [("stays".to_owned(), 5)]);
    client.create_topic("topic", 1, &[]);
    drop(client);
    server.crash();
    // Nobody has asked for these records to be flushed.
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    assert!(file.metadata().unwrap().len() > length);
    file.set_len(length).unwrap();

    let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), -1);
    assert_eq!(stable_offset(&mut client), Ok(-1));
    testkit::wait_until("what is left of old topics is deleted", || {
        all_offsets(&mut client) == [("stays".to_owned(), 5)]
    });
}

#[test]
fn a_deletion_of_offsets_that_the_log_refuses_is_tried_again() {
    let (server, mut client) = server_with_group();
    client.create_topic("stays", 1, &[]);
    for topic in ["topic", "stays"] {
        assert_eq!(client.commit_offset("group", topic, 7), ErrorCode::None);
    }
    assert_eq!(
        client.commit_offset_in(VERSION, &commit(7, 8)),
        ErrorCode::None
    );
    // As short as no batch is.
    client.alter_topic(OFFSETS_TOPIC, &[("max.message.bytes", "1")]);
    assert_ne!(client.commit_offset("group", "stays", 8), ErrorCode::None);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    let offset = |topic: &str, offset| (topic.to_owned(), offset);
    assert_eq!(
        all_offsets(&mut client),
        [offset("stays", 7), offset("topic", 7)],
        "it is refused"
    );
    client.create_topic("topic", 1, &[]);
    assert_eq!(
        all_offsets(&mut client),
        [offset("stays", 7)],
        "of the topic that has the name there is none"
    );
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    client.alter_topic(OFFSETS_TOPIC, &[("max.message.bytes", "1000000")]);
    testkit::wait_until("it is done", || {
        all_offsets(&mut client) == [offset("stays", 7)]
    });
    end(&mut client, 7, true);
    assert_eq!(all_offsets(&mut client), [offset("stays", 7)]);
    server.assert_serves();
}
