//! A producer step by step: callbacks that call back, outcomes that are asked for again, topics that
//! are made again.

use super::{Cluster, Fault, run, set_all};
use crate::Error;
use crate::producer::{Producer, ProducerConfig, ProducerRecord};
use model::ErrorCode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use wire::ApiKey;

const TOPIC: &str = "t";
const LATER: Duration = Duration::from_secs(60);

pub(super) fn producer(pairs: &[(&str, &str)]) -> Producer {
    let address = Cluster::address();
    let mut config = ProducerConfig::with_bootstrap_servers(&address).expect("a configuration");
    let all = [
        ("linger.ms", "0"),
        ("request.timeout.ms", "2000"),
        ("delivery.timeout.ms", "8000"),
        ("max.block.ms", "3000"),
        ("retry.backoff.ms", "20"),
        ("retry.backoff.max.ms", "100"),
    ];
    set_all(&all, |key, value| config.set(key, value));
    set_all(pairs, |key, value| config.set(key, value));
    Producer::new(config).expect("a producer")
}

pub(super) fn record<'a>(topic: &'a str, value: &'a str) -> ProducerRecord<'a> {
    ProducerRecord::new(topic)
        .partition(0)
        .value(value.as_bytes())
}

fn values(cluster: &Cluster, topic: &str) -> Vec<String> {
    cluster.with(|world| world.logs.log(topic, 0).values(false))
}

async fn sent(producer: &Producer, topic: &str, value: &str) -> Result<(), Error> {
    let delivery = producer.send(record(topic, value)).await?;
    delivery.await.map(drop)
}

/// Sends a record whose callback does all that a callback may, and sends it to another topic when it
/// has failed. What it met is noted.
async fn send_with_fallback(producer: &Producer, heard: &Arc<Mutex<Vec<String>>>) {
    let (again, heard) = (producer.clone(), heard.clone());
    let callback = move |result: Result<_, Error>| {
        assert!(!again.is_locked(), "a callback is called under the lock");
        let fallback = again.try_send(record("dead", "letter"));
        let fallback = fallback.map(|delivery| delivery.is_some());
        let flushed = futures_now(again.flush());
        let committed = futures_now(again.commit_transaction());
        assert!(flushed.is_some() && committed.is_some_and(|ended| ended.is_err()));
        heard
            .lock()
            .push(format!("{} {fallback:?}", result.is_ok()));
    };
    let taken = producer.send_with(record(TOPIC, "value"), callback).await;
    taken.expect("it is taken");
}

/// What a future returns at once.
pub(super) fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}

/// Has a callback called in the way that `script` leads to.
fn check_callback(
    pairs: &[(&str, &str)],
    expected: &str,
    script: impl AsyncFnOnce(&Cluster, Producer),
) {
    run(52, 1, async |cluster: Cluster| {
        cluster.with(|world| {
            world.logs.create(TOPIC, 1, 1);
            world.logs.create("dead", 1, 1);
        });
        let producer = producer(pairs);
        producer.partitions_for("dead").await.expect("a topic");
        producer.partitions_for(TOPIC).await.expect("a topic");
        let heard = Arc::new(Mutex::new(Vec::new()));
        if pairs.iter().any(|(key, _)| *key == "transactional.id") {
            producer.init_transactions().await.expect("a transaction");
            producer.begin_transaction().expect("a transaction");
        } else {
            // The topic of dead letters is known from the start.
            sent(&producer, "dead", "first").await.expect("a record");
        }
        cluster.fail(ApiKey::Produce, Fault::HoldRequest, 100);
        send_with_fallback(&producer, &heard).await;
        script(&cluster, producer).await;
        tokio::time::sleep(LATER).await;
        assert_eq!(*heard.lock(), [expected]);
    });
}

#[test]
fn callbacks_of_records_that_expire_may_call_back() {
    check_callback(
        &[],
        "false Ok(true)",
        async |cluster: &Cluster, producer: Producer| {
            tokio::time::sleep(Duration::from_secs(20)).await;
            cluster.release(ApiKey::Produce);
            producer.flush().await;
            assert!(values(cluster, "dead").contains(&"letter".to_owned()));
        },
    );
}

