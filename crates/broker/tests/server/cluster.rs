//! Brokers whose controller is another node: a node that is both, and brokers that follow it, in one process.

use crate::configs::{BROKER, BROKER_LOGGER, TOPIC, alter, set};
use crate::damage::OLD_MESSAGE;
use model::{BrokerId, ErrorCode, Uuid};
use std::path::Path;
use testkit::{Client, TestServer, batch, wait_until};
use trials::Directory;
use wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DescribeQuorumRequest, DescribeQuorumResponse, MetadataRequest, MetadataResponse,
    describe_quorum_request,
};

pub(crate) const SESSION: (&str, &str) = ("broker.session.timeout.ms", "1500");
pub(crate) const HEARTBEATS: (&str, &str) = ("broker.heartbeat.interval.ms", "200");

/// A node that is broker and controller, and where others are.
struct Cluster {
    directory: Directory,
    controller: Option<TestServer>,
    quorum: String,
}

impl Cluster {
    fn start() -> Self {
        let directory = trials::directory();
        let keys = [SESSION, HEARTBEATS];
        let controller = TestServer::start_in(&directory.path().join("1"), &keys).unwrap();
        let quorum = controller.address_of("CONTROLLER").to_string();
        Self {
            directory,
            controller: Some(controller),
            quorum,
        }
    }

    fn controller(&self) -> &TestServer {
        self.controller.as_ref().expect("it runs")
    }

    /// Starts a broker of this id.
    fn broker(&self, id: &str) -> TestServer {
        self.try_broker(id, &self.directory.path().join(id), &[])
            .unwrap()
    }

    fn try_broker(
        &self,
        id: &str,
        directory: &Path,
        more: &[(&str, &str)],
    ) -> Result<TestServer, broker::StartError> {
        let mut keys = vec![
            ("process.roles", "broker"),
            ("node.id", id),
            ("controller.quorum.bootstrap.servers", &*self.quorum),
            SESSION,
            HEARTBEATS,
        ];
        keys.extend(more);
        TestServer::start_in(directory, &keys)
    }
}

/// Creates a topic of one partition with these replicas.
pub(crate) fn create_on(client: &mut Client, name: &str, replicas: &[i32]) -> ErrorCode {
    let replicas: Vec<BrokerId> = replicas.iter().copied().map(BrokerId).collect();
    let assignment = CreatableReplicaAssignment {
        partition_index: 0,
        broker_ids: (&replicas).into(),
    };
    let topic = CreatableTopic {
        name,
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![assignment].into(),
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic].into(),
        timeout_ms: 10_000,
        validate_only: false,
    };
    let response = client.call(7, &request);
    let response: CreateTopicsResponse<'_> = response.read();
    let result = response.topics.iter().next().expect("one topic");
    ErrorCode::from_code(result.error_code)
}

/// The leader of the first partition of a topic, as somebody tells; none of a topic that is not known.
pub(crate) fn leader_of(client: &mut Client, topic: &str) -> Option<i32> {
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let response = client.call(13, &request);
    let response: MetadataResponse<'_> = response.read();
    let found = response.topics.iter().find(|one| one.name == Some(topic))?;
    let partition = found.partitions.iter().next()?;
    Some(partition.leader_id.0).filter(|id| *id >= 0)
}

pub(crate) fn wait_for_leader(client: &mut Client, topic: &str, leader: i32) {
    wait_until(&format!("{topic} is led by {leader}"), || {
        leader_of(client, topic) == Some(leader)
    });
}

/// Who leads the quorum, and who follows it without a vote: nodes and their directories.
pub(crate) fn leader_and_observers(client: &mut Client) -> (BrokerId, Vec<(BrokerId, Uuid)>) {
    let partition = describe_quorum_request::PartitionData { partition_index: 0 };
    let topic = describe_quorum_request::TopicData {
        topic_name: "__cluster_metadata",
        partitions: vec![partition].into(),
    };
    let request = DescribeQuorumRequest {
        topics: vec![topic].into(),
    };
    let response = client.call(2, &request);
    let response: DescribeQuorumResponse<'_> = response.read();
    assert_eq!(response.error_message, Some(""));
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    assert_eq!(partition.error_message, Some(""));
    let observers = partition.observers.iter();
    let observers = observers.map(|one| (one.replica_id, one.replica_directory_id));
    (partition.leader_id, observers.collect())
}

