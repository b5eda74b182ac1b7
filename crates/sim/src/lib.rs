//! A world to test the product in: a whole node lives, crashes and is judged, from one seed, bit for bit.
//!
//! ```text
//!   seed ──> Schedule: tasks of clients, faults ──> World: one queue of events, one virtual time
//!              clients ──frames──> network ──frames──> node: the product's controller, metadata log,
//!                 │                                     logs, cleaner, coordinators over one SimDisk
//!                 └── what was sent, acknowledged, read ──> Judge ──> Verdict, or none
//!              simclients: the product's own clients, in some worlds, over the same network to the same node
//!   a seed that fails ──> shrink ──> the fewest steps that break the same promise
//! ```
//!
//! Invariants:
//! - Everything follows from the schedule and its seed: two runs have the same digest.
//! - Whatever decides is the product's own code; `node` only wires, as the broker does.
//! - The judge believes clients and what a node serves, never what a node thinks.
//! - The product's clients run when the world lets them, and have its time (`docs/decisions/simulation.md`).
//! - Every promise to clients is judged in `judge`, and of clusters in `cluster/judge`; what a world sees by itself
//!   it tells the judge. Each promise is broken and kept in a test of the judge's own.
//!
//! `cluster` is a world of its own: a controller, brokers that replicate, and the network between them.
//!
//! Reading order: `schedule`, `world`, `judge`, `clients`, `world/live`, `protocol`, `node`, `coordinators`, `planted`,
//! `campaign`.

#![forbid(unsafe_code)]

mod campaign;
mod clients;
mod cluster;
mod coordinators;
mod disk_faults;
mod halted;
mod history;
mod judge;
mod node;
mod partition;
mod planted;
mod protocol;
mod random;
mod record_key;
mod schedule;
mod world;

pub use campaign::{hunt, hunt_in_cluster, run, shrink, shrink_cluster};
pub use cluster::{ClusterSchedule, PlantedInCluster, run_cluster};
pub use judge::{Promise, Verdict};
pub use planted::Planted;
pub use schedule::Schedule;
pub use world::Outcome;
