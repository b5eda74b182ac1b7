//! Control records: what leaders and coordinators write into a log between its records.
//!
//! ```text
//! key:   i16 version 0 | i16 kind
//! value: of ABORT and COMMIT: i16 version 0 | i32 coordinator epoch
//!        of the others: a message of the quorum's protocol, which this crate passes on as bytes
//! ```
//!
//! Readers accept later versions, of which they know the beginning, and skip unknown kinds.

use model::{Offset, ProducerEpoch, ProducerId};
use thiserror::Error;

use crate::batch_builder::{BatchBuilder, BatchHeader};
use crate::batch_layout::NO_SEQUENCE;
use crate::compression::Compression;
use crate::record::Record;
use crate::validated_batch::ValidatedBatch;

const VERSION: [u8; 2] = 0i16.to_be_bytes();

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecordKind {
    /// A transaction of the batch's producer ends and its records do not count.
    Abort,
    /// A transaction of the batch's producer ends and its records count.
    Commit,
    /// The quorum has a new leader; first record of its epoch.
    LeaderChange,
    /// First record of a snapshot.
    SnapshotHeader,
    /// Last record of a snapshot.
    SnapshotFooter,
    /// The version of the quorum's protocol.
    KRaftVersion,
    /// The set of voters.
    KRaftVoters,
    /// A kind of a later version, to be skipped.
    Unknown(i16),
}

impl ControlRecordKind {
    /// The number in the key.
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// The kind of a number.
    pub const fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            id => Self::Unknown(id),
        }
    }

    /// The key of such a record.
    pub const fn key(self) -> [u8; 4] {
        let [high, low] = self.id().to_be_bytes();
        [VERSION[0], VERSION[1], high, low]
    }
}

/// Why a record of a control batch is not a control record.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidControlRecord {
    /// The key is missing, too short, or of a negative version.
    #[error("control record has no valid key")]
    Key,
    /// The value of a transaction marker is missing, too short, or of a negative version.
    #[error("transaction marker has no valid value")]
    Value,
}

/// Whether a transaction's records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionResult {
    /// They do not.
    Abort,
    /// They do.
    Commit,
}

/// The end of a transaction of the batch's producer in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// How the transaction ends.
    pub result: TransactionResult,
    /// Epoch of the transaction coordinator that decided it, which fences older ones.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Parses the value of an `Abort` or a `Commit`.
    fn parse(result: TransactionResult, value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first_chunk()?;
        if i16::from_be_bytes(*version) < 0 {
            return None;
        }
        let coordinator_epoch = i32::from_be_bytes(*rest.first_chunk()?);
        Some(Self {
            result,
            coordinator_epoch,
        })
    }

    /// Makes the whole batch that ends a transaction, to be appended by the partition's leader.
    pub fn into_batch(
        self,
        timestamp: i64,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> ValidatedBatch<'static> {
        let mut builder = BatchBuilder::new(BatchHeader {
            producer_id,
            producer_epoch,
            base_sequence: NO_SEQUENCE,
            is_transactional: true,
            is_control: true,
            ..BatchHeader::default()
        });
        let kind = match self.result {
            TransactionResult::Abort => ControlRecordKind::Abort,
            TransactionResult::Commit => ControlRecordKind::Commit,
        };
        let epoch = self.coordinator_epoch.to_be_bytes();
        let value = [
            VERSION[0], VERSION[1], epoch[0], epoch[1], epoch[2], epoch[3],
        ];
        builder.append(timestamp, Some(&kind.key()), Some(&value), &[]);
        builder.into_batch(Compression::None)
    }
}

/// A record of a control batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecord<'a> {
    /// The end of a transaction.
    EndTransaction(EndTransactionMarker),
    /// Any other kind and its value.
    Other(ControlRecordKind, Option<&'a [u8]>),
}

