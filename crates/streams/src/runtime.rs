//! Running a topology against a cluster: threads, each with a consumer, a producer and the tasks that it was given.
//!
//! ```text
//!   KafkaStreams ── start() ── instance ── StreamThread (an OS thread each)
//!       │ state, errors            │           │ preparation: one of them makes the internal topics, all wait for that
//!       │ store(), query()         │           │ worker: poll ─> tasks ─> produced records ─> producer
//!       │ metrics()                │           │ restore: changelogs ─> stores; standbys follow theirs
//!       └ close()                  │           └ commit: flush, offsets (or a transaction)
//!                                  └ lifecycle: where the instance and its threads stand, and who is to begin or end
//! ```
//!
//! Invariants:
//! - Offsets of inputs are committed after everything that came of the records before them is acknowledged; under
//!   exactly-once they are part of the transaction that it is in.
//! - A task processes nothing before its stores have what their changelogs had when it was given to the thread.
//! - One process at a time uses a state directory.

mod auxiliary_consumer;
mod client_overrides;
mod client_settings;
mod clock;
mod close_options;
mod config;
mod config_error;
mod directory;
mod ends;
mod failure;
mod global;
mod host_info;
mod inbox;
mod instance;
mod invalid_state_store;
mod java_classes;
mod kafka_streams;
mod kept;
mod keys;
mod lifecycle;
mod listeners;
mod living;
mod local_state;
mod member;
mod metadata;
mod metrics;
mod news;
mod note;
mod output;
mod pace;
mod patience;
mod preparation;
mod process_id;
mod purge;
mod queries;
mod recording_level;
mod records;
mod restore;
mod settings;
mod shared;
mod standbys;
mod state_queries;
mod streams_group;
mod task_registry;
mod thread;
mod thread_setup;
mod topics;
mod worker;

#[cfg(test)]
mod tests;

pub use client_overrides::{ClientOverrides, Pairs};
pub use close_options::{CloseOptions, GroupMembershipOperation};
pub use config::{GroupProtocol, ProcessingGuarantee, StreamsConfig};
pub use config_error::ConfigError;
pub use host_info::HostInfo;
pub use invalid_state_store::InvalidStateStore;
pub use kafka_streams::KafkaStreams;
pub use lifecycle::{State, StreamThreadExceptionResponse, ThreadState};
pub use listeners::{StandbyUpdateListener, StateRestoreListener, SuspendReason};
pub use local_state::{LagInfo, TaskMetadata, ThreadMetadata};
pub use metadata::{KeyQueryMetadata, StreamsMetadata};
pub use metrics::{Metric, MetricName, MetricValue, StreamsMetrics};
pub use queries::{Queryable, QueryableStore};
pub use recording_level::RecordingLevel;
/// What `StreamsConfig::from_properties` reads.
pub use riverrun_client::config::Properties;
pub use state_queries::{
    FailureReason, InStore, KeyQuery, KeyQueryAs, MultiVersionedKeyQuery, PositionBound, Query,
    QueryResult, RangeQuery, RangeQueryAs, SessionKeyQuery, SeveralResults, StateQueryRequest,
    StateQueryResult, TimestampedKeyQuery, TimestampedRangeQuery, VersionedKeyQuery,
    WindowKeyQuery, WindowRangeQuery, WindowStartRangeQuery,
};
