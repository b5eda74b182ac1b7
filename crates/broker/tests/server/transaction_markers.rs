//! The ends of transactions in partitions: what readers of committed records see before and after
//! a marker, which markers are refused, and that a restart changes nothing of it.
//!
//! The coordinator is left out: partitions take transactional batches unverified, and the tests
//! write the markers.

use model::{ErrorCode, ProducerEpoch, ProducerId};
use record::{BatchBuilder, BatchHeader};
use testkit::{Client, Marker, TestServer, batch, now_ms, transactional_batch, wait_until};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{ProduceRequest, ProduceResponse};

/// Partitions ask no coordinator about clients that add partitions themselves.
const KEYS: [(&str, &str); 1] = [("transaction.partition.verification.enable", "false")];
/// The last version of Produce that does not enrol partitions.
const VERSION: i16 = 11;
const LATEST: i64 = -1;
const MAX_TIMESTAMP: i64 = -3;

#[track_caller]
fn produce(client: &mut Client, id: i64, epoch: i16, sequence: i32, values: &[&str]) -> i64 {
    let batch = transactional_batch(id, epoch, sequence, values);
    let produced = client.produce_in(VERSION, "transaction", ("topic", 0), &batch);
    produced.assert_accepted();
    produced.base_offset
}

fn marker(producer_id: i64, producer_epoch: i16, is_commit: bool) -> Marker {
    Marker {
        producer_id,
        producer_epoch,
        coordinator_epoch: 3,
        is_commit,
        transaction_version: 1,
    }
}

#[test]
fn the_greatest_timestamp_of_an_open_transaction_is_not_committed() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    let mut open = BatchBuilder::new(BatchHeader {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        is_transactional: true,
        ..BatchHeader::default()
    });
    open.append(now_ms() + 60_000, None, Some(b"b"), &[]);
    let open = open.into_uncompressed();
    let produced = client.produce_in(VERSION, "transaction", ("topic", 0), &open);
    produced.assert_accepted();
    assert_eq!(client.list_offset("topic", 0, MAX_TIMESTAMP).offset, 1);
    let listed = client.list_committed_offset("topic", 0, MAX_TIMESTAMP);
    assert_eq!((listed.error, listed.offset), (ErrorCode::None, -1));
    client.write_marker(&marker(7, 0, true), "topic", 0);
    let listed = client.list_committed_offset("topic", 0, MAX_TIMESTAMP);
    assert_eq!((listed.error, listed.offset), (ErrorCode::None, 1));
}

#[test]
fn readers_of_committed_records_wait_for_the_marker() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    assert_eq!(produce(&mut client, 7, 0, 0, &["b", "c"]), 1);
    client.produce("topic", 0, &batch(&["d"])).assert_accepted();
    assert_eq!(produce(&mut client, 8, 0, 0, &["e"]), 4);

    let before = client.fetch_committed("topic", 0, 0);
    assert_eq!(before.values(), ["a"]);
    assert_eq!(before.aborted, []);
    let offsets = |fetch: &testkit::Fetched| (fetch.last_stable_offset, fetch.high_watermark);
    assert_eq!(offsets(&before.fetched), (1, 5));
    assert_eq!(client.list_committed_offset("topic", 0, LATEST).offset, 1);
    assert_eq!(client.list_offset("topic", 0, LATEST).offset, 5);
    // What lies beyond is no error, and not there yet.
    assert_eq!(client.fetch_committed("topic", 0, 3).values(), [""; 0]);
    assert_eq!(client.list_committed_offset("topic", 0, 5).offset, 0);

    assert_eq!(
        client.write_marker(&marker(7, 0, false), "topic", 0),
        ErrorCode::None
    );
    let between = client.fetch_committed("topic", 0, 0);
    assert_eq!(between.values(), ["a", "d"]);
    assert_eq!(between.aborted, [(7, 1)]);
    assert_eq!(offsets(&between.fetched), (4, 6));
    assert_eq!(
        client.write_marker(&marker(8, 0, true), "topic", 0),
        ErrorCode::None
    );
    let after = client.fetch_committed("topic", 0, 0);
    assert_eq!(after.values(), ["a", "d", "e"]);
    assert_eq!(offsets(&after.fetched), (7, 7));
    // From where no aborted record is left there is no aborted transaction either.
    assert_eq!(client.fetch_committed("topic", 0, 6).aborted, []);
    assert_eq!(
        client.fetch("topic", 0, 0).values(),
        ["a", "b", "c", "d", "e"]
    );
    server.assert_serves();
}

