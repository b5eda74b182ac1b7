//! Values of brokers that change while they run.

use std::net::IpAddr;
use std::time::Duration;
use testkit::{Client, TestServer, batch, wait_until};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, MetadataRequest,
};

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const BROKER_LOGGER: i8 = 8;

/// Every broker, as the name of a resource.
const ALL: &str = "";
const SET: i8 = 0;
const DELETE: i8 = 1;

/// The part of a request that sets one value of one resource.
pub(crate) fn set<'a>(
    kind: i8,
    name: &'a str,
    key: &'a str,
    value: &'a str,
) -> AlterConfigsResource<'a> {
    operation(kind, name, SET, key, Some(value))
}

fn operation<'a>(
    resource_type: i8,
    resource_name: &'a str,
    config_operation: i8,
    name: &'a str,
    value: Option<&'a str>,
) -> AlterConfigsResource<'a> {
    let config = AlterableConfig {
        name,
        config_operation,
        value,
    };
    AlterConfigsResource {
        resource_type,
        resource_name,
        configs: vec![config].into(),
    }
}

/// The code and words for each resource.
pub(crate) fn alter(
    client: &mut Client,
    resources: Vec<AlterConfigsResource<'_>>,
) -> Vec<(i16, String)> {
    let request = IncrementalAlterConfigsRequest {
        resources: resources.into(),
        ..Default::default()
    };
    let answer = client.call(1, &request);
    let response: IncrementalAlterConfigsResponse<'_> = answer.read();
    let results = response.responses.iter();
    let told = results.map(|one| {
        let words = one.error_message.unwrap_or_default().to_owned();
        (one.error_code, words)
    });
    told.collect()
}

/// The code of the answer, and each key of the resource with its value.
pub(crate) fn describe(client: &mut Client, kind: i8, name: &str) -> (i16, Vec<(String, String)>) {
    let resource = DescribeConfigsResource {
        resource_type: kind,
        resource_name: name,
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource].into(),
        ..Default::default()
    };
    let answer = client.call(4, &request);
    let response: DescribeConfigsResponse<'_> = answer.read();
    let result = response.results.iter().next().expect("one for each");
    let values = result.configs.iter().map(|one| {
        let value = one.value.unwrap_or_default().to_owned();
        (one.name.to_owned(), value)
    });
    (result.error_code, values.collect())
}

/// Sets a value of one broker or of all, or removes it.
#[track_caller]
pub(crate) fn change(client: &mut Client, broker: &str, key: &str, value: Option<&str>) {
    let what = value.map_or(DELETE, |_| SET);
    let resource = operation(BROKER, broker, what, key, value);
    assert_eq!(alter(client, vec![resource]), [(0, String::new())]);
}

fn value(client: &mut Client, key: &str) -> String {
    let (error, values) = describe(client, BROKER, "1");
    assert_eq!(error, 0);
    values
        .into_iter()
        .find(|(name, _)| name == key)
        .expect(key)
        .1
}

#[test]
fn one_brokers_value_wins_over_that_of_all_and_that_over_the_static_one() {
    let directory = trials::directory();
    let keys = [("message.max.bytes", "2000")];
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let assert_max = |client: &mut Client, max: usize| {
        assert_eq!(value(client, "message.max.bytes"), max.to_string());
        assert_eq!(
            client.topic_config("topic", "max.message.bytes"),
            max.to_string()
        );
        let overhead = batch(&[""]).len() + 2;
        let largest = "x".repeat(max - overhead);
        client
            .produce("topic", 0, &batch(&[&largest]))
            .assert_accepted();
        let refused = client.produce("topic", 0, &batch(&[&format!("{largest}x")]));
        assert_eq!(refused.error, model::ErrorCode::MessageTooLarge);
    };
    assert_max(&mut client, 2000);
    change(&mut client, ALL, "message.max.bytes", Some("3000"));
    assert_max(&mut client, 3000);
    change(&mut client, "1", "message.max.bytes", Some("1000"));
    assert_max(&mut client, 1000);
    change(&mut client, ALL, "message.max.bytes", None);
    assert_max(&mut client, 1000);
    drop(client);
    server.stop();
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    assert_max(&mut client, 1000);
    change(&mut client, "1", "message.max.bytes", None);
    assert_max(&mut client, 2000);
}

#[test]
fn what_topics_have_without_values_of_their_own_follows_the_broker() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.create_topic("own", 1, &[("retention.ms", "5")]);
    for (key, given, topic_key, expected) in [
        ("log.retention.ms", "70000", "retention.ms", "70000"),
        ("log.retention.bytes", "7", "retention.bytes", "7"),
        ("log.segment.bytes", "2000000", "segment.bytes", "2000000"),
        ("log.roll.ms", "9", "segment.ms", "9"),
        ("log.cleanup.policy", "compact", "cleanup.policy", "compact"),
        ("compression.type", "zstd", "compression.type", "zstd"),
        (
            "log.message.timestamp.type",
            "LogAppendTime",
            "message.timestamp.type",
            "LogAppendTime",
        ),
        (
            "unclean.leader.election.enable",
            "true",
            "unclean.leader.election.enable",
            "true",
        ),
        ("log.flush.interval.messages", "3", "flush.messages", "3"),
        (
            "log.cleaner.min.cleanable.ratio",
            "0.25",
            "min.cleanable.dirty.ratio",
            "0.25",
        ),
    ] {
        let before = client.topic_config("topic", topic_key);
        change(&mut client, ALL, key, Some(given));
        assert_eq!(client.topic_config("topic", topic_key), expected, "{key}");
        change(&mut client, ALL, key, None);
        assert_eq!(client.topic_config("topic", topic_key), before, "{key}");
    }
    change(&mut client, "1", "log.retention.ms", Some("70000"));
    assert_eq!(client.topic_config("own", "retention.ms"), "5");
    // What is set for brokers counts when a topic is judged.
    change(
        &mut client,
        ALL,
        "log.cleaner.max.compaction.lag.ms",
        Some("10"),
    );
    let lags = client.try_create_topic("lags", 1, &[("min.compaction.lag.ms", "20")]);
    assert_eq!(lags.0, model::ErrorCode::InvalidConfig);
    server.assert_serves();
}

