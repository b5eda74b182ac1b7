//! Brokers that the cluster forgets.

use model::{BrokerId, ErrorCode};
use testkit::{Client, TestServer};
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

/// Lets a cluster forget a broker.
pub(crate) fn unregister(client: &mut Client, broker_id: i32) -> ErrorCode {
    let answer = client.call(
        0,
        &UnregisterBrokerRequest {
            broker_id: BrokerId(broker_id),
        },
    );
    let response: UnregisterBrokerResponse<'_> = answer.read();
    ErrorCode::from_code(response.error_code)
}

#[test]
fn a_broker_that_is_not_there_cannot_be_forgotten() {
    let server = TestServer::start(&[]);
    assert_eq!(
        unregister(&mut server.connect(), 99),
        ErrorCode::BrokerIdNotRegistered
    );
    server.assert_serves();
}

/// As Apache Kafka has it: whoever asks must know that the broker has stopped.
#[test]
fn a_broker_that_runs_is_forgotten_until_it_starts_again() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &testkit::batch(&["a"]))
        .assert_accepted();
    assert_eq!(unregister(&mut server.connect(), 1), ErrorCode::None);
    assert_eq!(
        unregister(&mut server.connect(), 1),
        ErrorCode::BrokerIdNotRegistered
    );
    assert_eq!(client.brokers().len(), 0);
    let refused = client.produce("topic", 0, &testkit::batch(&["b"]));
    assert_eq!(refused.error, ErrorCode::NotLeaderOrFollower);
    server.stop();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.brokers().len(), 1);
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a"]);
    client
        .produce("topic", 0, &testkit::batch(&["c"]))
        .assert_accepted();
    server.assert_serves();
}
