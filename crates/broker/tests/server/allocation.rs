//! A steady load allocates nothing once buffers have grown: producing neither in the connection,
//! the request, the partition nor its log; an incremental fetch of what has not changed nothing
//! that grows with its partitions. The test is alone in a process.

use crate::ALLOCATOR;
use stats_alloc::Region;
use std::io::{Read, Write};
use std::net::TcpStream;
use testkit::{Client, TestServer, batch, fetch_topic, idempotent_batch};
use trials::alone;
use wire::messages::{FetchRequest, FetchResponse};

/// Short runs, and many: on a busy machine too one of them is over before a task of the server's own is due.
const ROUNDS: usize = 50;
const RUNS: usize = 20;
const FETCH_VERSION: i16 = 12;

/// Sends frames one after the other, each after the answer to the one before; returns what the
/// whole process allocates per request.
fn allocations(stream: &mut TcpStream, frames: &[Vec<u8>]) -> f64 {
    let mut answer = [0; 4096];
    let mut frames = frames.iter().cycle();
    let counts = (0..RUNS).map(|_| {
        let region = Region::new(ALLOCATOR);
        for frame in frames.by_ref().take(ROUNDS) {
            stream.write_all(frame).expect("the server reads");
            stream.read_exact(&mut answer[..4]).expect("an answer");
            let length = i32::from_be_bytes(answer[..4].try_into().expect("four bytes")) as usize;
            stream.read_exact(&mut answer[..length]).expect("its rest");
        }
        let change = region.change();
        change.allocations + change.reallocations
    });
    // The server's own tasks are few: the quietest run is free of them.
    counts.min().expect("there are runs") as f64 / ROUNDS as f64
}

fn idempotent_frames(client: &mut Client) -> Vec<Vec<u8>> {
    let (producer_id, producer_epoch) = client.init_producer_id();
    let sequences = 0..(RUNS * ROUNDS) as i32;
    sequences
        .map(|sequence| {
            let records = idempotent_batch(producer_id, producer_epoch, sequence, &["value"]);
            client.produce_frame("topic", 0, &records, -1)
        })
        .collect()
}

/// Fetches in a session of many partitions of which none has changed.
fn session_frames(client: &mut Client, partition_count: i32) -> Vec<Vec<u8>> {
    let partitions: Vec<_> = (1..=partition_count).map(|index| (index, 0)).collect();
    let full = FetchRequest {
        max_bytes: 1024 * 1024,
        topics: vec![fetch_topic("topic", &partitions)].into(),
        ..FetchRequest::default()
    };
    let full = FetchRequest {
        session_id: 0,
        session_epoch: 0,
        ..full
    };
    let answer = client.call(FETCH_VERSION, &full);
    let session_id = answer.read::<FetchResponse<'_>>().session_id;
    assert_ne!(session_id, 0);
    let epochs = 1..=(RUNS * ROUNDS) as i32;
    epochs
        .map(|session_epoch| {
            let request = FetchRequest {
                max_bytes: 1024 * 1024,
                session_id,
                session_epoch,
                ..FetchRequest::default()
            };
            client.frame(FETCH_VERSION, &request)
        })
        .collect()
}

#[test]
fn a_steady_load_allocates_nothing() {
    alone(
        "allocation::a_steady_load_allocates_nothing",
        check_steady_load,
    );
}

fn check_steady_load() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 200, &[]);
    client.wait_for_topic("topic");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let records = batch(&["value"; 10]);
    let loads = [
        (
            "acks=1",
            vec![client.produce_frame("topic", 0, &records, 1)],
        ),
        (
            "acks=all",
            vec![client.produce_frame("topic", 0, &records, -1)],
        ),
        ("idempotent", idempotent_frames(&mut client)),
        ("session of 10", session_frames(&mut client, 10)),
        ("session of 199", session_frames(&mut client, 199)),
    ];
    for (load, frames) in loads {
        let count = allocations(&mut stream, &frames);
        // A fetch, which may wait, leaves the large buffer for a small one.
        let max = if load.starts_with("session") {
            1.1
        } else {
            0.1
        };
        assert!(count < max, "{load}: {count} allocations per request");
    }
    server.stop();
}
