//! Ends of transactions that the coordinator cannot complete at once.

use super::stuck::StuckCall;
use super::*;
use coordinator::transaction::TransactionState;
use metadata::MetadataImage;
use testkit::TransactionalProducer;

fn state(running: &Running, id: &str) -> TransactionState {
    let transactions = &running.broker().coordinators.transactions;
    let described = running.runtime.block_on(transactions.describe(id));
    described.unwrap().state
}

#[test]
fn a_completion_that_is_refused_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
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
    // Nothing is coordinated here, as it seems.
    transactions.follow(&MetadataImage::default());
    stuck.end();
    let partition = running.broker().logs.partitions.find("topic", 0).unwrap();
    wait_until("the marker is written", || {
        partition.offsets().log_end_offset == 2
    });
    std::thread::sleep(LOOK);
    transactions.follow(&running.broker().node.image());
    wait_until("the transaction is complete", || {
        state(&running, "id") == TransactionState::CompleteCommit
    });
    assert_eq!(ending.join().unwrap(), ErrorCode::None);
}
