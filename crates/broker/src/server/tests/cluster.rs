//! What a broker says of a cluster: the metadata have two brokers beside it, one of them fenced at times, and
//! partitions that these lead.

use super::*;
use metadata::{BrokerRegistration, Endpoint, Partition, PartitionChange};
use model::{BrokerEpoch, LeaderEpoch, Uuid};
use wire::messages::*;

/// The others.
const TWO: BrokerId = BrokerId(2);
const THREE: BrokerId = BrokerId(3);
/// One that has no listener of the clients'.
const FOUR: BrokerId = BrokerId(4);

/// Appends these records, and takes them.
pub(super) fn take(running: &Running, records: Vec<MetadataRecord>) {
    append_and_take(running, records, |broker, appended| {
        broker.coordinators.groups.follow(&appended.image);
        broker.coordinators.transactions.follow(&appended.image);
        metadata_changes::apply(&broker.logs, &appended.delta);
    });
}

/// A broker of this id, whose clients' listener is on the port of its id.
fn registration(id: BrokerId, is_fenced: bool) -> MetadataRecord {
    let listener = if id == FOUR { "OTHER" } else { "PLAINTEXT" };
    let port = 9_000 + u16::try_from(id.0).unwrap();
    registration_at(id, is_fenced, (listener, &format!("host-{id}"), port))
}

/// A broker of this id with a listener.
pub(super) fn registration_at(
    id: BrokerId,
    is_fenced: bool,
    (listener, host, port): (&str, &str, u16),
) -> MetadataRecord {
    MetadataRecord::RegisterBroker(BrokerRegistration {
        id,
        epoch: BrokerEpoch(i64::from(id.0)),
        incarnation_id: Uuid::from_u128(id.0.unsigned_abs().into()),
        endpoints: vec![Endpoint {
            name: listener.to_owned(),
            host: host.to_owned(),
            port,
            security_protocol: 0,
        }],
        features: controller::broker_features(),
        rack: Some(format!("rack-{id}")),
        is_fenced,
        is_in_controlled_shutdown: false,
        is_migrating_zk_broker: false,
        directories: Vec::new(),
        cordoned_directories: None,
    })
}

/// A partition with these replicas, which are all in sync but for those that are fenced, led by `leader`.
pub(super) fn partition(replicas: &[BrokerId], leader: BrokerId) -> Partition {
    Partition {
        replicas: replicas.to_vec(),
        directories: vec![metadata::UNASSIGNED_DIRECTORY; replicas.len()],
        isr: vec![leader],
        leader,
        leader_epoch: LeaderEpoch(5),
        ..Partition::default()
    }
}

pub(super) fn topic(name: &str, partitions: Vec<Partition>) -> Vec<MetadataRecord> {
    let topic_id = random_uuid();
    let topic = MetadataRecord::Topic {
        name: name.to_owned(),
        topic_id,
    };
    let partitions = partitions.into_iter().zip(0..);
    let partitions = partitions.map(|(partition, partition_id)| MetadataRecord::Partition {
        topic_id,
        partition_id,
        partition,
    });
    [topic].into_iter().chain(partitions).collect()
}

/// A cluster of four brokers, the third of which is fenced. The topic `topic` has its partitions on this broker,
/// on the second, on the second and the third, and on the fourth; `here` is led by this one.
fn cluster(directory: &Path) -> Running {
    let never = ("broker.session.timeout.ms", "1000000000");
    let running = Running::start_with(&[directory], &[never]);
    let this = running.broker().node.id;
    let mut records = vec![
        registration(TWO, false),
        registration(THREE, true),
        registration(FOUR, false),
    ];
    records.extend(topic(
        "topic",
        vec![
            partition(&[this, TWO], this),
            partition(&[TWO], TWO),
            partition(&[THREE, TWO], TWO),
            partition(&[FOUR], FOUR),
        ],
    ));
    take(&running, records);
    running
}

/// Brokers as `2@host:9002/rack`.
fn node(id: BrokerId, host: &str, port: i32, rack: Option<&str>) -> String {
    let rack = rack.map(|rack| format!("/{rack}")).unwrap_or_default();
    format!("{id}@{host}:{port}{rack}")
}

