//! Servers that go and come back, and answers that make the producer try again.

use super::{LIMIT, producer, send};
use riverrun_client::Error;
use riverrun_client::producer::ProducerRecord;
use std::time::Duration;
use testkit::TestServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_survive_a_restart_of_the_server() {
    const COUNT: usize = 400;
    let directory = trials::directory();
    let mut server = TestServer::start_in(directory.path(), &[]).unwrap();
    server.connect().create_topic("topic", 1, &[]);
    let address = server.address();
    let listeners = format!("PLAINTEXT://{address}");
    let producer = producer(address, &[("linger.ms", "1"), ("batch.size", "200")]);
    let mut deliveries = Vec::new();
    for number in 0..COUNT {
        if number % 100 == 50 {
            server.crash();
            server = TestServer::start_in(directory.path(), &[("listeners", &listeners)]).unwrap();
        }
        let value = format!("{number}");
        let record = ProducerRecord::new("topic").value(value.as_bytes());
        deliveries.push(producer.send(record).await.unwrap());
    }
    for (number, delivery) in deliveries.into_iter().enumerate() {
        let written = delivery.await.unwrap();
        assert_eq!(written.offset.unwrap_or(number as i64), number as i64);
    }
    let values = server.connect().fetch("topic", 0, 0).values();
    let expected: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    assert_eq!(
        values, expected,
        "neither lost nor repeated nor out of order"
    );
    producer.close(LIMIT).await.unwrap();
}

#[tokio::test]
async fn batches_that_the_broker_finds_too_large_are_divided() {
    let server = TestServer::start(&[]);
    let limit = [("max.message.bytes", "1000")];
    server.connect().create_topic("topic", 1, &limit);
    for codec in ["none", "lz4"] {
        let keys = [("compression.type", codec), ("linger.ms", "50")];
        let producer = producer(server.address(), &keys);
        let mut deliveries = Vec::new();
        for number in 0..60u64 {
            let mut value = [0; 300];
            // What cannot be compressed.
            let noise = (0..300u64).map(|at| ((number + 7) * (at + 3) * 2_654_435_761) >> 24);
            value
                .iter_mut()
                .zip(noise)
                .for_each(|(byte, noise)| *byte = noise as u8);
            let record = ProducerRecord::new("topic").value(&value);
            deliveries.push(producer.send(record).await.unwrap());
        }
        let mut offsets = Vec::new();
        for delivery in deliveries {
            offsets.push(delivery.await.unwrap().offset.unwrap());
        }
        let first = offsets[0];
        assert!(offsets.iter().copied().eq(first..first + 60), "{offsets:?}");
        producer.close(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_close_without_time_gives_up() {
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let producer = producer(server.address(), &[]);
    send(&producer, "topic", "first").await.unwrap();
    server.crash();
    let record = ProducerRecord::new("topic").value(b"second");
    let delivery = producer.send(record).await.unwrap();
    let closed = producer.close(Duration::from_millis(100)).await;
    assert!(matches!(closed, Err(Error::TimedOut { .. })), "{closed:?}");
    assert_eq!(delivery.await, Err(Error::Closed("producer")));
    assert_eq!(
        producer.send(record).await.err(),
        Some(Error::Closed("producer"))
    );
    producer.flush().await;
}
