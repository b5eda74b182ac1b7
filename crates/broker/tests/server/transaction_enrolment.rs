//! The first batch of a transaction in a partition: which the coordinator vouches for, what older
//! and newer producers are told of the others, and that nothing late opens a transaction.

use model::ErrorCode;
use testkit::{
    Client, OffsetInTransaction, TestServer, TransactionalProducer as Producer, wait_until,
};

const ID: &str = "transaction";
const KEYS: [(&str, &str); 2] = [
    ("transaction.state.log.num.partitions", "1"),
    ("offsets.topic.num.partitions", "1"),
];
const TOPIC: (&str, i32) = ("topic", 0);

fn produce(
    producer: &Producer,
    client: &mut Client,
    version: i16,
    sequence: i32,
    value: &str,
) -> ErrorCode {
    let produced = producer.produce(client, version, TOPIC, sequence, value);
    produced.error
}

#[track_caller]
fn wait_for_stable_offset(client: &mut Client, offset: i64) {
    wait_until("the last stable offset moves", || {
        let fetched = client.fetch_committed("topic", 0, 0).fetched;
        fetched.last_stable_offset == offset
    });
}

fn start() -> (TestServer, Client) {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    (server, client)
}

#[test]
fn what_was_not_added_is_refused_in_the_words_of_the_version() {
    let (server, mut client) = start();
    let mut producer = Producer::init(&mut client, ID);
    assert_eq!(
        produce(&producer, &mut client, 10, 0, "a"),
        ErrorCode::InvalidTxnState
    );
    assert_eq!(
        produce(&producer, &mut client, 11, 0, "a"),
        ErrorCode::TransactionAbortable
    );
    assert_eq!(producer.add(&mut client, "topic"), ErrorCode::None);
    assert_eq!(produce(&producer, &mut client, 10, 0, "a"), ErrorCode::None);
    assert_eq!(produce(&producer, &mut client, 10, 1, "b"), ErrorCode::None);
    producer.end(&mut client, 4, true);
    wait_for_stable_offset(&mut client, 3);
    // A batch that comes after the end opens no transaction.
    assert_eq!(
        produce(&producer, &mut client, 10, 2, "late"),
        ErrorCode::InvalidTxnState
    );
    let fetched = client.fetch_committed("topic", 0, 0);
    assert_eq!(fetched.values(), ["a", "b"]);
    assert_eq!(fetched.fetched.last_stable_offset, 3);
    server.assert_serves();
}

#[test]
fn version_2_enrols_what_is_written_to() {
    let (server, mut client) = start();
    let mut producer = Producer::init(&mut client, ID);
    let first_epoch = producer.epoch;
    // The first batch of an epoch has the first sequence number.
    assert_eq!(
        produce(&producer, &mut client, 12, 4, "x"),
        ErrorCode::OutOfOrderSequenceNumber
    );
    producer.produce_soon(&mut client, TOPIC, 0, "a");
    producer.produce_soon(&mut client, TOPIC, 1, "b");
    producer.end(&mut client, 5, true);
    assert_eq!(producer.epoch, first_epoch + 1);
    wait_for_stable_offset(&mut client, 3);
    let zombie = Producer {
        epoch: first_epoch,
        ..producer.clone()
    };
    let refused = produce(&zombie, &mut client, 12, 2, "late");
    assert_eq!(refused, ErrorCode::InvalidProducerEpoch);
    producer.produce_soon(&mut client, TOPIC, 0, "c");
    producer.end(&mut client, 5, false);
    wait_for_stable_offset(&mut client, 5);
    assert_eq!(client.fetch_committed("topic", 0, 0).values(), ["a", "b"]);
    let state = client.describe_producers("topic", 0);
    assert_eq!(state[0].producer_epoch, i32::from(first_epoch + 2));
    assert_eq!(state[0].current_txn_start_offset, -1);
    server.assert_serves();
}

#[test]
fn a_producer_that_was_replaced_writes_nothing_more() {
    let (server, mut client) = start();
    let first = Producer::init(&mut client, ID);
    first.produce_soon(&mut client, TOPIC, 0, "a");
    let second = Producer::init(&mut client, ID);
    assert!(second.epoch > first.epoch);
    wait_for_stable_offset(&mut client, 2);
    let zombie = produce(&first, &mut client, 12, 1, "b");
    assert_eq!(zombie, ErrorCode::InvalidProducerEpoch);
    // Nor does one that forges a producer id.
    let forged = Producer {
        id: second.id + 1,
        ..second
    };
    assert_ne!(produce(&forged, &mut client, 12, 0, "c"), ErrorCode::None);
    assert_ne!(produce(&forged, &mut client, 11, 0, "c"), ErrorCode::None);
    assert_eq!(client.fetch_committed("topic", 0, 0).values(), [""; 0]);
    server.assert_serves();
}

#[test]
fn offsets_enrol_their_partition() {
    let (server, mut client) = start();
    client.wait_for_coordinator("group");
    let mut producer = Producer::init(&mut client, ID);
    let offsets = |producer: &Producer, offset| OffsetInTransaction {
        transactional_id: ID,
        producer: (producer.id, producer.epoch),
        group: "group",
        topic: "topic",
        offset,
    };
    for (version, refused) in [
        (3, ErrorCode::InvalidTxnState),
        (4, ErrorCode::TransactionAbortable),
    ] {
        let error = client.commit_offset_in(version, &offsets(&producer, 3));
        assert_eq!(error, refused, "{version}");
    }
    for (offset, committed, expected) in [(4, true, 4), (5, false, 4), (6, true, 6)] {
        let asked = offsets(&producer, offset);
        wait_until("the offset is taken", || {
            match client.commit_offset_in(5, &asked) {
                ErrorCode::None => true,
                ErrorCode::ConcurrentTransactions => false,
                error => panic!("{error}"),
            }
        });
        producer.end(&mut client, 5, committed);
        wait_until("the offset is settled", || {
            let open = client.describe_producers("__consumer_offsets", 0);
            open.iter().all(|one| one.current_txn_start_offset == -1)
        });
        assert_eq!(client.committed_offset("group", "topic", 0), expected);
    }
    server.assert_serves();
}
