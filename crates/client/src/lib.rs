//! Kafka's client: producer, consumer and admin, for any broker that speaks Kafka's protocol.
//!
//! ```text
//!   Producer                    Consumer                        Admin          async shells
//!     │ send(record)              │ poll() / Stream               │
//!   partitioner                 subscription                    one call each
//!   accumulator  batches        membership   group protocol       │            pure cores:
//!   sender       order, retry   fetcher      sessions, budget     │            handle_* / poll_*
//!     │                           │                               │
//!     └────────── cluster::Metadata: topics, leaders, epochs (pure) ──────────┘
//!                 cluster::Brokers: bootstrap, backoff, rebootstrap
//!                 the crate connection: one task a broker, pipelined, one vectored write
//!                 transport: TCP, or the application's own; who authenticates
//! ```
//!
//! Around them: [`config`] has Kafka's keys, from code or a properties file; [`serialization`] makes
//! bytes of values; `blocking` serves programs without a runtime. The crate `riverrun-embedded` starts a
//! broker for an application's tests.
//!
//! Invariants:
//! - Public types are this crate's own, or re-exported by it: no signature names another crate of the
//!   workspace. `cargo xtask tidy` checks it.
//! - What decides is pure: the accumulator, the sender, the fetcher, the membership and the metadata
//!   take time and random numbers as arguments. What waits is a thin shell around them.
//! - Every queue and buffer has a bound; who would exceed it waits, or gets an error that names the
//!   setting. No call blocks a thread.
//! - Every wait has a deadline, and the error at its end names the broker's address.
//! - A broker's bytes are untrusted: they never panic, and never allocate beyond what arrived.
//! - A record that was acknowledged is never reported as failed; one that is reported as failed with
//!   a final error is not sent again.
//! - Records of a partition keep their order through retries.
//! - Commits are made in the order of the calls, by the member that the consumer was at the call; who
//!   is subscribed and no member commits nothing.
//! - The application is never called while a lock is held.
//! - A future may be dropped anywhere: what it has begun ends, and a transaction's outcome is told to
//!   the call that asks next.

#![forbid(unsafe_code)]

pub mod admin;
#[cfg(feature = "blocking")]
pub mod blocking;
mod cluster;
pub mod config;
pub mod consumer;
mod error;
pub mod producer;
pub mod serialization;
#[cfg(test)]
mod simulated;
pub mod transport;
mod watch;

pub use cluster::{Broker, Partition, Topic};
pub use config::ClientConfig;
pub use error::Error;
// Kafka's vocabulary, which this crate shares with its broker.
pub use model::{BrokerId, ErrorCode, Retriability, TopicPartition, Uuid};

/// What README shows compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// How this client calls itself to brokers, which count clients by it (KIP-511).
const SOFTWARE_NAME: &str = "riverrun";
/// Which one it is.
const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");
