//! An application's own tests, as they are written with an embedded broker.

#![allow(
    clippy::unwrap_used,
    reason = "what goes wrong in a test fails the test"
)]

use riverrun_client::admin::{AdminConfig, NewTopic};
use riverrun_client::blocking::{Admin, Consumer, Producer};
use riverrun_client::consumer::{self, ConsumerConfig};
use riverrun_client::producer::{self, ProducerConfig, ProducerRecord};
use riverrun_client::serialization::{Json, Text, TypedProducer, TypedRecord};
use riverrun_client::{Error, TopicPartition};
use riverrun_embedded::{EmbeddedBroker, EmbeddedBrokerError};
use std::collections::BTreeMap;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn reader(broker: &EmbeddedBroker) -> ConsumerConfig {
    let mut config = ConsumerConfig::new(broker.bootstrap_servers(), "readers").unwrap();
    config.set("auto.offset.reset", "earliest").unwrap();
    config
}

fn writer(broker: &EmbeddedBroker) -> ProducerConfig {
    ProducerConfig::with_bootstrap_servers(broker.bootstrap_servers()).unwrap()
}

#[test]
fn blocking_clients_create_write_read_commit_and_close() {
    let broker = EmbeddedBroker::start().unwrap();
    let servers = broker.bootstrap_servers();
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(servers).unwrap()).unwrap();
    let topics = [NewTopic::new("orders").partitions(2)];
    let created = admin
        .call(async |admin| admin.create_topics(&topics).await)
        .unwrap();
    assert!(created["orders"].is_ok());
    let producer = Producer::new(writer(&broker)).unwrap();
    let record = ProducerRecord::new("orders").partition(1).value(b"apples");
    let written = producer.send(record).unwrap().wait().unwrap();
    assert_eq!((written.partition, written.offset), (1, Some(0)));
    producer.flush().unwrap();
    let mut consumer = Consumer::new(reader(&broker)).unwrap();
    consumer.subscribe(["orders"]).unwrap();
    let record = consumer.next_record().unwrap();
    assert_eq!(record.value.as_deref(), Some(&b"apples"[..]));
    consumer.commit().unwrap();
    let partitions = [TopicPartition::new("orders", 1)];
    let committed = consumer
        .call(async |consumer| consumer.committed(&partitions).await)
        .unwrap();
    assert_eq!(committed[&partitions[0]].offset, 1);
    consumer.close(LONG).unwrap();
    producer.close(LONG).unwrap();
    broker.stop();
}

#[test]
fn a_blocking_client_refuses_to_block_a_runtime() {
    let broker = EmbeddedBroker::start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let producer = Producer::new(writer(&broker)).unwrap();
        let refused = producer.send(ProducerRecord::new("orders"));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        // Neither client nor broker blocks the runtime where it is dropped.
        drop(producer);
    });
}

#[test]
fn values_travel_as_json_in_an_asynchronous_test() {
    let broker = EmbeddedBroker::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let producer = producer::Producer::new(writer(&broker)).unwrap();
        let stock = TypedProducer::new(producer, Text, Json);
        let count = BTreeMap::from([("apples".to_owned(), 3)]);
        let record = TypedRecord::new("stock", Some("shelf"), Some(&count));
        stock.send(record).await.unwrap().await.unwrap();
        let mut consumer = consumer::Consumer::new(reader(&broker)).unwrap();
        consumer.subscribe(["stock"]).unwrap();
        let record = consumer.next().await.unwrap();
        assert_eq!(record.key_as(Text).unwrap(), Some("shelf".to_owned()));
        assert_eq!(record.value_as(Json).unwrap(), Some(count));
        let wrong = record.value_as::<Vec<i32>>(Json);
        assert!(matches!(wrong, Err(Error::Serialization { .. })));
        consumer.close(LONG).await.unwrap();
        drop(broker);
    });
}

#[test]
fn a_directory_that_was_given_outlives_the_broker() {
    let directory = trials::directory();
    let start = || {
        let place = directory.path().join("data");
        EmbeddedBroker::builder().directory(place).start().unwrap()
    };
    let broker = start();
    let producer = Producer::new(writer(&broker)).unwrap();
    let record = ProducerRecord::new("kept").value(b"apples");
    producer.send(record).unwrap().wait().unwrap();
    producer.close(LONG).unwrap();
    broker.stop();
    let broker = start();
    let mut consumer = Consumer::new(reader(&broker)).unwrap();
    consumer.subscribe(["kept"]).unwrap();
    assert_eq!(consumer.next_record().unwrap().offset, 0);
}

#[test]
fn what_a_broker_cannot_be_started_with_is_named() {
    let check = |key: &str, value: &str, expected: &str| {
        let refused = EmbeddedBroker::builder().set(key, value).start();
        match refused {
            Err(EmbeddedBrokerError::Configuration(reason)) => {
                assert!(reason.starts_with(expected), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    };
    check(
        "num.partitions",
        "many",
        "--set: Invalid value many for configuration num.partitions",
    );
    let expected = "`num.partition` does not exist; did you mean `num.partitions`?";
    check("num.partition", "3", expected);
}

#[test]
fn nothing_is_left_on_the_disk() {
    let broker = EmbeddedBroker::start().unwrap();
    let directory = broker.directory().to_owned();
    assert!(directory.exists());
    drop(broker);
    assert!(!directory.exists());
}
