//! What is sent is there: in order, once, whatever the settings.

use super::{LIMIT, producer, send};
use riverrun_client::producer::{Header, ProducerRecord, partition_of_key};
use std::sync::{Arc, Mutex};
use testkit::TestServer;

#[tokio::test]
async fn records_are_written_as_they_were_sent() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[]);
    let timestamp = testkit::now_ms() - 1_000;
    let headers = [
        Header {
            key: b"a",
            value: Some(b"1"),
        },
        Header {
            key: b"a",
            value: None,
        },
    ];
    let record = ProducerRecord::new("topic")
        .key(b"key")
        .value(b"value")
        .headers(&headers)
        .timestamp(timestamp);
    let written = producer.send(record).await.unwrap().await.unwrap();
    assert_eq!((&*written.topic, written.partition), ("topic", 0));
    assert_eq!((written.offset, written.timestamp), (Some(0), timestamp));
    let tombstone = producer
        .send(ProducerRecord::new("topic").key(b"key"))
        .await;
    assert_eq!(tombstone.unwrap().await.unwrap().offset, Some(1));
    let fetched = server.connect().fetch("topic", 0, 0).records();
    assert_eq!(fetched.len(), 2);
    assert_eq!(fetched[0].key.as_deref(), Some(b"key".as_slice()));
    assert_eq!(fetched[0].timestamp, timestamp);
    producer.close(LIMIT).await.unwrap();
    assert!(send(&producer, "topic", "late").await.is_err());
}

#[tokio::test]
async fn keys_choose_the_partition_as_in_java() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 4, &[]);
    let producer = producer(server.address(), &[]);
    for number in 0..40 {
        let key = format!("key {number}");
        let record = ProducerRecord::new("topic").key(key.as_bytes());
        let delivery = producer.send(record).await.unwrap();
        assert_eq!(
            delivery.partition(),
            partition_of_key(key.as_bytes(), 4) as i32
        );
        assert_eq!(delivery.await.unwrap().topic.as_ref(), "topic");
    }
    let partitions = producer.partitions_for("topic").await.unwrap();
    assert_eq!(partitions.len(), 4);
    assert!(
        partitions
            .iter()
            .all(|partition| partition.leader.is_some())
    );
}

async fn check_order(keys: &[(&str, &str)]) {
    const COUNT: usize = 3_000;
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), keys);
    let told = Arc::new(Mutex::new(Vec::new()));
    for number in 0..COUNT {
        let value = format!("{number:060}");
        let record = ProducerRecord::new("topic").value(value.as_bytes());
        let told = Arc::clone(&told);
        let callback = move |result: Result<_, _>| {
            told.lock().unwrap().push((number, result.unwrap()));
        };
        producer.send_with(record, callback).await.unwrap();
    }
    producer.flush().await;
    let told = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(told.len(), COUNT, "{keys:?}");
    for (at, (number, metadata)) in told.into_iter().enumerate() {
        assert_eq!(at, number, "{keys:?}");
        let offset = metadata.offset.map(|offset| offset as usize);
        assert!(
            offset == Some(at) || keys.contains(&("acks", "0")),
            "{keys:?}"
        );
    }
    let mut client = server.connect();
    let mut values = Vec::new();
    while values.len() < COUNT {
        let fetched = client.fetch("topic", 0, values.len() as i64).values();
        values.extend(fetched);
    }
    let expected = (0..COUNT).map(|number| format!("{number:060}"));
    assert!(
        values.iter().eq(expected.collect::<Vec<_>>().iter()),
        "{keys:?}"
    );
    producer.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_with_every_codec() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        check_order(&[("compression.type", codec)]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_with_all_acks_and_small_buffers() {
    check_order(&[("acks", "0")]).await;
    check_order(&[("acks", "1"), ("linger.ms", "0")]).await;
    check_order(&[("enable.idempotence", "false"), ("batch.size", "0")]).await;
    check_order(&[("buffer.memory", "40000"), ("batch.size", "2000")]).await;
    check_order(&[("max.in.flight.requests.per.connection", "1")]).await;
}

#[tokio::test]
async fn a_flush_does_not_wait_for_linger() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[("linger.ms", "60000")]);
    let delivery = producer
        .send(ProducerRecord::new("topic").value(b"x"))
        .await;
    producer.flush().await;
    let result = delivery.unwrap().try_result();
    assert_eq!(
        result.expect("a flush waits for it").unwrap().offset,
        Some(0)
    );
    let delivery = producer
        .send(ProducerRecord::new("topic").value(b"y"))
        .await;
    producer.close(LIMIT).await.unwrap();
    assert_eq!(delivery.unwrap().await.unwrap().offset, Some(1));
}

#[tokio::test]
async fn what_a_dropped_producer_has_taken_is_sent() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[("linger.ms", "60000")]);
    let delivery = producer
        .send(ProducerRecord::new("topic").value(b"x"))
        .await;
    drop(producer);
    assert_eq!(delivery.unwrap().await.unwrap().offset, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_a_producer() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 3, &[]);
    let producer = producer(server.address(), &[("buffer.memory", "100000")]);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let producer = producer.clone();
            tokio::spawn(async move {
                let mut deliveries = Vec::new();
                for _ in 0..1_000 {
                    let record = ProducerRecord::new("topic").value(&[7; 100]);
                    deliveries.push(producer.send(record).await.unwrap());
                }
                for delivery in deliveries {
                    delivery.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut client = server.connect();
    let ends = (0..3).map(|index| client.list_offset("topic", index, -1).offset);
    assert_eq!(ends.sum::<i64>(), 4_000);
}

#[tokio::test]
async fn try_send_never_waits() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[]);
    let record = ProducerRecord::new("topic").value(b"x");
    assert!(
        producer.try_send(record).unwrap().is_none(),
        "nothing is known yet"
    );
    producer.partitions_for("topic").await.unwrap();
    let delivery = producer
        .try_send(record)
        .unwrap()
        .expect("the topic is known");
    assert_eq!(delivery.await.unwrap().offset, Some(0));
}

#[tokio::test]
async fn a_panicking_callback_harms_nobody() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[]);
    let record = ProducerRecord::new("topic").value(b"x");
    producer
        .send_with(record, |_| panic!("the application's"))
        .await
        .unwrap();
    assert_eq!(send(&producer, "topic", "y").await.unwrap(), 1);
}
