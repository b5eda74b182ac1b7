//! A cluster in a world: a controller, brokers that replicate partitions among one another, clients, and
//! the network between all of them, from one seed, bit for bit.
//!
//! ```text
//!   seed ──> ClusterSchedule ──> World: one queue of events, one virtual time
//!     ControllerNode  product: Controller, metadata log           ─┐
//!     BrokerNode × 3  product: metadata followed by fetch, roles,  ├─ Network: delays, cuts, pauses
//!                     partitions, fetch sessions, ReplicaFetcher   │
//!     Producer, Reader                                            ─┘
//!   after every event ──> invariants of the published models      ──> Verdict, or none
//!   clients' words, the last state of every log ──> promises      ──┘
//! ```
//!
//! Invariants:
//! - Whatever decides is the product's own code; a node only wires, as the broker's tasks do.
//! - Machines lose what was not synced; fewer than `min.insync.replicas` at once. Elections are clean.
//! - A request of a connection that its sender has given up may still be served, an answer to it counts no more.
//!
//! Reading order: `schedule`, `world`, `network`, `controller`, `broker`, `clients`, `judge`, `planted`.

mod broker;
mod clients;
mod controller;
mod judge;
mod message;
mod network;
mod planted;
mod probes;
mod schedule;
mod world;

#[cfg(test)]
pub(crate) use self::{judge::tests::JUDGED, probes::tests::PROBED};
pub use planted::PlantedInCluster;
pub use schedule::ClusterSchedule;
pub use world::run as run_cluster;
