//! Ends of transactions that the coordinator cannot complete at once.

use super::stuck::StuckCall;
use super::*;
use coordinator::transaction::TransactionState;
use model::Offset;
use testkit::TransactionalProducer;
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

fn state(running: &Running, id: &str) -> TransactionState {
    let transactions = &running.broker().coordinators.transactions;
    let described = running.runtime.block_on(transactions.describe(id));
    described.unwrap().state
}

#[test]
fn a_completion_that_is_refused_is_tried_again() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let mut producer = TransactionalProducer::init(&mut client, "id");
    let produced = producer.produce(&mut client, 12, ("topic", 0), 0, "value");
    produced.assert_accepted();
    // Its marker takes a while.
    let stuck = StuckCall::begin(&running, "topic");
    let ending = std::thread::spawn(move || producer.try_end(&mut client, 5, true));
    wait_until("the end is decided", || {
        state(&running, "id") == TransactionState::PrepareCommit
    });
    let transactions = &running.broker().coordinators.transactions;
    // The metadata that markers go by stay: to others, the partition may be a deleted one.
    transactions.know_no_partition();
    stuck.end();
    let partition = running.broker().logs.partitions.find("topic", 0).unwrap();
    wait_until("the marker is written", || {
        partition.offsets().log_end_offset == Offset(2)
    });
    std::thread::sleep(LOOK);
    transactions.follow(&running.broker().node.image());
    wait_until("the transaction is complete", || {
        state(&running, "id") == TransactionState::CompleteCommit
    });
    assert_eq!(ending.join().unwrap(), ErrorCode::None);
}

/// Else the ends under way, which leave when they are complete, could hold what they need for that.
#[test]
fn an_end_whose_markers_take_long_holds_no_room() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let mut producer = TransactionalProducer::init(&mut client, "id");
    let produced = producer.produce(&mut client, 12, ("topic", 0), 0, "value");
    produced.assert_accepted();
    let stuck = StuckCall::begin(&running, "topic");
    let ending = std::thread::spawn(move || producer.try_end(&mut client, 5, true));
    wait_until("the end is decided", || {
        state(&running, "id") == TransactionState::PrepareCommit
    });
    let transactions = &running.broker().coordinators.transactions;
    let room = running.runtime.block_on(transactions.take_room_of("id"));
    stuck.end();
    assert_eq!(ending.join().unwrap(), ErrorCode::None);
    drop(room);
    wait_until("the transaction is complete", || {
        state(&running, "id") == TransactionState::CompleteCommit
    });
}

/// A marker that is written twice could end the next transaction.
#[test]
fn an_end_that_is_under_way_while_its_coordinator_is_loaded_again_is_not_begun_twice() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let mut producer = TransactionalProducer::init(&mut client, "id");
    let produced = producer.produce(&mut client, 12, ("topic", 0), 0, "value");
    produced.assert_accepted();
    let stuck = StuckCall::begin(&running, "topic");
    let ending = std::thread::spawn(move || producer.try_end(&mut client, 5, true));
    wait_until("the end is decided", || {
        state(&running, "id") == TransactionState::PrepareCommit
    });
    let transactions = &running.broker().coordinators.transactions;
    wait_until("it is on its way", || transactions.ending_count("id") == 1);
    transactions.fail_at("id");
    wait_until("it is loaded again", || {
        let described = running.runtime.block_on(transactions.describe("id"));
        described.is_ok_and(|one| one.state == TransactionState::PrepareCommit)
    });
    assert_eq!(transactions.ending_count("id"), 1);
    stuck.end();
    wait_until("the transaction is complete", || {
        state(&running, "id") == TransactionState::CompleteCommit
    });
    assert_eq!(ending.join().unwrap(), ErrorCode::None);
    wait_until("nothing is on its way", || {
        transactions.ending_count("id") == 0
    });
    let partition = running.broker().logs.partitions.find("topic", 0).unwrap();
    assert_eq!(partition.offsets().log_end_offset, Offset(2));
}