fn ids(ids: impl Iterator<Item = BrokerId>) -> String {
    let ids: Vec<_> = ids.map(|id| id.to_string()).collect();
    ids.join(",")
}

fn named(error: i16) -> &'static str {
    ErrorCode::from_code(error).name()
}

/// The brokers and the partitions of `topic` that Metadata tells.
fn metadata_of(client: &mut Client, version: i16) -> (Vec<String>, Vec<String>) {
    let topic = metadata_request::MetadataRequestTopic {
        name: Some("topic"),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![topic].into()),
        ..Default::default()
    };
    let answer = client.call(version, &request);
    let response: MetadataResponse<'_> = answer.read();
    let brokers = response.brokers.iter();
    let brokers = brokers.map(|one| node(one.node_id, one.host, one.port, one.rack));
    let brokers = brokers.collect();
    let topic = response.topics.iter().next().unwrap();
    let partitions = topic.partitions.iter().map(|one| {
        format!(
            "{} leader {} replicas {} isr {} offline {}",
            named(one.error_code),
            one.leader_id,
            ids(one.replica_nodes.iter()),
            ids(one.isr_nodes.iter()),
            ids(one.offline_replicas.iter()),
        )
    });
    (brokers, partitions.collect())
}

#[test]
fn metadata_name_live_brokers_and_leaders_that_the_client_reaches() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let this = running.broker().node.id;
    let port = running.broker().sockets.listeners[0].address.port();
    let mut client = running.connect();
    let own = node(this, "127.0.0.1", port.into(), None);
    let (brokers, partitions) = metadata_of(&mut client, 9);
    assert_eq!(brokers, [own, "2@host-2:9002/rack-2".to_owned()]);
    let replicas = format!("{this},2");
    let expected = [
        format!("NONE leader {this} replicas {replicas} isr {this} offline "),
        "NONE leader 2 replicas 2 isr 2 offline ".to_owned(),
        "NONE leader 2 replicas 3,2 isr 2 offline 3".to_owned(),
        "LISTENER_NOT_FOUND leader -1 replicas 4 isr 4 offline 4".to_owned(),
    ];
    assert_eq!(partitions, expected);
    // Older clients do not know the error.
    let (_, partitions) = metadata_of(&mut client, 5);
    assert_eq!(
        partitions[3],
        "LEADER_NOT_AVAILABLE leader -1 replicas 4 isr 4 offline 4"
    );
    let (_, partitions) = metadata_of(&mut client, 0);
    assert_eq!(
        partitions[2..],
        [
            "REPLICA_NOT_AVAILABLE leader 2 replicas 2 isr 2 offline ",
            "LEADER_NOT_AVAILABLE leader -1 replicas  isr  offline ",
        ]
    );
}

#[test]
fn every_live_broker_that_the_client_reaches_is_named_as_the_controller() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let this = running.broker().node.id;
    let mut client = running.connect();
    let mut named = std::collections::BTreeSet::new();
    wait_until("each is named", || {
        let answer = client.call(9, &MetadataRequest::default());
        let response: MetadataResponse<'_> = answer.read();
        named.insert(response.controller_id);
        named.len() == 2
    });
    assert_eq!(named.into_iter().collect::<Vec<_>>(), [this, TWO]);
}

#[test]
fn a_cluster_is_described_with_its_fenced_brokers_where_they_are_asked_for() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let mut client = running.connect();
    let mut described = |include_fenced_brokers| {
        let request = DescribeClusterRequest {
            include_fenced_brokers,
            endpoint_type: 1,
            ..Default::default()
        };
        let answer = client.call(2, &request);
        let response: DescribeClusterResponse<'_> = answer.read();
        assert_eq!(response.error_code, 0);
        let brokers = response.brokers.iter();
        let brokers = brokers.map(|one| format!("{} {}", one.broker_id, one.is_fenced));
        brokers.collect::<Vec<_>>().join(", ")
    };
    let this = running.broker().node.id;
    assert_eq!(described(false), format!("{this} false, 2 false"));
    assert_eq!(described(true), format!("{this} false, 2 false, 3 true"));
}

