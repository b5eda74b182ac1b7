//! What is left when handles are dropped, and when the runtime ends with clients still there: nobody
//! waits for ever, nothing panics, and each callback is called.

use super::scripts_of_consumers::{LATER, committed, filled, member, place, read_to};
use super::scripts_of_producers::{futures_now, producer, record};
use super::{Cluster, Fault, LIMIT, run};
use crate::Error;
use crate::consumer::{Consumer, Offsets, RebalanceListener};
use crate::producer::{Delivery, Producer};
use model::TopicPartition;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::runtime::Runtime;
use wire::ApiKey;

const TOPIC: &str = "t";

fn paused_runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// Lives in a runtime that ends, and returns what has outlived it.
fn outlived<T, F>(life: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime = paused_runtime();
    let left = runtime.block_on(async {
        let lived = tokio::time::timeout(LIMIT, life(Cluster::start(80, 1))).await;
        lived.expect("every call ends in its time")
    });
    drop(runtime);
    left
}

/// What `future` returns in a runtime of its own, before its time is over.
fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    paused_runtime().block_on(async {
        let ended = tokio::time::timeout(LATER, future).await;
        ended.unwrap_or_else(|_| panic!("{what} does not end"))
    })
}

#[test]
fn a_commit_in_the_background_outlives_its_handle_and_its_consumer() {
    for protocol in ["classic", "consumer"] {
        run(81, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let mut consumer = member(protocol, "one", &[]);
            consumer.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut consumer, 10).await;
            let position = consumer.position(&place());
            cluster.fail(ApiKey::OffsetCommit, Fault::HoldRequest, 1);
            let commit = consumer.commit_in_background().expect("a group");
            assert!(!commit.is_done());
            drop(commit);
            cluster.until_held(ApiKey::OffsetCommit).await;
            drop(consumer);
            cluster.release(ApiKey::OffsetCommit);
            cluster
                .until(|world| world.groups.committed.contains_key(&place()))
                .await;
            assert_eq!(committed(&cluster), position);
        });
    }
}

#[test]
fn a_commit_in_the_background_ends_with_its_runtime() {
    let (commit, mut consumer) = outlived(async |cluster| {
        filled(&cluster, 30);
        let mut consumer = member("classic", "one", &[]);
        consumer.subscribe([TOPIC]).expect("a subscription");
        read_to(&mut consumer, 10).await;
        cluster.fail(ApiKey::OffsetCommit, Fault::HoldRequest, 1);
        let commit = consumer.commit_in_background().expect("a group");
        cluster.until_held(ApiKey::OffsetCommit).await;
        (commit, consumer)
    });
    let closed = Err(Error::Closed("consumer"));
    assert_eq!(soon("a commit", commit), closed);
    let late = consumer.commit_in_background().expect("a group");
    assert_eq!(soon("a late commit", late), closed);
}

#[test]
fn a_consumer_whose_runtime_has_ended_says_so() {
    for protocol in ["classic", "consumer"] {
        let mut consumer = outlived(async |cluster| {
            filled(&cluster, 30);
            let mut consumer = member(protocol, "one", &[("enable.auto.commit", "true")]);
            consumer.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut consumer, 10).await;
            consumer
        });
        let polled = soon("a poll", consumer.poll(10 * LATER)).map(|records| records.is_empty());
        assert_eq!(polled, Err(Error::Closed("consumer")));
        let next = soon("the next record", consumer.next()).map(drop);
        assert_eq!(next, Err(Error::Closed("consumer")));
        // Whether a broker answers or not, they end.
        let _ = soon("a commit", consumer.commit());
        let _ = soon("an end", consumer.close(LATER / 2));
    }
}

