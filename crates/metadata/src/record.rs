//! A record of the metadata log: its kinds, and the frame that carries it.
//!
//! The value of a log record is `frame version | type id | version | body`, the first three as
//! unsigned varints; the key is null. The frame version is 1. A type or a version that is unknown
//! is an error, never skipped: metadata that was dropped would be lost in the next snapshot.

use crate::metadata_version::MetadataVersion;
use crate::{
    AccessControlEntry, BrokerRegistration, BrokerRegistrationChange, ConfigResource,
    ControllerRegistration, DelegationToken, Partition, PartitionChange, QuotaEntity,
    ScramCredential, ScramKey,
};
use model::varint::write_unsigned_varint;
use model::{BrokerEpoch, BrokerId, DecodeError, ProducerId, Reader, Uuid};

mod decode;
mod encode;

/// The only version of the frame around a record.
const FRAME_VERSION: u32 = 1;

/// A record of `__cluster_metadata`.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataRecord {
    /// A broker registers; what was known about it is replaced.
    RegisterBroker(BrokerRegistration),
    /// A broker is forgotten.
    UnregisterBroker {
        /// The broker's id.
        broker_id: BrokerId,
        /// The epoch of its registration.
        broker_epoch: BrokerEpoch,
    },
    /// A topic is created, without partitions yet.
    Topic {
        /// The topic's name.
        name: String,
        /// The topic's id.
        topic_id: Uuid,
    },
    /// A partition is created.
    Partition {
        /// The topic's id.
        topic_id: Uuid,
        /// The partition's index.
        partition_id: i32,
        /// Everything about the partition.
        partition: Partition,
    },
    /// A configuration is set, or removed.
    Config {
        /// What is configured.
        resource: ConfigResource,
        /// The configuration's name.
        name: String,
        /// The value; `None` removes it.
        value: Option<String>,
    },
    /// A partition changes.
    PartitionChange(PartitionChange),
    /// A broker is fenced.
    FenceBroker {
        /// The broker's id.
        broker_id: BrokerId,
        /// The epoch of its registration.
        broker_epoch: BrokerEpoch,
    },
    /// A broker is unfenced.
    UnfenceBroker {
        /// The broker's id.
        broker_id: BrokerId,
        /// The epoch of its registration.
        broker_epoch: BrokerEpoch,
    },
    /// A topic is deleted with its partitions and its configuration.
    RemoveTopic {
        /// The topic's id.
        topic_id: Uuid,
    },
    /// A delegation token is issued or renewed.
    DelegationToken(DelegationToken),
    /// A SCRAM credential is set.
    UserScramCredential {
        /// Whose it is.
        key: ScramKey,
        /// The credential.
        credential: ScramCredential,
    },
    /// A feature is finalized at a level.
    FeatureLevel {
        /// The feature's name.
        name: String,
        /// The level; zero ends the feature.
        level: i16,
    },
    /// A client quota is set, or removed.
    ClientQuota {
        /// Whom the quota is about.
        entity: QuotaEntity,
        /// The quota's name.
        key: String,
        /// The limit; `None` removes it.
        value: Option<f64>,
    },
    /// Producer ids are given out.
    ProducerIds {
        /// The broker that received the block, or -1.
        broker_id: BrokerId,
        /// The epoch of its registration, or -1.
        broker_epoch: BrokerEpoch,
        /// The first producer id that is still free.
        next_producer_id: ProducerId,
    },
    /// A broker's registration changes.
    BrokerRegistrationChange(BrokerRegistrationChange),
    /// An access control entry is added.
    AccessControlEntry(AccessControlEntry),
    /// An access control entry is removed.
    RemoveAccessControlEntry {
        /// The entry's id.
        id: Uuid,
    },
    /// Nothing; lets brokers measure how far they are behind.
    NoOp,
    /// Left behind by a migration from ZooKeeper; has no effect.
    ZkMigrationState {
        /// The number of the state.
        state: i8,
    },
    /// A SCRAM credential is removed.
    RemoveUserScramCredential(ScramKey),
    /// The records up to the end or the abort of the transaction take effect together.
    BeginTransaction {
        /// What the transaction is about.
        name: Option<String>,
    },
    /// The transaction takes effect.
    EndTransaction,
    /// The transaction's records have no effect.
    AbortTransaction {
        /// Why it was aborted.
        reason: Option<String>,
    },
    /// A delegation token is removed.
    RemoveDelegationToken {
        /// The token's id.
        token_id: String,
    },
    /// A controller registers.
    RegisterController(ControllerRegistration),
    /// Eligible leader replicas of a topic, or of all topics, are forgotten.
    ClearElr {
        /// The topic's name; empty for all topics.
        topic_name: String,
    },
}

