//! Cluster metadata: its records, and the immutable image that they add up to.
//!
//! ```text
//!  log, snapshot ──> MetadataRecord ──replay──> MetadataImage ──> broker, controller, tools
//!                          ^                     │        │
//!                          │                     │        └─ two images ──> MetadataDelta
//!                     controller decides         └──> snapshot ──> records again
//! ```
//!
//! Invariants:
//! - An image never changes; replay of a record makes the next one, and nothing else does.
//! - Records that build an image, the snapshot of that image, and the image read from that
//!   snapshot all say the same.
//! - A record that this build does not know is an error, never skipped.
//! - No I/O, no clock, no randomness.
//!
//! Reading order: `metadata_version`, `shared_map`, `topics`, `cluster`, `configs`, `features`,
//! `client_quotas`, `security`, `record`, `image`, `delta`, `loader`, `quorum`, `quorum_state`,
//! `log_batch`, `image_records`, `snapshot`.

#![forbid(unsafe_code)]

mod client_quotas;
mod cluster;
mod configs;
mod delta;
mod features;
mod image;
mod image_records;
mod loader;
mod log_batch;
pub mod messages;
mod metadata_version;
mod quorum;
mod quorum_state;
mod record;
mod security;
pub mod shared_map;
mod snapshot;
mod topics;

pub use client_quotas::{ClientQuotasImage, QuotaEntity, Quotas};
pub use cluster::{
    BrokerRegistration, BrokerRegistrationChange, ClusterImage, ControllerRegistration, Endpoint,
    SupportedFeatures, VersionRange,
};
pub use configs::{Config, ConfigResource, ConfigResourceType, ConfigsImage};
pub use delta::{ChangedPartition, MetadataDelta};
pub use features::{
    ELIGIBLE_LEADER_REPLICAS_FEATURE, FeaturesImage, GROUP_VERSION_FEATURE, KRAFT_VERSION_FEATURE,
    SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE, TRANSACTION_VERSION_FEATURE,
};
pub use image::{MetadataImage, Provenance, ReplayError};
pub use loader::MetadataLoader;
pub use log_batch::{
    BATCH_SIZE_BYTES_MAX, BatchContentError, BatchPlace, is_compressed, metadata_batch,
    metadata_batches, quorum_batch, read_metadata_records, read_quorum_records,
    record_beyond_batch,
};
pub use metadata_version::MetadataVersion;
pub use quorum::{QuorumRecord, QuorumRecordError, Voter, VoterEndpoint, fuzz_quorum_record};
pub use quorum_state::{QuorumState, QuorumStateError, fuzz_quorum_state};
pub use record::{MetadataRecord, RecordError, fuzz_metadata_record};
pub use security::{
    AccessControlEntry, AclsImage, DelegationToken, DelegationTokensImage, ScramCredential,
    ScramImage, ScramKey,
};
pub use shared_map::SharedMap;
pub use snapshot::{
    NotASnapshot, Snapshot, SnapshotError, SnapshotId, SnapshotQuorum, bootstrap_snapshot,
    check_snapshot, fuzz_snapshot, read_bootstrap_snapshot, read_snapshot, snapshot_header,
    write_snapshot,
};
pub use topics::{
    LOST_DIRECTORY, LeaderRecoveryState, MIGRATING_DIRECTORY, NO_LEADER, Partition,
    PartitionChange, Topic, TopicsImage, UNASSIGNED_DIRECTORY,
};
