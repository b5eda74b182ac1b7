//! Nodes: what they are to each other while records flow, and what an application writes as one.
//!
//! ```text
//!   source ──> Link ──> Node<K, V> ──> Outputs<K2, V2> ──> Link ──> Node<K2, V2> ...
//!                 │ TaskContext: record, time, collector, metrics, schedules
//!                 └ asks the processing handler about what its node could not process
//! ```

mod api;
mod collector;
mod context;
mod default_timestamp_extractor;
mod fixed_key;
mod handlers;
mod node;
mod produced_record;
mod schedule;
mod task_id;
pub(crate) mod task_stores;
mod upgrade_from;

pub use api::{Processor, ProcessorContext, StoreHandle};
pub(crate) use api::{ProcessorNode, TypedProcessorNode};
pub use collector::Collector;
pub use context::{EmitIntervals, TaskContext, TaskMetrics};
pub use default_timestamp_extractor::DefaultTimestampExtractor;
pub(crate) use fixed_key::FixedKey;
pub use fixed_key::{FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord};
pub(crate) use handlers::may_pass;
pub use handlers::{
    DeadLetterTopic, DeserializationHandler, ErrorContext, HandlerResponse, Handlers,
    LogAndContinue, LogAndFail, ProcessingHandler, ProductionHandler, ProductionResponse,
};
pub use node::Outputs;
pub(crate) use node::{BuiltNode, FnNode, Link, Node, NodeCount, NodeLife};
pub use produced_record::{Origin, Partitioning, ProducedRecord};
pub(crate) use schedule::Schedules;
pub use schedule::{PunctuationType, Schedule};
pub use task_id::TaskId;
pub(crate) use task_stores::TaskStores;
pub use upgrade_from::UpgradeFrom;
