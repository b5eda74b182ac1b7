//! AddPartitionsToTxn to transaction coordinators on other brokers (KIP-890): partitions that are led here become
//! part of a transaction, or are asked whether they are.
//!
//! - One request to each broker at a time: what is asked about other transactions meanwhile goes in the next one.
//! - A request names a transaction once, as its answer tells them apart by their ids.
//! - Nothing is sent twice here: a broker that does not answer is NETWORK_EXCEPTION, and the producer asks again.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::broker_node;
use super::outbox::{Outbox, Sending};
use crate::coordinators::transaction_peers::{Outcomes, PartitionsToAdd};
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::settings::node::Node;
use connection::Error;
use model::{BrokerId, ErrorCode};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

/// Versions from this one on are those of brokers.
const BROKER_VERSION: i16 = 4;

/// More partitions go in the request after. A transaction with more goes alone.
const PARTITIONS_MAX: usize = 10_000;

/// Questions on their way to other brokers.
#[derive(Debug)]
pub(super) struct Verification {
    node: Arc<Node>,
    connections: Arc<PeerConnections>,
    outbox: Arc<Outbox<Asked>>,
    unsent: LogRateLimit,
}

/// Partitions of a transaction, and who waits for what becomes of them.
type Asked = (PartitionsToAdd, oneshot::Sender<Vec<ErrorCode>>);

impl Verification {
    pub(super) fn new(node: Arc<Node>, connections: Arc<PeerConnections>) -> Self {
        Self {
            node,
            connections,
            outbox: Arc::default(),
            unsent: LogRateLimit::once_a_minute(),
        }
    }

    /// Asks a broker, with the next request to it.
    pub(super) fn ask(self: &Arc<Self>, of: BrokerId, partitions: PartitionsToAdd) -> Outcomes {
        let (sender, outcomes) = Outcomes::new(partitions.partitions.len());
        if let Some(sending) = self.outbox.add(of, (partitions, sender)) {
            let verification = self.clone();
            self.node.runtime.spawn(verification.ask_all(sending));
        }
        outcomes
    }

    async fn ask_all(self: Arc<Self>, mut sending: Sending<Asked>) {
        while let Some(asked) = sending.next(fits) {
            let (transactions, senders): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            let outcomes = match self.call(sending.to(), &transactions).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    self.report(sending.to(), &error);
                    vec![Vec::new(); transactions.len()]
                }
            };
            for (sender, outcomes) in senders.into_iter().zip(outcomes) {
                // Whoever has asked may be gone.
                let _ = sender.send(outcomes);
            }
        }
    }

    async fn call(
        &self,
        of: BrokerId,
        transactions: &[PartitionsToAdd],
    ) -> Result<Vec<Vec<ErrorCode>>, Error> {
        let listener = &self.node.config.listeners.inter_broker;
        let Some(peer) = broker_node(&self.node.image(), of, listener) else {
            return Ok(refused(transactions, ErrorCode::CoordinatorNotAvailable));
        };
        let purpose = Purpose::Transactions;
        let deadline = self.connections.deadline(purpose);
        let connection = self.connections.connection(&peer, purpose, deadline);
        let connection = connection.await?;
        let version = connection.version_of(ApiKey::AddPartitionsToTxn)?;
        if version < BROKER_VERSION {
            return Ok(refused(transactions, ErrorCode::UnsupportedVersion));
        }
        let request = request(transactions);
        let called = connection.call_version(version, &request, deadline);
        let response = called.await?;
        let response: AddPartitionsToTxnResponse<'_> = response.read()?;
        Ok(outcomes(transactions, &response))
    }

    fn report(&self, of: BrokerId, error: &Error) {
        if let Some(not_logged) = self.unsent.due() {
            let broker = of.0;
            tracing::warn!(broker, %error, not_logged, "a transaction is not verified; its producer asks again");
        }
    }
}

/// Whether what is asked about a transaction goes in a request with others.
fn fits(taken: &[Asked], one: &Asked) -> bool {
    let counts = taken.iter().map(|(asked, _)| asked.partitions.len());
    let mut ids = taken.iter().map(|(asked, _)| &asked.transactional_id);
    counts.sum::<usize>() + one.0.partitions.len() <= PARTITIONS_MAX
        && ids.all(|taken| *taken != one.0.transactional_id)
}

fn refused(transactions: &[PartitionsToAdd], error: ErrorCode) -> Vec<Vec<ErrorCode>> {
    let transactions = transactions.iter();
    transactions
        .map(|one| vec![error; one.partitions.len()])
        .collect()
}

fn request(transactions: &[PartitionsToAdd]) -> AddPartitionsToTxnRequest<'_> {
    let transactions = transactions.iter().map(|one| {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for partition in &one.partitions {
            let indexes = topics.entry(&partition.topic).or_default();
            indexes.push(partition.partition);
        }
        let topics = topics.into_iter();
        let topics = topics.map(|(name, indexes)| AddPartitionsToTxnTopic {
            name,
            partitions: indexes.into(),
        });
        AddPartitionsToTxnTransaction {
            transactional_id: &one.transactional_id,
            producer_id: one.producer.producer_id.0,
            producer_epoch: one.producer.producer_epoch.0,
            verify_only: one.is_verify_only,
            topics: topics.collect(),
        }
    });
    AddPartitionsToTxnRequest {
        transactions: transactions.collect(),
        ..Default::default()
    }
}

