//! The server: sockets, tasks and the wiring of everything below.
//!
//! ```text
//!   socket ─> net::connection ─> api::serve ─> api::<name> ─┬─> logs ─> replication, storage
//!                                                           ├─> coordinators ─> coordinator
//!                                                           └─> controller ─> controller, metadata, raft
//!   start: server::Server ─> everything
//!   below all of them: settings, scheduling
//! ```
//!
//! Rooms, from the ground up; each is given its parts, and imports only from those before it:
//! - `scheduling`: threads, lanes and clocks;
//! - `controller`: decisions about the cluster, the metadata log, and the metadata loader;
//! - `settings`: the node, as it is configured as of now;
//! - `logs`: log directories and their partitions;
//! - `coordinators`: groups and transactions;
//! - `peers`: what this node asks of others;
//! - `net`: sockets, and frames in and out;
//! - `api`: one file for each API;
//! - `server`: how all of it is put together, started and stopped.
//!
//! Invariants:
//! - Types of the wire occur in `api` and `peers` only.
//! - No lock of a log, a group or a session is held across an `await`.
//! - One request of a connection is served at a time; its answers leave in order.
//!
//! Reading order: `server`, `net`, `api`, then what a request needs.

#![forbid(unsafe_code)]

mod api;
mod controller;
mod coordinators;
mod logs;
mod net;
mod peers;
mod scheduling;
mod server;
mod settings;

pub use api::served;
pub use server::{Server, ServerOptions, reserve_workers};
pub use settings::loggers;
pub use settings::start_error::StartError;