pub(crate) fn ids(client: &mut Client) -> Vec<i32> {
    let brokers = client.brokers();
    let mut ids: Vec<i32> = brokers.iter().map(|one| one.node_id.0).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_broker_serves_what_another_nodes_controller_gives_it() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    // The controller's answer may be faster than the record that says so.
    wait_until("the broker knows that it is there", || {
        ids(&mut client) == [1, 2]
    });
    assert_eq!(
        client.cluster_id(),
        cluster.controller().connect().cluster_id()
    );
    assert_eq!(create_on(&mut client, "topic", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 2);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    wait_for_leader(&mut cluster.controller().connect(), "topic", 2);
    // One that is elsewhere is not here.
    assert_eq!(create_on(&mut client, "other", &[1]), ErrorCode::None);
    wait_for_leader(&mut client, "other", 1);
    let refused = client.produce("other", 0, &batch(&["c"]));
    assert_eq!(refused.error, ErrorCode::NotLeaderOrFollower);
    assert_eq!(
        create_on(&mut client, "other", &[1]),
        ErrorCode::TopicAlreadyExists
    );
    // It may stop, and comes back with all that it had.
    broker.stop();
    wait_until("it has no leadership any more", || {
        leader_of(&mut cluster.controller().connect(), "topic").is_none()
    });
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    wait_for_leader(&mut client, "topic", 2);
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    broker.stop();
}

#[test]
fn a_broker_that_was_killed_comes_back_when_its_session_has_ended() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 2);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    broker.crash();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    wait_for_leader(&mut client, "topic", 2);
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a"]);
    broker.stop();
}

/// Its broker cannot lead, and the controller must not say that it does.
#[test]
fn a_log_in_an_old_format_is_led_by_nobody() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    for topic in ["old", "new"] {
        assert_eq!(create_on(&mut client, topic, &[2]), ErrorCode::None);
        wait_for_leader(&mut client, topic, 2);
        client.produce(topic, 0, &batch(&["a"])).assert_accepted();
    }
    broker.crash();
    let old = cluster
        .directory
        .path()
        .join("2/old-0/00000000000000000000.log");
    std::fs::write(old, OLD_MESSAGE).unwrap();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    wait_for_leader(&mut client, "new", 2);
    wait_until("nobody leads what cannot be opened", || {
        leader_of(&mut client, "old").is_none()
    });
    assert_eq!(client.fetch("new", 0, 0).values(), ["a"]);
    broker.stop();
}

fn isr_of(client: &mut Client, topic: &str) -> Vec<i32> {
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let response = client.call(13, &request);
    let response: MetadataResponse<'_> = response.read();
    let found = response.topics.iter().find(|one| one.name == Some(topic));
    let partitions = found.iter().flat_map(|topic| topic.partitions.iter());
    let mut isr: Vec<i32> = partitions
        .flat_map(|one| one.isr_nodes.iter().map(|id| id.0).collect::<Vec<_>>())
        .collect();
    isr.sort_unstable();
    isr
}

#[test]
fn the_node_of_the_controller_hands_its_partitions_over_before_it_stops() {
    let mut cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "shared", &[1, 2]), ErrorCode::None);
    assert_eq!(create_on(&mut client, "alone", &[1]), ErrorCode::None);
    wait_for_leader(&mut client, "shared", 1);
    wait_until("both are in sync", || {
        isr_of(&mut client, "shared") == [1, 2]
    });
    let port = cluster.controller().address_of("CONTROLLER").port();
    cluster.controller.take().expect("it runs").stop();
    wait_for_leader(&mut client, "shared", 2);
    assert_eq!(isr_of(&mut client, "shared"), [2]);
    client
        .produce("shared", 0, &batch(&["a"]))
        .assert_accepted();
    let listeners = format!("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}");
    let keys = [SESSION, HEARTBEATS, ("listeners", &*listeners)];
    let again = TestServer::start_in(&cluster.directory.path().join("1"), &keys).unwrap();
    wait_until("both are in sync again", || {
        isr_of(&mut client, "shared") == [1, 2]
    });
    wait_for_leader(&mut client, "alone", 1);
    broker.stop();
    again.stop();
}