impl<'a> ControlRecord<'a> {
    /// Understands a record of a control batch.
    pub fn parse(record: &Record<'a>) -> Result<Self, InvalidControlRecord> {
        let (version, kind) = record
            .key
            .and_then(<[u8]>::split_first_chunk)
            .ok_or(InvalidControlRecord::Key)?;
        let kind = kind.first_chunk().ok_or(InvalidControlRecord::Key)?;
        if i16::from_be_bytes(*version) < 0 {
            return Err(InvalidControlRecord::Key);
        }
        let kind = ControlRecordKind::from_id(i16::from_be_bytes(*kind));
        let result = match kind {
            ControlRecordKind::Abort => TransactionResult::Abort,
            ControlRecordKind::Commit => TransactionResult::Commit,
            other => return Ok(Self::Other(other, record.value)),
        };
        record
            .value
            .and_then(|value| EndTransactionMarker::parse(result, value))
            .map(Self::EndTransaction)
            .ok_or(InvalidControlRecord::Value)
    }
}

/// Reads arbitrary bytes as key and value of a control record.
pub fn fuzz_control_record(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(4));
    let record = Record {
        attributes: 0,
        timestamp: 0,
        offset: Offset::ZERO,
        key: Some(key),
        value: Some(value),
        headers: crate::Headers::default(),
    };
    if let Ok(ControlRecord::Other(kind, _)) = ControlRecord::parse(&record) {
        assert_eq!(ControlRecordKind::from_id(kind.id()), kind);
        assert_eq!(kind.key()[2..], key[2..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Headers;

    fn check(key: Option<&[u8]>, value: Option<&[u8]>, expected: &str) {
        let (attributes, timestamp, offset, headers) = (0, 0, 0, Headers::default());
        let record = Record {
            attributes,
            timestamp,
            offset: Offset(offset),
            key,
            value,
            headers,
        };
        let said = match ControlRecord::parse(&record) {
            Ok(ControlRecord::EndTransaction(marker)) => {
                format!(
                    "{:?} by coordinator epoch {}",
                    marker.result, marker.coordinator_epoch
                )
            }
            Ok(ControlRecord::Other(kind, value)) => {
                format!("{kind:?} of {} bytes", value.map_or(0, <[u8]>::len))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn markers_of_this_and_later_versions() {
        let value = [0, 0, 0, 0, 1, 2];
        check(
            Some(&[0, 0, 0, 0]),
            Some(&value),
            "Abort by coordinator epoch 258",
        );
        check(
            Some(&[0, 0, 0, 1]),
            Some(&value),
            "Commit by coordinator epoch 258",
        );
        let later = [0, 9, 0, 0, 0, 3, 77, 77];
        check(
            Some(&[0, 9, 0, 1, 5]),
            Some(&later),
            "Commit by coordinator epoch 3",
        );
    }

    #[test]
    fn kinds_that_are_passed_on() {
        check(
            Some(&[0, 0, 0, 2]),
            Some(&[1, 2]),
            "LeaderChange of 2 bytes",
        );
        check(Some(&[0, 0, 0, 6]), None, "KRaftVoters of 0 bytes");
        check(Some(&[0, 0, 0, 99]), Some(&[1]), "Unknown(99) of 1 bytes");
        check(Some(&[0, 0, 0xff, 0xff]), None, "Unknown(-1) of 0 bytes");
    }

    #[test]
    fn what_is_no_control_record() {
        let value = [0, 0, 0, 0, 1, 2];
        let bad_key = "control record has no valid key";
        check(None, Some(&value), bad_key);
        check(Some(&[0, 0, 0]), Some(&value), bad_key);
        check(Some(&[0xff, 0xff, 0, 1]), Some(&value), bad_key);
        let bad_value = "transaction marker has no valid value";
        check(Some(&[0, 0, 0, 1]), None, bad_value);
        check(Some(&[0, 0, 0, 1]), Some(&value[..5]), bad_value);
        check(Some(&[0, 0, 0, 1]), Some(&[0x80, 0, 0, 0, 0, 0]), bad_value);
    }

    #[test]
    fn ids_come_back() {
        for id in -1..9 {
            assert_eq!(ControlRecordKind::from_id(id).id(), id);
        }
        for length in 0..10 {
            fuzz_control_record(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 7][..length]);
        }
    }
}
