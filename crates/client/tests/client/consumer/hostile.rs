//! Brokers that break while a consumer uses them: each fault gives an error that names the address, in
//! the time that the settings allow, and the consumer goes on when the broker behaves again.

use super::{partition, run_within};
use riverrun_client::Error;
use riverrun_client::consumer::{CommittedOffset, Consumer, ConsumerConfig, Offsets};
use std::time::{Duration, Instant};
use testkit::{Fault, Proxy, batch, compressed_batch};
use tokio::task::JoinSet;
use wire::ApiKey;

/// How long a poll waits.
const POLL: Duration = Duration::from_millis(50);
/// More than any of the settings below, on a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(120);

/// Settings with which a test may wait for every timeout.
const SHORT: &[(&str, &str)] = &[
    ("request.timeout.ms", "400"),
    ("default.api.timeout.ms", "900"),
    ("fetch.max.wait.ms", "20"),
    ("retry.backoff.ms", "5"),
    ("retry.backoff.max.ms", "20"),
    ("reconnect.backoff.ms", "5"),
    ("reconnect.backoff.max.ms", "20"),
    ("max.poll.interval.ms", "500"),
    ("metadata.max.age.ms", "100"),
    ("auto.offset.reset", "earliest"),
];
const CLASSIC: &[(&str, &str)] = &[
    ("heartbeat.interval.ms", "20"),
    ("session.timeout.ms", "6000"),
];
const MODERN: &[(&str, &str)] = &[("group.protocol", "consumer")];
/// What makes the server fast enough for tests.
const SERVER: &[(&str, &str)] = &[
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.consumer.min.heartbeat.interval.ms", "50"),
    ("group.consumer.heartbeat.interval.ms", "50"),
];

/// A consumer that breaks.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Settings beside the short ones; without any, the consumer is assigned its partition.
    group: &'static [(&'static str, &'static str)],
    /// Whether the broker breaks only when records have been read.
    is_late: bool,
    api: ApiKey,
    fault: Fault,
}

fn consumer(proxy: &Proxy, topic: &str, case: Case) -> Consumer {
    let mut config = ConsumerConfig::new(&proxy.address().to_string(), topic).unwrap();
    for (key, value) in SHORT.iter().chain(case.group) {
        config.set(key, value).unwrap();
    }
    config.set("enable.auto.commit", "false").unwrap();
    let mut consumer = Consumer::new(config).unwrap();
    if case.group.is_empty() {
        consumer.assign([partition(topic, 0)]).unwrap();
    } else {
        consumer.subscribe([topic]).unwrap();
    }
    consumer
}

/// Polls until an error tells what there is to be told.
async fn error_of(consumer: &mut Consumer, is_told: impl Fn(&Error) -> bool) -> Error {
    let started = Instant::now();
    loop {
        let polled = consumer.poll(POLL).await.map(|_| ());
        match polled {
            Err(error) if is_told(&error) => return error,
            _ => assert!(
                started.elapsed() < IN_TIME,
                "no error for {consumer:?}: {polled:?}"
            ),
        }
    }
}

/// Whether an error says that no answer came in time.
fn is_late(error: &Error) -> bool {
    error.to_string().contains(".ms`")
}

/// Asks until there is an answer: it may come too late on a machine that is busy.
async fn in_time<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    let started = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(is_late(&error) && started.elapsed() < IN_TIME, "{error}"),
        }
    }
}

/// Polls until `count` records have come; what is still to be told of the fault is passed over.
async fn read_through(consumer: &mut Consumer, count: usize) {
    let started = Instant::now();
    let mut seen = 0;
    while seen < count {
        if let Ok(records) = consumer.poll(POLL).await {
            seen += records.into_owned().unwrap().len();
        }
        assert!(started.elapsed() < IN_TIME, "{seen} of {count} records");
    }
}