#[test]
fn a_marker_wakes_a_reader_that_waits() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    produce(&mut client, 7, 0, 0, &["a"]);
    let mut reader = server.connect();
    reader.send_fetch_committed("topic", 0, 0, 600_000);
    // A record that is not stable brings the reader nothing.
    produce(&mut client, 9, 0, 0, &["b"]);
    assert_eq!(
        client.write_marker(&marker(7, 0, true), "topic", 0),
        ErrorCode::None
    );
    let fetched = reader.receive_committed();
    assert_eq!(fetched.values(), ["a"]);
    assert_eq!(fetched.fetched.last_stable_offset, 1);
}

#[test]
fn markers_out_of_date_are_refused() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let mut write = |marker: Marker, topic: &str, index: i32| {
        let error = client.write_marker(&marker, topic, index);
        (
            error,
            client
                .fetch_committed("topic", 0, 0)
                .fetched
                .last_stable_offset,
        )
    };
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(write(marker(7, 5, true), "topic", 1), (unknown, 0));
    assert_eq!(write(marker(7, 5, true), "no-such-topic", 0), (unknown, 0));
    assert_eq!(
        write(marker(7, 5, true), "__consumer_offsets", 0),
        (unknown, 0)
    );
    // A producer that is not known may have a marker: its records may be gone.
    assert_eq!(write(marker(7, 5, true), "topic", 0), (ErrorCode::None, 1));
    let fenced = ErrorCode::InvalidProducerEpoch;
    assert_eq!(write(marker(7, 4, true), "topic", 0), (fenced, 1));
    let older = Marker {
        coordinator_epoch: 2,
        ..marker(7, 5, true)
    };
    assert_eq!(
        write(older, "topic", 0),
        (ErrorCode::TransactionCoordinatorFenced, 1)
    );
    // The same again changes nothing, but is in the log.
    assert_eq!(write(marker(7, 5, true), "topic", 0), (ErrorCode::None, 2));
    // With version 2 as well, unless a transaction is open: then it ends an earlier one.
    let second = |epoch| Marker {
        transaction_version: 2,
        ..marker(7, epoch, false)
    };
    assert_eq!(write(second(5), "topic", 0), (ErrorCode::None, 3));
    produce(&mut server.connect(), 7, 5, 0, &["a"]);
    assert_eq!(write(second(5), "topic", 0), (fenced, 3));
    assert_eq!(write(second(6), "topic", 0), (ErrorCode::None, 5));
    assert_eq!(write(second(6), "topic", 0), (ErrorCode::None, 6));
    server.assert_serves();
}

#[test]
fn a_marker_of_no_producer_is_not_written() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let of_no_version = Marker {
        transaction_version: -1,
        ..marker(7, 5, true)
    };
    for forged in [
        marker(-1, 5, true),
        marker(-9, 5, true),
        marker(7, -1, true),
        of_no_version,
    ] {
        let error = client.write_marker(&forged, "topic", 0);
        assert_eq!(error, ErrorCode::UnknownServerError, "{forged:?}");
    }
    let fetched = client.fetch_committed("topic", 0, 0).fetched;
    assert_eq!(fetched.last_stable_offset, 0);
}

