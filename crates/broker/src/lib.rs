//! The server: sockets, tasks and the wiring of everything below.
//!
//! ```text
//!   socket ─> net::connection ─> api::serve ─> api::<name> ─┬─> partitions ─> replication, storage
//!                                                           ├─> groups, transactions ─> coordinator
//!                                                           └─> controller_thread ─> controller
//!   start: server::Server ─> log_directories, metadata_log, hosting, maintenance
//! ```
//!
//! Invariants:
//! - Types of the wire occur in `api` only.
//! - No lock of a log, a group or a session is held across an `await`.
//! - One request of a connection is served at a time; its answers leave in order.
//!
//! Reading order: `server`, `broker`, `net`, `api`, then what a request needs.

#![forbid(unsafe_code)]

mod server;
mod start_error;

mod alarm;
mod apart;
mod broker;
mod clock;

mod net;

mod api;

mod checkpoints;
mod cleaner;
mod controller_thread;
mod coordinator_log;
mod coordinator_topics;
mod cordoning;
mod creations;
mod destinations;
mod directory_work;
mod disk_watch;
mod failed_logs;
mod fetch_sessions;
mod file_shares;
mod file_shortage;
mod flushes;
mod group_settings;
mod groups;
mod heavy_work;
mod hosting;
mod idle_logs;
mod leaving;
mod live_config;
mod log_directories;
pub mod loggers;
mod maintenance;
pub mod metadata_log;
mod moves;
mod owners;
mod partitions;
mod removals;
mod reserve;
mod scan;
mod seldom;
mod told_changes;
mod transaction_markers;
mod transaction_verification;
mod transactions;
mod untold_logs;

pub use api::served;
pub use server::{Server, ServerOptions, reserve_workers};
pub use start_error::StartError;

use broker::Broker;
