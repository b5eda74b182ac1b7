//! A controller without a broker: what it keeps, what it serves, and brokers that live by it.

use crate::cluster::{
    HEARTBEATS, SESSION, create_on, ids, leader_and_observers, leader_of, wait_for_leader,
};
use crate::configs::{BROKER, TOPIC, alter, set};
use crate::unregister::unregister;
use model::{BrokerId, ErrorCode};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Client, TestServer, batch, wait_until};
use trials::Directory;
use wire::ApiKey;
use wire::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, ApiVersionsRequest, ApiVersionsResponse,
    DescribeClusterRequest, DescribeClusterResponse, MetadataRequest,
};

const CONTROLLER_ID: &str = "3000";
/// What DescribeCluster asks controllers about.
const CONTROLLERS: i8 = 2;

/// A controller, and where brokers find it, whatever it does.
struct Quorum {
    directory: Directory,
    controller: Option<TestServer>,
    port: u16,
}

impl Quorum {
    fn start() -> Self {
        let directory = trials::directory();
        let controller = start_controller(&directory.path().join("controller"), 0).unwrap();
        Self {
            port: controller.address_of("CONTROLLER").port(),
            directory,
            controller: Some(controller),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("controller")
    }

    fn start_again(&mut self) {
        self.controller = Some(start_controller(&self.path(), self.port).unwrap());
    }

    fn running(&mut self) -> TestServer {
        self.controller.take().expect("it runs")
    }

    /// A connection to the controller.
    fn connect(&self) -> Client {
        let controller = self.controller.as_ref().expect("it runs");
        Client::connect(controller.address_of("CONTROLLER"))
    }

    fn broker(&self, id: &str) -> TestServer {
        let quorum = format!("127.0.0.1:{}", self.port);
        let keys = [
            ("process.roles", "broker"),
            ("node.id", id),
            ("controller.quorum.bootstrap.servers", &*quorum),
            SESSION,
            HEARTBEATS,
        ];
        TestServer::start_in(&self.directory.path().join(id), &keys).unwrap()
    }
}

fn start_controller(directory: &Path, port: u16) -> Result<TestServer, broker::StartError> {
    let listeners = format!("CONTROLLER://127.0.0.1:{port}");
    let keys = [
        ("process.roles", "controller"),
        ("node.id", CONTROLLER_ID),
        ("listeners", &*listeners),
        SESSION,
    ];
    TestServer::start_in(directory, &keys)
}

/// The names in a directory, but for what is hidden.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

#[test]
fn brokers_live_by_a_controller_without_a_broker() {
    let mut quorum = Quorum::start();
    let (one, two) = (quorum.broker("1"), quorum.broker("2"));
    let mut client = one.connect();
    wait_until("both brokers are known", || ids(&mut client) == [1, 2]);
    assert_eq!(create_on(&mut client, "topic", &[1, 2]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 1);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    // Without it what is there is served, however it has ended.
    for crash in [true, false] {
        let controller = quorum.running();
        if crash {
            controller.crash();
        } else {
            controller.stop();
        }
        client.produce("topic", 0, &batch(&["b"])).assert_accepted();
        assert!(
            client
                .fetch("topic", 0, 0)
                .values()
                .contains(&"b".to_owned())
        );
        assert_eq!(ids(&mut client), [1, 2]);
        // What it would not understand needs no controller, and holds up nobody who waits for one.
        let mut mistaken = one.connect();
        let broken = mistaken.frame_of(ApiKey::CreateTopics as i16, 7, true, &[0xff]);
        mistaken.send_bytes(&broken);
        mistaken.assert_closed();
        quorum.start_again();
        let later = format!("after-{crash}");
        assert_eq!(create_on(&mut client, &later, &[2, 1]), ErrorCode::None);
        wait_for_leader(&mut client, &later, 2);
    }
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b", "b"]);
    // It moves what a broker led that is gone.
    two.stop();
    wait_for_leader(&mut client, "after-true", 1);
    client
        .produce("after-true", 0, &batch(&["c"]))
        .assert_accepted();
    one.stop();
    quorum.running().stop();
}

/// A broker fetches before its new directory has a name, and goes on when it is unregistered.
#[test]
fn a_broker_is_one_observer_as_long_as_it_fetches() {
    let mut quorum = Quorum::start();
    let (one, two) = (quorum.broker("1"), quorum.broker("2"));
    let mut client = quorum.connect();
    let mut are_told = |what: &str| {
        wait_until(what, || {
            let (_, told) = leader_and_observers(&mut client);
            let ids: Vec<i32> = told.iter().map(|(id, _)| id.0).collect();
            ids == [1, 2] && told.iter().all(|(_, directory)| !directory.is_zero())
        });
    };
    are_told("each has one directory");
    let unregistered = unregister(&mut quorum.connect(), 2);
    assert_eq!(unregistered, ErrorCode::None);
    wait_until("the broker is forgotten", || ids(&mut one.connect()) == [1]);
    are_told("it is told of as before");
    for broker in [one, two] {
        broker.crash();
    }
    quorum.running().stop();
}

#[test]
fn a_controller_keeps_the_metadata_and_no_partitions() {
    let mut quorum = Quorum::start();
    let broker = quorum.broker("1");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[1]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 1);
    let cluster_id = client.cluster_id();
    broker.stop();
    quorum.running().stop();
    let mut names = names(&quorum.path());
    // One note says where the metadata log ended, which differs from run to run.
    let note = names.remove(0);
    let ends_at = note.strip_suffix(".synced").map(str::parse::<i64>);
    assert!(matches!(ends_at, Some(Ok(1..))), "{note}");
    assert_eq!(
        names,
        [
            "__cluster_metadata-0",
            "bootstrap.checkpoint",
            "meta.properties"
        ]
    );
    let properties = fs::read_to_string(quorum.path().join("meta.properties")).unwrap();
    for line in [
        "version=1",
        "node.id=3000",
        &format!("cluster.id={cluster_id}"),
    ] {
        assert!(properties.contains(line), "{line}: {properties}");
    }
    assert!(properties.contains("directory.id="), "{properties}");
    // A directory is one node's.
    let keys = [
        ("process.roles", "controller"),
        ("node.id", "3001"),
        ("listeners", "CONTROLLER://127.0.0.1:0"),
    ];
    let other = TestServer::start_in(&quorum.path(), &keys).unwrap_err();
    assert!(other.to_string().contains("node.id"), "{other}");
}

#[test]
fn a_controller_serves_what_is_the_controllers() {
    let quorum = Quorum::start();
    let broker = quorum.broker("1");
    let mut client = quorum.connect();
    let answer = client.call(
        4,
        &ApiVersionsRequest {
            client_software_name: "test",
            client_software_version: "1",
        },
    );
    let versions: ApiVersionsResponse<'_> = answer.read();
    let has = |key: i16| versions.api_keys.iter().any(|one| one.api_key == key);
    // Fetch, CreateTopics, IncrementalAlterConfigs, DescribeQuorum, BrokerRegistration; neither Produce nor Metadata.
    assert!([1, 19, 44, 55, 62].into_iter().all(has));
    assert!(!has(0) && !has(3));
    let answer = client.call(
        2,
        &DescribeClusterRequest {
            endpoint_type: CONTROLLERS,
            ..Default::default()
        },
    );
    let cluster: DescribeClusterResponse<'_> = answer.read();
    let nodes: Vec<(BrokerId, i32)> = cluster
        .brokers
        .iter()
        .map(|one| (one.broker_id, one.port))
        .collect();
    assert_eq!(nodes, [(BrokerId(3000), i32::from(quorum.port))]);
    assert_eq!(cluster.controller_id, BrokerId(3000));
    assert_eq!(create_on(&mut client, "topic", &[1]), ErrorCode::None);
    let altered = alter(
        &mut client,
        vec![set(TOPIC, "topic", "retention.ms", "12345")],
    );
    assert_eq!(altered, [(0, String::new())]);
    let mut of_broker = broker.connect();
    wait_for_leader(&mut of_broker, "topic", 1);
    wait_until("the setting is in force", || {
        of_broker.topic_config("topic", "retention.ms") == "12345"
    });
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    wait_until("the topic is gone", || {
        leader_of(&mut of_broker, "topic").is_none()
    });
    // What is a broker's ends the connection, as anything does that is not served.
    client.send(13, &MetadataRequest::default());
    client.assert_closed();
    broker.stop();
    let unregistered = unregister(&mut quorum.connect(), 1);
    assert_eq!(unregistered, ErrorCode::None);
}

/// What a broker cannot take is refused by that broker, in either request, and the rest goes on.
#[test]
fn a_broker_judges_its_own_values_before_it_passes_a_request_on() {
    let quorum = Quorum::start();
    let broker = quorum.broker("1");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[1]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 1);
    let resource = |resource_type, resource_name, name, value| AlterConfigsResource {
        resource_type,
        resource_name,
        configs: vec![AlterableConfig {
            name,
            value: Some(value),
        }]
        .into(),
    };
    let resources = vec![
        resource(BROKER, "1", "log.cleaner.threads", "-7"),
        resource(TOPIC, "topic", "retention.ms", "12345"),
        resource(BROKER, "2", "log.cleaner.threads", "1"),
    ];
    let request = AlterConfigsRequest {
        resources: resources.into(),
        validate_only: false,
    };
    let answer = client.call(2, &request);
    let response: AlterConfigsResponse<'_> = answer.read();
    let mut told: Vec<_> = response
        .responses
        .iter()
        .map(|one| (one.resource_name, ErrorCode::from_code(one.error_code)))
        .collect();
    told.sort_unstable();
    let expect = [
        ("1", ErrorCode::InvalidRequest),
        ("2", ErrorCode::InvalidRequest),
        ("topic", ErrorCode::None),
    ];
    assert_eq!(told, expect);
    wait_until("the setting is in force", || {
        client.topic_config("topic", "retention.ms") == "12345"
    });
}
