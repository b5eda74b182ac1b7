//! The transaction coordinator: states of transactional ids, as producers and administrators see
//! them, over restarts and crashes.

use coordinator::messages::transaction_log_value::PartitionsSchema;
use coordinator::messages::{TransactionLogKey, TransactionLogValue};
use model::{ErrorCode, Message};
use record::{BatchBuilder, BatchHeader};
use testkit::{Client, TestServer, now_ms, transactional_batch, wait_until};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListTransactionsRequest, ListTransactionsResponse,
};

const KEYS: &[(&str, &str)] = &[
    ("transaction.state.log.num.partitions", "2"),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "20",
    ),
];

/// A producer's id and epoch.
type Producer = (i64, i16);

/// Waits until transactional ids have a coordinator; the topic is made by the first question.
#[track_caller]
fn wait_for_coordinator(client: &mut Client) {
    let request = FindCoordinatorRequest {
        key: "any",
        key_type: 1,
        ..FindCoordinatorRequest::default()
    };
    wait_until("transactional ids have a coordinator", || {
        let answer = client.call(3, &request);
        let response: FindCoordinatorResponse<'_> = answer.read();
        response.error_code == 0 && list(client, &[]).is_ok()
    });
}

fn init(client: &mut Client, id: &str, timeout_ms: i32) -> Result<Producer, ErrorCode> {
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: timeout_ms,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let answer = client.call(5, &request);
    let response: InitProducerIdResponse = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok((response.producer_id, response.producer_epoch)),
        error => Err(error),
    }
}

#[track_caller]
fn add(client: &mut Client, id: &str, producer: Producer, topic: &str) -> ErrorCode {
    let topics = vec![AddPartitionsToTxnTopic {
        name: topic,
        partitions: vec![0].into(),
    }];
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id,
        v3_and_below_producer_id: producer.0,
        v3_and_below_producer_epoch: producer.1,
        v3_and_below_topics: topics.into(),
        ..AddPartitionsToTxnRequest::default()
    };
    let answer = client.call(3, &request);
    let response: AddPartitionsToTxnResponse<'_> = answer.read();
    let results = response.results_by_topic_v3_and_below;
    let topic = results.iter().next().expect("one topic");
    let partition = topic.results_by_partition.iter().next();
    ErrorCode::from_code(partition.expect("one partition").partition_error_code)
}

/// Ends a transaction of version 2, which waits for its markers.
fn end(
    client: &mut Client,
    id: &str,
    producer: Producer,
    committed: bool,
) -> Result<Producer, ErrorCode> {
    let request = EndTxnRequest {
        transactional_id: id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        committed,
    };
    let answer = client.call(5, &request);
    let response: EndTxnResponse = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok((response.producer_id, response.producer_epoch)),
        error => Err(error),
    }
}

/// The state, the producer and the topics of a transactional id.
fn describe(client: &mut Client, id: &str) -> Result<(String, Producer, Vec<String>), ErrorCode> {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![id].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeTransactionsResponse<'_> = answer.read();
    let state = response.transaction_states.iter().next();
    let state = state.expect("one transactional id");
    match ErrorCode::from_code(state.error_code) {
        ErrorCode::None => Ok((
            state.transaction_state.to_owned(),
            (state.producer_id, state.producer_epoch),
            state
                .topics
                .iter()
                .map(|one| one.topic.to_owned())
                .collect(),
        )),
        error => Err(error),
    }
}

fn state(client: &mut Client, id: &str) -> String {
    describe(client, id).map_or_else(|error| error.name().to_owned(), |(state, ..)| state)
}

fn list(client: &mut Client, states: &[&str]) -> Result<Vec<String>, ErrorCode> {
    list_like(client, states, None)
}

fn list_like(
    client: &mut Client,
    states: &[&str],
    pattern: Option<&str>,
) -> Result<Vec<String>, ErrorCode> {
    let request = ListTransactionsRequest {
        state_filters: states.to_vec().into(),
        transactional_id_pattern: pattern,
        ..ListTransactionsRequest::default()
    };
    let answer = client.call(2, &request);
    let response: ListTransactionsResponse<'_> = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => {
            let listed = response.transaction_states.iter();
            let mut ids: Vec<_> = listed.map(|one| one.transactional_id.to_owned()).collect();
            ids.sort_unstable();
            Ok(ids)
        }
        error => Err(error),
    }
}