/// Why a value in the metadata log is not a record that this build understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The frame is of an unknown version.
    #[error("metadata record has frame version {0}, only {FRAME_VERSION} is known")]
    FrameVersion(u32),
    /// The record has no value, or its frame is damaged.
    #[error("metadata record without a frame: {0}")]
    Frame(DecodeError),
    /// The record is of an unknown type.
    #[error("metadata record of unknown type {type_id}, version {version}")]
    UnknownType {
        /// The type's number.
        type_id: u32,
        /// The version of the record.
        version: u32,
    },
    /// The record is of a version that this build does not know.
    #[error("`{name}` has version {version}, but {max} is the highest known")]
    UnknownVersion {
        /// The record's name in Kafka's schemas.
        name: &'static str,
        /// The version of the record.
        version: u32,
        /// The highest version that is known.
        max: i16,
    },
    /// The body is not what its type and version demand.
    #[error("`{name}` cannot be read: {error}")]
    Body {
        /// The record's name in Kafka's schemas.
        name: &'static str,
        /// What is wrong.
        error: DecodeError,
    },
    /// A field has a value that has no meaning.
    #[error("`{name}` has the unknown value {value} in `{field}`")]
    UnknownValue {
        /// The record's name in Kafka's schemas.
        name: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
}

impl MetadataRecord {
    /// Reads the value of a record of the metadata log.
    ///
    /// # Errors
    /// A [`RecordError`] when the record is unknown, newer than this build, or damaged.
    pub fn from_bytes(value: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(value);
        let frame_version = reader.unsigned_varint().map_err(RecordError::Frame)?;
        if frame_version != FRAME_VERSION {
            return Err(RecordError::FrameVersion(frame_version));
        }
        let type_id = reader.unsigned_varint().map_err(RecordError::Frame)?;
        let version = reader.unsigned_varint().map_err(RecordError::Frame)?;
        decode::decode(type_id, version, reader.remaining())
    }

    /// Appends the value of a record as a cluster of this metadata version writes it.
    pub fn write(&self, metadata_version: MetadataVersion, out: &mut Vec<u8>) {
        encode::encode(self, metadata_version, &mut |type_id, version, body| {
            write_unsigned_varint(FRAME_VERSION, out);
            write_unsigned_varint(type_id.unsigned_abs().into(), out);
            write_unsigned_varint(version.unsigned_abs().into(), out);
            body(out);
        });
    }

    /// The value of a record as a cluster of this metadata version writes it.
    pub fn to_bytes(&self, metadata_version: MetadataVersion) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(metadata_version, &mut out);
        out
    }
}

/// Fuzz entry: reads any bytes; a record that was read is written and read again unchanged.
pub fn fuzz_metadata_record(value: &[u8]) {
    if let Ok(record) = MetadataRecord::from_bytes(value) {
        let bytes = record.to_bytes(MetadataVersion::LATEST);
        let again = MetadataRecord::from_bytes(&bytes).expect("written by this build");
        // Not-a-number quotas differ from themselves, so bytes are compared.
        assert_eq!(again.to_bytes(MetadataVersion::LATEST), bytes);
    }
}
