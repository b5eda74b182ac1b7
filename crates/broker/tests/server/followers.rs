//! A leader and its followers: brokers that exist as far as the controller has heard of them, and fetch as the test
//! says.

use super::configs::{BROKER, TOPIC, alter, set};
use model::{BrokerEpoch, BrokerId, ErrorCode, Uuid};
use std::time::Duration;
use testkit::{Client, TestServer, batch, wait_until};
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::messages::broker_registration_request::{Feature, Listener};
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, DescribeClusterRequest, DescribeClusterResponse, FetchRequest,
    FetchResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
};

const FETCH_VERSION: i16 = 17;
/// The features that the metadata may have, which every broker must know.
const FEATURES: [(&str, i16, i16); 7] = [
    ("metadata.version", 7, 30),
    ("kraft.version", 0, 1),
    ("group.version", 0, 1),
    ("transaction.version", 0, 2),
    ("eligible.leader.replicas.version", 0, 1),
    ("share.version", 0, 1),
    ("streams.version", 0, 1),
];

/// A node whose followers are never fenced because of silence.
pub(crate) fn server(keys: &[(&str, &str)]) -> TestServer {
    let mut all = vec![("broker.session.timeout.ms", "600000")];
    all.extend(keys);
    TestServer::start(&all)
}

/// A broker that answers nobody, and fetches from broker 1.
pub(crate) struct Follower {
    id: BrokerId,
    epoch: BrokerEpoch,
    client: Client,
    /// The session's id and the epoch of its next fetch.
    session: (i32, i32),
}

/// What a follower hears of one partition.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    error: ErrorCode,
    high_watermark: i64,
    log_start_offset: i64,
    values: Vec<String>,
    diverging: Option<(i32, i64)>,
}

impl Heard {
    fn values(high_watermark: i64, values: &[&str]) -> Self {
        Self {
            error: ErrorCode::None,
            high_watermark,
            log_start_offset: 0,
            values: values.iter().map(|one| (*one).to_owned()).collect(),
            diverging: None,
        }
    }

    fn error(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: -1,
            log_start_offset: -1,
            values: Vec::new(),
            diverging: None,
        }
    }
}

/// What a follower asks of one partition.
#[derive(Clone, Copy)]
struct Ask {
    topic: Uuid,
    index: i32,
    offset: i64,
    leader_epoch: i32,
    last_epoch: i32,
    start: i64,
    max_wait_ms: i32,
}

const fn ask(topic: Uuid, offset: i64) -> Ask {
    Ask {
        topic,
        index: 0,
        offset,
        leader_epoch: 0,
        last_epoch: -1,
        start: 0,
        max_wait_ms: 0,
    }
}

fn topics_of<'a>(asks: &[Ask]) -> Vec<FetchTopic<'a>> {
    let topics = asks.iter().map(|ask| FetchTopic {
        topic_id: ask.topic,
        partitions: vec![FetchPartition {
            partition: ask.index,
            current_leader_epoch: ask.leader_epoch,
            fetch_offset: ask.offset,
            last_fetched_epoch: ask.last_epoch,
            log_start_offset: ask.start,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        }]
        .into(),
        ..FetchTopic::default()
    });
    topics.collect()
}

impl Follower {
    /// Registers with the controller, and is unfenced.
    pub(crate) fn start(server: &TestServer, id: i32, rack: Option<&str>) -> Self {
        let mut controller = Client::connect(server.address_of("CONTROLLER"));
        let mut client = server.connect();
        let described = client.call(1, &DescribeClusterRequest::default());
        let described: DescribeClusterResponse<'_> = described.read();
        let features = FEATURES.iter().map(|(name, min, max)| Feature {
            name,
            min_supported_version: *min,
            max_supported_version: *max,
        });
        let id = BrokerId(id);
        let registration = BrokerRegistrationRequest {
            broker_id: id,
            cluster_id: described.cluster_id,
            incarnation_id: Uuid::from_u128(id.0.unsigned_abs().into()),
            listeners: vec![Listener {
                name: "PLAINTEXT",
                host: "127.0.0.1",
                port: 1,
                security_protocol: 0,
            }]
            .into(),
            features: features.collect(),
            rack,
            is_migrating_zk_broker: false,
            log_dirs: vec![Uuid::from_u128(0x1000 + u128::from(id.0.unsigned_abs()))].into(),
            previous_broker_epoch: BrokerEpoch::NONE,
        };
        let registered = controller.call(4, &registration);
        let registered: BrokerRegistrationResponse = registered.read();
        assert_eq!(ErrorCode::from_code(registered.error_code), ErrorCode::None);
        let follower = Self {
            id,
            epoch: registered.broker_epoch,
            client,
            session: (0, -1),
        };
        let standing = follower.heartbeat(&mut controller, i64::MAX, false);
        assert!(!standing.is_fenced);
        follower
    }

