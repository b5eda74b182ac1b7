//! The physical topology: nodes, their edges and state stores; what a task is made of.
//!
//! ```text
//!   StreamsBuilder ─build()─> Topology (Send + Sync): names, edges, factories of nodes and stores
//!   Topology ─subtopologies()─> which nodes belong together, which topics they read and write
//!   Topology ─instantiate(subtopology)─> nodes of one task, linked by their types
//! ```
//!
//! Invariants:
//! - Parents stand before their children in `nodes`, so there are no circles.
//! - Names are unique; a name of a store is unique among stores.
//! - A node's factory takes exactly the types that its parents' factories give: the DSL and the typed handles of the
//!   Processor API see to it. A mismatch is found when a task is made, never while records flow.

mod builder;
mod definition;
mod describe;
mod error;
mod global;
mod instantiation;
mod java_hash;
mod java_tree;
mod picture;
mod sink;
mod source;
mod subtopologies;

pub use crate::processor::task_stores::TaskStores;
pub use builder::NodeHandle;
pub(crate) use builder::{check_name, processor_factory, stateless_factory};
pub(crate) use definition::{Instantiation, NodeFactory, NodeKind, SourceFactory};
pub use definition::{InternalTopic, SinkTopic, SourceTopics, Topology};
pub use describe::{DescribedKind, NodeDescription, SubtopologyDescription, TopologyDescription};
pub use error::TopologyError;
pub use global::StoreSource;
pub(crate) use instantiation::{BuiltTask, TaskNode, changelog_topic};
pub(crate) use java_hash::{hash_code, in_hash_order};
pub use sink::{Produced, StreamPartitioner, TopicNameExtractor};
pub use source::{AutoOffsetReset, Consumed, RawRecord, TimestampExtractor, TimestampFunction};
pub(crate) use source::{Decoded, SourceQueue, TypedSource, whole_names};
pub use subtopologies::Subtopology;