/// Takes for ever, and is there until it is dropped.
struct Endless(Arc<Mutex<&'static str>>);

impl RebalanceListener for Endless {
    async fn assigned(&self, _: &[TopicPartition]) -> Offsets {
        *self.0.lock() = "called";
        let _ended = Ended(self.0.clone());
        std::future::pending().await
    }
}

struct Ended(Arc<Mutex<&'static str>>);

impl Drop for Ended {
    fn drop(&mut self) {
        *self.0.lock() = "dropped";
    }
}

#[test]
fn a_listener_ends_with_the_runtime_of_its_poll() {
    let state = Arc::new(Mutex::new("new"));
    let heard = state.clone();
    outlived(async |cluster| {
        filled(&cluster, 30);
        let mut consumer = member("consumer", "one", &[]);
        consumer.set_rebalance_listener(Endless(heard.clone()));
        consumer.subscribe([TOPIC]).expect("a subscription");
        let polling = tokio::spawn(async move { consumer.next().await.map(drop) });
        while *heard.lock() != "called" {
            tokio::time::sleep(super::scripts_of_consumers::SOON).await;
        }
        drop(polling);
    });
    assert_eq!(*state.lock(), "dropped");
}

#[test]
fn a_consumer_may_be_dropped_without_a_runtime() {
    for calls_listener in [false, true] {
        let consumer: Consumer = outlived(async |cluster| {
            filled(&cluster, 30);
            let mut consumer = member("classic", "one", &[]);
            if calls_listener {
                consumer.set_rebalance_listener(Endless(Arc::new(Mutex::new("new"))));
            }
            consumer.subscribe([TOPIC]).expect("a subscription");
            let _ = tokio::time::timeout(LATER, consumer.next()).await;
            consumer
        });
        drop(consumer);
    }
}

/// Sends a record whose callback does what it may, with the last handle but one of the producer.
async fn send_and_call_back(producer: &Producer, called: &Arc<Mutex<u32>>) -> Delivery {
    let (again, called) = (producer.clone(), called.clone());
    let callback = move |result: Result<_, Error>| {
        assert!(result.is_err() && !again.is_locked());
        let _ = again.try_send(record(TOPIC, "again"));
        let _ = futures_now(again.flush());
        assert!(futures_now(again.close(LATER)).is_some());
        *called.lock() += 1;
    };
    let taken = producer.send_with(record(TOPIC, "first"), callback).await;
    taken.expect("it is taken");
    producer
        .send(record(TOPIC, "second"))
        .await
        .expect("it is taken")
}

#[test]
fn what_a_producer_has_taken_fails_with_its_runtime() {
    // In flight, or waiting for more records.
    for linger_ms in ["0", "5000"] {
        let called = Arc::new(Mutex::new(0));
        let (producer, delivery) = outlived(async |cluster| {
            cluster.with(|world| world.logs.create(TOPIC, 1, 1));
            cluster.fail(ApiKey::Produce, Fault::HoldRequest, 1);
            let producer = producer(&[("linger.ms", linger_ms)]);
            let delivery = send_and_call_back(&producer, &called).await;
            if linger_ms == "0" {
                cluster.until_held(ApiKey::Produce).await;
            }
            (producer, delivery)
        });
        assert_eq!(*called.lock(), 1, "linger.ms={linger_ms}");
        let closed = Err(Error::Closed("producer"));
        assert_eq!(soon("a delivery", delivery).map(drop), closed);
        soon("a flush", producer.flush());
        let sent = soon("a send", producer.send(record(TOPIC, "late"))).map(drop);
        assert_eq!(sent, closed);
        soon("an end", producer.close(LATER)).expect("there is nothing left");
        drop(producer);
    }
}

#[test]
fn a_producer_whose_task_never_ran_is_closed() {
    let producer = outlived(async |_| producer(&[("transactional.id", "id")]));
    soon("a flush", producer.flush());
    let closed = Err(Error::Closed("producer"));
    assert_eq!(soon("a call", producer.init_transactions()), closed);
    assert_eq!(producer.begin_transaction(), closed);
    soon("an end", producer.close(LATER)).expect("there is nothing left");
}

#[test]
fn a_transaction_that_ends_with_the_runtime_is_closed() {
    let (producer, delivery) = outlived(async |cluster| {
        cluster.with(|world| world.logs.create(TOPIC, 1, 1));
        let producer = producer(&[("transactional.id", "id")]);
        producer.init_transactions().await.expect("a producer");
        producer.begin_transaction().expect("a transaction");
        let delivery = producer.send(record(TOPIC, "value")).await;
        cluster.fail(ApiKey::EndTxn, Fault::HoldRequest, 1);
        let committing = producer.clone();
        drop(tokio::spawn(async move {
            committing.commit_transaction().await
        }));
        cluster.until_held(ApiKey::EndTxn).await;
        (producer, delivery.expect("it is taken"))
    });
    soon("a delivery", delivery).expect("it was written before");
    let ended = soon("a commit", producer.commit_transaction());
    assert_eq!(ended, Err(Error::Closed("producer")));
    soon("an end", producer.close(LATER)).expect("there is nothing left");
}