/// Where the coordinators of these keys are.
fn coordinators(client: &mut Client, key_type: i8, keys: &[&str]) -> Vec<String> {
    let request = FindCoordinatorRequest {
        key_type,
        coordinator_keys: keys.to_vec().into(),
        ..Default::default()
    };
    let answer = client.call(6, &request);
    let response: FindCoordinatorResponse<'_> = answer.read();
    let found = response.coordinators.iter();
    let found = found.map(|one| {
        let error = named(one.error_code);
        format!("{error} {}", node(one.node_id, one.host, one.port, None))
    });
    found.collect()
}

#[test]
fn coordinators_are_the_live_leaders_of_their_partitions() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let this = running.broker().node.id;
    let mut client = running.connect();
    let leaders = [this, TWO, THREE, FOUR, BrokerId::NONE];
    let count = i32::try_from(leaders.len()).unwrap();
    let key_in = |index: i32| {
        let mut names = (0..).map(|number| format!("key-{number}"));
        names.find(|name| coordinator::partition_for(name, count) == index)
    };
    let keys: Vec<String> = (0..count).filter_map(key_in).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for (name, key_type) in [(OFFSETS_TOPIC, 0), (TRANSACTION_TOPIC, 1)] {
        let partitions = leaders.iter().map(|leader| match leader.is_none() {
            true => partition(&[TWO], BrokerId::NONE),
            false => partition(&[*leader], *leader),
        });
        take(&running, topic(name, partitions.collect()));
        let port = running.broker().sockets.listeners[0].address.port();
        let nobody = "COORDINATOR_NOT_AVAILABLE -1@:-1";
        let expected = [
            format!("NONE {this}@127.0.0.1:{port}"),
            "NONE 2@host-2:9002".to_owned(),
            nobody.to_owned(),
            nobody.to_owned(),
            nobody.to_owned(),
        ];
        assert_eq!(coordinators(&mut client, key_type, &keys), expected);
    }
}

#[test]
fn who_leads_is_told_to_those_who_are_wrong_about_it() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let mut client = running.connect();
    let records = batch(&["value"]);
    let data = |index| produce_request::PartitionProduceData {
        index,
        records: Some(&records),
    };
    let mut produced = |version| {
        let topic = produce_request::TopicProduceData {
            name: "topic",
            partition_data: vec![data(1), data(2), data(3), data(4)].into(),
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 30_000,
            topic_data: vec![topic].into(),
            ..Default::default()
        };
        let answer = client.call(version, &request);
        let response: ProduceResponse<'_> = answer.read();
        let topic = response.responses.iter().next().unwrap();
        let partitions = topic.partition_responses.iter().map(|one| {
            let leader = one.current_leader;
            let (id, epoch) = (leader.leader_id, leader.leader_epoch);
            format!("{} {id} {epoch}", named(one.error_code))
        });
        let nodes = response.node_endpoints.iter();
        let nodes = nodes.map(|one| node(one.node_id, one.host, one.port, one.rack));
        (
            partitions.collect::<Vec<_>>(),
            nodes.collect::<Vec<_>>().join(" "),
        )
    };
    let (partitions, nodes) = produced(12);
    let expected = [
        "NOT_LEADER_OR_FOLLOWER 2 5",
        "NOT_LEADER_OR_FOLLOWER 2 5",
        "NOT_LEADER_OR_FOLLOWER 4 5",
        "UNKNOWN_TOPIC_OR_PARTITION -1 -1",
    ];
    assert_eq!(partitions, expected);
    assert_eq!(nodes, "2@host-2:9002/rack-2");
    let (partitions, nodes) = produced(9);
    assert_eq!(partitions[0], "NOT_LEADER_OR_FOLLOWER -1 -1");
    assert_eq!(nodes, "");
}

