//! Reading partitions: positions, resets, seeks, pauses, limits, compression, restarts.

use super::{POLL, config, partition, read, run, server, value, values};
use futures_core::Stream;
use record::{BatchBuilder, BatchHeader, Compression};
use riverrun_client::consumer::Consumer;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use testkit::{batch, compressed_batch};

#[test]
fn records_come_in_order_with_all_their_parts() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client
        .produce("t", 0, &batch(&["a", "b"]))
        .assert_accepted();
    client
        .produce("t", 0, &compressed_batch(Compression::Lz4, &["c", "d"]))
        .assert_accepted();
    client
        .produce("t", 0, &compressed_batch(Compression::Zstd, &["e"]))
        .assert_accepted();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.assign([partition("t", 0)]).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let mut records = consumer.poll(POLL).await.unwrap();
            while let Some(record) = records.next().unwrap() {
                let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                seen.push((
                    record.topic.to_owned(),
                    record.partition,
                    record.offset,
                    value,
                ));
            }
            assert!(records.is_empty());
        }
        let expected: Vec<_> = ["a", "b", "c", "d", "e"]
            .iter()
            .enumerate()
            .map(|(offset, value)| ("t".to_owned(), 0, offset as i64, (*value).to_owned()))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!(consumer.position(&partition("t", 0)), Some(5));
        consumer.seek(&partition("t", 0), 3).unwrap();
        let mut all = Vec::new();
        while all.len() < 2 {
            let mut records = consumer.poll(POLL).await.unwrap();
            records
                .for_each(|r| all.push(r.value.unwrap().to_vec()))
                .unwrap();
        }
        assert_eq!(all, [b"d", b"e"]);
        assert_eq!(consumer.current_lag(&partition("t", 0)), Some(0));
        consumer.close(POLL).await.unwrap();
    });
}

#[test]
fn a_poll_returns_no_more_records_than_it_may() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 2, &[]);
    let numbers: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    client
        .produce("t", 0, &compressed_batch(Compression::Gzip, &numbers))
        .assert_accepted();
    client.produce("t", 1, &batch(&numbers)).assert_accepted();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[("max.poll.records", "7")])).unwrap();
        consumer
            .assign([partition("t", 0), partition("t", 1)])
            .unwrap();
        let mut seen: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        while seen.values().map(Vec::len).sum::<usize>() < 200 {
            let records = consumer.poll(POLL).await.unwrap().into_owned().unwrap();
            assert!(records.len() <= 7, "{}", records.len());
            for record in &records {
                let list = seen.entry(record.partition.partition).or_default();
                assert_eq!(record.offset, list.len() as i64);
                list.push(value(record));
            }
            // The position is after what was returned, also within a batch.
            for (index, list) in &seen {
                assert_eq!(
                    consumer.position(&partition("t", *index)),
                    Some(list.len() as i64)
                );
            }
        }
        assert_eq!(seen[&0], numbers);
        assert_eq!(seen[&1], numbers);
    });
}

#[test]
fn records_one_by_one_count_as_processed_when_the_next_is_asked_for() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client
        .produce("t", 0, &batch(&["a", "b", "c"]))
        .assert_accepted();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.subscribe(["t"]).unwrap();
        assert_eq!(value(&consumer.next().await.unwrap()), "a");
        assert_eq!(consumer.position(&partition("t", 0)), Some(1));
        assert_eq!(value(&consumer.next().await.unwrap()), "b");
        consumer.close(Duration::from_secs(10)).await.unwrap();
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.subscribe(["t"]).unwrap();
        assert_eq!(value(&consumer.next().await.unwrap()), "c");
    });
}

#[test]
fn paused_partitions_rest_while_others_go_on() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 2, &[]);
    client.produce("t", 0, &batch(&["a"])).assert_accepted();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer
            .assign([partition("t", 0), partition("t", 1)])
            .unwrap();
        assert_eq!(values(&read(&mut consumer, 1).await), ["a"]);
        consumer.pause(&partition("t", 0)).unwrap();
        client.produce("t", 0, &batch(&["b"])).assert_accepted();
        client.produce("t", 1, &batch(&["c"])).assert_accepted();
        assert_eq!(values(&read(&mut consumer, 1).await), ["c"]);
        assert!(consumer.poll(POLL).await.unwrap().is_empty());
        consumer.resume(&partition("t", 0)).unwrap();
        assert_eq!(values(&read(&mut consumer, 1).await), ["b"]);
    });
}

#[test]
fn a_small_budget_reads_everything_all_the_same() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 3, &[]);
    let large = "x".repeat(3_000);
    for index in 0..3 {
        for _ in 0..10 {
            client
                .produce("t", index, &batch(&[&large]))
                .assert_accepted();
        }
    }
    run(async {
        let pairs = [
            ("fetch.max.bytes", "1000"),
            ("max.partition.fetch.bytes", "500"),
        ];
        let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
        consumer
            .assign((0..3).map(|index| partition("t", index)))
            .unwrap();
        assert_eq!(read(&mut consumer, 30).await.len(), 30);
    });
}