    /// What the controller answers to a sign of life.
    pub(crate) fn heartbeat(
        &self,
        controller: &mut Client,
        current_metadata_offset: i64,
        want_shut_down: bool,
    ) -> BrokerHeartbeatResponse {
        let heartbeat = BrokerHeartbeatRequest {
            broker_id: self.id,
            broker_epoch: self.epoch,
            current_metadata_offset,
            want_shut_down,
            ..BrokerHeartbeatRequest::default()
        };
        controller.call(1, &heartbeat).read()
    }

    fn request<'a>(&self, asks: &[Ask], forgotten: &[Uuid]) -> FetchRequest<'a> {
        let forgotten = forgotten.iter().map(|topic_id| ForgottenTopic {
            topic_id: *topic_id,
            partitions: vec![0].into(),
            ..ForgottenTopic::default()
        });
        FetchRequest {
            replica_state: ReplicaState {
                replica_id: self.id,
                replica_epoch: self.epoch,
            },
            max_wait_ms: asks.iter().map(|ask| ask.max_wait_ms).max().unwrap_or(0),
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_id: self.session.0,
            session_epoch: self.session.1,
            topics: topics_of(asks).into(),
            forgotten_topics_data: forgotten.collect(),
            ..FetchRequest::default()
        }
    }

    /// Sends a fetch; [`Self::heard`] reads the answer.
    fn send(&mut self, asks: &[Ask]) {
        let request = self.request(asks, &[]);
        self.client.send(FETCH_VERSION, &request);
    }

    /// What the answer tells, by topic.
    fn heard(&mut self) -> Vec<(Uuid, Heard)> {
        let answer = self.client.receive();
        let response: FetchResponse<'_> = answer.read_as(FETCH_VERSION);
        assert_eq!(response.error_code, 0, "the error of the fetch");
        if self.session.1 >= 0 {
            self.session = (response.session_id, self.session.1 + 1);
        }
        let topics = response.responses.iter().flat_map(|topic| {
            let partitions: Vec<_> = topic.partitions.iter().collect();
            partitions.into_iter().map(move |one| {
                let diverging = &one.diverging_epoch;
                let heard = Heard {
                    error: ErrorCode::from_code(one.error_code),
                    high_watermark: one.high_watermark,
                    log_start_offset: one.log_start_offset,
                    values: values(one.records.unwrap_or_default()),
                    diverging: (diverging.epoch >= 0)
                        .then_some((diverging.epoch, diverging.end_offset)),
                };
                (topic.topic_id, heard)
            })
        });
        topics.collect()
    }

    /// Fetches one partition outside of a session.
    fn fetch(&mut self, ask: Ask) -> Heard {
        self.session = (0, -1);
        self.send(&[ask]);
        let mut heard = self.heard();
        assert_eq!(heard.len(), 1);
        heard.remove(0).1
    }

    /// The next fetch of a session, which names these; a first one begins it.
    fn fetch_in_session(&mut self, asks: &[Ask], max_wait_ms: i32) -> Vec<(Uuid, Heard)> {
        if self.session.1 < 0 {
            self.session = (0, 0);
        }
        let mut request = self.request(asks, &[]);
        request.max_wait_ms = max_wait_ms;
        self.client.send(FETCH_VERSION, &request);
        self.heard()
    }
}

/// The values of the records in batches, as text.
fn values(records: &[u8]) -> Vec<String> {
    let fetched = testkit::Fetched {
        error: ErrorCode::None,
        high_watermark: 0,
        last_stable_offset: 0,
        log_start_offset: 0,
        records: records.to_vec(),
    };
    fetched.values()
}

