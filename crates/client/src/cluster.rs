//! What a client knows of the cluster, and how it reaches it.
//!
//! ```text
//!   Brokers ── endpoint of a node ── Connection ── Request ──> socket
//!      │  refresh task                    └─────── Response <── socket
//!      └─ Metadata (pure): topics, leaders, epochs
//! ```

mod brokers;
mod connection;
mod metadata;
mod random;

pub(crate) use self::connection::{Connection, Pending, Response, Sent};
pub(crate) use ::connection::{Backoff, Deadline, Request};
pub(crate) use brokers::{Brokers, BrokersOptions, CoordinatorKind, Lane};
pub use metadata::{Broker, Partition, Topic};
pub(crate) use metadata::{Leader, Metadata, is_another};
pub(crate) use random::Random;