/// As with Apache Kafka. Alone, a replica in an empty directory would take the place of records that may come back.
#[test]
fn a_replica_whose_log_directory_was_replaced_is_made_anew_where_others_are_in_sync() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = cluster.controller().connect();
    assert_eq!(create_on(&mut client, "shared", &[1, 2]), ErrorCode::None);
    assert_eq!(create_on(&mut client, "alone", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "shared", 1);
    wait_for_leader(&mut client, "alone", 2);
    client
        .produce("shared", 0, &batch(&["a"]))
        .assert_accepted();
    wait_until("both are in sync", || {
        isr_of(&mut client, "shared") == [1, 2]
    });
    broker.crash();
    let directory = cluster.directory.path().join("2");
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    let properties = format!("version=1\ncluster.id={}\nnode.id=2\n", client.cluster_id());
    std::fs::write(directory.join("meta.properties"), properties).unwrap();
    let broker = cluster.broker("2");
    wait_until("both are in sync", || {
        isr_of(&mut client, "shared") == [1, 2]
    });
    assert!(!directory.join("alone-0").exists());
    broker.stop();
}

/// Alone in sync, a replica whose log is not sound must not lead: the others would cut theirs to what it has.
#[test]
fn a_replica_whose_log_is_missing_does_not_have_others_cut_theirs() {
    let damages: [fn(&Path); 2] = [
        |log| std::fs::write(log.join("partition.metadata"), "").unwrap(),
        |log| std::fs::rename(log, log.with_extension("away")).unwrap(),
    ];
    let mends: [fn(&Path); 2] = [
        |log| std::fs::remove_file(log.join("partition.metadata")).unwrap(),
        |log| std::fs::rename(log.with_extension("away"), log).unwrap(),
    ];
    for (damage, mend) in damages.into_iter().zip(mends) {
        let cluster = Cluster::start();
        let mut client = cluster.controller().connect();
        let [two, three] = ["2", "3"].map(|id| cluster.broker(id));
        assert_eq!(create_on(&mut client, "topic", &[2, 3]), ErrorCode::None);
        wait_for_leader(&mut client, "topic", 2);
        let mut leader = two.connect();
        wait_for_leader(&mut leader, "topic", 2);
        leader.produce("topic", 0, &batch(&["a"])).assert_accepted();
        three.stop();
        leader.produce("topic", 0, &batch(&["b"])).assert_accepted();
        drop(leader);
        two.stop();
        wait_until("nobody leads", || leader_of(&mut client, "topic").is_none());
        let [log, other] = ["2", "3"].map(|id| cluster.directory.path().join(id).join("topic-0"));
        let segment = other.join("00000000000000000000.log");
        let held = std::fs::read(&segment).unwrap();
        damage(&log);
        let [two, three] = ["2", "3"].map(|id| cluster.broker(id));
        // What comes later is led: so there is no leader of the other one by then.
        assert_eq!(create_on(&mut client, "later", &[2, 3]), ErrorCode::None);
        wait_for_leader(&mut client, "later", 2);
        wait_until("both follow the later one", || {
            isr_of(&mut client, "later") == [2, 3]
        });
        assert_eq!(leader_of(&mut client, "topic"), None);
        assert_eq!(std::fs::read(&segment).unwrap(), held, "it is as it was");
        two.stop();
        mend(&log);
        let two = cluster.broker("2");
        wait_for_leader(&mut client, "topic", 2);
        wait_until("both are in sync", || {
            isr_of(&mut client, "topic") == [2, 3]
        });
        let fetched = two.connect().fetch("topic", 0, 0);
        assert_eq!(fetched.values(), ["a", "b"]);
        two.stop();
        three.stop();
    }
}

