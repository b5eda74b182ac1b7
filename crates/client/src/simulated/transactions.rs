//! The coordinator of transactional ids, by either protocol: the producer enrols partitions, or their
//! leaders do and each end raises the epoch (KIP-890). It keeps the offsets of transactions, too.

use super::cluster::{Call, Outcome};
use super::logs::Logs;
use model::{ErrorCode, ProducerEpoch, ProducerId, TopicPartition};
use record::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

/// One transactional id.
#[derive(Debug, Default)]
struct Transaction {
    id: i64,
    epoch: i16,
    /// The epoch of whoever may repeat a request for this one; -1 for nobody.
    last_epoch: i16,
    partitions: BTreeSet<(String, i32)>,
    has_group: bool,
    /// What is committed with the transaction.
    offsets: BTreeMap<TopicPartition, i64>,
    last_end: Option<bool>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    next_id: i64,
    /// Whether leaders enrol partitions.
    pub(crate) is_implicit: bool,
    /// Every end, in order.
    pub(crate) ends: Vec<bool>,
    /// The offsets that committed transactions have left.
    pub(crate) offsets: BTreeMap<TopicPartition, i64>,
}

impl Transactions {
    /// Why a transactional batch is refused.
    pub(super) fn check(
        &mut self,
        id: Option<&str>,
        place: (&str, i32),
        bytes: &[u8],
    ) -> Option<ErrorCode> {
        let transaction = self.by_id.get_mut(id?)?;
        let place = (place.0.to_owned(), place.1);
        if !self.is_implicit {
            let is_enrolled = transaction.partitions.contains(&place);
            return (!is_enrolled).then_some(ErrorCode::InvalidTxnState);
        }
        let (batch, _) = RecordBatch::parse(bytes).expect("a batch");
        if (batch.producer_id(), batch.producer_epoch())
            != (ProducerId(transaction.id), ProducerEpoch(transaction.epoch))
        {
            return Some(ErrorCode::InvalidProducerEpoch);
        }
        transaction.last_end = None;
        transaction.partitions.insert(place);
        None
    }

    pub(super) fn serve(&mut self, call: &Call<'_>, logs: &mut Logs) -> Outcome {
        match call.api {
            ApiKey::InitProducerId => self.init(call, logs),
            ApiKey::AddPartitionsToTxn => self.enrol(call),
            ApiKey::AddOffsetsToTxn => self.enrol_group(call),
            ApiKey::TxnOffsetCommit => self.commit_offsets(call),
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
                last_epoch: -1,
                ..Transaction::default()
            };
            self.by_id.insert(id.to_owned(), transaction);
        }
        let transaction = self.by_id.get_mut(id).expect("it was just made");
        let raised = transaction.raise(request.producer_epoch, logs);
        let (producer_id, producer_epoch) = raised.unwrap_or((-1, -1));
        call.answer(&InitProducerIdResponse {
            error_code: raised.err().map_or(0, ErrorCode::code),
            producer_id,
            producer_epoch,
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

    fn enrol_group(&mut self, call: &Call<'_>) -> Outcome {
        let request: AddOffsetsToTxnRequest<'_> = call.read();
        let producer = (request.producer_id, request.producer_epoch);
        let enrolled = self.of(request.transactional_id, producer);
        let enrolled = enrolled.map(|transaction| {
            transaction.last_end = None;
            transaction.has_group = true;
        });
        call.answer(&AddOffsetsToTxnResponse {
            error_code: enrolled.err().map_or(0, ErrorCode::code),
            ..AddOffsetsToTxnResponse::default()
        })
    }

    fn commit_offsets(&mut self, call: &Call<'_>) -> Outcome {
        let request: TxnOffsetCommitRequest<'_> = call.read();
        let producer = (request.producer_id, request.producer_epoch);
        let is_implicit = self.is_implicit;
        let topics: Vec<_> = request.topics.iter().collect();
        let kept = self.of(request.transactional_id, producer);
        let kept = kept.and_then(|transaction| {
            if is_implicit {
                transaction.last_end = None;
                transaction.has_group = true;
            } else if !transaction.has_group {
                return Err(ErrorCode::InvalidTxnState);
            }
            for topic in &topics {
                let offsets = topic.partitions.iter().map(|one| {
                    let place = TopicPartition::new(topic.name, one.partition_index);
                    (place, one.committed_offset)
                });
                transaction.offsets.extend(offsets);
            }
            Ok(())
        });
        let code = kept.err().map_or(0, ErrorCode::code);
        let topics = topics.iter().map(|topic| TxnOffsetCommitResponseTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|one| TxnOffsetCommitResponsePartition {
                    partition_index: one.partition_index,
                    error_code: code,
                })
                .collect(),
        });
        call.answer(&TxnOffsetCommitResponse {
            topics: topics.collect(),
            ..TxnOffsetCommitResponse::default()
        })
    }