/// It has been decided, and nobody may ask again.
#[test]
fn an_end_whose_answer_was_refused_goes_on_when_it_is_durable() {
    let directory = trials::directory();
    let keys = [("log.flush.interval.messages", "1")];
    let running = Running::start_with(&[directory.path()], &keys);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let mut producer = TransactionalProducer::init(&mut client, "id");
    let produced = producer.produce(&mut client, 12, ("topic", 0), 0, "value");
    produced.assert_accepted();
    let transactions = &running.broker().coordinators.transactions;
    transactions.refuse_flush_of("id", || panic!("a test of this"));
    let ended = producer.try_end(&mut client, 5, true);
    assert_eq!(ended, ErrorCode::NotCoordinator);
    wait_until("the transaction is complete", || {
        state(&running, "id") == TransactionState::CompleteCommit
    });
    let partition = running.broker().logs.partitions.find("topic", 0).unwrap();
    assert_eq!(partition.offsets().log_end_offset, Offset(2));
}

/// Neither a request nor a flush that the coordinator has asked for tells it.
#[test]
fn an_end_whose_answer_was_refused_goes_on_though_nobody_asks_again() {
    for is_flushed_by_another in [false, true] {
        let directory = trials::directory();
        let keys = [
            ("log.flush.interval.messages", "1"),
            ("transaction.state.log.num.partitions", "1"),
        ];
        let running = Running::start_with(&[directory.path()], &keys);
        let mut client = running.connect();
        client.create_topic("topic", 1, &[]);
        let mut producer = TransactionalProducer::init(&mut client, "id");
        let produced = producer.produce(&mut client, 12, ("topic", 0), 0, "value");
        produced.assert_accepted();
        let transactions = &running.broker().coordinators.transactions;
        transactions.refuse_flush_of("id", || panic!("a test of this"));
        let ended = producer.try_end(&mut client, 5, true);
        assert_eq!(ended, ErrorCode::NotCoordinator);
        let partitions = &running.broker().logs.partitions;
        if is_flushed_by_another {
            let states = partitions.find(TRANSACTION_TOPIC, 0).unwrap();
            let end_offset = states.offsets().log_end_offset;
            states.flush_up_to(end_offset, now_ms()).unwrap();
        }
        let partition = partitions.find("topic", 0).unwrap();
        wait_until("the transaction has its marker", || {
            partition.offsets().last_stable_offset == Offset(2)
        });
    }
}

/// The log of the first transaction's partition is stuck.
#[test]
fn a_transaction_is_out_of_time_whatever_another_one_waits_for() {
    let directory = trials::directory();
    let keys = [
        ("transaction.state.log.num.partitions", "1"),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "10",
        ),
    ];
    let running = Running::start_with(&[directory.path()], &keys);
    let mut client = running.connect();
    client.create_topic("stuck", 1, &[]);
    client.create_topic("topic", 1, &[]);
    let init = |client: &mut Client, id: &str| {
        let mut producer = TransactionalProducer::init(client, id);
        let request = InitProducerIdRequest {
            transactional_id: Some(id),
            transaction_timeout_ms: 1_000,
            ..InitProducerIdRequest::default()
        };
        let answer = client.call(4, &request);
        let response: InitProducerIdResponse = answer.read();
        (producer.id, producer.epoch) = (response.producer_id, response.producer_epoch);
        producer
    };
    let first = init(&mut client, "first");
    let second = init(&mut client, "second");
    let stuck = StuckCall::begin(&running, "stuck");
    assert_eq!(first.add(&mut client, "stuck"), ErrorCode::None);
    wait_until("the first is out of time", || {
        state(&running, "first") == TransactionState::PrepareAbort
    });
    assert_eq!(second.add(&mut client, "topic"), ErrorCode::None);
    wait_until("the second is, too", || {
        state(&running, "second") == TransactionState::CompleteAbort
    });
    assert_eq!(state(&running, "first"), TransactionState::PrepareAbort);
    stuck.end();
}
