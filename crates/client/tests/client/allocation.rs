//! A record costs the producer no allocation; a batch costs a few, those of the server among them.

use crate::ALLOCATOR;
use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};
use stats_alloc::Region;
use testkit::TestServer;
use trials::alone;

/// What client and server together may allocate for a batch that travels alone.
const PER_BATCH_MAX: usize = 40;

async fn send(producer: &Producer, count: usize) {
    for _ in 0..count {
        let record = ProducerRecord::new("topic").key(b"key").value(&[7; 40]);
        drop(producer.send(record).await.unwrap());
    }
    producer.flush().await;
}

#[test]
fn records_are_sent_without_allocations_of_their_own() {
    alone(
        "allocation::records_are_sent_without_allocations_of_their_own",
        || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(check_allocations());
        },
    );
}

async fn check_allocations() {
    const COUNT: usize = 100_000;
    let server = TestServer::start(&[]);
    server.connect().create_topic("topic", 1, &[]);
    let address = server.address().to_string();
    let config = ProducerConfig::with_bootstrap_servers(&address).unwrap();
    let producer = Producer::new(config).unwrap();
    // Buffers and queues grow to their size.
    send(&producer, COUNT).await;
    let region = Region::new(ALLOCATOR);
    send(&producer, COUNT).await;
    let allocations = region.change().allocations;
    // A record takes 50 bytes of a batch of 16 KiB.
    let batches = COUNT / (16_384 / 50);
    assert!(
        allocations < batches * PER_BATCH_MAX,
        "{allocations} allocations for about {batches} batches of {COUNT} records"
    );
}