    fn end(&mut self, call: &Call<'_>, logs: &mut Logs) -> Outcome {
        let request: EndTxnRequest<'_> = call.read();
        let producer = (request.producer_id, request.producer_epoch);
        let commits = request.committed;
        let ended = match self.is_implicit {
            true => self.end_and_raise(request.transactional_id, producer, commits, logs),
            false => self.end_alone(request.transactional_id, producer, commits, logs),
        };
        let (producer_id, producer_epoch) = match ended {
            Ok(next) if self.is_implicit => next,
            _ => (-1, -1),
        };
        call.answer(&EndTxnResponse {
            error_code: ended.err().map_or(0, ErrorCode::code),
            producer_id,
            producer_epoch,
            ..EndTxnResponse::default()
        })
    }

    fn end_alone(
        &mut self,
        id: &str,
        producer: (i64, i16),
        commits: bool,
        logs: &mut Logs,
    ) -> Result<(i64, i16), ErrorCode> {
        let transaction = self.of(id, producer)?;
        if !transaction.is_ongoing() && transaction.last_end != Some(commits) {
            return Err(ErrorCode::InvalidTxnState);
        }
        if transaction.is_ongoing() {
            let offsets = transaction.finish(commits, logs);
            transaction.last_end = Some(commits);
            self.offsets.extend(offsets);
            self.ends.push(commits);
        }
        Ok(producer)
    }

    fn end_and_raise(
        &mut self,
        id: &str,
        producer: (i64, i16),
        commits: bool,
        logs: &mut Logs,
    ) -> Result<(i64, i16), ErrorCode> {
        let transaction = self.by_id.get_mut(id);
        let transaction = transaction.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let next = (transaction.id, transaction.epoch);
        // The answer to the same request was lost.
        if producer == (next.0, next.1 - 1) && transaction.last_end == Some(commits) {
            return Ok(next);
        }
        if producer != next {
            return Err(ErrorCode::ProducerFenced);
        }
        if !transaction.is_ongoing() && commits {
            return Err(ErrorCode::InvalidTxnState);
        }
        let is_ongoing = transaction.is_ongoing();
        transaction.last_epoch = transaction.epoch;
        transaction.epoch += 1;
        let offsets = transaction.finish(commits, logs);
        transaction.last_end = Some(commits);
        self.offsets.extend(offsets);
        if is_ongoing {
            self.ends.push(commits);
        }
        Ok((producer.0, producer.1 + 1))
    }
}

impl Transaction {
    fn is_ongoing(&self) -> bool {
        !self.partitions.is_empty() || self.has_group
    }

    /// Another epoch for a producer of this one; for a new producer it is -1. What is open is aborted
    /// first, under an epoch of nobody's, which fences whoever asks with its own.
    fn raise(&mut self, expected: i16, logs: &mut Logs) -> Result<(i64, i16), ErrorCode> {
        if expected >= 0 && expected != self.epoch && expected != self.last_epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.is_ongoing() {
            self.epoch += 1;
            self.last_epoch = -1;
            let _ = self.finish(false, logs);
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let is_repeated = expected >= 0 && expected == self.last_epoch;
        if !is_repeated {
            self.last_epoch = expected;
            self.epoch += 1;
        }
        self.last_end = None;
        Ok((self.id, self.epoch))
    }

    /// Writes the markers; what they commit of offsets.
    fn finish(&mut self, commits: bool, logs: &mut Logs) -> BTreeMap<TopicPartition, i64> {
        for (topic, index) in std::mem::take(&mut self.partitions) {
            logs.log(&topic, index).mark((self.id, self.epoch), commits);
        }
        self.has_group = false;
        let offsets = std::mem::take(&mut self.offsets);
        if commits { offsets } else { BTreeMap::new() }
    }
}
