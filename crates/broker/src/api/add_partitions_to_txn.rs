//! AddPartitionsToTxn: v0–5. Partitions become part of transactions, or are asked whether they are
//! (KIP-98, KIP-890).
//!
//! - Versions up to 3 are those of clients, with one transaction. Later ones are those of brokers,
//!   with many; they may only verify, and what is not in the transaction is TRANSACTION_ABORTABLE.
//! - One partition that does not exist refuses its transaction: the others are
//!   OPERATION_NOT_ATTEMPTED.
//! - Versions before 2 do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH (KIP-588).

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::api::error_codes::fencing_error;
use crate::coordinators::runtime::PendingResponse;
use crate::net::ResponseBuffer;
use coordinator::transaction::{AddPartitions, ProducerIdAndEpoch};
use metadata::MetadataImage;
use model::{Array, DecodeError, ErrorCode, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTransaction;
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

/// From this version on the request comes from brokers.
const BROKER_VERSION: i16 = 4;

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AddPartitionsToTxnRequest<'_> = request.decode()?;
    let response = match request.version {
        BROKER_VERSION.. => {
            // All of them are asked for before the first is waited for.
            let mut asked = Vec::with_capacity(message.transactions.len());
            let mut turn = Turn::begin();
            for transaction in message.transactions.iter() {
                let begun = ask(broker, &transaction, request.version).await;
                asked.push((transaction.transactional_id, begun));
                turn.share().await;
            }
            let mut results = Vec::with_capacity(asked.len());
            for (transactional_id, asked) in asked {
                results.push(AddPartitionsToTxnResult {
                    transactional_id,
                    topic_results: asked.results(request.version).await,
                });
            }
            AddPartitionsToTxnResponse {
                results_by_transaction: results.into(),
                ..Default::default()
            }
        }
        _ => {
            let transaction = AddPartitionsToTxnTransaction {
                transactional_id: message.v3_and_below_transactional_id,
                producer_id: message.v3_and_below_producer_id,
                producer_epoch: message.v3_and_below_producer_epoch,
                verify_only: false,
                topics: message.v3_and_below_topics,
            };
            AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below: ask(broker, &transaction, request.version)
                    .await
                    .results(request.version)
                    .await,
                ..Default::default()
            }
        }
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The partitions of a transaction that the coordinator has been asked about.
struct VerifiedPartitions<'f> {
    /// As the request names them.
    named: Vec<(&'f str, Vec<i32>)>,
    each_once: BTreeMap<&'f str, BTreeSet<i32>>,
    outcome: Outcome,
}

/// The answer to expect.
enum Outcome {
    /// Those of the partitions, without a question.
    Refused(Vec<ErrorCode>),
    Verified(Result<PendingResponse<Result<Vec<ErrorCode>, ErrorCode>>, ErrorCode>),
    Added(Result<PendingResponse<ErrorCode>, ErrorCode>),
}

async fn ask<'f>(
    broker: &Broker,
    transaction: &AddPartitionsToTxnTransaction<'f>,
    version: i16,
) -> VerifiedPartitions<'f> {
    let topics = transaction.topics.iter();
    let named: Vec<(&'f str, Vec<i32>)> = topics
        .map(|topic| (topic.name, topic.partitions.iter().collect()))
        .collect();
    let mut each_once: BTreeMap<&'f str, BTreeSet<i32>> = BTreeMap::new();
    for (name, indexes) in named.iter().filter(|(_, indexes)| !indexes.is_empty()) {
        each_once.entry(name).or_default().extend(indexes);
    }
    if let Some(refused) = unknown_partitions(&broker.node.image(), &each_once) {
        return VerifiedPartitions {
            named,
            each_once,
            outcome: Outcome::Refused(refused),
        };
    }
    let partitions = each_once.iter().flat_map(|(topic, indexes)| {
        let indexes = indexes.iter();
        indexes.map(|index| TopicPartition::new(*topic, *index))
    });
    let partitions: Vec<_> = partitions.collect();
    let request = AddPartitions {
        transactional_id: transaction.transactional_id,
        producer: ProducerIdAndEpoch {
            producer_id: ProducerId(transaction.producer_id),
            producer_epoch: ProducerEpoch(transaction.producer_epoch),
        },
        partitions: &partitions,
        client_transaction_version: if version >= BROKER_VERSION { 2 } else { 0 },
    };
    let transactions = &broker.coordinators.transactions;
    let outcome = match transaction.verify_only {
        true => Outcome::Verified(transactions.begin_to_verify(&request).await),
        false => Outcome::Added(transactions.begin_to_add(&request).await),
    };
    VerifiedPartitions {
        named,
        each_once,
        outcome,
    }
}

impl<'f> VerifiedPartitions<'f> {
    /// The outcome of each partition: as the request names them when one answer holds for all,
    /// otherwise each once.
    async fn results(self, version: i16) -> Array<'f, AddPartitionsToTxnTopicResult<'f>> {
        let count = self.each_once.values().map(BTreeSet::len).sum();
        let outcomes = match self.outcome {
            Outcome::Refused(refused) => refused,
            Outcome::Verified(asked) => {
                let verified = match asked {
                    Ok(asked) => asked.answer().await.and_then(|verified| verified),
                    Err(error) => Err(error),
                };
                verified.unwrap_or_else(|error| vec![error; count])
            }
            Outcome::Added(asked) => {
                let added = match asked {
                    Ok(asked) => asked.answer().await.unwrap_or_else(|error| error),
                    Err(error) => error,
                };
                let error = fencing_error(added, version >= 2);
                let results = self.named.into_iter().map(|(name, indexes)| {
                    topic_result(name, indexes.into_iter().map(|index| (index, error)))
                });
                return results.collect();
            }
        };
        let mut outcomes = outcomes.into_iter();
        let results = self.each_once.into_iter().map(|(name, indexes)| {
            let unknown = ErrorCode::UnknownServerError;
            let indexes = indexes.into_iter();
            topic_result(
                name,
                indexes.map(|index| (index, outcomes.next().unwrap_or(unknown))),
            )
        });
        results.collect()
    }
}

fn topic_result<'f>(
    name: &'f str,
    outcomes: impl Iterator<Item = (i32, ErrorCode)>,
) -> AddPartitionsToTxnTopicResult<'f> {
    let results = outcomes.map(
        |(partition_index, error)| AddPartitionsToTxnPartitionResult {
            partition_index,
            partition_error_code: error.code(),
        },
    );
    AddPartitionsToTxnTopicResult {
        name,
        results_by_partition: results.collect(),
    }
}

/// The outcomes when a partition does not exist: nothing is added then, and none of them gets a copy of its topic's
/// name, which may be as long as the request.
fn unknown_partitions(
    image: &MetadataImage,
    partitions: &BTreeMap<&str, BTreeSet<i32>>,
) -> Option<Vec<ErrorCode>> {
    let mut outcomes = Vec::new();
    for (name, indexes) in partitions {
        let topic = image.topics.by_name(name);
        let exists = |index: &i32| topic.is_some_and(|topic| topic.partition(*index).is_some());
        outcomes.extend(indexes.iter().map(|index| match exists(index) {
            true => ErrorCode::OperationNotAttempted,
            false => ErrorCode::UnknownTopicOrPartition,
        }));
    }
    let is_refused = outcomes.contains(&ErrorCode::UnknownTopicOrPartition);
    is_refused.then_some(outcomes)
}
