//! Transactions over two brokers: the metadata of each name the other, and the same topics, whose partitions one
//! of them leads.

use super::cluster::{partition, registration_at, take, topic};
use super::*;
use coordinator::transaction::TransactionState;
use metadata::{NO_LEADER, PartitionChange};
use model::Uuid;
use testkit::{OffsetInTransaction, TransactionalProducer};
use wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

const ONE: BrokerId = BrokerId(1);
const TWO: BrokerId = BrokerId(2);
/// Produce of clients that add partitions themselves, and of those that do not.
const VERIFIED: i16 = 11;
const ENROLLED: i16 = 12;

/// Two brokers. The first one coordinates all transactions.
struct Brokers {
    one: Running,
    two: Running,
    client_of_one: Client,
    client_of_two: Client,
}

impl Brokers {
    /// The partitions of `topic` are led by the first and by the second broker; the groups are with `groups`.
    fn start(directory: &Path, groups: BrokerId) -> Self {
        Self::start_with(directory, groups, "2000")
    }

    /// The same, who wait for so long for each other.
    fn start_with(directory: &Path, groups: BrokerId, request_timeout_ms: &str) -> Self {
        let start = |id: BrokerId| {
            let id = id.to_string();
            let keys = [
                ("node.id", &*id),
                ("request.timeout.ms", request_timeout_ms),
                (
                    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                    "100",
                ),
            ];
            Running::start_with(&[&directory.join(&id)], &keys)
        };
        let (one, two) = (start(ONE), start(TWO));
        let brokers = Self {
            client_of_one: one.connect(),
            client_of_two: two.connect(),
            one,
            two,
        };
        brokers.introduce();
        brokers.take(topic(TRANSACTION_TOPIC, vec![partition(&[ONE], ONE)]));
        brokers.take(topic(OFFSETS_TOPIC, vec![partition(&[groups], groups)]));
        let led_by = |id| partition(&[id], id);
        brokers.take(topic("topic", vec![led_by(ONE), led_by(TWO)]));
        brokers
    }

    /// Each is told where the other is.
    fn introduce(&self) {
        let registration = |running: &Running| {
            let broker = running.broker();
            let address = broker.sockets.listeners[0].address;
            let host = address.ip().to_string();
            registration_at(broker.node.id, false, ("PLAINTEXT", &host, address.port()))
        };
        take(&self.one, vec![registration(&self.two)]);
        take(&self.two, vec![registration(&self.one)]);
    }

    fn take(&self, records: Vec<MetadataRecord>) {
        take(&self.one, records.clone());
        take(&self.two, records);
    }

    fn topic_id(&self) -> Uuid {
        let image = self.one.broker().node.image();
        image.topics.id_of("topic").unwrap()
    }

    /// What the second partition of the topic becomes.
    fn change_second(&self, leader: BrokerId) {
        let mut change = PartitionChange::of(self.topic_id(), 1);
        change.leader = Some(leader);
        self.take(vec![MetadataRecord::PartitionChange(change)]);
    }

    fn state(&self, id: &str) -> TransactionState {
        let transactions = &self.one.broker().coordinators.transactions;
        let described = self.one.runtime.block_on(transactions.describe(id));
        described.unwrap().state
    }

    fn wait_for(&self, id: &str, state: TransactionState) {
        wait_until(state.name(), || self.state(id) == state);
    }

    /// The values that a reader of committed records sees in the second partition.
    fn committed_in_second(&mut self) -> Vec<String> {
        self.client_of_two.fetch_committed("topic", 1, 0).values()
    }
}

#[test]
fn a_transaction_ends_in_the_partitions_of_both_brokers() {
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let mut producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    for (committed, expected) in [
        (true, &["commit"][..]),
        (false, &["commit"]),
        (true, &["commit", "commit"]),
    ] {
        let value = if committed { "commit" } else { "abort" };
        producer.produce_soon(&mut brokers.client_of_one, ("topic", 0), 0, value);
        producer.produce_soon(&mut brokers.client_of_two, ("topic", 1), 0, value);
        producer.end(&mut brokers.client_of_one, 5, committed);
        wait_until("the markers are written", || {
            let stable = |running: &Running, index| {
                let partition = running.broker().logs.partitions.find("topic", index);
                let offsets = partition.unwrap().offsets();
                offsets.last_stable_offset == offsets.log_end_offset
            };
            stable(&brokers.one, 0) && stable(&brokers.two, 1)
        });
        assert_eq!(brokers.committed_in_second(), expected);
        let state = match committed {
            true => TransactionState::CompleteCommit,
            false => TransactionState::CompleteAbort,
        };
        brokers.wait_for("id", state);
    }
}

