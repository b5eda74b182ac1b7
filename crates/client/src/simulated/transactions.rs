//! The coordinator of transactional ids, by the protocol in which the producer enrols partitions.

use super::cluster::{Call, Outcome};
use super::logs::Logs;
use model::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    InitProducerIdRequest, InitProducerIdResponse,
};

/// One transactional id.
#[derive(Debug, Default)]
struct Transaction {
    id: i64,
    epoch: i16,
    partitions: BTreeSet<(String, i32)>,
    last_end: Option<bool>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    next_id: i64,
    /// Every end, in order.
    pub(crate) ends: Vec<bool>,
}

impl Transactions {
    /// Why a transactional batch is refused.
    pub(super) fn check(&self, id: Option<&str>, topic: &str, index: i32) -> Option<ErrorCode> {
        let transaction = self.by_id.get(id?)?;
        let is_enrolled = transaction.partitions.contains(&(topic.to_owned(), index));
        (!is_enrolled).then_some(ErrorCode::InvalidTxnState)
    }

    pub(super) fn serve(&mut self, call: &Call<'_>, logs: &mut Logs) -> Outcome {
        match call.api {
            ApiKey::InitProducerId => self.init(call, logs),
            ApiKey::AddPartitionsToTxn => self.enrol(call),
            ApiKey::EndTxn => self.end(call, logs),
            api => panic!("{api:?} is not simulated"),
        }
    }

    fn init(&mut self, call: &Call<'_>, logs: &mut Logs) -> Outcome {
        let request: InitProducerIdRequest<'_> = call.read();
        if let Some(code) = call.refusal {
            return call.answer(&InitProducerIdResponse {
                error_code: code.code(),
                ..InitProducerIdResponse::default()
            });
        }
        let Some(id) = request.transactional_id else {
            self.next_id += 1;
            return call.answer(&InitProducerIdResponse {
                producer_id: self.next_id,
                ..InitProducerIdResponse::default()
            });
        };
        if !self.by_id.contains_key(id) {
            self.next_id += 1;
            let transaction = Transaction {
                id: self.next_id,
                epoch: -1,
                ..Transaction::default()
            };
            self.by_id.insert(id.to_owned(), transaction);
        }
        let transaction = self.by_id.get_mut(id).expect("it was just made");
        transaction.epoch += 1;
        transaction.finish(false, logs);
        transaction.last_end = None;
        call.answer(&InitProducerIdResponse {
            producer_id: transaction.id,
            producer_epoch: transaction.epoch,
            ..InitProducerIdResponse::default()
        })
    }

    fn of(&mut self, id: &str, producer: (i64, i16)) -> Result<&mut Transaction, ErrorCode> {
        let transaction = self.by_id.get_mut(id);
        let transaction = transaction.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        match (transaction.id, transaction.epoch) == producer {
            true => Ok(transaction),
            false => Err(ErrorCode::ProducerFenced),
        }
    }

    fn enrol(&mut self, call: &Call<'_>) -> Outcome {
        let request: AddPartitionsToTxnRequest<'_> = call.read();
        let id = request.v3_and_below_transactional_id;
        let producer = (
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        );
        let topics: Vec<_> = request.v3_and_below_topics.iter().collect();
        let code = self.of(id, producer).map(|transaction| {
            transaction.last_end = None;
            for topic in &topics {
                let partitions = topic.partitions.iter();
                let names = partitions.map(|index| (topic.name.to_owned(), index));
                transaction.partitions.extend(names);
            }
        });
        let code = code.err().map_or(0, ErrorCode::code);
        let results = topics.iter().map(|topic| AddPartitionsToTxnTopicResult {
            name: topic.name,
            results_by_partition: topic
                .partitions
                .iter()
                .map(|index| AddPartitionsToTxnPartitionResult {
                    partition_index: index,
                    partition_error_code: code,
                })
                .collect(),
        });
        call.answer(&AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: results.collect(),
            ..AddPartitionsToTxnResponse::default()
        })
    }

    fn end(&mut self, call: &Call<'_>, logs: &mut Logs) -> Outcome {
        let request: EndTxnRequest<'_> = call.read();
        let producer = (request.producer_id, request.producer_epoch);
        let commits = request.committed;
        let ended = self
            .of(request.transactional_id, producer)
            .and_then(|transaction| {
                if transaction.partitions.is_empty() && transaction.last_end != Some(commits) {
                    return Err(ErrorCode::InvalidTxnState);
                }
                let is_first = !transaction.partitions.is_empty();
                transaction.finish(commits, logs);
                transaction.last_end = Some(commits);
                Ok(is_first)
            });
        if ended == Ok(true) {
            self.ends.push(commits);
        }
        call.answer(&EndTxnResponse {
            error_code: ended.err().map_or(0, ErrorCode::code),
            ..EndTxnResponse::default()
        })
    }
}

impl Transaction {
    fn finish(&mut self, commits: bool, logs: &mut Logs) {
        for (topic, index) in std::mem::take(&mut self.partitions) {
            logs.log(&topic, index).mark((self.id, self.epoch), commits);
        }
    }
}
