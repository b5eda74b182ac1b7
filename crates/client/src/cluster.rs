//! What a client knows of the cluster, and how it reaches it.
//!
//! ```text
//!   Brokers ── endpoint of a node ── Connection ── Request ──> socket
//!      │  refresh task                    └─────── Answer <── socket
//!      └─ Metadata (pure): topics, leaders, epochs
//! ```

mod backoff;
mod brokers;
mod connection;
mod deadline;
mod metadata;
mod request;
mod versions;

pub(crate) use backoff::{Backoff, Random};
pub(crate) use brokers::{Brokers, BrokersOptions, CoordinatorKind, Lane};
pub(crate) use connection::{Answer, Connection, Pending, Sent};
pub(crate) use deadline::Deadline;
pub use metadata::{Broker, Partition, Topic};
pub(crate) use metadata::{Leader, Metadata, is_another};
pub(crate) use request::Request;
pub(crate) use versions::ServedVersions;
