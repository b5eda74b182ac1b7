//! The first batch of a transaction in a partition: which the coordinator vouches for, what older
//! and newer producers are told of the others, and that nothing late opens a transaction.

use model::ErrorCode;
use testkit::{Client, OffsetInTransaction, TestServer, transactional_batch, wait_until};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
};

const ID: &str = "transaction";
const KEYS: [(&str, &str); 2] = [
    ("transaction.state.log.num.partitions", "1"),
    ("offsets.topic.num.partitions", "1"),
];
/// FindCoordinator's key type of transactional ids.
const TRANSACTION: i8 = 1;

/// A producer in its protocol: with version 2 partitions join by being written to.
struct Producer {
    id: i64,
    epoch: i16,
}

impl Producer {
    #[track_caller]
    fn init(client: &mut Client) -> Self {
        let find = FindCoordinatorRequest {
            key_type: TRANSACTION,
            key: ID,
            ..FindCoordinatorRequest::default()
        };
        let request = InitProducerIdRequest {
            transactional_id: Some(ID),
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        };
        let mut producer = None;
        wait_until("the producer has its epoch", || {
            let answer = client.call(3, &find);
            let response: FindCoordinatorResponse<'_> = answer.read();
            if response.error_code != 0 {
                return false;
            }
            let answer = client.call(4, &request);
            let response: InitProducerIdResponse = answer.read();
            producer = (response.error_code == 0).then_some(Self {
                id: response.producer_id,
                epoch: response.producer_epoch,
            });
            producer.is_some()
        });
        producer.unwrap()
    }

    fn add(&self, client: &mut Client, topic: &str) -> ErrorCode {
        let topic = AddPartitionsToTxnTopic {
            name: topic,
            partitions: vec![0].into(),
        };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: ID,
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![topic].into(),
            ..AddPartitionsToTxnRequest::default()
        };
        let answer = client.call(3, &request);
        let response: AddPartitionsToTxnResponse<'_> = answer.read();
        let topic = response.results_by_topic_v3_and_below.iter().next();
        let topic = topic.expect("one topic");
        let partition = topic
            .results_by_partition
            .iter()
            .next()
            .expect("one partition");
        ErrorCode::from_code(partition.partition_error_code)
    }

    /// Ends the transaction; with version 5 the producer goes on with the next epoch.
    #[track_caller]
    fn end(&mut self, client: &mut Client, version: i16, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: ID,
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        };
        let answer = client.call(version, &request);
        let response: EndTxnResponse = answer.read();
        assert_eq!(ErrorCode::from_code(response.error_code), ErrorCode::None);
        if version >= 5 {
            (self.id, self.epoch) = (response.producer_id, response.producer_epoch);
        }
    }

    fn produce(&self, client: &mut Client, version: i16, sequence: i32, value: &str) -> ErrorCode {
        let batch = transactional_batch(self.id, self.epoch, sequence, &[value]);
        let produced = client.produce_in(version, ID, ("topic", 0), &batch);
        produced.error
    }

    /// Produces as soon as the end of the last transaction is complete.
    #[track_caller]
    fn produce_soon(&self, client: &mut Client, version: i16, sequence: i32, value: &str) {
        wait_until("the batch is taken", || {
            match self.produce(client, version, sequence, value) {
                ErrorCode::None => true,
                ErrorCode::ConcurrentTransactions | ErrorCode::NotEnoughReplicas => false,
                error => panic!("{value}: {error}"),
            }
        });
    }
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
    let mut producer = Producer::init(&mut client);
    assert_eq!(
        producer.produce(&mut client, 10, 0, "a"),
        ErrorCode::InvalidTxnState
    );
    assert_eq!(
        producer.produce(&mut client, 11, 0, "a"),
        ErrorCode::TransactionAbortable
    );
    assert_eq!(producer.add(&mut client, "topic"), ErrorCode::None);
    assert_eq!(producer.produce(&mut client, 10, 0, "a"), ErrorCode::None);
    assert_eq!(producer.produce(&mut client, 10, 1, "b"), ErrorCode::None);
    producer.end(&mut client, 4, true);
    wait_for_stable_offset(&mut client, 3);
    // A batch that comes after the end opens no transaction.
    assert_eq!(
        producer.produce(&mut client, 10, 2, "late"),
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
    let mut producer = Producer::init(&mut client);
    let first_epoch = producer.epoch;
    // The first batch of an epoch has the first sequence number.
    assert_eq!(
        producer.produce(&mut client, 12, 4, "x"),
        ErrorCode::OutOfOrderSequenceNumber
    );
    producer.produce_soon(&mut client, 12, 0, "a");
    producer.produce_soon(&mut client, 12, 1, "b");
    producer.end(&mut client, 5, true);
    assert_eq!(producer.epoch, first_epoch + 1);
    wait_for_stable_offset(&mut client, 3);
    let zombie = Producer {
        id: producer.id,
        epoch: first_epoch,
    };
    let refused = zombie.produce(&mut client, 12, 2, "late");
    assert_eq!(refused, ErrorCode::InvalidProducerEpoch);
    producer.produce_soon(&mut client, 12, 0, "c");
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
    let first = Producer::init(&mut client);
    first.produce_soon(&mut client, 12, 0, "a");
    let second = Producer::init(&mut client);
    assert!(second.epoch > first.epoch);
    wait_for_stable_offset(&mut client, 2);
    let zombie = first.produce(&mut client, 12, 1, "b");
    assert_eq!(zombie, ErrorCode::InvalidProducerEpoch);
    // Nor does one that forges a producer id.
    let forged = Producer {
        id: second.id + 1,
        epoch: second.epoch,
    };
    assert_ne!(forged.produce(&mut client, 12, 0, "c"), ErrorCode::None);
    assert_ne!(forged.produce(&mut client, 11, 0, "c"), ErrorCode::None);
    assert_eq!(client.fetch_committed("topic", 0, 0).values(), [""; 0]);
    server.assert_serves();
}

#[test]
fn offsets_enrol_their_partition() {
    let (server, mut client) = start();
    client.wait_for_coordinator("group");
    let mut producer = Producer::init(&mut client);
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
