//! Running a topology against a cluster: threads, each with a consumer, a producer and the tasks that it was given.
//!
//! ```text
//!   KafkaStreams ── start(): makes internal topics ── StreamThread (an OS thread each)
//!       │ state, errors                                  │ poll ─> tasks ─> produced records ─> producer
//!       └ close()                                        │ restore: changelogs ─> stores
//!                                                        └ commit: flush, offsets (or a transaction)
//! ```
//!
//! Invariants:
//! - Offsets of inputs are committed after everything that came of the records before them is acknowledged; under
//!   exactly-once they are part of the transaction that it is in.
//! - A task processes nothing before its stores have what their changelogs had when it was given to the thread.
//! - One process at a time uses a state directory.

mod config;
mod directory;
mod global;
mod inbox;
mod kafka_streams;
mod kept;
mod listeners;
mod member;
mod note;
mod output;
mod patience;
mod purge;
mod queries;
mod records;
mod restore;
mod settings;
mod standbys;
mod streams_group;
mod task_registry;
mod thread;
mod topics;
mod worker;

pub use config::{GroupProtocol, ProcessingGuarantee, StreamsConfig};
pub use kafka_streams::{KafkaStreams, State};
pub use listeners::{StandbyUpdateListener, StateRestoreListener, SuspendReason};
pub use queries::{InvalidStateStore, Queryable, QueryableStore};
pub use settings::{ClientOverrides, ConfigError, Pairs};