#[test]
fn callbacks_of_an_end_in_a_hurry_may_call_back() {
    let closed = r#"false Err(Closed("producer"))"#;
    check_callback(&[], closed, async |_: &Cluster, producer: Producer| {
        let closed = producer.close(Duration::from_secs(1)).await;
        assert!(matches!(closed, Err(Error::TimedOut { .. })), "{closed:?}");
    });
}

#[test]
fn callbacks_of_what_an_abort_withdraws_may_call_back() {
    let pairs = [("transactional.id", "id"), ("linger.ms", "5000")];
    let refused = "false Err(Invalid(\"call `begin_transaction` first\"))";
    check_callback(
        &pairs,
        refused,
        async |cluster: &Cluster, producer: Producer| {
            cluster.release(ApiKey::Produce);
            producer.abort_transaction().await.expect("an abort");
        },
    );
}

#[test]
fn a_callback_that_closes_waits_for_nobody() {
    run(52, 1, async |cluster: Cluster| {
        cluster.with(|world| world.logs.create(TOPIC, 1, 1));
        let producer = producer(&[]);
        let again = producer.clone();
        let heard = Arc::new(Mutex::new(None));
        let noted = heard.clone();
        let callback = move |_| *noted.lock() = futures_now(again.close(LATER));
        let taken = producer.send_with(record(TOPIC, "value"), callback).await;
        taken.expect("it is taken");
        producer.flush().await;
        let closed = heard.lock().clone();
        assert!(matches!(closed, Some(Err(Error::Invalid(_)))), "{closed:?}");
        producer.close(LATER).await.expect("an end");
        let sent = sent(&producer, TOPIC, "late").await;
        assert_eq!(sent, Err(Error::Closed("producer")));
    });
}

