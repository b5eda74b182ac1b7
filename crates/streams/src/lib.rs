//! Stream processing on Kafka: the operators, names and formats of Kafka Streams 4.3, in Rust.
//!
//! ```text
//!   dsl          StreamsBuilder, KStream, KTable ...: an application's wishes
//!     │ build()
//!   topology     nodes, edges, stores; sub-topologies; describe()
//!     │ instantiate                          serde    values as bytes
//!   task         records by timestamp ──> processor: nodes, typed links ──> what is written, as data
//!     │                                        │
//!   test_driver  runs one without a broker    state: stores, their layers and changelogs
//!   runtime      runs them in threads against a cluster; assignor: which process runs which of them
//! ```
//!
//! Invariants:
//! - A task is pure: time and records are arguments, what it writes is data. Who drives it moves bytes.
//! - While records flow, types are checked by the compiler: nothing is downcast, nothing is looked up by name.
//! - Null is part of a type (`Option`), and what a serde makes of a value decides whether it is null in a topic.
//! - A borrow of a store never spans a forward: a child may use the same store.
//! - Bytes of topics and stores are untrusted: they give errors that name node, topic, partition and offset.

#![forbid(unsafe_code)]

mod assignor;
pub mod dsl;
pub mod error;
pub mod formats;
pub mod headers;
pub mod processor;
pub mod record;
pub mod runtime;
pub mod serde;
pub mod state;
mod store_fault;
mod task;
pub mod test_driver;
pub mod topology;

pub use error::{BoxError, Failure, StreamsError};
pub use task::{CommittableOffset, Task};

/// What the guide shows compiles and works.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
struct Guide;

/// So does what the reference shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams-reference.md")]
struct Reference;