#[test]
fn fetches_of_what_is_elsewhere_are_told_the_leader() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let topic_id = running.broker().node.image().topics.id_of("topic").unwrap();
    let mut client = running.connect();
    let partition = |partition| fetch_request::FetchPartition {
        partition,
        current_leader_epoch: 7,
        partition_max_bytes: 1_000,
        ..Default::default()
    };
    let topic = fetch_request::FetchTopic {
        topic_id,
        partitions: vec![partition(1), partition(3), partition(4)].into(),
        ..Default::default()
    };
    let request = FetchRequest {
        max_bytes: 1_000,
        session_epoch: -1,
        topics: vec![topic].into(),
        ..Default::default()
    };
    let answer = client.call(17, &request);
    let response: FetchResponse<'_> = answer.read();
    let topic = response.responses.iter().next().unwrap();
    let partitions = topic.partitions.iter().map(|one| {
        let leader = one.current_leader;
        let (id, epoch) = (leader.leader_id, leader.leader_epoch);
        format!("{} {id} {epoch}", named(one.error_code))
    });
    let expected = [
        "NOT_LEADER_OR_FOLLOWER 2 5",
        "NOT_LEADER_OR_FOLLOWER 4 5",
        "UNKNOWN_TOPIC_OR_PARTITION -1 -1",
    ];
    assert_eq!(partitions.collect::<Vec<_>>(), expected);
    let nodes = response.node_endpoints.iter();
    let nodes = nodes.map(|one| node(one.node_id, one.host, one.port, one.rack));
    assert_eq!(nodes.collect::<Vec<_>>(), ["2@host-2:9002/rack-2"]);
}

#[test]
fn what_is_elsewhere_is_refused_as_such_and_what_is_nowhere_is_unknown() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let mut client = running.connect();
    let elsewhere = ErrorCode::NotLeaderOrFollower;
    let unknown = ErrorCode::UnknownTopicOrPartition;
    for (topic, index, expected) in [
        ("topic", 1, elsewhere),
        ("topic", 9, unknown),
        ("other", 0, unknown),
    ] {
        println!("{topic}-{index}");
        assert_eq!(client.list_offset(topic, index, -1).error, expected);
        assert_eq!(client.delete_records(topic, index, 0).0, expected);
        assert_eq!(epoch_end_error(&mut client, topic, index), expected);
        assert_eq!(producers_error(&mut client, topic, index), expected);
        let moved = move_error(&mut client, directory.path(), topic, index);
        let expected = match expected {
            ErrorCode::NotLeaderOrFollower => ErrorCode::ReplicaNotAvailable,
            other => other,
        };
        assert_eq!(moved, expected);
    }
}

fn epoch_end_error(client: &mut Client, topic: &str, partition: i32) -> ErrorCode {
    use offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
    let partition = OffsetForLeaderPartition {
        partition,
        current_leader_epoch: 1,
        ..Default::default()
    };
    let topic = OffsetForLeaderTopic {
        topic,
        partitions: vec![partition].into(),
    };
    let request = OffsetForLeaderEpochRequest {
        topics: vec![topic].into(),
        ..Default::default()
    };
    let answer = client.call(4, &request);
    let response: OffsetForLeaderEpochResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    ErrorCode::from_code(partition.error_code)
}

fn producers_error(client: &mut Client, name: &str, index: i32) -> ErrorCode {
    let topic = describe_producers_request::TopicRequest {
        name,
        partition_indexes: vec![index].into(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeProducersResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    ErrorCode::from_code(partition.error_code)
}

fn move_error(client: &mut Client, to: &Path, name: &str, index: i32) -> ErrorCode {
    use alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
    let topic = AlterReplicaLogDirTopic {
        name,
        partitions: vec![index].into(),
    };
    let path = to.to_str().unwrap();
    let directory = AlterReplicaLogDir {
        path,
        topics: vec![topic].into(),
    };
    let request = AlterReplicaLogDirsRequest {
        dirs: vec![directory].into(),
    };
    let answer = client.call(2, &request);
    let response: AlterReplicaLogDirsResponse<'_> = answer.read();
    let topic = response.results.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    ErrorCode::from_code(partition.error_code)
}

#[test]
fn a_replica_that_follows_describes_its_producers() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let this = running.broker().node.id;
    take(
        &running,
        topic("followed", vec![partition(&[TWO, this], TWO)]),
    );
    let mut client = running.connect();
    let error = producers_error(&mut client, "followed", 0);
    assert_eq!(error, ErrorCode::None);
    let listed = client.list_offset("followed", 0, -1).error;
    assert_eq!(listed, ErrorCode::NotLeaderOrFollower);
}

#[test]
fn topics_are_described_with_what_may_lead_them() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let eligible = Partition {
        isr: Vec::new(),
        eligible_leader_replicas: vec![TWO],
        last_known_eligible_leader_replicas: vec![THREE],
        ..partition(&[TWO, THREE, FOUR], BrokerId::NONE)
    };
    take(
        &running,
        topic("without", vec![eligible, partition(&[FOUR], FOUR)]),
    );
    let mut client = running.connect();
    let asked = describe_topic_partitions_request::TopicRequest { name: "without" };
    let request = DescribeTopicPartitionsRequest {
        topics: vec![asked].into(),
        response_partition_limit: 10,
        ..Default::default()
    };
    let answer = client.call(0, &request);
    let response: DescribeTopicPartitionsResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let partitions = topic.partitions.iter().map(|one| {
        let eligible = one.eligible_leader_replicas.unwrap();
        let last_known = one.last_known_elr.unwrap();
        format!(
            "{} leader {} eligible {} last known {} offline {}",
            named(one.error_code),
            one.leader_id,
            ids(eligible.iter()),
            ids(last_known.iter()),
            ids(one.offline_replicas.iter()),
        )
    });
    let expected = [
        "LEADER_NOT_AVAILABLE leader -1 eligible 2 last known 3 offline 3,4",
        "LEADER_NOT_AVAILABLE leader -1 eligible  last known  offline 4",
    ];
    assert_eq!(partitions.collect::<Vec<_>>(), expected);
}