/// Whether an error names the address and the fault. On a machine that is busy an answer that is not
/// faulty, or is, may come too late, which is all that can be told then.
#[track_caller]
fn names(error: &Error, proxy: &Proxy, case: Case) -> bool {
    let text = error.to_string();
    let address = proxy.address().to_string();
    let part = match case.fault {
        Fault::Missing => "refused",
        Fault::Hangs | Fault::HalfAnswer => ".ms`",
        Fault::Closes | Fault::Damaged(_) => "",
        Fault::Sends(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") => "`HTTP`",
        Fault::Sends([0x15, ..]) => "TLS",
        Fault::Sends([0x7f, ..]) => "`receive.message.max.bytes`",
        Fault::Sends(_) => "-2 bytes",
        Fault::WrongCorrelationId => "correlation id",
        Fault::ShortBody | Fault::Nonsense => "no answer of Kafka's protocol",
    };
    // A request that was behind the one that got no answer meets the end of the connection.
    let is_behind = text.contains("closed the connection") || text.contains("got no answer");
    let is_of_fault = text.contains(part) || is_behind || case.fault == Fault::Missing;
    let is_named = text.contains(&address) && is_of_fault;
    assert!(
        is_named || is_late(error),
        "{address} or `{part}` is missing for {case:?}: {text}"
    );
    is_named
}

/// Goes through one case against the topic, which holds two records.
async fn poll_through(proxy: Proxy, topic: String, case: Case) {
    if !case.is_late {
        proxy.fail(&[case.api], case.fault);
    }
    let mut consumer = consumer(&proxy, &topic, case);
    if case.is_late {
        read_through(&mut consumer, 2).await;
        proxy.fail(&[case.api], case.fault);
    }
    error_of(&mut consumer, |error| names(error, &proxy, case)).await;
    proxy.behave();
    seek_when_assigned(&mut consumer, &topic).await;
    read_through(&mut consumer, 2).await;
    consumer.close(IN_TIME).await.unwrap();
}

/// Goes back to the start, once the partition is this consumer's again.
async fn seek_when_assigned(consumer: &mut Consumer, topic: &str) {
    let started = Instant::now();
    while consumer.seek(&partition(topic, 0), 0).is_err() {
        let _ = consumer.poll(POLL).await;
        assert!(started.elapsed() < IN_TIME, "not assigned");
    }
}

/// Runs every case at the same time, each with a topic and a broker's address of its own.
fn check<F>(cases: &[Case], through: impl Fn(Proxy, String, Case) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (server, proxies) = Proxy::start(cases.len(), SERVER);
    let mut client = server.connect();
    for index in 0..cases.len() {
        let topic = format!("topic-{index}");
        client.create_topic(&topic, 1, &[]);
        // The first question makes the topic of the coordinators, which may take longer than a poll.
        client.wait_for_coordinator(&topic);
        let compressed = compressed_batch(record::Compression::Lz4, &["b"]);
        client.produce(&topic, 0, &batch(&["a"])).assert_accepted();
        client.produce(&topic, 0, &compressed).assert_accepted();
    }
    run_within(3 * IN_TIME, async {
        let mut running = JoinSet::new();
        for (index, (proxy, case)) in proxies.into_iter().zip(cases).enumerate() {
            running.spawn(through(proxy, format!("topic-{index}"), *case));
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    });
}

fn cases(
    group: &'static [(&'static str, &'static str)],
    is_late: bool,
    apis: &[ApiKey],
) -> Vec<Case> {
    let of_api = |api: &ApiKey| {
        let api = *api;
        Fault::ALL.iter().map(move |fault| Case {
            group,
            is_late,
            api,
            fault: *fault,
        })
    };
    apis.iter().flat_map(of_api).collect()
}

#[test]
fn at_the_start() {
    let apis = [ApiKey::ApiVersions, ApiKey::Metadata];
    check(&cases(&[], false, &apis), poll_through);
}

#[test]
fn before_the_first_record() {
    check(
        &cases(&[], false, &[ApiKey::ListOffsets, ApiKey::Fetch]),
        poll_through,
    );
}

#[test]
fn between_polls() {
    let apis = [ApiKey::Fetch, ApiKey::Metadata];
    check(&cases(&[], true, &apis), poll_through);
}

#[test]
fn while_joining_a_group() {
    let apis = [ApiKey::FindCoordinator, ApiKey::OffsetFetch];
    check(&cases(CLASSIC, false, &apis), poll_through);
}

#[test]
fn within_a_rebalance() {
    let apis = [ApiKey::JoinGroup, ApiKey::SyncGroup];
    check(&cases(CLASSIC, false, &apis), poll_through);
}

#[test]
fn as_a_member() {
    let mut all = cases(CLASSIC, true, &[ApiKey::Heartbeat]);
    all.extend(cases(MODERN, true, &[ApiKey::ConsumerGroupHeartbeat]));
    all.extend(cases(MODERN, false, &[ApiKey::ConsumerGroupHeartbeat]));
    check(&all, poll_through);
}

#[test]
fn while_committing() {
    let mut all = cases(CLASSIC, true, &[ApiKey::OffsetCommit]);
    all.extend(cases(MODERN, true, &[ApiKey::OffsetCommit]));
    check(&all, async |proxy: Proxy, topic: String, case: Case| {
        let mut consumer = consumer(&proxy, &topic, case);
        read_through(&mut consumer, 2).await;
        proxy.fail(&[case.api], case.fault);
        let started = Instant::now();
        loop {
            let outcome = consumer.commit().await;
            if outcome
                .as_ref()
                .is_err_and(|error| names(error, &proxy, case))
            {
                break;
            }
            assert!(started.elapsed() < IN_TIME, "{outcome:?}");
            // Who is no member any more asks nobody, and has nothing to commit until it has read again.
            let _ = consumer.poll(POLL).await;
        }
        proxy.behave();
        // A broker that was missing may have to be joined again, and a machine that is busy may keep a member for so
        // long that it is none any more: what it has read is not its own then, and is read once more.
        let name = partition(&topic, 0);
        let names = std::slice::from_ref(&name);
        let started = Instant::now();
        loop {
            let outcome = consumer.commit().await;
            let committed = consumer.committed(names).await;
            let is_known = |found: &Offsets| found.get(&name).is_some_and(|one| one.offset == 2);
            if committed.as_ref().is_ok_and(is_known) {
                break;
            }
            assert!(started.elapsed() < IN_TIME, "{outcome:?} {committed:?}");
            let _ = consumer.poll(POLL).await;
        }
    });
}

#[test]
fn while_asking_for_offsets() {
    let apis = [ApiKey::ListOffsets];
    check(
        &cases(&[], false, &apis),
        async |proxy: Proxy, topic: String, case: Case| {
            let consumer = consumer(&proxy, &topic, case);
            let asked = [partition(&topic, 0)];
            let ends = || consumer.end_offsets(&asked);
            assert_eq!(in_time(&ends).await[&asked[0]], 2);
            proxy.fail(&[case.api], case.fault);
            let started = Instant::now();
            loop {
                let error = ends().await.unwrap_err();
                assert!(started.elapsed() < IN_TIME, "{error}");
                if names(&error, &proxy, case) {
                    break;
                }
            }
            proxy.behave();
            assert_eq!(in_time(&ends).await[&asked[0]], 2);
        },
    );
}

#[test]
fn batches_that_are_damaged_on_the_way() {
    // The last bytes of an answer are empty lists of fields; records are before those.
    let faults = [4, 8, 16, 40].map(Fault::Damaged);
    let cases = faults.map(|fault| Case {
        group: &[],
        is_late: false,
        api: ApiKey::Fetch,
        fault,
    });
    check(&cases, poll_through);
}

#[test]
fn a_group_without_coordinator_says_what_may_be_missing() {
    let keys = [
        ("offsets.topic.replication.factor", "3"),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    let (server, mut proxies) = Proxy::start(1, &keys);
    server.connect().create_topic("topic", 1, &[]);
    let proxy = proxies.remove(0);
    run_within(3 * IN_TIME, async {
        let case = Case {
            group: CLASSIC,
            is_late: false,
            api: ApiKey::JoinGroup,
            fault: Fault::Hangs,
        };
        let mut consumer = consumer(&proxy, "topic", case);
        let words = ["group `topic`", "`offsets.topic.replication.factor`"];
        error_of(&mut consumer, |error| {
            let text = error.to_string();
            let is_told = words.iter().all(|word| text.contains(word));
            assert!(is_told || is_late(error), "{words:?} are missing: {text}");
            is_told
        })
        .await;
        let offsets = Offsets::from([(partition("topic", 0), CommittedOffset::new(0))]);
        assert!(consumer.commit_offsets(offsets).await.is_err());
    });
}
