//! Brokers that the cluster forgets.

use model::{BrokerId, ErrorCode};
use testkit::TestServer;
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

fn unregister(server: &TestServer, broker_id: i32) -> ErrorCode {
    let answer = server.connect().call(
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
    assert_eq!(unregister(&server, 99), ErrorCode::BrokerIdNotRegistered);
    server.assert_serves();
}

#[test]
fn a_broker_does_not_forget_itself() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    assert_eq!(unregister(&server, 1), ErrorCode::InvalidRequest);
    assert_eq!(client.brokers().len(), 1);
    client
        .produce("topic", 0, &testkit::batch(&["a"]))
        .assert_accepted();
    server.assert_serves();
}