#[test]
fn zombies_and_forged_sequences_are_refused() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    produce(&mut client, 7, 3, 0, &["a"]);
    let mut refused = |epoch: i16, sequence: i32| {
        let batch = transactional_batch(7, epoch, sequence, &["z"]);
        let produced = client.produce_in(VERSION, "transaction", ("topic", 0), &batch);
        produced.error
    };
    assert_eq!(refused(2, 1), ErrorCode::InvalidProducerEpoch);
    assert_eq!(refused(3, 2), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(refused(4, 1), ErrorCode::OutOfOrderSequenceNumber);
    // A marker of the next epoch shuts out the instance that wrote.
    let next = Marker {
        transaction_version: 2,
        ..marker(7, 4, false)
    };
    assert_eq!(
        server.connect().write_marker(&next, "topic", 0),
        ErrorCode::None
    );
    assert_eq!(refused(3, 1), ErrorCode::InvalidProducerEpoch);
    assert_eq!(refused(4, 1), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(refused(4, 0), ErrorCode::None);
    // An open transaction takes no other records of its producer.
    let plain = testkit::idempotent_batch(7, 4, 1, &["p"]);
    let produced = client.produce("topic", 0, &plain);
    assert_eq!(produced.error, ErrorCode::InvalidTxnState);
    server.assert_serves();
}

#[test]
fn a_request_is_of_one_transaction() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    // Without its id a transactional batch may not be written.
    let batch = transactional_batch(7, 0, 0, &["a"]);
    let produced = client.produce("topic", 0, &batch);
    assert_eq!(
        produced.error,
        ErrorCode::TransactionalIdAuthorizationFailed
    );
    // Nor may batches of two producers.
    let batches = [
        transactional_batch(7, 0, 0, &["a"]),
        transactional_batch(8, 0, 0, &["b"]),
    ];
    let partitions = batches
        .iter()
        .zip(0..)
        .map(|(batch, index)| PartitionProduceData {
            index,
            records: Some(batch),
        });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        transactional_id: Some("transaction"),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic].into(),
    };
    let answer = client.call(VERSION, &request);
    let response: ProduceResponse<'_> = answer.read();
    let topic = response.responses.iter().next().expect("one topic");
    let errors = topic.partition_responses.iter().map(|one| one.error_code);
    let expected = ErrorCode::InvalidProducerIdMapping.code();
    assert_eq!(errors.collect::<Vec<_>>(), [expected, expected]);
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
}

#[test]
fn idle_producers_are_forgotten_but_not_open_transactions() {
    let server = TestServer::start(&[
        KEYS[0],
        ("producer.id.expiration.ms", "50"),
        ("producer.id.expiration.check.interval.ms", "20"),
    ]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    produce(&mut client, 7, 0, 0, &["a"]);
    let idle = testkit::idempotent_batch(8, 0, 0, &["b"]);
    client.produce("topic", 0, &idle).assert_accepted();
    wait_until("the idle producer is forgotten", || {
        let producers = client.describe_producers("topic", 0);
        let ids: Vec<_> = producers.iter().map(|one| one.producer_id).collect();
        ids == [7]
    });
    // Whoever is forgotten goes on where it was.
    let next = testkit::idempotent_batch(8, 0, 5, &["c"]);
    client.produce("topic", 0, &next).assert_accepted();
    let written = client.write_marker(&marker(7, 0, true), "topic", 0);
    assert_eq!(written, ErrorCode::None);
    assert_eq!(
        client.fetch_committed("topic", 0, 0).values(),
        ["a", "b", "c"]
    );
}

#[test]
fn transactions_outlive_a_restart() {
    for stops_in_order in [true, false] {
        let directory = trials::directory();
        let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        produce(&mut client, 7, 0, 0, &["a", "b"]);
        produce(&mut client, 8, 0, 0, &["c"]);
        assert_eq!(
            client.write_marker(&marker(7, 0, false), "topic", 0),
            ErrorCode::None
        );
        produce(&mut client, 7, 0, 2, &["d"]);
        produce(&mut client, 9, 2, 0, &["e"]);
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
        let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
        let mut client = server.connect();
        let open: Vec<_> = client
            .describe_producers("topic", 0)
            .iter()
            .map(|one| {
                (
                    one.producer_id,
                    one.coordinator_epoch,
                    one.current_txn_start_offset,
                )
            })
            .collect();
        assert_eq!(open, [(7, 3, 4), (8, -1, 2), (9, -1, 5)]);
        let fetched = client.fetch_committed("topic", 0, 0);
        assert_eq!(fetched.fetched.last_stable_offset, 2);
        assert_eq!(
            (fetched.aborted.as_slice(), fetched.values().len()),
            (&[(7, 0)][..], 0)
        );
        for (id, epoch, is_commit) in [(8, 0, true), (7, 0, true), (9, 2, false)] {
            let marker = marker(id, epoch, is_commit);
            assert_eq!(client.write_marker(&marker, "topic", 0), ErrorCode::None);
        }
        let fetched = client.fetch_committed("topic", 0, 0);
        assert_eq!(fetched.values(), ["c", "d"]);
        assert_eq!(fetched.aborted, [(7, 0), (9, 5)]);
    }
}

#[test]
fn deleted_records_of_an_open_transaction_hold_nothing_back() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    produce(&mut client, 7, 0, 0, &["a", "b", "c"]);
    assert_eq!(client.delete_records("topic", 0, 2), (ErrorCode::None, 2));
    let fetched = client.fetch_committed("topic", 0, 2).fetched;
    assert_eq!(
        (fetched.log_start_offset, fetched.last_stable_offset),
        (2, 2)
    );
}