/// A topic of one partition with these replicas.
pub(crate) fn create_topic(
    client: &mut Client,
    name: &str,
    replicas: &[i32],
    configs: &[(&str, &str)],
) -> Uuid {
    let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
        name,
        value: Some(value),
    });
    let broker_ids: Vec<BrokerId> = replicas.iter().map(|id| BrokerId(*id)).collect();
    let topic = CreatableTopic {
        name,
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![CreatableReplicaAssignment {
            partition_index: 0,
            broker_ids: (&broker_ids).into(),
        }]
        .into(),
        configs: configs.collect(),
    };
    let request = CreateTopicsRequest {
        topics: vec![topic].into(),
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    let created = client.call(7, &request);
    let created: CreateTopicsResponse<'_> = created.read();
    let created = created.topics.iter().next().unwrap();
    assert_eq!(ErrorCode::from_code(created.error_code), ErrorCode::None);
    created.topic_id
}

/// The in-sync replicas that clients are told.
fn isr(client: &mut Client, topic: &str) -> Vec<i32> {
    let request = MetadataRequest {
        topics: Some(
            vec![wire::messages::metadata_request::MetadataRequestTopic {
                name: Some(topic),
                ..Default::default()
            }]
            .into(),
        ),
        ..MetadataRequest::default()
    };
    let answer = client.call(12, &request);
    let response: MetadataResponse<'_> = answer.read();
    let topic = response.topics.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    let mut isr: Vec<i32> = partition.isr_nodes.iter().map(|id| id.0).collect();
    isr.sort_unstable();
    isr
}

#[test]
fn what_a_follower_has_fetched_is_replicated() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2], &[]);
    assert_eq!(isr(&mut client, "topic"), [1, 2]);
    client.send_produce("topic", 0, &batch(&["value"]), -1);
    let mut consumer = server.connect();
    wait_until("the batch is in the log", || {
        follower.fetch(ask(topic, 0)).values == ["value"]
    });
    assert_eq!(consumer.fetch("topic", 0, 0).high_watermark, 0);
    // Nobody is woken by a fetch from where it began before.
    assert!(client.is_silent_for(Duration::from_millis(50)));
    let heard = follower.fetch(ask(topic, 1));
    assert_eq!(heard, Heard::values(1, &[]), "it makes the high watermark");
    client.receive_produced().assert_accepted();
    assert_eq!(consumer.fetch("topic", 0, 0).values(), ["value"]);
}

/// Who has been silent for too long is out of sync, and back in sync when it has everything.
#[test]
fn a_follower_that_is_silent_leaves_and_comes_back() {
    let server = server(&[("replica.lag.time.max.ms", "500")]);
    let mut follower = Follower::start(&server, 2, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2], &[]);
    // Until then it has to be waited for.
    let produced = client.produce("topic", 0, &batch(&["value"]));
    produced.assert_accepted();
    wait_until("it is out of sync", || isr(&mut client, "topic") == [1]);
    assert_eq!(follower.fetch(ask(topic, 0)), Heard::values(1, &["value"]));
    assert_eq!(isr(&mut client, "topic"), [1]);
    wait_until("it is in sync again", || {
        follower.fetch(ask(topic, 1));
        isr(&mut client, "topic") == [1, 2]
    });
}

