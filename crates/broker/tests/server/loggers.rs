//! The loggers of a broker: read and changed by clients.

use testkit::{Answer, Client, TestServer};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const SET: i8 = 0;

/// One value of one resource is set; gives a request's part.
fn set<'a>(kind: i8, name: &'a str, key: &'a str, value: &'a str) -> AlterConfigsResource<'a> {
    AlterConfigsResource {
        resource_type: kind,
        resource_name: name,
        configs: [AlterableConfig {
            name: key,
            config_operation: SET,
            value: Some(value),
        }]
        .into_iter()
        .collect(),
    }
}

/// The code and words for each resource.
fn alter(client: &mut Client, resources: Vec<AlterConfigsResource<'_>>) -> Vec<(i16, String)> {
    let request = IncrementalAlterConfigsRequest {
        resources: resources.into_iter().collect(),
        ..Default::default()
    };
    let answer: Answer = client.call(1, &request);
    let response: IncrementalAlterConfigsResponse<'_> = answer.read();
    let results = response.responses.iter();
    let told = results.map(|one| {
        let words = one.error_message.unwrap_or_default().to_owned();
        (one.error_code, words)
    });
    told.collect()
}

/// The code of the answer, and each logger with its level.
fn describe(client: &mut Client, broker: &str) -> (i16, Vec<(String, String)>) {
    let request = DescribeConfigsRequest {
        resources: [DescribeConfigsResource {
            resource_type: BROKER_LOGGER,
            resource_name: broker,
            configuration_keys: None,
        }]
        .into_iter()
        .collect(),
        ..Default::default()
    };
    let answer = client.call(4, &request);
    let response: DescribeConfigsResponse<'_> = answer.read();
    let result = response.results.iter().next().expect("one for each");
    let loggers = result.configs.iter().map(|one| {
        let level = one.value.unwrap_or_default().to_owned();
        (one.name.to_owned(), level)
    });
    (result.error_code, loggers.collect())
}

fn level(client: &mut Client, logger: &str) -> String {
    let (error, loggers) = describe(client, "1");
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
    let refused = (42, words);
    assert_eq!(alter(&mut client, twice), [refused.clone(), refused]);
    assert_eq!(level(&mut client, "root"), "INFO");
    for broker in ["", "2", "one"] {
        assert_eq!(describe(&mut client, broker), (42, Vec::new()), "{broker}");
    }
}
