//! What a partition that nobody uses keeps in memory, as made and after a start. The test is
//! alone in a process.

use crate::ALLOCATOR;
use stats_alloc::Region;
use testkit::TestServer;
use trials::alone;

const TOPIC_COUNT: i64 = 10;
const COUNT: i64 = TOPIC_COUNT * 100;
/// Its state, its name, its places in the topic and in the metadata (some 270 bytes), and a share of
/// the buffers that the server happens to hold.
const BYTES_MAX: i64 = 600;
/// The list of new partitions that are not noted as durable yet, and buffers that making them has
/// filled, which do not grow with their number.
const NEW_BYTES_MAX: i64 = 400;

#[test]
fn a_partition_that_nobody_uses_keeps_few_bytes() {
    alone(
        "idle_memory::a_partition_that_nobody_uses_keeps_few_bytes",
        check_idle_partitions,
    );
}

fn check_idle_partitions() {
    let directory = trials::directory();
    let region = Region::new(ALLOCATOR);
    let kept_bytes = || {
        let change = region.change();
        // What grows where it is counts as reallocated, not as allocated.
        change.bytes_allocated as i64 - change.bytes_deallocated as i64
    };
    let start = || {
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let client = server.connect();
        (server, client)
    };
    let (server, mut client) = start();
    client.create_topic("first", 1, &[]);
    server.stop();
    let (server, mut client) = start();
    let empty = kept_bytes();
    for topic in 0..TOPIC_COUNT {
        client.create_topic(&format!("topic-{topic}"), 100, &[]);
    }
    let made = (kept_bytes() - empty) / COUNT;
    server.stop();

    drop(client);
    let (server, _client) = start();
    assert_eq!(server.log_counts(), (0, 0));
    let started = (kept_bytes() - empty) / COUNT;
    assert!(started < BYTES_MAX, "{started} bytes after a start");
    assert!(made < BYTES_MAX + NEW_BYTES_MAX, "{made} bytes when made");
    assert!(made.min(started) > 100, "{made} and {started} are counted");
}