/// The outcome of each partition of each transaction. A request that is refused as a whole has one outcome; what
/// an answer does not tell is unknown.
fn outcomes(
    transactions: &[PartitionsToAdd],
    response: &AddPartitionsToTxnResponse<'_>,
) -> Vec<Vec<ErrorCode>> {
    let error = ErrorCode::from_code(response.error_code);
    match error {
        ErrorCode::None => {}
        // Producers take it for a word about themselves.
        ErrorCode::ClusterAuthorizationFailed => {
            return refused(transactions, ErrorCode::InvalidTxnState);
        }
        error => return refused(transactions, error),
    }
    let mut told: BTreeMap<(&str, &str, i32), ErrorCode> = BTreeMap::new();
    for transaction in response.results_by_transaction.iter() {
        for topic in transaction.topic_results.iter() {
            for one in topic.results_by_partition.iter() {
                let id = transaction.transactional_id;
                let partition = (id, topic.name, one.partition_index);
                told.insert(partition, ErrorCode::from_code(one.partition_error_code));
            }
        }
    }
    let transactions = transactions.iter().map(|one| {
        let partitions = one.partitions.iter().map(|partition| {
            let id = &*one.transactional_id;
            let of_partition = told.get(&(id, &partition.topic, partition.partition));
            of_partition
                .copied()
                .unwrap_or(ErrorCode::UnknownServerError)
        });
        partitions.collect()
    });
    transactions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordinator::transaction::ProducerIdAndEpoch;
    use model::{Message, ProducerEpoch, ProducerId, Reader, TopicPartition};
    use wire::messages::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
    };

    fn partitions(id: &str, partitions: &[(&str, i32)]) -> PartitionsToAdd {
        let partitions = partitions.iter();
        PartitionsToAdd {
            transactional_id: id.into(),
            producer: ProducerIdAndEpoch {
                producer_id: ProducerId(5),
                producer_epoch: ProducerEpoch(3),
            },
            is_verify_only: id == "verified",
            partitions: partitions
                .map(|(topic, index)| TopicPartition::new(*topic, *index))
                .collect(),
        }
    }

    #[test]
    fn a_request_asks_about_several_transactions() {
        let asked = [
            partitions("verified", &[("b", 1), ("a", 0), ("b", 0)]),
            partitions("added", &[("a", 0)]),
        ];
        let mut bytes = Vec::new();
        request(&asked).write(BROKER_VERSION, &mut bytes);
        let mut reader = Reader::new(&bytes);
        let read = AddPartitionsToTxnRequest::read(&mut reader, BROKER_VERSION).unwrap();
        let told = read.transactions.iter().map(|one| {
            let topics = one.topics.iter().map(|topic| {
                let indexes: Vec<i32> = topic.partitions.iter().collect();
                format!("{}{indexes:?}", topic.name)
            });
            let topics: Vec<_> = topics.collect();
            format!(
                "{} {} {} {} {}",
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.verify_only,
                topics.join(" ")
            )
        });
        let expected = ["verified 5 3 true a[0] b[1, 0]", "added 5 3 false a[0]"];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_answer_tells_the_outcome_of_each_or_one_of_all() {
        let asked = [
            partitions("one", &[("b", 1), ("a", 0)]),
            partitions("two", &[("a", 0)]),
        ];
        let result = |partition_index, error: ErrorCode| AddPartitionsToTxnPartitionResult {
            partition_index,
            partition_error_code: error.code(),
        };
        let topic = |name, results: Vec<_>| AddPartitionsToTxnTopicResult {
            name,
            results_by_partition: results.into(),
        };
        let of_one = vec![topic("b", vec![result(1, ErrorCode::None)])];
        let of_two = vec![topic("a", vec![result(0, ErrorCode::TransactionAbortable)])];
        let transaction = |transactional_id, topics: Vec<_>| AddPartitionsToTxnResult {
            transactional_id,
            topic_results: topics.into(),
        };
        let mut response = AddPartitionsToTxnResponse {
            results_by_transaction: vec![transaction("one", of_one), transaction("two", of_two)]
                .into(),
            ..Default::default()
        };
        let expected = [
            vec![ErrorCode::None, ErrorCode::UnknownServerError],
            vec![ErrorCode::TransactionAbortable],
        ];
        assert_eq!(outcomes(&asked, &response), expected);
        for (of_all, expected) in [
            (
                ErrorCode::ClusterAuthorizationFailed,
                ErrorCode::InvalidTxnState,
            ),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            response.error_code = of_all.code();
            let expected = [vec![expected; 2], vec![expected]];
            assert_eq!(outcomes(&asked, &response), expected);
        }
    }

    #[test]
    fn a_request_names_a_transaction_once_and_its_partitions_are_bounded() {
        let asked = |id: &str, count: usize| {
            let (sender, _) = Outcomes::new(count);
            (partitions(id, &vec![("a", 0); count]), sender)
        };
        let taken = [asked("one", 1), asked("two", PARTITIONS_MAX - 2)];
        assert!(fits(&taken, &asked("three", 1)));
        assert!(!fits(&taken, &asked("three", 2)));
        assert!(!fits(&taken, &asked("one", 1)));
    }
}