#[test]
fn what_cannot_change_on_a_running_broker_is_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let before = describe(&mut client, BROKER, "1");
    for (broker, key, value, words) in [
        (
            "1",
            "node.id",
            "7",
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            ALL,
            "log.dirs",
            "/x",
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (
            ALL,
            "listeners",
            "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
            "Cannot update these configs at default cluster level, broker id must be specified: \
             [listeners]",
        ),
        (
            "1",
            "max.connections",
            "many",
            "Invalid value many for configuration max.connections: Not a number of type INT",
        ),
        (
            "2",
            "max.connections",
            "5",
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            "one",
            "max.connections",
            "5",
            "Node id must be an integer, but it is: one",
        ),
        (
            "1",
            "num.io.threads",
            "1000",
            "Invalid value 1000 for configuration num.io.threads: Value must be at most double \
             the current value 8",
        ),
    ] {
        let refused = alter(&mut client, vec![set(BROKER, broker, key, value)]);
        assert_eq!(refused, [(42, words.to_owned())], "{key}");
    }
    assert_eq!(describe(&mut client, BROKER, "1"), before);
    server.assert_serves();
}

#[test]
fn a_controller_that_is_asked_itself_knows_no_directories_of_brokers() {
    let server = TestServer::start(&[]);
    let cordon = || set(BROKER, "1", "cordoned.log.dirs", "*");
    let mut controller = Client::connect(server.address_of("CONTROLLER"));
    let words = "When updating cordoned.log.dirs via controllers,  the new value must be a subset of \
                 the current configuration value.";
    let refused = alter(&mut controller, vec![cordon()]);
    assert_eq!(refused, [(40, words.to_owned())]);
    let refused = alter(
        &mut controller,
        vec![set(BROKER, "2", "max.connections", "5")],
    );
    assert_eq!(refused, [(102, "No node with id 2 found.".to_owned())]);
    let of_broker = alter(&mut server.connect(), vec![cordon()]);
    assert_eq!(of_broker[0].0, 0);
    assert_eq!(alter(&mut controller, vec![cordon()])[0].0, 0);
}

fn is_served_from(server: &TestServer, ip: &str) -> Option<Client> {
    let ip: IpAddr = ip.parse().unwrap();
    let mut client = Client::connect_from(ip, server.address());
    client.send_if_open(9, &MetadataRequest::default());
    client.receive_frame_if_any(testkit::LIMIT).map(|_| client)
}

#[test]
fn limits_of_connections_hold_after_a_restart() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let overrides = "max.connections.per.ip.overrides";
    change(&mut server.connect(), ALL, overrides, Some("127.0.0.2:1"));
    server.stop();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let first = is_served_from(&server, "127.0.0.2");
    assert!(first.is_some(), "within the share");
    assert!(is_served_from(&server, "127.0.0.2").is_none());
}

#[test]
fn limits_of_connections_hold_for_the_next_one() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let overrides = "max.connections.per.ip.overrides";
    change(&mut client, "1", overrides, Some("127.0.0.2:1"));
    let first = is_served_from(&server, "127.0.0.2").expect("within the share");
    assert!(is_served_from(&server, "127.0.0.2").is_none());
    assert!(is_served_from(&server, "127.0.0.3").is_some());
    change(&mut client, ALL, "max.connections.per.ip", Some("1"));
    wait_until("the place is free", || {
        is_served_from(&server, "127.0.0.3").is_some()
    });
    // The connection that is there already stays.
    assert!(is_served_from(&server, "127.0.0.1").is_none());
    change(&mut client, "1", overrides, None);
    change(&mut client, ALL, "max.connections.per.ip", None);
    assert!(is_served_from(&server, "127.0.0.2").is_some());
    drop(first);
    server.assert_serves();
}

#[test]
fn a_limit_of_all_connections_that_rises_lets_in_who_waits() {
    for key in ["max.connections", "listener.name.plaintext.max.connections"] {
        let server = TestServer::start(&[]);
        let mut client = server.connect();
        change(&mut client, "1", key, Some("1"));
        let mut second = server.connect();
        second.send(9, &MetadataRequest::default());
        assert!(second.is_silent_for(Duration::from_millis(50)), "{key}");
        change(&mut client, "1", key, None);
        second.receive();
        server.assert_serves();
    }
}

#[test]
fn new_connections_wait_for_their_rate() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let key = "max.connection.creation.rate";
    change(&mut client, "1", key, Some("1"));
    // Ten come at once, as many as the quota's window of ten seconds has room for, then one a second.
    let _before = std::array::from_fn::<_, 50, _>(|_| server.connect());
    let mut last = server.connect();
    last.send(9, &MetadataRequest::default());
    assert!(last.is_silent_for(Duration::from_millis(50)));
    change(&mut client, "1", key, None);
    last.receive();
    server.assert_serves();
}
