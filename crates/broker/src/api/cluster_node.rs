//! What a request may ask of any node, whatever its roles are: a controller alone has no more.

use crate::api::foreign_nodes::ForeignNodes;
use crate::controller::broker_log::RefusedRegistrations;
use crate::controller::link::ControllerLink;
use crate::logs::Logs;
use crate::net::Sockets;
use crate::peers::forwarding::Forwarding;
use crate::scheduling::heavy_work::HeavyWork;
use crate::scheduling::metadata_disk::MetadataDisk;
use crate::settings::node::Node;
use std::sync::Arc;

/// A running node of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterNode {
    /// The node that it is.
    pub(crate) node: Arc<Node>,
    /// Where others reach it.
    pub(crate) sockets: Arc<Sockets>,
    /// What would hold up other requests.
    pub(crate) heavy_work: Arc<HeavyWork>,
    /// Decides about the cluster, one request after the other.
    pub(crate) controller: ControllerLink,
    /// The disk from which its metadata log goes to those who follow it.
    pub(crate) metadata_disk: MetadataDisk,
    /// Passes on what clients ask the controller, if that is another node.
    pub(crate) forwarding: Option<Forwarding>,
    /// The logs of its broker, for clients that wait until what was decided is served here; none for those
    /// who ask the controller.
    pub(crate) logs: Option<Arc<Logs>>,
    /// Nodes that would lead the quorum.
    pub(crate) foreign_nodes: Arc<ForeignNodes>,
    /// Brokers that were not registered.
    pub(crate) refused_registrations: Arc<RefusedRegistrations>,
}
