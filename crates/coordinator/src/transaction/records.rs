//! The records of `__transaction_state`: keys and values to and from bytes.
//!
//! A key is the number of its type and then the transactional id, a value is its version and then
//! its fields. Kafka 4.3 writes version 1 from level 1 of the feature `transaction.version` on,
//! version 0 before.

use super::TransactionState;
use super::transaction::{Partitions, Transaction};
use crate::CoordinatorRecord;
use crate::messages::transaction_log_value::PartitionsSchema;
use crate::messages::{TransactionLogKey, TransactionLogValue};
use model::{DecodeError, Message, ProducerEpoch, ProducerId, Reader};
use std::sync::Arc;

/// A record is damaged, or of a version to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The key is not one of its type. Nothing changed.
    #[error("the key of a transaction record is damaged: {0}")]
    Key(DecodeError),
    /// The value is damaged. Its transactional id is forgotten: to end its transaction the way
    /// that an older record says could contradict what the producer was told.
    #[error("the value of a transaction record is damaged: {0}")]
    Value(DecodeError),
    /// The value has a version that nobody writes yet. Its transactional id is forgotten.
    #[error("transaction records of version {0} are not known")]
    Version(i16),
    /// The value has a state that is in nobody's log. Its transactional id is forgotten.
    #[error("a transaction record has the unknown state {0}")]
    State(i8),
}

/// A record of the log, as far as the coordinator knows its type.
#[derive(Debug, PartialEq)]
pub(super) enum TransactionRecord<'a> {
    /// How a transactional id stands, or that it is forgotten.
    Transaction {
        transactional_id: &'a str,
        stored: Result<Option<Transaction>, ReplayError>,
    },
    /// Written by a later version.
    Unknown,
}

/// Reads a record.
pub(super) fn parse<'a>(
    key: &'a [u8],
    value: Option<&'a [u8]>,
) -> Result<TransactionRecord<'a>, ReplayError> {
    let mut reader = Reader::new(key);
    if reader.i16().map_err(ReplayError::Key)? != TransactionLogKey::ID {
        return Ok(TransactionRecord::Unknown);
    }
    let key = TransactionLogKey::read(&mut reader, 0).map_err(ReplayError::Key)?;
    Ok(TransactionRecord::Transaction {
        transactional_id: key.transactional_id,
        stored: value.map(parse_value).transpose(),
    })
}

fn parse_value(value: &[u8]) -> Result<Transaction, ReplayError> {
    let mut reader = Reader::new(value);
    let version = reader.i16().map_err(ReplayError::Value)?;
    if !(0..=1).contains(&version) {
        return Err(ReplayError::Version(version));
    }
    let value = TransactionLogValue::read(&mut reader, version).map_err(ReplayError::Value)?;
    let status = value.transaction_status;
    let state = TransactionState::from_id(status).ok_or(ReplayError::State(status))?;
    let mut partitions = Partitions::new();
    for topic in value
        .transaction_partitions
        .iter()
        .flat_map(|all| all.iter())
    {
        partitions
            .entry(Arc::from(topic.topic))
            .or_default()
            .extend(topic.partition_ids.iter());
    }
    Ok(Transaction {
        producer_id: ProducerId(value.producer_id),
        producer_epoch: ProducerEpoch(value.producer_epoch),
        previous_producer_id: ProducerId(value.previous_producer_id),
        next_producer_id: ProducerId(value.next_producer_id),
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions,
        start_timestamp_ms: value.transaction_start_timestamp_ms,
        last_update_timestamp_ms: value.transaction_last_update_timestamp_ms,
        client_transaction_version: value.client_transaction_version,
    })
}

/// The record of how a transactional id stands, at this level of `transaction.version`.
pub(super) fn transaction(
    transactional_id: &str,
    transaction: &Transaction,
    transaction_version: i16,
) -> CoordinatorRecord {
    let topics = transaction.partitions.iter();
    let topics: Vec<_> = topics
        .map(|(topic, partitions)| PartitionsSchema {
            topic,
            partition_ids: partitions.iter().copied().collect(),
        })
        .collect();
    let has_partitions = transaction.state != TransactionState::Empty;
    let value = TransactionLogValue {
        producer_id: transaction.producer_id.0,
        previous_producer_id: transaction.previous_producer_id.0,
        next_producer_id: transaction.next_producer_id.0,
        producer_epoch: transaction.producer_epoch.0,
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state.id(),
        transaction_partitions: has_partitions.then(|| topics.into()),
        transaction_last_update_timestamp_ms: transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms: transaction.start_timestamp_ms,
        client_transaction_version: transaction.client_transaction_version,
        ..Default::default()
    };
    let version = i16::from(transaction_version >= 1);
    CoordinatorRecord {
        key: key(transactional_id),
        value: Some(prefixed(version, &value, version)),
    }
}

/// The record that forgets a transactional id.
pub(super) fn tombstone(transactional_id: &str) -> CoordinatorRecord {
    CoordinatorRecord {
        key: key(transactional_id),
        value: None,
    }
}

fn key(transactional_id: &str) -> Vec<u8> {
    let key = TransactionLogKey { transactional_id };
    prefixed(TransactionLogKey::ID, &key, 0)
}

/// A number of two bytes and then the message.
fn prefixed<'a>(number: i16, message: &impl Message<'a>, version: i16) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + message.size(version));
    out.extend_from_slice(&number.to_be_bytes());
    message.write(version, &mut out);
    out
}
