//! What this node asks of other nodes. Beside `api`, what others ask of this one, it is the only room in
//! which types of the wire occur.

#[allow(dead_code, reason = "some purposes have no users yet")]
pub(crate) mod connections;
pub(crate) mod controller_channel;
mod controller_requests;
pub(crate) mod endpoints;
pub(crate) mod forwarding;
pub(crate) mod isr_changes;
pub(crate) mod lifecycle;
mod markers;
mod outbox;
mod questions;
pub(crate) mod quorum_cluster;
pub(crate) mod quorum_follower;
pub(crate) mod quorum_nodes;
pub(crate) mod quorum_requests;
pub(crate) mod remote_controller;
pub(crate) mod replica_fetchers;
pub(crate) mod transactions;
mod verification;
