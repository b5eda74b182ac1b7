//! Listeners: where the server listens and where it tells clients to go.

use model::ErrorCode;
use std::net::Ipv4Addr;
use testkit::{BrokerAddress, Client, TestServer};
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

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
fn a_controller_tells_what_is_advertised_for_its_listener() {
    let server = TestServer::start(&[
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        ),
        (
            "advertised.listeners",
            "PLAINTEXT://broker.example:9092,CONTROLLER://controller.example:9093",
        ),
    ]);
    let request = DescribeClusterRequest {
        endpoint_type: 2,
        ..Default::default()
    };
    let mut client = Client::connect(server.address_of("CONTROLLER"));
    let answer = client.call(1, &request);
    let response: DescribeClusterResponse<'_> = answer.read();
    let told: Vec<_> = response
        .brokers
        .iter()
        .map(|one| (one.host, one.port))
        .collect();
    assert_eq!(told, [("controller.example", 9093)]);
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

#[test]
fn who_asks_a_listener_for_nodes_of_the_other_kind_is_told() {
    let server = TestServer::start(&[]);
    let other = |kind: &str, wanted: &str| {
        format!(
            "The request was sent to an endpoint of type {kind}, but we wanted an endpoint of type \
             {wanted}"
        )
    };
    for (listener, version, wanted, expected) in [
        ("PLAINTEXT", 1, 1, Ok(())),
        ("CONTROLLER", 1, 2, Ok(())),
        (
            "PLAINTEXT",
            1,
            2,
            Err((
                ErrorCode::MismatchedEndpointType,
                other("BROKER", "CONTROLLER"),
            )),
        ),
        (
            "CONTROLLER",
            2,
            1,
            Err((
                ErrorCode::MismatchedEndpointType,
                other("CONTROLLER", "BROKER"),
            )),
        ),
        (
            "CONTROLLER",
            0,
            1,
            Err((ErrorCode::InvalidRequest, other("CONTROLLER", "BROKER"))),
        ),
        (
            "PLAINTEXT",
            1,
            7,
            Err((
                ErrorCode::UnsupportedEndpointType,
                "Unsupported endpoint type 7".to_owned(),
            )),
        ),
    ] {
        let request = DescribeClusterRequest {
            endpoint_type: wanted,
            ..Default::default()
        };
        let mut client = Client::connect(server.address_of(listener));
        let answer = client.call(version, &request);
        let response: DescribeClusterResponse<'_> = answer.read();
        let outcome = match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => Ok(()),
            error => Err((error, response.error_message.unwrap_or_default().to_owned())),
        };
        assert_eq!(outcome, expected, "{listener}, version {version}, {wanted}");
    }
}