#[test]
fn offsets_by_time_and_at_both_ends() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    for time in [1_000, 2_000, 3_000] {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        builder.append(time, None, Some(b"x"), &[]);
        client
            .produce("t", 0, builder.build_uncompressed())
            .assert_accepted();
    }
    run(async {
        let consumer = Consumer::new(config(&server, &[])).unwrap();
        let t = partition("t", 0);
        let names = [t.clone()];
        assert_eq!(consumer.beginning_offsets(&names).await.unwrap()[&t], 0);
        assert_eq!(consumer.end_offsets(&names).await.unwrap()[&t], 3);
        let at = |time: i64| BTreeMap::from([(t.clone(), time)]);
        let found = consumer.offsets_for_times(&at(1_500)).await.unwrap();
        assert_eq!((found[&t].offset, found[&t].timestamp_ms), (1, 2_000));
        let found = consumer.offsets_for_times(&at(3_001)).await.unwrap();
        assert!(found.is_empty());
        let missing = partition("t", 7);
        let error = consumer.end_offsets(&[missing]).await.unwrap_err();
        assert!(error.to_string().contains("t-7"), "{error}");
    });
}

#[test]
fn reset_policies() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client
        .produce("t", 0, &batch(&["a", "b", "c"]))
        .assert_accepted();
    client.delete_records("t", 0, 1);
    run(async {
        for (policy, expected) in [
            ("earliest", Some("b")),
            ("latest", Some("d")),
            ("by_duration:P1000D", Some("b")),
            ("none", None),
        ] {
            let pairs = [("auto.offset.reset", policy), ("group.id", policy)];
            let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
            consumer.assign([partition("t", 0)]).unwrap();
            if policy == "latest" {
                while consumer.position(&partition("t", 0)).is_none() {
                    assert!(consumer.poll(POLL).await.unwrap().is_empty());
                }
                client.produce("t", 0, &batch(&["d"])).assert_accepted();
            }
            let Some(expected) = expected else {
                let error = consumer.poll(Duration::from_secs(10)).await.unwrap_err();
                assert!(
                    error.to_string().contains("`auto.offset.reset` is `none`"),
                    "{error}"
                );
                consumer.seek(&partition("t", 0), 0).unwrap();
                let error = consumer.poll(Duration::from_secs(10)).await.unwrap_err();
                assert!(error.to_string().contains("OFFSET_OUT_OF_RANGE"), "{error}");
                consumer.seek(&partition("t", 0), 2).unwrap();
                assert_eq!(value(&read(&mut consumer, 1).await[0]), "c");
                continue;
            };
            assert_eq!(
                value(&read(&mut consumer, 1).await[0]),
                expected,
                "{policy}"
            );
        }
    });
}

#[test]
fn reading_goes_on_after_the_server_restarts() {
    let directory = trials::directory();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let listeners = format!("PLAINTEXT://127.0.0.1:{port}");
    let keys = [
        ("listeners", listeners.as_str()),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    let start = || testkit::TestServer::start_in(&directory.path().join("data"), &keys).unwrap();
    let server = start();
    server.connect().create_topic("t", 1, &[]);
    server
        .connect()
        .produce("t", 0, &batch(&["a"]))
        .assert_accepted();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut consumer = {
        let _entered = runtime.enter();
        Consumer::new(config(&server, &[])).unwrap()
    };
    consumer.subscribe(["t"]).unwrap();
    runtime.block_on(async {
        assert_eq!(values(&read(&mut consumer, 1).await), ["a"]);
        consumer.commit().await.unwrap();
    });
    server.stop();
    let server = start();
    server
        .connect()
        .produce("t", 0, &batch(&["b"]))
        .assert_accepted();
    runtime.block_on(async {
        assert_eq!(values(&read(&mut consumer, 1).await), ["b"]);
        consumer.close(Duration::from_secs(10)).await.unwrap();
    });
}

#[test]
fn a_stream_yields_each_record_and_leaves_the_rest_to_the_consumer() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client
        .produce("t", 0, &batch(&["a", "b", "c", "d"]))
        .assert_accepted();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.assign([partition("t", 0)]).unwrap();
        let mut seen = Vec::new();
        {
            let mut stream = pin!(consumer.stream());
            while seen.len() < 3 {
                let next = poll_fn(|context| stream.as_mut().poll_next(context)).await;
                seen.push(next.unwrap().unwrap().value.unwrap());
            }
        }
        assert_eq!(seen, ["a", "b", "c"]);
        assert_eq!(consumer.position(&partition("t", 0)), Some(3));
        assert_eq!(consumer.next().await.unwrap().value.unwrap(), "d");
        consumer.close(POLL).await.unwrap();
    });
}