#[test]
fn too_few_in_sync_replicas_take_no_batch_that_asks_for_all() {
    let server = server(&[("replica.lag.time.max.ms", "500")]);
    let mut follower = Follower::start(&server, 2, None);
    let mut client = server.connect();
    let configs = [("min.insync.replicas", "2")];
    let topic = create_topic(&mut client, "topic", &[1, 2], &configs);
    client.send_produce("topic", 0, &batch(&["one"]), 1);
    client.receive_produced().assert_accepted();
    wait_until("it is out of sync", || isr(&mut client, "topic") == [1]);
    let refused = client.produce("topic", 0, &batch(&["two"]));
    assert_eq!(refused.error, ErrorCode::NotEnoughReplicas);
    client.send_produce("topic", 0, &batch(&["three"]), 1);
    client.receive_produced().assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
    assert_eq!(
        follower.fetch(ask(topic, 0)),
        Heard::values(0, &["one", "three"])
    );
    wait_until("it is in sync again", || {
        follower.fetch(ask(topic, 2));
        isr(&mut client, "topic") == [1, 2]
    });
    assert_eq!(
        client.fetch("topic", 0, 0).values(),
        ["one", "three"],
        "they are replicated"
    );
    // A machine that lets the follower wait for too long has it leave once more.
    let mut end_offset = 2;
    wait_until("a batch that asks for all is taken", || {
        follower.fetch(ask(topic, end_offset));
        client.send_produce("topic", 0, &batch(&["four"]), -1);
        while client.is_silent_for(Duration::from_millis(1)) {
            end_offset +=
                i64::try_from(follower.fetch(ask(topic, end_offset)).values.len()).unwrap();
        }
        client.receive_produced().error.is_none()
    });
}

/// What goes to a throttled follower that is out of sync waits while more has gone than may; what is set is in force at
/// once (KIP-73).
#[test]
fn a_throttled_follower_is_held_unless_it_is_in_sync() {
    let server = server(&[
        ("replica.lag.time.max.ms", "500"),
        ("replication.quota.window.size.seconds", "3600"),
    ]);
    let mut follower = Follower::start(&server, 2, None);
    let (mut client, mut admin) = (server.connect(), server.connect());
    let topic = create_topic(&mut client, "topic", &[1, 2], &[]);
    let mut set = |kind, name: &str, key: &str, value: &str| {
        let changed = alter(&mut admin, vec![set(kind, name, key, value)]);
        assert_eq!(changed, [(0, String::new())]);
    };
    let rate = "leader.replication.throttled.rate";
    let replicas = "leader.replication.throttled.replicas";
    client.send_produce("topic", 0, &batch(&["one"]), 1);
    client.receive_produced().assert_accepted();
    wait_until("it is out of sync", || isr(&mut client, "topic") == [1]);
    set(BROKER, "1", rate, "0");
    // The pair names the leader, and this is another one's.
    set(TOPIC, "topic", replicas, "0:2");
    let mut fetch = || follower.fetch(ask(topic, 0)).values;
    assert_eq!(
        (fetch(), fetch()),
        (vec!["one".to_owned()], vec!["one".to_owned()])
    );
    set(TOPIC, "topic", replicas, "0:1");
    assert_eq!(
        fetch(),
        ["one"],
        "nothing has gone to a throttled one before"
    );
    assert_eq!(fetch(), [""; 0]);
    assert_eq!(client.fetch("topic", 0, 0).values(), ["one"], "a consumer");
    set(BROKER, "1", rate, "1000000");
    assert_eq!(fetch(), ["one"]);
    set(BROKER, "", rate, "0");
    assert_eq!(fetch(), ["one"], "that of the broker comes first");
    set(BROKER, "1", rate, "0");
    assert_eq!(fetch(), [""; 0]);
    set(TOPIC, "topic", replicas, "");
    assert_eq!(fetch(), ["one"]);
    set(TOPIC, "topic", replicas, "*");
    assert_eq!(fetch(), [""; 0]);
    // A machine that lets it wait for too long has it leave once more.
    let mut end_offset = 1;
    wait_until("what comes goes to who is in sync", || {
        wait_until("it is in sync again", || {
            follower.fetch(ask(topic, end_offset));
            isr(&mut client, "topic") == [1, 2]
        });
        client.send_produce("topic", 0, &batch(&["two"]), 1);
        client.receive_produced().assert_accepted();
        end_offset += 1;
        follower.fetch(ask(topic, end_offset - 1)).values == ["two"]
    });
}

