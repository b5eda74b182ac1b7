//! The DSL: streams and tables, as Kafka Streams has them.
//!
//! ```text
//!   StreamsBuilder ── stream(), table(), global_table() ──> KStream, KTable, GlobalKTable
//!   KStream ── map_values(), filter() ... ──> KStream ── group_by_key() ──> KGroupedStream ── count() ──> KTable
//!        │ each call adds a node to the logical graph; names are drawn from one counter, as Kafka Streams draws them
//!   build() ── writes the graph into a Topology, parents first, in the order of the calls
//! ```
//!
//! What is wrong with a call is told by `build()`, so that calls can be chained.

mod aggregate;
mod builder;
mod cogrouped;
mod config;
mod emit_strategy;
mod graph;
mod graph_builder;
mod grouped;
mod join_windows;
mod joins;
mod materialized;
mod named;
mod nullable;
mod optimize;
mod repartition;
mod stored_values;
mod stores;
mod stream;
mod stream_join;
mod stream_joined;
mod suppress;
mod suppressed;
mod table;
mod table_output;
mod table_view;
mod windows;

pub use crate::state::StoreType;
pub use crate::topology::{AutoOffsetReset, Consumed, Produced, TimestampExtractor};
pub use builder::StreamsBuilder;
pub use cogrouped::{
    CogroupedKStream, SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream,
};
pub use config::{Optimization, TopologyConfig, UnknownOptimization};
pub use emit_strategy::EmitStrategy;
pub(crate) use graph::{GraphNode, GraphNodeId, Written};
pub(crate) use graph_builder::Builder;
pub use grouped::{KGroupedStream, SessionWindowedKStream, TimeWindowedKStream};
pub use join_windows::JoinWindows;
pub use joins::{Joined, TableJoined};
pub use materialized::Materialized;
pub use named::{Grouped, Repartitioned};
pub use nullable::Nullable;
pub(crate) use repartition::Repartition;
pub use stores::DslStores;
pub use stream::{Branched, BranchedKStream, KStream, Printed};
pub use stream_joined::StreamJoined;
pub use suppressed::{
    BufferConfig, BufferLimits, EagerBufferConfig, StrictBufferConfig, Suppressed,
};
pub use table::{
    GlobalKTable, KGroupedTable, KTable, Named, TableSettings, TransformContext, ValueTransformer,
};
pub use windows::{SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows};
