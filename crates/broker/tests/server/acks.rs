//! What a producer asks to wait for, and what it may not ask for.

use model::ErrorCode;
use testkit::{TestServer, batch};
use wire::messages::MetadataRequest;

#[test]
fn every_acknowledgement_that_there_is_works() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.send_produce("topic", 0, &batch(&["zero"]), 0);
    for (acks, value) in [(1, "one"), (-1, "all")] {
        client.send_produce("topic", 0, &batch(&[value]), acks);
        client.receive_produced().assert_accepted();
    }
    assert_eq!(client.fetch("topic", 0, 0).values(), ["zero", "one", "all"]);
}

#[test]
fn any_other_number_is_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for acks in [-2, 2, 3, i16::MIN, i16::MAX] {
        client.send_produce("topic", 0, &batch(&["value"]), acks);
        let produced = client.receive_produced();
        assert_eq!(produced.error, ErrorCode::InvalidRequiredAcks, "{acks}");
    }
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
    server.assert_serves();
}

#[test]
fn a_failure_that_has_no_answer_closes_the_connection() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for (topic, index, records) in [
        ("missing", 0, batch(&["value"])),
        ("topic", 7, batch(&["value"])),
        ("topic", 0, b"no batch".to_vec()),
    ] {
        let mut client = server.connect();
        // What came before has its answer.
        client.send(9, &MetadataRequest::default());
        client.send_produce(topic, index, &records, 0);
        client.receive();
        client.assert_closed();
    }
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
    server.assert_serves();
}
