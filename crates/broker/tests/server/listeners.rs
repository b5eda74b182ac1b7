//! Listeners: where the server listens and where it tells clients to go.

use std::net::Ipv4Addr;
use testkit::{BrokerAddress, Client, TestServer};

fn told(client: &mut Client) -> (String, i32) {
    let [BrokerAddress { host, port, .. }] = client.brokers().try_into().unwrap();
    (host, port)
}

#[test]
fn a_client_is_told_the_address_that_it_has_reached() {
    let server = TestServer::start(&[("listeners", "PLAINTEXT://:0")]);
    let mut address = server.address();
    for ip in [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 7)] {
        address.set_ip(ip.into());
        let told = told(&mut Client::connect(address));
        assert_eq!(told, (ip.to_string(), i32::from(address.port())));
    }
}

#[test]
fn a_name_that_was_configured_is_told() {
    let server = TestServer::start(&[("listeners", "PLAINTEXT://localhost:0")]);
    let port = i32::from(server.address().port());
    let told = told(&mut server.connect());
    assert_eq!(told, ("localhost".to_owned(), port));
}

#[test]
fn each_listener_tells_what_is_advertised_for_it() {
    let server = TestServer::start(&[
        ("listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
        (
            "advertised.listeners",
            "INSIDE://inside.example:9092,OUTSIDE://outside.example:19092",
        ),
        (
            "listener.security.protocol.map",
            "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        ),
        ("inter.broker.listener.name", "INSIDE"),
    ]);
    for (listener, host, port) in [
        ("INSIDE", "inside.example", 9092),
        ("OUTSIDE", "outside.example", 19092),
    ] {
        let mut client = Client::connect(server.address_of(listener));
        assert_eq!(told(&mut client), (host.to_owned(), port));
        client.create_topic_if_missing("topic");
        let produced = client.produce("topic", 0, &testkit::batch(&["value"]));
        produced.assert_accepted();
    }
}

#[test]
fn an_ipv6_listener_serves() {
    // A machine without IPv6 has no such address to test.
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let server = TestServer::start(&[("listeners", "PLAINTEXT://[::1]:0")]);
    let port = i32::from(server.address().port());
    assert_eq!(told(&mut server.connect()), ("::1".to_owned(), port));
    server.assert_serves();
}