/// A session names what changes; of the other partitions it says that nothing has.
#[test]
fn a_quiet_partition_keeps_the_follower_whose_session_goes_on() {
    let server = server(&[("replica.lag.time.max.ms", "2500")]);
    let mut follower = Follower::start(&server, 2, None);
    let (mut client, mut admin) = (server.connect(), server.connect());
    let quiet = create_topic(&mut client, "quiet", &[1, 2], &[]);
    let busy = create_topic(&mut client, "busy", &[1, 2], &[]);
    let both = [ask(quiet, 0), ask(busy, 0)];
    assert_eq!(follower.fetch_in_session(&both, 0).len(), 2);
    for at in 0..13 {
        // Each waits for its time, which is longer than the lag in all.
        let heard = follower.fetch_in_session(&[], 200);
        assert_eq!(heard, [], "{at}");
    }
    client.send_produce("quiet", 0, &batch(&["value"]), -1);
    let heard = follower.fetch_in_session(&[], 10_000);
    assert_eq!(heard, [(quiet, Heard::values(0, &["value"]))]);
    // Had nothing been heard of it for all that time, the next look would find it too late.
    assert_eq!(isr(&mut admin, "quiet"), [1, 2]);
    let heard = follower.fetch_in_session(&[ask(quiet, 1)], 0);
    assert_eq!(heard, [(quiet, Heard::values(1, &[]))]);
    client.receive_produced().assert_accepted();
}

/// A fetch of another replica makes it; the answer does not leave earlier for it.
#[test]
fn a_session_hears_of_the_high_watermark_with_its_next_answer() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    let mut slower = Follower::start(&server, 3, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2, 3], &[]);
    client.send_produce("topic", 0, &batch(&["value"]), 1);
    client.receive_produced().assert_accepted();
    follower.fetch_in_session(&[ask(topic, 1)], 0);
    slower.fetch_in_session(&[ask(topic, 1)], 0);
    // The other one has made it since.
    let heard = follower.fetch_in_session(&[], 0);
    assert_eq!(heard, [(topic, Heard::values(1, &[]))]);
    assert_eq!(follower.fetch_in_session(&[], 0), []);
    assert_eq!(slower.fetch_in_session(&[], 0), []);
    // While one waits, the other one makes it.
    client.send_produce("topic", 0, &batch(&["next"]), 1);
    client.receive_produced().assert_accepted();
    follower.fetch_in_session(&[ask(topic, 2)], 0);
    let request = follower.request(&[], &[]);
    let request = FetchRequest {
        max_wait_ms: 400,
        ..request
    };
    follower.client.send(FETCH_VERSION, &request);
    assert!(follower.client.is_silent_for(Duration::from_millis(100)));
    slower.fetch_in_session(&[ask(topic, 2)], 0);
    assert_eq!(follower.heard(), [(topic, Heard::values(2, &[]))]);
}

#[test]
fn a_fetch_of_who_is_no_replica_or_is_wrong_is_refused() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    let mut other = Follower::start(&server, 3, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2], &[]);
    client.send_produce("topic", 0, &batch(&["value"]), 1);
    client.receive_produced().assert_accepted();
    let unknown = Heard::error(ErrorCode::UnknownLeaderEpoch);
    assert_eq!(other.fetch(ask(topic, 0)), unknown);
    let later = Ask {
        leader_epoch: 1,
        ..ask(topic, 0)
    };
    assert_eq!(follower.fetch(later), unknown);
    // As in Apache Kafka, any negative number says nothing of an epoch.
    let of_none = Ask {
        leader_epoch: i32::MIN,
        ..ask(topic, 0)
    };
    assert_eq!(follower.fetch(of_none), Heard::values(0, &["value"]));
    let beyond = Heard::error(ErrorCode::OffsetOutOfRange);
    assert_eq!(follower.fetch(ask(topic, 2)), beyond);
    // A run of the broker that is over.
    let epoch = follower.epoch;
    follower.epoch = BrokerEpoch(epoch.0 - 1);
    let stale = Heard::error(ErrorCode::NotLeaderOrFollower);
    assert_eq!(follower.fetch(ask(topic, 1)), stale);
    follower.epoch = epoch;
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
    // The session of another one is not there.
    follower.fetch_in_session(&[ask(topic, 1)], 0);
    other.session = follower.session;
    let request = other.request(&[], &[]);
    let answer = other.client.call(FETCH_VERSION, &request);
    let response: FetchResponse<'_> = answer.read_as(FETCH_VERSION);
    let error = ErrorCode::from_code(response.error_code);
    assert_eq!(error, ErrorCode::FetchSessionIdNotFound);
    assert_eq!(follower.fetch_in_session(&[], 0), []);
}

