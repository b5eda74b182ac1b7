//! Stream processing on Kafka: the operators, names and formats of Kafka Streams 4.3, in Rust.
//!
//! An application builds a topology, tries it without a broker, and runs it:
//!
//! ```
//! use riverrun_streams::dsl::StreamsBuilder;
//! use riverrun_streams::runtime::{KafkaStreams, StreamsConfig};
//! use riverrun_streams::test_driver::TopologyTestDriver;
//!
//! let builder = StreamsBuilder::new();
//! builder
//!     .stream::<String, String>("lines")
//!     .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
//!     .group_by(|_, word| word.clone())
//!     .count()
//!     .to_stream()
//!     .to("counts");
//! let topology = builder.build()?;
//!
//! // In a test: one record at a time, with the time that the test says.
//! let driver = TopologyTestDriver::new(&topology)?;
//! driver.input_topic("lines").pipe("a key".to_owned(), "be".to_owned(), 0)?;
//! let counts = driver.output_topic::<String, Option<i64>>("counts");
//! assert_eq!(counts.read_key_values()?, [("be".to_owned(), Some(1))]);
//!
//! // In a program: threads, against riverrun or Apache Kafka. `start()` begins, `close()` ends.
//! let streams = KafkaStreams::new(topology, StreamsConfig::new("word-count", "localhost:9092")?);
//! # let _ = streams;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to find what
//!
//! - Build a topology of streams and tables: [`dsl::StreamsBuilder`], [`dsl::KStream`], [`dsl::KTable`].
//! - Read and write types of your own: [`serde::DefaultSerde`], and `serde::json` with the feature `json`.
//! - Write a node yourself: [`processor::Processor`], with stores of [`state::Stores`].
//! - Decide about records that fail: [`processor::Handlers`].
//! - Try a topology without a broker: [`test_driver::TopologyTestDriver`].
//! - Look at a topology: [`topology::Topology::describe`], as a picture [`topology::TopologyDescription::to_svg`].
//! - Run it, query its stores, read its metrics: [`runtime::KafkaStreams`] with [`runtime::StreamsConfig`].
//!
//! In the repository, `docs/streams.md` is a guide of twenty minutes, and `docs/streams-reference.md` has all operators
//! and settings, and what differs from Kafka Streams. `cargo run -p riverrun-streams --example operators` lists an
//! example of each operator.
//!
//! # How it is made
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

pub use error::{Advice, BoxError, Failure, Place, StreamsError};
pub use task::{CommittableOffset, Task};

/// What the guide shows compiles and works.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
struct Guide;

/// So does what the reference shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams-reference.md")]
struct Reference;