#[test]
fn a_transactional_id_goes_through_its_states() {
    let server = TestServer::start(KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    assert_eq!(
        init(&mut client, "t", 60_000),
        Err(ErrorCode::NotCoordinator)
    );
    wait_for_coordinator(&mut client);
    assert_eq!(state(&mut client, "t"), "TRANSACTIONAL_ID_NOT_FOUND");
    let first = init(&mut client, "t", 60_000).unwrap();
    assert_eq!(first.1, 0);
    assert_eq!(state(&mut client, "t"), "Empty");
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(add(&mut client, "t", first, "no-such-topic"), unknown);
    assert_eq!(add(&mut client, "t", first, "topic"), ErrorCode::None);
    let described = describe(&mut client, "t");
    assert_eq!(
        described,
        Ok(("Ongoing".into(), first, vec!["topic".into()]))
    );
    let next = end(&mut client, "t", first, true).unwrap();
    assert_eq!(next, (first.0, 1));
    wait_until("the transaction is complete", || {
        state(&mut client, "t") == "CompleteCommit"
    });
    // The answer was lost: the same again.
    assert_eq!(end(&mut client, "t", first, true), Ok(next));
    assert_eq!(
        add(&mut client, "t", first, "topic"),
        ErrorCode::ProducerFenced
    );
    assert_eq!(
        end(&mut client, "t", next, true),
        Err(ErrorCode::InvalidTxnState)
    );
    server.assert_serves();
}

#[test]
fn a_later_producer_fences_the_one_before() {
    let server = TestServer::start(KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    wait_for_coordinator(&mut client);
    let zombie = init(&mut client, "t", 60_000).unwrap();
    assert_eq!(add(&mut client, "t", zombie, "topic"), ErrorCode::None);
    let concurrent = Err(ErrorCode::ConcurrentTransactions);
    assert_eq!(init(&mut client, "t", 60_000), concurrent);
    let mut second = concurrent;
    wait_until("the transaction of the first is aborted", || {
        second = init(&mut client, "t", 60_000);
        second != concurrent
    });
    assert_eq!(second, Ok((zombie.0, 2)));
    let fenced = Err(ErrorCode::ProducerFenced);
    assert_eq!(end(&mut client, "t", zombie, true), fenced);
    assert_eq!(
        init(&mut client, "t", 0),
        Err(ErrorCode::InvalidTransactionTimeout)
    );
    server.assert_serves();
}

#[test]
fn transactions_survive_restarts_and_crashes() {
    let directory = trials::directory();
    let path = directory.path().join("data");
    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    wait_for_coordinator(&mut client);
    let open = init(&mut client, "open", 60_000).unwrap();
    assert_eq!(add(&mut client, "open", open, "topic"), ErrorCode::None);
    let ended = init(&mut client, "ended", 60_000).unwrap();
    assert_eq!(add(&mut client, "ended", ended, "topic"), ErrorCode::None);
    let next = end(&mut client, "ended", ended, false).unwrap();
    server.stop();

    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    assert_eq!(list(&mut client, &["Ongoing"]), Ok(vec!["open".to_owned()]));
    wait_until("the transaction is complete", || {
        describe(&mut client, "ended") == Ok(("CompleteAbort".into(), next, vec![]))
    });
    assert_eq!(end(&mut client, "ended", ended, false), Ok(next));
    let third = end(&mut client, "open", open, true).unwrap();
    server.crash();

    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    wait_until("the transaction is complete", || {
        describe(&mut client, "open") == Ok(("CompleteCommit".into(), third, vec![]))
    });
    assert_eq!(end(&mut client, "open", open, true), Ok(third));
    server.assert_serves();
    server.stop();
}

/// A record of the transaction log's first version: the type of the key and the version of the
/// value are both zero.
fn prefixed<'a>(message: &impl Message<'a>) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    message.write(0, &mut bytes);
    bytes
}

/// Writes records to every partition of the transaction log, as only an administrator may.
#[track_caller]
fn write_to_log(server: &TestServer, records: &[(Vec<u8>, Vec<u8>)]) {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for (key, value) in records {
        builder.append(now_ms(), Some(key), Some(value), &[]);
    }
    let batch = builder.into_uncompressed();
    let mut client = server.connect().named("__admin_client");
    for index in 0..2 {
        let produced = client.produce("__transaction_state", index, &batch);
        produced.assert_accepted();
    }
}

/// The record of a commit that is decided and not carried out.
fn prepared_commit(id: &str, producer: Producer, topic: &str) -> (Vec<u8>, Vec<u8>) {
    let key = TransactionLogKey {
        transactional_id: id,
    };
    let partitions = vec![PartitionsSchema {
        topic,
        partition_ids: vec![0].into(),
    }];
    let value = TransactionLogValue {
        producer_id: producer.0,
        producer_epoch: producer.1,
        transaction_timeout_ms: 60_000,
        transaction_status: 2,
        transaction_partitions: Some(partitions.into()),
        transaction_last_update_timestamp_ms: now_ms(),
        transaction_start_timestamp_ms: now_ms(),
        ..TransactionLogValue::default()
    };
    (prefixed(&key), prefixed(&value))
}