/// What a client's version adds itself the coordinator is asked about, and vouches for only then.
#[test]
fn a_batch_is_verified_with_the_coordinator_on_the_other_broker() {
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    let client = &mut brokers.client_of_two;
    let mut produce = |producer: &TransactionalProducer, version| {
        let produced = producer.produce(client, version, ("topic", 1), 0, "value");
        produced.error
    };
    // Nobody has added the partition.
    assert_eq!(
        produce(&producer, VERIFIED),
        ErrorCode::TransactionAbortable
    );
    assert_eq!(produce(&producer, VERIFIED - 1), ErrorCode::InvalidTxnState);
    let of_another_epoch = TransactionalProducer {
        epoch: producer.epoch - 1,
        ..producer.clone()
    };
    let fenced = produce(&of_another_epoch, VERIFIED);
    assert_eq!(fenced, ErrorCode::InvalidProducerEpoch);
    let unknown = TransactionalProducer {
        transactional_id: "unknown".to_owned(),
        ..producer.clone()
    };
    let refused = produce(&unknown, VERIFIED);
    assert_eq!(refused, ErrorCode::InvalidProducerIdMapping);
    assert_eq!(produce(&producer, ENROLLED), ErrorCode::None);
}

#[test]
fn a_coordinator_that_is_not_reached_is_asked_again_by_the_producer() {
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    let nowhere = registration_at(ONE, false, ("PLAINTEXT", "127.0.0.1", 1));
    take(&brokers.two, vec![nowhere]);
    let produce = |brokers: &mut Brokers| {
        let client = &mut brokers.client_of_two;
        producer.produce(client, ENROLLED, ("topic", 1), 0, "value")
    };
    let produced = produce(&mut brokers);
    assert_eq!(produced.error, ErrorCode::NotEnoughReplicas);
    assert!(produced.message.unwrap().ends_with("NETWORK_EXCEPTION"));
    // Nobody coordinates it.
    let image = brokers.two.broker().node.image();
    let topic_id = image.topics.id_of(TRANSACTION_TOPIC).unwrap();
    let mut change = PartitionChange::of(topic_id, 0);
    change.leader = Some(NO_LEADER);
    take(
        &brokers.two,
        vec![MetadataRecord::PartitionChange(change.clone())],
    );
    let produced = produce(&mut brokers);
    assert_eq!(produced.error, ErrorCode::NotEnoughReplicas);
    let message = produced.message.unwrap();
    assert!(message.ends_with("COORDINATOR_NOT_AVAILABLE"), "{message}");
    change.leader = Some(ONE);
    take(&brokers.two, vec![MetadataRecord::PartitionChange(change)]);
    brokers.introduce();
    wait_until("the coordinator is reached", || {
        produce(&mut brokers).error == ErrorCode::None
    });
}

/// Else a transaction would go on for ever in a partition that comes back.
#[test]
fn a_partition_without_a_leader_has_its_marker_when_it_has_one_and_one_that_is_deleted_needs_none()
{
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let mut producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    let begin = |brokers: &mut Brokers, producer: &TransactionalProducer| {
        producer.produce_soon(&mut brokers.client_of_two, ("topic", 1), 0, "value");
    };
    begin(&mut brokers, &producer);
    brokers.change_second(NO_LEADER);
    // The answer does not wait for the marker.
    producer.end(&mut brokers.client_of_one, 5, true);
    std::thread::sleep(LOOK);
    assert_eq!(brokers.state("id"), TransactionState::PrepareCommit);
    brokers.change_second(TWO);
    brokers.wait_for("id", TransactionState::CompleteCommit);
    assert_eq!(brokers.committed_in_second(), ["value"]);

    begin(&mut brokers, &producer);
    brokers.change_second(NO_LEADER);
    producer.end(&mut brokers.client_of_one, 5, true);
    std::thread::sleep(LOOK);
    assert_eq!(brokers.state("id"), TransactionState::PrepareCommit);
    let topic_id = brokers.topic_id();
    brokers.take(vec![MetadataRecord::RemoveTopic { topic_id }]);
    brokers.wait_for("id", TransactionState::CompleteCommit);
}

#[test]
fn markers_are_sent_again_until_the_broker_is_there_and_to_whoever_leads_by_then() {
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let mut producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    producer.produce_soon(&mut brokers.client_of_two, ("topic", 1), 0, "value");
    let nowhere = registration_at(TWO, false, ("PLAINTEXT", "127.0.0.1", 1));
    take(&brokers.one, vec![nowhere]);
    producer.end(&mut brokers.client_of_one, 5, true);
    std::thread::sleep(LOOK);
    assert_eq!(brokers.state("id"), TransactionState::PrepareCommit);
    brokers.introduce();
    brokers.wait_for("id", TransactionState::CompleteCommit);
    assert_eq!(brokers.committed_in_second(), ["value"]);

    // The one that is asked first does not lead any more.
    producer.produce_soon(&mut brokers.client_of_two, ("topic", 1), 0, "value");
    let mut change = PartitionChange::of(brokers.topic_id(), 1);
    change.leader = Some(ONE);
    change.replicas = Some(vec![ONE, TWO]);
    change.isr = Some(vec![ONE]);
    change.directories = Some(vec![metadata::UNASSIGNED_DIRECTORY; 2]);
    take(
        &brokers.two,
        vec![MetadataRecord::PartitionChange(change.clone())],
    );
    producer.end(&mut brokers.client_of_one, 5, true);
    std::thread::sleep(LOOK);
    assert_eq!(brokers.state("id"), TransactionState::PrepareCommit);
    take(&brokers.one, vec![MetadataRecord::PartitionChange(change)]);
    brokers.wait_for("id", TransactionState::CompleteCommit);
}