#[test]
fn a_broker_goes_on_without_its_controller_and_finds_it_again() {
    let mut cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 2);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    let port = cluster.controller().address_of("CONTROLLER").port();
    cluster.controller.take().expect("it runs").stop();
    client.produce("topic", 0, &batch(&["b"])).assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    assert!(client.init_producer_id().0 >= 0);
    let listeners = format!("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}");
    let keys = [SESSION, HEARTBEATS, ("listeners", &*listeners)];
    let again = TestServer::start_in(&cluster.directory.path().join("1"), &keys).unwrap();
    assert_eq!(create_on(&mut client, "later", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "later", 2);
    wait_for_leader(&mut client, "topic", 2);
    cluster.controller = Some(again);
    broker.stop();
}

#[test]
fn what_the_controller_decides_is_passed_on() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[2, 1]), ErrorCode::None);
    client.wait_for_topic("topic");
    let none = || (0, String::new());
    let altered = alter(
        &mut client,
        vec![
            set(TOPIC, "topic", "retention.ms", "12345"),
            set(BROKER_LOGGER, "2", "broker.logs", "DEBUG"),
        ],
    );
    assert_eq!(altered, [none(), none()]);
    wait_until("the setting is in force", || {
        client.topic_config("topic", "retention.ms") == "12345"
    });
    let refused = alter(
        &mut client,
        vec![
            set(BROKER, "2", "log.cleaner.threads", "many"),
            set(TOPIC, "topic", "retention.ms", "54321"),
        ],
    );
    let codes: Vec<_> = refused
        .iter()
        .map(|(code, _)| ErrorCode::from_code(*code))
        .collect();
    assert!(
        codes.contains(&ErrorCode::None) && codes.len() == 2,
        "{refused:?}"
    );
    assert!(codes.iter().any(|code| !code.is_none()), "{refused:?}");
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    wait_until("the topic is gone", || {
        leader_of(&mut client, "topic").is_none()
    });
    let (leader, observers) = leader_and_observers(&mut client);
    assert_eq!(leader, BrokerId(1));
    let is_own = |one: &(BrokerId, Uuid)| one.0 == BrokerId(2);
    assert!(observers.iter().any(is_own), "{observers:?}");
    let response = client.call(
        4,
        &ApiVersionsRequest {
            client_software_name: "test",
            client_software_version: "1",
        },
    );
    let response: ApiVersionsResponse<'_> = response.read();
    let keys: Vec<i16> = response.api_keys.iter().map(|one| one.api_key).collect();
    assert!(keys.is_sorted() && keys.contains(&19), "{keys:?}");
    broker.stop();
}

#[test]
fn two_brokers_of_one_id_do_not_run_at_a_time() {
    let cluster = Cluster::start();
    let broker = cluster.broker("2");
    let other = cluster.directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let cluster_id = cluster.controller().connect().cluster_id();
    let formatted = format!("version=1\nnode.id=2\ncluster.id={cluster_id}\n");
    std::fs::write(other.join("meta.properties"), formatted).unwrap();
    let more = [("initial.broker.registration.timeout.ms", "3000")];
    let refused = cluster.try_broker("2", &other, &more);
    let words = refused.expect_err("there is one").to_string();
    assert!(
        words.contains("another process with this `node.id` is alive"),
        "{words}"
    );
    let mut client = broker.connect();
    assert_eq!(create_on(&mut client, "topic", &[2]), ErrorCode::None);
    wait_for_leader(&mut client, "topic", 2);
    broker.stop();
}

#[test]
fn a_broker_of_another_cluster_is_refused() {
    let (one, two) = (Cluster::start(), Cluster::start());
    one.broker("2").stop();
    let foreign = two.try_broker("2", &one.directory.path().join("2"), &[]);
    let words = foreign.expect_err("it is of another cluster").to_string();
    assert!(
        words.contains("the log directories belong to the cluster"),
        "{words}"
    );
}
