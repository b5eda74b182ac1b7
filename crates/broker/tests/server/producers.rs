//! Idempotent producers: duplicates are known, gaps and old epochs refused, also after a restart.

use model::ErrorCode;
use testkit::{TestServer, batch, idempotent_batch};

#[test]
fn sequences_follow_one_another() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let (id, epoch) = client.init_producer_id();
    let mut produce = |epoch: i16, sequence: i32, values: &[&str]| {
        let batch = idempotent_batch(id, epoch, sequence, values);
        let produced = client.produce("topic", 0, &batch);
        (produced.error, produced.base_offset)
    };
    assert_eq!(produce(epoch, 0, &["a", "b"]), (ErrorCode::None, 0));
    // The same again is no second copy.
    assert_eq!(produce(epoch, 0, &["a", "b"]), (ErrorCode::None, 0));
    assert_eq!(produce(epoch, 2, &["c"]), (ErrorCode::None, 2));
    assert_eq!(produce(epoch, 0, &["a", "b"]), (ErrorCode::None, 0));
    let gap = ErrorCode::OutOfOrderSequenceNumber;
    assert_eq!(produce(epoch, 4, &["e"]), (gap, -1));
    assert_eq!(produce(epoch, i32::MAX, &["e"]), (gap, -1));
    // A part of what is known is neither a duplicate nor next.
    assert_eq!(produce(epoch, 1, &["b"]), (gap, -1));
    // A new epoch begins at zero.
    assert_eq!(produce(epoch + 1, 3, &["d"]), (gap, -1));
    assert_eq!(produce(epoch + 1, 0, &["d"]), (ErrorCode::None, 3));
    let old = ErrorCode::InvalidProducerEpoch;
    assert_eq!(produce(epoch, 3, &["d"]), (old, -1));
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b", "c", "d"]);
    server.assert_serves();
}

#[test]
fn a_producer_without_sequence_is_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let (id, epoch) = client.init_producer_id();
    for (id, sequence, expected) in [
        (id, -1, ErrorCode::InvalidRecord),
        (id, i32::MIN, ErrorCode::InvalidRecord),
        // An id below zero is none, and then the sequence says nothing.
        (i64::MIN, -5, ErrorCode::None),
        (-2, 7, ErrorCode::None),
    ] {
        let batch = idempotent_batch(id, epoch, sequence, &["value"]);
        let produced = client.produce("topic", 0, &batch);
        assert_eq!(produced.error, expected, "{id} {sequence}");
    }
    server.assert_serves();
}

#[test]
fn a_sequence_goes_round() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let (id, epoch) = client.init_producer_id();
    // Whoever is not known may begin anywhere.
    for (sequence, values) in [
        (i32::MAX - 1, &["a"][..]),
        (i32::MAX, &["b", "c"]),
        (1, &["d"]),
    ] {
        let batch = idempotent_batch(id, epoch, sequence, values);
        client.produce("topic", 0, &batch).assert_accepted();
        client.produce("topic", 0, &batch).assert_accepted();
    }
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b", "c", "d"]);
}

#[test]
fn ids_are_never_given_twice() {
    let directory = trials::directory();
    let mut ids = Vec::new();
    for stops_in_order in [true, false, true] {
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        ids.extend([client.init_producer_id().0, client.init_producer_id().0]);
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
    }
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
}

#[test]
fn a_duplicate_is_known_after_a_restart() {
    for stops_in_order in [true, false] {
        let directory = trials::directory();
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        let (id, epoch) = client.init_producer_id();
        client.produce("topic", 0, &batch(&["x"])).assert_accepted();
        let sent = idempotent_batch(id, epoch, 0, &["a", "b"]);
        client.produce("topic", 0, &sent).assert_accepted();
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        let produced = client.produce("topic", 0, &sent);
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::None, 1));
        let next = idempotent_batch(id, epoch, 2, &["c"]);
        client.produce("topic", 0, &next).assert_accepted();
        let gap = idempotent_batch(id, epoch, 9, &["z"]);
        let produced = client.produce("topic", 0, &gap);
        assert_eq!(produced.error, ErrorCode::OutOfOrderSequenceNumber);
        assert_eq!(client.fetch("topic", 0, 0).values(), ["x", "a", "b", "c"]);
    }
}

/// A producer may have so many under way, and has heard of none of them when its broker is killed.
#[test]
fn the_last_five_batches_are_known_after_a_crash() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let (id, epoch) = client.init_producer_id();
    let sent = (0..5).map(|sequence| idempotent_batch(id, epoch, sequence, &["value"]));
    let sent: Vec<_> = sent.collect();
    for batch in &sent {
        client.produce("topic", 0, batch).assert_accepted();
    }
    server.crash();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    for (at, batch) in (0..).zip(&sent) {
        let produced = client.produce("topic", 0, batch);
        assert_eq!(
            (produced.error, produced.base_offset),
            (ErrorCode::None, at)
        );
    }
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 5);
}