/// Moves partition 0 of a topic; ends at once where all that stay are in sync.
fn reassign(client: &mut Client, topic: &str, replicas: &[i32]) {
    let replicas: Vec<BrokerId> = replicas.iter().map(|id| BrokerId(*id)).collect();
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        topics: vec![ReassignableTopic {
            name: topic,
            partitions: vec![ReassignablePartition {
                partition_index: 0,
                replicas: Some((&replicas).into()),
            }]
            .into(),
        }]
        .into(),
        ..AlterPartitionReassignmentsRequest::default()
    };
    let answer = client.call(0, &request);
    let response: AlterPartitionReassignmentsResponse<'_> = answer.read();
    let topic = response.responses.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    assert_eq!(ErrorCode::from_code(partition.error_code), ErrorCode::None);
}

/// What it is told sends it back: that is no progress, and the answer does not wait.
#[test]
fn a_follower_of_another_history_is_told_at_once() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    Follower::start(&server, 3, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2, 3], &[]);
    client.send_produce("topic", 0, &batch(&["one", "two"]), 1);
    client.receive_produced().assert_accepted();
    // A replica that leaves begins a new epoch.
    reassign(&mut client, "topic", &[1, 2]);
    let fenced = Heard::error(ErrorCode::FencedLeaderEpoch);
    assert_eq!(follower.fetch(ask(topic, 2)), fenced);
    let elsewhere = Ask {
        leader_epoch: 1,
        last_epoch: 0,
        max_wait_ms: 60_000,
        ..ask(topic, 3)
    };
    let diverges = Heard {
        diverging: Some((0, 2)),
        ..Heard::values(0, &[])
    };
    assert_eq!(follower.fetch(elsewhere), diverges);
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 0);
    let back = Ask {
        max_wait_ms: 0,
        offset: 2,
        ..elsewhere
    };
    assert_eq!(follower.fetch(back), Heard::values(2, &[]));
}

/// The leader before may have shown more than this one knows to be replicated.
#[test]
fn a_new_leader_tells_no_end_before_it_knows_it() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    Follower::start(&server, 3, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2, 3], &[]);
    client.send_produce("topic", 0, &batch(&["one", "two"]), 1);
    client.receive_produced().assert_accepted();
    let latest = |client: &mut Client| client.list_offset("topic", 0, -1);
    assert_eq!(latest(&mut client).offset, 0);
    reassign(&mut client, "topic", &[1, 2]);
    assert_eq!(latest(&mut client).error, ErrorCode::OffsetNotAvailable);
    for timestamp in [0, -3] {
        let listed = client.list_offset("topic", 0, timestamp);
        assert_eq!(listed.error, ErrorCode::OffsetNotAvailable, "{timestamp}");
    }
    assert_eq!(client.list_offset("topic", 0, -2).offset, 0);
    let listed = |client: &mut Client, version, replica_id| {
        let request = ListOffsetsRequest {
            replica_id: BrokerId(replica_id),
            ..testkit::list_offset_request("topic", 0, -1)
        };
        let answer = client.call(version, &request);
        let response: ListOffsetsResponse<'_> = answer.read_as(version);
        let topic = response.topics.iter().next().unwrap();
        let found = topic.partitions.iter().next().unwrap();
        (ErrorCode::from_code(found.error_code), found.offset)
    };
    let old = listed(&mut client, 4, -1);
    assert_eq!(old, (ErrorCode::LeaderNotAvailable, -1));
    // Brokers, and who looks for a mistake, see all of the log.
    assert_eq!(listed(&mut client, 6, 2), (ErrorCode::None, 2));
    assert_eq!(listed(&mut client, 6, -2), (ErrorCode::None, 2));
    follower.fetch(Ask {
        leader_epoch: 1,
        ..ask(topic, 2)
    });
    assert_eq!(latest(&mut client).offset, 2);
}

