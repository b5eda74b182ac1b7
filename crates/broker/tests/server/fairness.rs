//! Nobody is held up by others: not by clients that do not read their answers, nor by those that
//! send requests as large as may be, nor by records that have to come from the disk.

use model::Message;
use std::fs::File;
use testkit::{Client, PRODUCE_VERSION, TestServer, batch};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{ProduceRequest, ProduceResponse};

/// More clients of a kind than the test's server has threads.
const CLIENTS: usize = 3;
const BATCH_COUNT: usize = 8;
/// Of a huge request: 16 MiB.
const PARTITION_COUNT: i32 = 32;

/// Half a megabyte that tells it from the others.
fn large_value(salt: usize) -> String {
    format!("{salt:>8}").repeat(64 * 1024)
}

fn large_batch(salt: usize) -> Vec<u8> {
    batch(&[&large_value(salt)])
}

/// A topic of 4 MiB.
fn fill(client: &mut Client, configs: &[(&str, &str)]) {
    client.create_topic("topic", 1, configs);
    for salt in 0..BATCH_COUNT {
        let produced = client.produce("topic", 0, &large_batch(salt));
        produced.assert_accepted();
    }
}

fn assert_all(client: &mut Client, from: usize) {
    let mut offset = from;
    while offset < BATCH_COUNT {
        let values = client.fetch("topic", 0, offset as i64).values();
        assert!(!values.is_empty());
        for value in values {
            assert!(value == large_value(offset), "offset {offset}");
            offset += 1;
        }
    }
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    fill(&mut client, &[]);
    let mut slow: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut slow {
        for _ in 0..BATCH_COUNT {
            client.send_fetch("topic", 0, 0, 0);
        }
    }
    server.assert_serves();
    for client in &mut slow {
        for _ in 0..BATCH_COUNT {
            assert!(!client.receive_fetched().records.is_empty());
        }
    }
    server.stop();
}

#[test]
fn who_sends_huge_requests_slowly_holds_up_nobody() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    let batches: Vec<Vec<u8>> = (0..PARTITION_COUNT as usize).map(large_batch).collect();
    let partitions = batches.iter().zip(0..).map(|(records, index)| {
        let records = Some(&records[..]);
        PartitionProduceData { index, records }
    });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    let mut slow: Vec<(Client, Vec<u8>)> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            let frame = client.frame(PRODUCE_VERSION, &request);
            (client, frame)
        })
        .collect();
    for part in 0..3 {
        for (client, frame) in &mut slow {
            let third = frame.len() / 3;
            let end = if part == 2 {
                frame.len()
            } else {
                third * (part + 1)
            };
            client.send_bytes(&frame[third * part..end]);
        }
        server.assert_serves();
    }
    for (client, _) in &mut slow {
        let frame = client.receive_frame();
        // The header of the answer is a correlation id and no tagged fields.
        let response = ProduceResponse::from_bytes(&frame[5..], PRODUCE_VERSION);
        let response = response.expect("an answer");
        let partitions = response.responses.iter().flat_map(|one| {
            let partitions: Vec<_> = one.partition_responses.iter().collect();
            partitions
        });
        assert_eq!(
            partitions.filter(|one| one.error_code == 0).count(),
            PARTITION_COUNT as usize
        );
    }
    server.stop();
}

#[test]
fn records_that_are_not_in_memory_come_from_the_disk() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    // What is durable can be dropped from memory.
    fill(&mut client, &[("flush.messages", "1")]);
    let log = server.directory().join("topic-0/00000000000000000000.log");
    let drop_from_memory = || {
        let file = File::open(&log).unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    for from in [0, 1, BATCH_COUNT - 1] {
        drop_from_memory();
        assert_all(&mut client, from);
    }
    client
        .produce("topic", 0, &batch(&["small"]))
        .assert_accepted();
    drop_from_memory();
    assert_eq!(
        client.fetch("topic", 0, BATCH_COUNT as i64).values(),
        ["small"]
    );
    server.stop();
}
