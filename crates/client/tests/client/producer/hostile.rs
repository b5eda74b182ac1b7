//! Brokers that break while a producer uses them: each fault fails the record in the time that the
//! settings allow, with the address, and the producer goes on when the broker behaves again.

use super::{producer, send};
use riverrun_client::Error;
use std::time::{Duration, Instant};
use testkit::{Fault, Proxy};
use tokio::task::JoinSet;
use wire::ApiKey;

/// More than any of the settings below, on a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(120);

/// Settings with which a test may wait for every timeout.
const SHORT: &[(&str, &str)] = &[
    ("request.timeout.ms", "400"),
    ("delivery.timeout.ms", "900"),
    ("max.block.ms", "900"),
    ("linger.ms", "0"),
    ("retry.backoff.ms", "5"),
    ("retry.backoff.max.ms", "20"),
    ("reconnect.backoff.ms", "5"),
    ("reconnect.backoff.max.ms", "20"),
];

/// Runs every fault of every API at the same time. Before that a record is sent if `is_late`.
fn check(apis: &[ApiKey], is_late: bool, keys: &'static [(&'static str, &'static str)]) {
    let of_api = |api: &ApiKey| {
        let api = *api;
        Fault::ALL.iter().map(move |fault| (api, *fault))
    };
    let cases: Vec<(ApiKey, Fault)> = apis.iter().flat_map(of_api).collect();
    let (server, proxies) = Proxy::start(cases.len(), &[]);
    let mut client = server.connect();
    for index in 0..cases.len() {
        client.create_topic(&format!("topic-{index}"), 1, &[]);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for (index, (proxy, (api, fault))) in proxies.into_iter().zip(cases).enumerate() {
            let topic = format!("topic-{index}");
            running.spawn(fail_and_recover(proxy, topic, api, fault, is_late, keys));
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    });
}

async fn fail_and_recover(
    proxy: Proxy,
    topic: String,
    api: ApiKey,
    fault: Fault,
    is_late: bool,
    keys: &[(&str, &str)],
) {
    let keys: Vec<_> = SHORT.iter().chain(keys).copied().collect();
    let producer = producer(proxy.address(), &keys);
    let started = Instant::now();
    while is_late && let Err(error) = send(&producer, &topic, "first").await {
        assert!(says_late(&error) && started.elapsed() < IN_TIME, "{error}");
    }
    proxy.fail(&[api], fault);
    let started = Instant::now();
    loop {
        let error = send(&producer, &topic, "lost").await;
        let error = error.expect_err("it cannot be sent");
        assert!(started.elapsed() < IN_TIME, "{error}");
        if names(&error, &proxy, (api, fault)) {
            break;
        }
    }
    proxy.behave();
    // What failed may have been written: only its answer was lost.
    let started = Instant::now();
    while let Err(error) = send(&producer, &topic, "second").await {
        assert!(started.elapsed() < IN_TIME, "{api} {fault:?}: {error}");
    }
    producer.close(IN_TIME).await.unwrap();
}

/// Whether an error says that something did not come in time.
fn says_late(error: &Error) -> bool {
    error.to_string().contains(".ms`")
}

/// Whether an error names the address and the fault. On a machine that is busy an answer that is not
/// faulty, or is, may come too late, which is all that can be told then.
#[track_caller]
fn names(error: &Error, proxy: &Proxy, case: (ApiKey, Fault)) -> bool {
    let text = error.to_string();
    let address = proxy.address().to_string();
    let part = match case.1 {
        Fault::Hangs | Fault::HalfAnswer => ".ms`",
        Fault::Sends([b'H', ..]) => "`HTTP`",
        Fault::Sends([0x15, ..]) => "TLS",
        Fault::Sends([0x7f, ..]) => "`receive.message.max.bytes`",
        Fault::Sends(_) => "-2 bytes",
        Fault::WrongCorrelationId => "correlation id",
        Fault::ShortBody | Fault::Nonsense => "no answer of Kafka's protocol",
        Fault::Missing | Fault::Closes | Fault::Damaged(_) => "",
    };
    let is_named = text.contains(&address) && text.contains(part);
    assert!(
        is_named || says_late(error),
        "{address} or `{part}` is missing for {case:?}: {text}"
    );
    is_named
}

#[test]
fn at_the_start() {
    check(&[ApiKey::ApiVersions, ApiKey::Metadata], false, &[]);
}

#[test]
fn before_the_first_record() {
    check(&[ApiKey::InitProducerId, ApiKey::Produce], false, &[]);
}

#[test]
fn between_records() {
    check(&[ApiKey::Produce], true, &[]);
}

#[test]
fn without_idempotence() {
    let keys = &[("enable.idempotence", "false"), ("acks", "1")];
    check(&[ApiKey::Produce], true, keys);
}