#[test]
fn reassignments_under_way_are_listed_whoever_leads() {
    let directory = trials::directory();
    let running = cluster(directory.path());
    let topic_id = running.broker().node.image().topics.id_of("topic").unwrap();
    let mut change = PartitionChange::of(topic_id, 2);
    change.replicas = Some(vec![FOUR, THREE, TWO]);
    change.directories = Some(vec![metadata::UNASSIGNED_DIRECTORY; 3]);
    change.adding_replicas = Some(vec![FOUR]);
    change.removing_replicas = Some(vec![THREE]);
    take(&running, vec![MetadataRecord::PartitionChange(change)]);
    let mut client = running.connect();
    let answer = client.call(0, &ListPartitionReassignmentsRequest::default());
    let response: ListPartitionReassignmentsResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let partitions = topic.partitions.iter().map(|one| {
        let lists = [one.replicas, one.adding_replicas, one.removing_replicas];
        let lists = lists.map(|list| ids(list.iter()));
        format!("{} {}", one.partition_index, lists.join(" "))
    });
    assert_eq!(partitions.collect::<Vec<_>>(), ["2 4,3,2 4 3"]);
}

/// One broker is about to stop, and does not; the controller of this node works, fails, or is silent.
#[test]
fn whoever_stops_waits_for_others_only_with_a_controller_that_works() {
    use handing_over::{Waited, wait_for_others};
    const LONG: std::time::Duration = std::time::Duration::from_secs(1000);
    let check = |controller: &str, expect: Waited| {
        let directory = trials::directory();
        let running = cluster(directory.path());
        let mut change = vec![registration(TWO, false)];
        if let MetadataRecord::RegisterBroker(two) = &mut change[0] {
            two.is_in_controlled_shutdown = true;
        }
        take(&running, change);
        let (broker, runtime) = (running.broker().clone(), &running.runtime);
        let (end, ended) = mpsc::channel::<()>();
        let mut silence_max = LONG;
        match controller {
            "works" => take(&running, vec![registration(TWO, true)]),
            "fails" => {
                let failed = broker
                    .controller
                    .run::<()>(|_| panic!("the controller fails"));
                assert!(runtime.block_on(failed).is_err());
            }
            "loader fails" => broker
                .controller
                .run_in_loader(|| panic!("the loader fails")),
            _ => {
                let (held, is_held) = mpsc::channel();
                let hold = broker.clone();
                let hold = async move {
                    let hold = hold.controller.run(move |_| {
                        held.send(()).unwrap();
                        ended.recv().is_err()
                    });
                    hold.await
                };
                runtime.spawn(hold);
                is_held.recv().unwrap();
                silence_max = std::time::Duration::ZERO;
            }
        }
        let waited = wait_for_others(&broker.cluster_node, silence_max);
        assert_eq!(runtime.block_on(waited), expect, "{controller}");
        drop(end);
    };
    check("works", Waited::UntilStopped);
    check("fails", Waited::WithoutController);
    check("loader fails", Waited::WithoutController);
    check("is silent", Waited::WithoutController);
}
