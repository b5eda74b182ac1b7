//! The decisions of the active controller, pure functions from the metadata image and a request to
//! records and an answer, and the metadata log that they are written to.
//!
//! ```text
//!   request ─┐
//!   image   ─┼─> decide ──> Decision ── records ──> metadata log ──> image (replay)
//!   context ─┘                     └── response ──> answered once the records are in the log
//!
//!   Controller = ActiveController (one decision after the other) + MetadataLog (raft's replica, an image)
//! ```
//!
//! Invariants:
//! - A decision reads only; replay of its records is the one thing that changes an image.
//! - The records of a decision replay without error on the image that it was made over, and the
//!   image then says what the response says.
//! - What is refused leaves no record.
//! - No clock, no randomness, no thread: time and random bytes are arguments. Only `metadata_log` knows of
//!   files, by `storage::Disk`.
//!
//! Reading order: `decision`, `requests`, `sessions`, `tasks`, `broker_transition`, `active`, `metadata_log`,
//! `controller`;
//! `context`, `features`, `bootstrap`, `update_features`; topics: `topic_name`, `placement`, `assignment`,
//! `create_topics`, `create_partitions`, `delete_topics`, `internal_topics`, `alter_configs`; brokers:
//! `topic_values`, `partition_update`, `elections`, `brokers`, `heartbeats`, `broker_life`, `controllers`,
//! `directories`, `alter_partition`, `elect_leaders`, `reassign_partitions`, `producer_ids`, `client_quotas`,
//! `scram_credentials`.

#![forbid(unsafe_code)]

mod active;
mod controller;
mod decision;
mod requests;

mod context;
mod features;

mod broker_life;
mod broker_transition;
mod metadata_change;
mod sessions;
mod tasks;

pub mod bootstrap;
pub mod metadata_log;
pub mod update_features;

pub mod topic_name;

mod assignment;
mod last_word;
mod placement;
mod registration_size;
mod words_of_answer;

pub mod alter_configs;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_topics;
pub mod internal_topics;

mod elections;
mod partition_update;
mod topic_values;

pub mod alter_partition;
pub mod brokers;
pub mod client_quotas;
pub mod controllers;
pub mod directories;
pub mod elect_leaders;
pub mod heartbeats;
pub mod producer_ids;
pub mod reassign_partitions;
pub mod scram_credentials;

#[cfg(test)]
mod test_changes;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod tests;

pub use active::{ActiveController, Proposal};
pub use broker_life::{
    BrokerLife, BrokerLifeError, BrokerLifeRequest, BrokerLifeSettings, BrokerState,
};
pub use broker_transition::{BrokerTransition, BrokerTransitionKind, FencingCause};
pub use context::{ControllerContext, Random};
pub use controller::{Controller, Decided, Refused};
pub use decision::{ApiError, Decision, PartitionResults, TopicResult};
pub use features::{
    SUPPORTED_FEATURES, SupportedFeature, broker_features, supported_versions, unsupported_features,
};
pub use heartbeats::{BrokerHeartbeat, BrokerStanding};
pub use metadata_change::MetadataChange;
pub use requests::{
    AllocateProducerIds, AlterClientQuotas, AlterConfigs, AlterPartition,
    AlterPartitionReassignments, AlterScramCredentials, AssignReplicasToDirectories,
    ChangeDirectories, ControllerRequest, ControllerResponse, CreatePartitions, CreateTopics,
    DecisionContext, DeleteTopics, ElectLeaders, PlaceFoundReplicas, RegisterBroker,
    RegisterController, Request, UnfenceBroker, UnregisterBroker, UpdateFeatures,
};
pub use sessions::{BrokerContacts, Sessions};
pub use words_of_answer::WordsOfAnswer;
