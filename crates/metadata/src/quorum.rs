//! What the quorum of controllers writes into its log and its snapshots: control records.
//!
//! Their keys are those of all control records (`i16 version | i16 kind`); their values are
//! messages whose own first field is the version.

use crate::cluster::VersionRange;
use crate::messages::{
    KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord,
    VotersRecord, leader_change_message, voters_record,
};
use model::{BrokerId, DecodeError, Message, Reader, Uuid};
use record::Record;
use record::{ControlRecord, ControlRecordKind, InvalidControlRecord};

/// The version of every message here; readers take later ones, of which they know the beginning.
const VERSION: i16 = 0;

/// Where a voter is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterEndpoint {
    /// The listener's name.
    pub listener: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A controller that votes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    /// The controller's id.
    pub id: BrokerId,
    /// The id of the directory that holds its log.
    pub directory_id: Uuid,
    /// Where it is reached.
    pub endpoints: Vec<VoterEndpoint>,
    /// The levels of `kraft.version` that it can work with.
    pub kraft_version: VersionRange,
}

/// A control record of the metadata log or of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuorumRecord {
    /// A leader begins its epoch.
    LeaderChange {
        /// The leader.
        leader_id: BrokerId,
        /// The voters of the epoch.
        voters: Vec<BrokerId>,
        /// Those who voted for the leader.
        granting_voters: Vec<BrokerId>,
    },
    /// A snapshot begins.
    SnapshotHeader {
        /// When the last record that the snapshot contains was appended to the log.
        last_contained_log_timestamp_ms: i64,
    },
    /// A snapshot is complete.
    SnapshotFooter,
    /// The level of `kraft.version`.
    KRaftVersion(i16),
    /// The voters of a quorum whose voters can change.
    VoterSet(Vec<Voter>),
}

/// Why a control record is not one of the quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuorumRecordError {
    /// Not a control record at all.
    #[error(transparent)]
    Control(#[from] InvalidControlRecord),
    /// The value is damaged.
    #[error("control record {kind:?} cannot be read: {error}")]
    Value {
        /// The kind of the record.
        kind: ControlRecordKind,
        /// What is wrong.
        error: DecodeError,
    },
}

impl QuorumRecord {
    /// The kind, which is the record's key.
    pub const fn kind(&self) -> ControlRecordKind {
        match self {
            Self::LeaderChange { .. } => ControlRecordKind::LeaderChange,
            Self::SnapshotHeader { .. } => ControlRecordKind::SnapshotHeader,
            Self::SnapshotFooter => ControlRecordKind::SnapshotFooter,
            Self::KRaftVersion(_) => ControlRecordKind::KRaftVersion,
            Self::VoterSet(_) => ControlRecordKind::KRaftVoters,
        }
    }