#[test]
fn records_are_deleted_once_no_replica_has_them() {
    let server = server(&[]);
    let mut follower = Follower::start(&server, 2, None);
    let mut client = server.connect();
    let topic = create_topic(&mut client, "topic", &[1, 2], &[]);
    client.send_produce("topic", 0, &batch(&["one", "two"]), 1);
    client.receive_produced().assert_accepted();
    follower.fetch(ask(topic, 2));
    let partition = DeleteRecordsPartition {
        partition_index: 0,
        offset: 1,
    };
    let delete = |timeout_ms| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "topic",
            partitions: vec![partition.clone()].into(),
        }]
        .into(),
        timeout_ms,
    };
    let deleted = |client: &mut Client| {
        let answer = client.receive();
        let response: DeleteRecordsResponse<'_> = answer.read_as(2);
        let topic = response.topics.iter().next().unwrap();
        let deleted = topic.partitions.iter().next().unwrap();
        (
            ErrorCode::from_code(deleted.error_code),
            deleted.low_watermark,
        )
    };
    client.send(2, &delete(50));
    assert_eq!(deleted(&mut client), (ErrorCode::RequestTimedOut, 0));
    client.send(2, &delete(60_000));
    let heard = follower.fetch(ask(topic, 2));
    assert_eq!(heard.log_start_offset, 1);
    assert!(client.is_silent_for(Duration::from_millis(50)));
    follower.fetch(Ask {
        start: 1,
        ..ask(topic, 2)
    });
    assert_eq!(deleted(&mut client), (ErrorCode::None, 1));
}

/// What a consumer is answered: error, high watermark, values, and from whom it had better read.
fn consume(
    client: &mut Client,
    version: i16,
    topic: (&str, Uuid),
    rack: &str,
) -> (ErrorCode, i64, Vec<String>, i32) {
    let request = FetchRequest {
        max_wait_ms: 10_000,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        rack_id: rack,
        topics: vec![FetchTopic {
            topic: if version < 13 { topic.0 } else { "" },
            topic_id: if version < 13 { Uuid::ZERO } else { topic.1 },
            partitions: vec![FetchPartition {
                partition_max_bytes: 1 << 20,
                ..FetchPartition::default()
            }]
            .into(),
        }]
        .into(),
        ..FetchRequest::default()
    };
    let answer = client.call(version, &request);
    let response: FetchResponse<'_> = answer.read_as(version);
    let topic = response.responses.iter().next().unwrap();
    let one = topic.partitions.iter().next().unwrap();
    (
        ErrorCode::from_code(one.error_code),
        one.high_watermark,
        values(one.records.unwrap_or_default()),
        one.preferred_read_replica.0,
    )
}

/// KIP-392.
#[test]
fn a_consumer_is_told_of_a_replica_in_its_rack() {
    let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    let server = server(&[("replica.selector.class", selector), ("broker.rack", "a")]);
    let mut follower = Follower::start(&server, 2, Some("b"));
    let mut client = server.connect();
    let id = create_topic(&mut client, "topic", &[1, 2], &[]);
    client.send_produce("topic", 0, &batch(&["value"]), 1);
    client.receive_produced().assert_accepted();
    let topic = ("topic", id);
    // Nobody knows what it has.
    follower.fetch(ask(id, 1));
    for version in [11, 12, 13, 17] {
        let elsewhere = consume(&mut client, version, topic, "b");
        assert_eq!(elsewhere, (ErrorCode::None, 1, Vec::new(), 2), "{version}");
        for rack in ["a", "c", ""] {
            let here = consume(&mut client, version, topic, rack);
            let records = vec!["value".to_owned()];
            assert_eq!(here, (ErrorCode::None, 1, records, -1), "{version} {rack}");
        }
    }
}

#[test]
fn a_follower_answers_consumers_that_know_of_followers() {
    let server = server(&[]);
    Follower::start(&server, 2, None);
    let mut client = server.connect();
    let id = create_topic(&mut client, "topic", &[2, 1], &[]);
    let topic = ("topic", id);
    let request = |client: &mut Client, version| consume(client, version, topic, "");
    let refused = (ErrorCode::NotLeaderOrFollower, -1, Vec::new(), -1);
    assert_eq!(request(&mut client, 10), refused);
    // There is nothing, and nothing to wait for but the time.
    client.send_fetch("topic", 0, 0, 50);
    let fetched = client.receive_fetched();
    assert_eq!(
        (fetched.error, fetched.high_watermark),
        (ErrorCode::None, 0)
    );
}