#[test]
fn callbacks_of_a_producer_that_is_refused_may_call_back() {
    run(52, 1, async |cluster: Cluster| {
        cluster.with(|world| {
            world.logs.create(TOPIC, 1, 1);
            world.logs.create("dead", 1, 1);
        });
        let refuse = Fault::Refuse(ErrorCode::ClusterAuthorizationFailed);
        cluster.fail(ApiKey::InitProducerId, refuse, 1);
        let producer = producer(&[]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        send_with_fallback(&producer, &heard).await;
        producer.flush().await;
        assert_eq!(*heard.lock(), ["false Ok(false)"]);
    });
}

/// Asks for `call` until it is known how it ended, with requests of `api` held for longer than a call
/// waits; the calls are given up by their own timeout or by being dropped.
async fn ask_again<F>(cluster: &Cluster, api: ApiKey, is_dropped: bool, call: impl Fn() -> F)
where
    F: Future<Output = Result<(), Error>>,
{
    for fault in [Fault::HoldAnswer] {
        cluster.fail(api, fault, 1);
        if is_dropped {
            let given_up = tokio::time::timeout(Duration::from_millis(500), call()).await;
            assert!(given_up.is_err());
        } else {
            let given_up = call().await;
            assert!(
                matches!(given_up, Err(Error::TimedOut { .. })),
                "{given_up:?}"
            );
        }
        cluster.release(api);
        tokio::time::sleep(LATER).await;
        call().await.expect("it has ended well");
    }
}

#[test]
fn an_outcome_that_nobody_heard_can_be_asked_for_again() {
    for is_dropped in [false, true] {
        run(53, 1, async |cluster: Cluster| {
            cluster.with(|world| world.logs.create(TOPIC, 1, 1));
            let pairs = [("transactional.id", "id"), ("request.timeout.ms", "7000")];
            let producer = producer(&pairs);
            let init = || producer.init_transactions();
            ask_again(&cluster, ApiKey::InitProducerId, is_dropped, init).await;
            for value in ["committed", "aborted"] {
                producer
                    .begin_transaction()
                    .expect("the one before has ended");
                sent(&producer, TOPIC, value).await.expect("a record");
                match value {
                    "committed" => {
                        let commit = || producer.commit_transaction();
                        ask_again(&cluster, ApiKey::EndTxn, is_dropped, commit).await;
                    }
                    _ => {
                        let abort = || producer.abort_transaction();
                        ask_again(&cluster, ApiKey::EndTxn, is_dropped, abort).await;
                    }
                }
            }
            let values = cluster.with(|world| world.logs.log(TOPIC, 0).values(true));
            assert_eq!(values, ["committed"]);
        });
    }
}

#[test]
fn an_outcome_that_nobody_heard_comes_before_anything_else() {
    run(53, 1, async |cluster: Cluster| {
        cluster.with(|world| world.logs.create(TOPIC, 1, 1));
        let producer = producer(&[("transactional.id", "id")]);
        producer.init_transactions().await.expect("a transaction");
        producer.begin_transaction().expect("a transaction");
        sent(&producer, TOPIC, "value").await.expect("a record");
        cluster.fail(ApiKey::EndTxn, Fault::HoldAnswer, 1);
        let given_up = producer.commit_transaction();
        let given_up = tokio::time::timeout(Duration::from_millis(500), given_up).await;
        assert!(given_up.is_err());
        cluster.release(ApiKey::EndTxn);
        tokio::time::sleep(LATER).await;
        for refused in [
            producer.begin_transaction(),
            producer.abort_transaction().await,
        ] {
            let text = refused.expect_err("the commit is not heard of").to_string();
            assert!(text.contains("committing a transaction"), "{text}");
        }
        // Even who has closed the producer may know.
        producer.close(LATER).await.expect("an end");
        producer
            .commit_transaction()
            .await
            .expect("it was committed");
        let again = producer.commit_transaction().await;
        assert_eq!(again, Err(Error::Closed("producer")));
    });
}

#[test]
fn what_follows_an_abort_of_records_that_were_never_sent_is_sent() {
    run(53, 1, async |cluster: Cluster| {
        cluster.with(|world| world.logs.create(TOPIC, 1, 1));
        let producer = producer(&[("transactional.id", "id"), ("linger.ms", "5")]);
        producer.init_transactions().await.expect("a producer");
        for value in ["first", "second", "third"] {
            producer.begin_transaction().expect("a transaction");
            let aborted = producer.send(record(TOPIC, "aborted")).await;
            producer.abort_transaction().await.expect("an abort");
            let aborted = aborted.expect("it is taken").await;
            assert_eq!(aborted, Err(Error::TransactionAborted));
            producer.begin_transaction().expect("a transaction");
            sent(&producer, TOPIC, value).await.expect("a record");
            producer.commit_transaction().await.expect("a commit");
        }
        let values = cluster.with(|world| world.logs.log(TOPIC, 0).values(true));
        assert_eq!(values, ["first", "second", "third"]);
    });
}

#[test]
fn a_topic_that_is_made_again_is_sent_to_its_new_leader() {
    for idempotence in ["true", "false"] {
        run(56, 2, async |cluster: Cluster| {
            cluster.with(|world| {
                world.logs.create(TOPIC, 1, 2);
                world.logs.log(TOPIC, 0).epoch = 7;
            });
            let producer = producer(&[("enable.idempotence", idempotence)]);
            sent(&producer, TOPIC, "old").await.expect("a record");
            cluster.with(|world| world.logs.create(TOPIC, 1, 1));
            sent(&producer, TOPIC, "new").await.expect("a record");
            assert_eq!(values(&cluster, TOPIC), ["new"]);
        });
    }
}

#[test]
fn what_is_acknowledged_is_acknowledged_whatever_the_metadata_says() {
    let mut forgotten_count = 0;
    for seed in 57..65 {
        // The leader's connection is held up, so that only the other node can tell of topics.
        run(seed, 2, async |cluster: Cluster| {
            cluster.with(|world| world.logs.create(TOPIC, 1, 2));
            let pairs = [
                ("enable.idempotence", "false"),
                ("metadata.max.age.ms", "100"),
                ("request.timeout.ms", "6000"),
            ];
            let producer = producer(&pairs);
            sent(&producer, TOPIC, "first").await.expect("a record");
            cluster.fail(ApiKey::Produce, Fault::HoldAnswer, 1);
            let delivery = producer.send(record(TOPIC, "second")).await;
            cluster.until_held(ApiKey::Produce).await;
            cluster.with(|world| world.logs.unknown.push(TOPIC.to_owned()));
            tokio::time::sleep(Duration::from_secs(2)).await;
            forgotten_count += usize::from(!producer.knows(TOPIC));
            cluster.release(ApiKey::Produce);
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.with(|world| world.logs.unknown.clear());
            let written = delivery.expect("it is taken").await.expect("a record");
            assert_eq!(written.offset, Some(1));
            producer.close(LATER).await.expect("an end");
            assert_eq!(values(&cluster, TOPIC), ["first", "second"]);
        });
    }
    assert!(forgotten_count > 0, "the metadata always knew the topic");
}

#[test]
fn a_producer_that_is_throttled_sends_nothing_meanwhile() {
    run(65, 1, async |cluster: Cluster| {
        let throttle = Duration::from_millis(1_500);
        cluster.with(|world| {
            world.logs.create(TOPIC, 1, 1);
            world.logs.produce_throttle_ms = 1_500;
        });
        let producer = producer(&[]);
        sent(&producer, TOPIC, "first").await.expect("a record");
        let throttled_at = tokio::time::Instant::now();
        cluster.with(|world| world.logs.produce_throttle_ms = 0);
        sent(&producer, TOPIC, "second").await.expect("a record");
        assert!(throttled_at.elapsed() >= throttle);
        // It is over then.
        let began = tokio::time::Instant::now();
        sent(&producer, TOPIC, "third").await.expect("a record");
        assert!(began.elapsed() < throttle);
        assert_eq!(values(&cluster, TOPIC), ["first", "second", "third"]);
    });
}

#[test]
fn what_would_have_to_wait_succeeds_later_or_fails() {
    run(59, 1, async |cluster: Cluster| {
        cluster.with(|world| {
            world.logs.create(TOPIC, 1, 1);
            world.logs.forbidden.push("secret".to_owned());
        });
        let producer = producer(&[]);
        let moment = Duration::from_millis(500);
        let try_send = |topic: &'static str, index: i32| {
            let record = ProducerRecord::new(topic).partition(index).value(b"value");
            let tried = producer.try_send(record);
            tried.map(|delivery| delivery.is_some())
        };
        assert_eq!(try_send(TOPIC, 0), Ok(false), "nobody has asked for it");
        tokio::time::sleep(moment).await;
        assert_eq!(try_send(TOPIC, 0), Ok(true));
        // A topic may be made between two calls.
        assert_eq!(try_send("new", 0), Ok(false));
        tokio::time::sleep(moment).await;
        assert_eq!(try_send("new", 0), Ok(false));
        cluster.with(|world| world.logs.create("new", 1, 1));
        tokio::time::sleep(moment).await;
        let tried = [try_send("new", 0), {
            tokio::time::sleep(moment).await;
            try_send("new", 0)
        }];
        assert!(tried.contains(&Ok(true)), "{tried:?}");
        // One that is never made fails as it would in a call that waits.
        assert_eq!(try_send("missing", 0), Ok(false));
        tokio::time::sleep(Duration::from_secs(4)).await;
        let missing = try_send("missing", 0);
        let code = ErrorCode::UnknownTopicOrPartition;
        assert!(matches!(missing, Err(Error::Refused { code: is, .. }) if is == code));
        for (topic, index, code) in [
            (TOPIC, 9, ErrorCode::UnknownTopicOrPartition),
            ("secret", 0, ErrorCode::TopicAuthorizationFailed),
        ] {
            assert_eq!(try_send(topic, index), Ok(false), "{topic}");
            tokio::time::sleep(moment).await;
            let refused = try_send(topic, index);
            assert!(matches!(refused, Err(Error::Refused { code: is, .. }) if is == code));
        }
        producer.flush().await;
        assert_eq!(values(&cluster, TOPIC), ["value"]);
    });
}

#[test]
fn what_is_asked_for_without_waiting_ends_and_is_not_kept() {
    run(66, 1, async |_: Cluster| {
        let producer = producer(&[]);
        let try_send = |topic: &str| {
            let tried = producer.try_send(record(topic, "value"));
            tried.map(|delivery| delivery.is_some())
        };
        for number in 0..50 {
            assert_eq!(try_send(&format!("missing-{number}")), Ok(false));
        }
        // Longer than `max.block.ms`.
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(try_send("another"), Ok(false));
        let code = ErrorCode::UnknownTopicOrPartition;
        let missing = try_send("missing-7");
        assert!(
            matches!(missing, Err(Error::Refused { code: is, .. }) if is == code),
            "whatever else is asked for: {missing:?}"
        );
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(try_send("one more"), Ok(false));
        assert!(
            producer.inquiry_count() <= 2,
            "{}",
            producer.inquiry_count()
        );
    });
}