/// A broker that accepts connections and says nothing.
#[test]
fn whoever_leads_now_is_asked_though_the_one_before_has_not_answered() {
    let directory = trials::directory();
    // Longer than a test waits for anything.
    let mut brokers = Brokers::start_with(directory.path(), ONE, "600000");
    let mut producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    producer.produce_soon(&mut brokers.client_of_two, ("topic", 1), 0, "value");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let three = BrokerId(3);
    let records = vec![registration_at(
        three,
        false,
        ("PLAINTEXT", "127.0.0.1", port),
    )];
    take(&brokers.one, records);
    let mut change = PartitionChange::of(brokers.topic_id(), 1);
    change.leader = Some(three);
    take(
        &brokers.one,
        vec![MetadataRecord::PartitionChange(change.clone())],
    );
    let asked = std::thread::spawn(move || silent.accept().unwrap());
    producer.end(&mut brokers.client_of_one, 5, true);
    let silent = asked.join().unwrap();
    change.leader = Some(TWO);
    take(&brokers.one, vec![MetadataRecord::PartitionChange(change)]);
    brokers.wait_for("id", TransactionState::CompleteCommit);
    drop(silent);
}

#[test]
fn offsets_are_committed_in_a_group_of_the_other_broker() {
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), TWO);
    let mut producer = TransactionalProducer::init(&mut brokers.client_of_one, "id");
    brokers.client_of_two.wait_for_coordinator("group");
    let offset = |producer: &TransactionalProducer, offset| OffsetInTransaction {
        transactional_id: "id",
        producer: (producer.id, producer.epoch),
        group: "group",
        topic: "topic",
        offset,
    };
    for (committed, number, expected) in [(true, 1, 1), (false, 2, 1), (true, 3, 3)] {
        wait_until("the offset is taken", || {
            let client = &mut brokers.client_of_two;
            match client.commit_offset_in(5, &offset(&producer, number)) {
                ErrorCode::None => true,
                ErrorCode::ConcurrentTransactions => false,
                error => panic!("{error}"),
            }
        });
        producer.end(&mut brokers.client_of_one, 5, committed);
        wait_until("the group has its marker", || {
            let client = &mut brokers.client_of_two;
            client.try_committed_offset("group", "topic", 0) == Ok(expected)
        });
    }
}

/// A request as brokers send it, for several transactions.
#[test]
fn several_transactions_are_asked_about_at_once() {
    use wire::messages::add_partitions_to_txn_request::{
        AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
    };
    let directory = trials::directory();
    let mut brokers = Brokers::start(directory.path(), ONE);
    let client = &mut brokers.client_of_one;
    let producers = ["a", "b", "c"].map(|id| TransactionalProducer::init(client, id));
    let ask = |client: &mut Client, asked: &[(usize, bool)]| {
        let transactions = asked.iter().map(|(at, verify_only)| {
            let producer = &producers[*at];
            let topic = AddPartitionsToTxnTopic {
                name: "topic",
                partitions: vec![1, 0].into(),
            };
            AddPartitionsToTxnTransaction {
                transactional_id: &producer.transactional_id,
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                verify_only: *verify_only,
                topics: vec![topic].into(),
            }
        });
        let request = AddPartitionsToTxnRequest {
            transactions: transactions.collect(),
            ..Default::default()
        };
        let answer = client.call(5, &request);
        let response: AddPartitionsToTxnResponse<'_> = answer.read();
        let told = response.results_by_transaction.iter().map(|one| {
            let topic = one.topic_results.iter().next().unwrap();
            let partitions = topic.results_by_partition.iter();
            let mut partitions: Vec<_> = partitions
                .map(|one| (one.partition_index, one.partition_error_code))
                .collect();
            partitions.sort_unstable();
            let errors = partitions
                .iter()
                .map(|(_, error)| ErrorCode::from_code(*error));
            let errors: Vec<_> = errors.map(|error| error.name()).collect();
            format!("{} {}", one.transactional_id, errors.join(" "))
        });
        told.collect::<Vec<_>>()
    };
    let none = "NONE NONE";
    let told = ask(client, &[(0, false), (1, true), (2, false)]);
    let abortable = "TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE";
    let expected = [
        format!("a {none}"),
        format!("b {abortable}"),
        format!("c {none}"),
    ];
    assert_eq!(told, expected);
    let told = ask(client, &[(0, true), (2, true)]);
    assert_eq!(told, [format!("a {none}"), format!("c {none}")]);
}
