//! Kafka's configuration as data: every key, how its value is read, where values come from, and
//! what they mean to a server and to a topic.
//!
//! ```text
//!   properties file ┐
//!   KAFKA_* pairs   ├─> sources ──> StaticConfig ──> ServerConfig (typed, cross-checked)
//!   --set pairs     ┘                   │
//!                                       ├─> describe      key, value, source, synonyms
//!   overrides of topics, brokers,       ├─> alter         new overrides, or an error code
//!   groups in the metadata  ────────────┴─> TopicSettings typed values of one topic
//! ```
//!
//! Invariants:
//! - No I/O, clock or environment: file contents and variables are arguments.
//! - Every default satisfies its own constraint; every key has a sentence of documentation.
//! - Every key has a reader, or `effect` says why it has no effect.
//! - A value that `parsing::parse` accepts is printed in the form in which Kafka prints it.

#![forbid(unsafe_code)]

pub mod definition;
pub mod table;

pub mod broker;
pub mod client_metrics;
pub mod group;
pub mod quota;
pub mod topic;

pub mod value;

mod constraint;
pub mod parsing;

pub mod properties;
pub mod sources;

pub mod effect;
pub mod layers;
pub mod listeners;
pub mod synonyms;

pub mod alter;
pub mod describe;

pub mod server;
pub mod topic_settings;
pub mod typed;

pub use broker::BROKER;
pub use client_metrics::CLIENT_METRICS;
pub use definition::{ConfigDefinition, ConfigType, UpdateMode};
pub use group::GROUP;
pub use layers::{BrokerLayers, ConfigMap};
pub use quota::{BROKER_QUOTA, CLIENT_QUOTA, IP_QUOTA};
pub use server::{ServerConfig, ServerConfigError};
pub use sources::{Sources, StaticConfig};
pub use table::ConfigTable;
pub use topic::TOPIC;
pub use topic_settings::{TopicDefaults, TopicSettings};
pub use typed::TypedValues;
pub use value::{Value, ValueError};
