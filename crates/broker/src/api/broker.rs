//! What a request may ask of this broker.

use crate::api::fetch_sessions::FetchSessions;
use crate::controller::link::ControllerLink;
use crate::coordinators::Coordinators;
use crate::logs::Logs;
use crate::net::Sockets;
use crate::scheduling::heavy_work::HeavyWork;
use crate::settings::node::Node;
use std::sync::Arc;

/// A running broker and controller.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The node that it is.
    pub(crate) node: Arc<Node>,
    /// Where clients reach it.
    pub(crate) sockets: Arc<Sockets>,
    /// What would hold up other requests.
    pub(crate) heavy_work: Arc<HeavyWork>,
    /// Log directories and their partitions.
    pub(crate) logs: Arc<Logs>,
    /// Groups and transactions.
    pub(crate) coordinators: Arc<Coordinators>,
    /// Decides about the cluster, one request after the other.
    pub(crate) controller: ControllerLink,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
}
