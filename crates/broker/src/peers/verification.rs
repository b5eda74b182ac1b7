//! AddPartitionsToTxn to transaction coordinators on other brokers (KIP-890): partitions that are led here become
//! part of a transaction, or are asked whether they are.
//!
//! A request names a transaction once, as its answer tells them apart by their ids. Where a broker does not answer
//! the producer asks again.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::PeerNode;
use super::questions::{AllOutcomes, AnsweredErrors, Question, by_topic, refused};
use connection::Error;
use coordinator::transaction::PartitionsToAdd;
use model::{BrokerId, ErrorCode, TopicPartition};
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

/// Versions from this one on are those of brokers.
const BROKER_VERSION: i16 = 4;

impl Question for PartitionsToAdd {
    type Key = Box<str>;

    const WITHOUT_BROKER: Option<ErrorCode> = Some(ErrorCode::CoordinatorNotAvailable);

    fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    fn key(&self) -> Box<str> {
        self.answer_key().into()
    }

    async fn call(
        connections: &PeerConnections,
        broker: &PeerNode,
        questions: &[Self],
    ) -> Result<AllOutcomes, Error> {
        let purpose = Purpose::Transactions;
        let deadline = connections.deadline(purpose);
        let connection = connections.connection(broker, purpose, deadline).await?;
        let version = connection.version_of(ApiKey::AddPartitionsToTxn)?;
        if version < BROKER_VERSION {
            return Ok(refused(questions, ErrorCode::UnsupportedVersion));
        }
        let request = request(questions);
        let called = connection.call_version(version, &request, deadline);
        let response = called.await?;
        let response: AddPartitionsToTxnResponse<'_> = response.read()?;
        Ok(outcomes(questions, &response))
    }

    fn log_unanswered(broker: BrokerId, error: &Error, not_logged: u64) {
        let broker = broker.0;
        tracing::warn!(broker, %error, not_logged, "a transaction is not verified; its producer asks again");
    }
}

fn request(transactions: &[PartitionsToAdd]) -> AddPartitionsToTxnRequest<'_> {
    let transactions = transactions.iter().map(|one| {
        let topics = by_topic(&one.partitions).into_iter();
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
) -> AllOutcomes {
    let error = ErrorCode::from_code(response.error_code);
    match error {
        ErrorCode::None => {}
        // Producers take it for a word about themselves.
        ErrorCode::ClusterAuthorizationFailed => {
            return refused(transactions, ErrorCode::InvalidTxnState);
        }
        error => return refused(transactions, error),
    }
    let mut told = AnsweredErrors::default();
    for transaction in response.results_by_transaction.iter() {
        for topic in transaction.topic_results.iter() {
            for one in topic.results_by_partition.iter() {
                let id = transaction.transactional_id;
                told.add(
                    id,
                    topic.name,
                    one.partition_index,
                    one.partition_error_code,
                );
            }
        }
    }
    told.outcomes(transactions, |one| &one.transactional_id)
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
    fn a_request_names_a_transaction_once() {
        let of = |id| partitions(id, &[("a", 0)]);
        assert_eq!(of("one").key(), of("one").key());
        assert_ne!(of("one").key(), of("two").key());
    }
}
