//! A producer of transactions that says what the test tells it to, in any version.

use super::records::Produced;
use crate::batches::transactional_batch;
use crate::{Client, wait_until};
use model::ErrorCode;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
};

/// The first version of Produce that enrols partitions.
const ENROLLING_VERSION: i16 = 12;
/// FindCoordinator's key type of transactional ids.
const TRANSACTION: i8 = 1;

/// A producer in its protocol: with version 2 partitions join by being written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionalProducer {
    /// Its transactional id.
    pub transactional_id: String,
    /// Its producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

impl TransactionalProducer {
    /// Asks until the coordinator has given it an epoch.
    #[track_caller]
    pub fn init(client: &mut Client, transactional_id: &str) -> Self {
        let find = FindCoordinatorRequest {
            key_type: TRANSACTION,
            key: transactional_id,
            ..FindCoordinatorRequest::default()
        };
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id),
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        };
        let mut producer = None;
        wait_until("the producer has its epoch", || {
            let answer = client.call(3, &find);
            let response: FindCoordinatorResponse<'_> = answer.read();
            if response.error_code != 0 {
                return false;
            }
            let answer = client.call(4, &request);
            let response: InitProducerIdResponse = answer.read();
            producer = (response.error_code == 0).then_some(Self {
                transactional_id: transactional_id.to_owned(),
                id: response.producer_id,
                epoch: response.producer_epoch,
            });
            producer.is_some()
        });
        producer.unwrap()
    }

    /// Adds partition 0 of a topic to the transaction.
    #[track_caller]
    pub fn add(&self, client: &mut Client, topic: &str) -> ErrorCode {
        let topic = AddPartitionsToTxnTopic {
            name: topic,
            partitions: vec![0].into(),
        };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: &self.transactional_id,
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![topic].into(),
            ..AddPartitionsToTxnRequest::default()
        };
        let answer = client.call(3, &request);
        let response: AddPartitionsToTxnResponse<'_> = answer.read();
        let topic = response.results_by_topic_v3_and_below.iter().next();
        let topic = topic.expect("one topic");
        let partition = topic
            .results_by_partition
            .iter()
            .next()
            .expect("one partition");
        ErrorCode::from_code(partition.partition_error_code)
    }

    /// Ends the transaction; with version 5 the producer goes on with the next epoch.
    #[track_caller]
    pub fn end(&mut self, client: &mut Client, version: i16, committed: bool) {
        wait_until("the transaction ends", || {
            match self.try_end(client, version, committed) {
                ErrorCode::None => true,
                ErrorCode::ConcurrentTransactions
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::NotCoordinator => false,
                error => panic!("{error}"),
            }
        });
    }

    /// Asks once for the end.
    #[track_caller]
    pub fn try_end(&mut self, client: &mut Client, version: i16, committed: bool) -> ErrorCode {
        let request = EndTxnRequest {
            transactional_id: &self.transactional_id,
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        };
        let answer = client.call(version, &request);
        let response: EndTxnResponse = answer.read();
        if version >= 5 && response.error_code == 0 {
            (self.id, self.epoch) = (response.producer_id, response.producer_epoch);
        }
        ErrorCode::from_code(response.error_code)
    }

    /// Produces a record in the transaction.
    #[track_caller]
    pub fn produce(
        &self,
        client: &mut Client,
        version: i16,
        to: (&str, i32),
        sequence: i32,
        value: &str,
    ) -> Produced {
        let batch = transactional_batch(self.id, self.epoch, sequence, &[value]);
        client.produce_in(version, &self.transactional_id, to, &batch)
    }

    /// Produces as soon as the end of the last transaction is complete; returns the offset.
    #[track_caller]
    pub fn produce_soon(
        &self,
        client: &mut Client,
        to: (&str, i32),
        sequence: i32,
        value: &str,
    ) -> i64 {
        let mut offset = -1;
        wait_until("the batch is taken", || {
            let produced = self.produce(client, ENROLLING_VERSION, to, sequence, value);
            offset = produced.base_offset;
            match produced.error {
                ErrorCode::None => true,
                ErrorCode::ConcurrentTransactions | ErrorCode::NotEnoughReplicas => false,
                error => panic!("{value}: {error}"),
            }
        });
        offset
    }
}
