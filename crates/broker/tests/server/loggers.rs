//! The loggers of a broker: read and changed by clients.

use crate::configs::{BROKER, BROKER_LOGGER, alter, describe, set};
use testkit::{Client, TestServer};

fn level(client: &mut Client, logger: &str) -> String {
    let (error, loggers) = describe(client, BROKER_LOGGER, "1");
    assert_eq!(error, 0);
    let found = loggers.into_iter().find(|(name, _)| name == logger);
    found.expect("the logger").1
}

#[test]
fn levels_are_set_and_told() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(level(&mut client, "root"), "INFO");
    assert_eq!(level(&mut client, "broker.net"), "INFO");
    let done = alter(
        &mut client,
        vec![set(BROKER_LOGGER, "1", "broker", "DEBUG")],
    );
    assert_eq!(done, [(0, String::new())]);
    assert_eq!(level(&mut client, "broker.net"), "DEBUG");
    assert_eq!(level(&mut client, "root"), "INFO");
}

#[test]
fn each_resource_of_a_request_has_its_own_result() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let results = alter(
        &mut client,
        vec![
            set(BROKER, "1", "message.max.bytes", "500000"),
            set(BROKER_LOGGER, "2", "root", "DEBUG"),
            set(BROKER_LOGGER, "one", "root", "DEBUG"),
            set(BROKER_LOGGER, "1", "root", "LOUD"),
            set(BROKER, "", "node.id", "7"),
        ],
    );
    let codes: Vec<_> = results.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [0, 42, 42, 40, 42]);
    assert_eq!(
        results[1].1,
        "Unexpected node id. Expected 1, but received 2"
    );
    assert_eq!(results[2].1, "Node id must be an integer, but it is: one");
    let twice = vec![
        set(BROKER_LOGGER, "1", "root", "DEBUG"),
        set(BROKER_LOGGER, "1", "broker", "DEBUG"),
    ];
    let words = "Each resource must appear at most once.".to_owned();
    assert_eq!(alter(&mut client, twice), [(42, words)]);
    assert_eq!(level(&mut client, "root"), "INFO");
    for broker in ["", "2", "one"] {
        assert_eq!(
            describe(&mut client, BROKER_LOGGER, broker),
            (42, Vec::new()),
            "{broker}"
        );
    }
}