    /// The value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let voters = |ids: &Vec<BrokerId>| {
            ids.iter()
                .map(|id| leader_change_message::Voter {
                    voter_id: *id,
                    voter_directory_id: Uuid::ZERO,
                })
                .collect()
        };
        match self {
            Self::LeaderChange {
                leader_id,
                voters: all,
                granting_voters,
            } => LeaderChangeMessage {
                version: VERSION,
                leader_id: *leader_id,
                voters: voters(all),
                granting_voters: voters(granting_voters),
            }
            .to_bytes(VERSION),
            Self::SnapshotHeader {
                last_contained_log_timestamp_ms,
            } => SnapshotHeaderRecord {
                version: VERSION,
                last_contained_log_timestamp: *last_contained_log_timestamp_ms,
            }
            .to_bytes(VERSION),
            Self::SnapshotFooter => SnapshotFooterRecord { version: VERSION }.to_bytes(VERSION),
            Self::KRaftVersion(level) => KRaftVersionRecord {
                version: VERSION,
                kraft_version: *level,
            }
            .to_bytes(VERSION),
            Self::VoterSet(voters) => VotersRecord {
                version: VERSION,
                voters: voters.iter().map(voter_message).collect(),
            }
            .to_bytes(VERSION),
        }
    }

    /// Understands a record of a control batch; `None` for kinds that do not concern the quorum
    /// or are of a later version.
    ///
    /// # Errors
    /// A [`QuorumRecordError`] when the record is damaged.
    pub fn parse(record: &Record<'_>) -> Result<Option<Self>, QuorumRecordError> {
        let ControlRecord::Other(kind, value) = ControlRecord::parse(record)? else {
            return Ok(None);
        };
        let value = value.unwrap_or_default();
        Self::decode(kind, value).map_err(|error| QuorumRecordError::Value { kind, error })
    }

    fn decode(kind: ControlRecordKind, value: &[u8]) -> Result<Option<Self>, DecodeError> {
        fn read<'a, M: Message<'a>>(value: &'a [u8]) -> Result<M, DecodeError> {
            M::read(&mut Reader::new(value), VERSION)
        }
        Ok(Some(match kind {
            ControlRecordKind::LeaderChange => {
                let version = Reader::new(value).i16()?;
                let version = version.clamp(VERSION, LeaderChangeMessage::MAX_VERSION);
                let message = LeaderChangeMessage::read(&mut Reader::new(value), version)?;
                let ids = |voter: leader_change_message::Voter| voter.voter_id;
                Self::LeaderChange {
                    leader_id: message.leader_id,
                    voters: message.voters.iter().map(ids).collect(),
                    granting_voters: message.granting_voters.iter().map(ids).collect(),
                }
            }
            ControlRecordKind::SnapshotHeader => {
                let message: SnapshotHeaderRecord = read(value)?;
                Self::SnapshotHeader {
                    last_contained_log_timestamp_ms: message.last_contained_log_timestamp,
                }
            }
            ControlRecordKind::SnapshotFooter => {
                let _: SnapshotFooterRecord = read(value)?;
                Self::SnapshotFooter
            }
            ControlRecordKind::KRaftVersion => {
                let message: KRaftVersionRecord = read(value)?;
                Self::KRaftVersion(message.kraft_version)
            }
            ControlRecordKind::KRaftVoters => {
                let message: VotersRecord<'_> = read(value)?;
                Self::VoterSet(message.voters.iter().map(voter).collect())
            }
            ControlRecordKind::Abort
            | ControlRecordKind::Commit
            | ControlRecordKind::Unknown(_) => return Ok(None),
        }))
    }
}

fn voter_message(voter: &Voter) -> voters_record::Voter<'_> {
    let endpoints = voter
        .endpoints
        .iter()
        .map(|endpoint| voters_record::Endpoint {
            name: &endpoint.listener,
            host: &endpoint.host,
            port: endpoint.port,
        });
    voters_record::Voter {
        voter_id: voter.id,
        voter_directory_id: voter.directory_id,
        endpoints: endpoints.collect(),
        kraft_version_feature: voters_record::KRaftVersionFeature {
            min_supported_version: voter.kraft_version.min,
            max_supported_version: voter.kraft_version.max,
        },
    }
}

fn voter(message: voters_record::Voter<'_>) -> Voter {
    let endpoints = message.endpoints.iter().map(|endpoint| VoterEndpoint {
        listener: endpoint.name.to_owned(),
        host: endpoint.host.to_owned(),
        port: endpoint.port,
    });
    let feature = &message.kraft_version_feature;
    Voter {
        id: message.voter_id,
        directory_id: message.voter_directory_id,
        endpoints: endpoints.collect(),
        kraft_version: VersionRange {
            min: feature.min_supported_version,
            max: feature.max_supported_version,
        },
    }
}

/// Fuzz entry: a kind's number in the first two bytes, then a value.
pub fn fuzz_quorum_record(bytes: &[u8]) {
    let Some((kind, value)) = bytes.split_first_chunk() else {
        return;
    };
    let kind = ControlRecordKind::from_id(i16::from_be_bytes(*kind));
    if let Ok(Some(record)) = QuorumRecord::decode(kind, value) {
        let again = QuorumRecord::decode(record.kind(), &record.to_bytes());
        assert_eq!(again, Ok(Some(record)));
    }
}