#[test]
fn a_crash_between_the_decision_and_the_markers_is_made_good() {
    let directory = trials::directory();
    let path = directory.path().join("data");
    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    wait_for_coordinator(&mut client);
    let producer = init(&mut client, "t", 60_000).unwrap();
    assert_eq!(add(&mut client, "t", producer, "topic"), ErrorCode::None);
    let batch = transactional_batch(producer.0, producer.1, 0, &["a", "b"]);
    let produced = client.produce_in(11, "t", ("topic", 0), &batch);
    produced.assert_accepted();
    assert_eq!(client.fetch_committed("topic", 0, 0).values(), [""; 0]);
    write_to_log(&server, &[prepared_commit("t", producer, "topic")]);
    server.crash();

    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    wait_until("the transaction is complete", || {
        state(&mut client, "t") == "CompleteCommit"
    });
    assert_eq!(client.fetch_committed("topic", 0, 0).values(), ["a", "b"]);
    server.assert_serves();
    server.stop();
}

#[test]
fn damaged_and_unknown_records_cost_one_transactional_id() {
    let directory = trials::directory();
    let path = directory.path().join("data");
    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    wait_for_coordinator(&mut client);
    let good = init(&mut client, "good", 60_000).unwrap();
    let bad = init(&mut client, "bad", 60_000).unwrap();
    let key = |transactional_id| prefixed(&TransactionLogKey { transactional_id });
    let records = [
        // A type to come, no key, a value cut short, a version to come.
        (vec![0, 77, 1, 2, 3], vec![1]),
        (vec![9], vec![]),
        (key("bad"), vec![0, 0, 1, 2, 3]),
        (key("later"), vec![0, 9, 1, 2, 3]),
    ];
    write_to_log(&server, &records);
    server.crash();

    let server = TestServer::start_in(&path, KEYS).unwrap();
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    assert_eq!(list(&mut client, &[]), Ok(vec!["good".to_owned()]));
    assert_eq!(add(&mut client, "good", good, "topic"), ErrorCode::None);
    let unknown = ErrorCode::InvalidProducerIdMapping;
    assert_eq!(add(&mut client, "bad", bad, "topic"), unknown);
    let again = init(&mut client, "bad", 60_000).unwrap();
    assert_ne!(again.0, bad.0);
    server.assert_serves();
    server.stop();
}

#[test]
fn a_transaction_out_of_time_is_aborted() {
    let server = TestServer::start(KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    wait_for_coordinator(&mut client);
    let producer = init(&mut client, "t", 1).unwrap();
    assert_eq!(add(&mut client, "t", producer, "topic"), ErrorCode::None);
    wait_until("the transaction is aborted", || {
        state(&mut client, "t") == "CompleteAbort"
    });
    // The abort has bumped the epoch, as the end of the producer's own would have.
    let refused = Err(ErrorCode::InvalidTxnState);
    assert_eq!(end(&mut client, "t", producer, true), refused);
    assert_eq!(end(&mut client, "t", producer, false), Ok((producer.0, 1)));
    server.assert_serves();
}

#[test]
fn a_deleted_partition_needs_no_marker() {
    let server = TestServer::start(KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.create_topic("other", 1, &[]);
    wait_for_coordinator(&mut client);
    let producer = init(&mut client, "t", 60_000).unwrap();
    assert_eq!(add(&mut client, "t", producer, "topic"), ErrorCode::None);
    assert_eq!(add(&mut client, "t", producer, "other"), ErrorCode::None);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    assert!(end(&mut client, "t", producer, true).is_ok());
    wait_until("the transaction is complete", || {
        state(&mut client, "t") == "CompleteCommit"
    });
    server.assert_serves();
}

#[test]
fn transactions_are_listed_by_pattern() {
    let server = TestServer::start(KEYS);
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    for id in ["orders-1", "orders-2", "my-orders-1"] {
        init(&mut client, id, 60_000).unwrap();
    }
    let listed = list_like(&mut client, &["Empty"], Some("orders-."));
    assert_eq!(
        listed,
        Ok(vec!["orders-1".to_owned(), "orders-2".to_owned()])
    );
    let invalid = Err(ErrorCode::InvalidRegularExpression);
    assert_eq!(list_like(&mut client, &[], Some("(")), invalid);
    // It would take minutes for each long id.
    let costly = list_like(&mut client, &[], Some("(?:a{0,300}b?){0,100}"));
    assert_eq!(costly, invalid);
    assert_eq!(
        list_like(&mut client, &[], Some("")).map(|all| all.len()),
        Ok(3)
    );
    server.assert_serves();
}

#[test]
fn transactional_ids_that_nobody_uses_are_forgotten() {
    let keys = [
        KEYS,
        &[
            ("transactional.id.expiration.ms", "1"),
            (
                "transaction.remove.expired.transaction.cleanup.interval.ms",
                "20",
            ),
        ],
    ];
    let server = TestServer::start(&keys.concat());
    let mut client = server.connect();
    wait_for_coordinator(&mut client);
    init(&mut client, "idle", 60_000).unwrap();
    wait_until("the id is forgotten", || {
        list(&mut client, &[]) == Ok(Vec::new())
    });
}
