//! What a request may ask of this broker.

use crate::api::fetch_sessions::FetchSessions;
use crate::controller::link::ControllerLink;
use crate::coordinators::Coordinators;
use crate::logs::Logs;
use crate::net::{Sockets, connection_limits};
use crate::runtime::heavy_work::HeavyWork;
use crate::settings::node::Node;
use metadata::MetadataImage;
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

impl Broker {
    /// Lets every request see the newest image.
    pub(crate) fn publish(&self, image: Arc<MetadataImage>) {
        // First the groups: what a request has found in the metadata is not unknown to them.
        self.coordinators.groups.set_metadata(&image);
        self.node.set_image(image);
    }

    /// Puts in force what the image says of brokers.
    pub(crate) fn reconfigure(&self, image: &MetadataImage) {
        self.node.reconfigure(image);
        match connection_limits(&self.node.live_config()) {
            Ok(limits) => {
                self.sockets.client_limits.set(limits.clone());
                self.sockets.controller_limits.set(limits);
            }
            Err(error) => tracing::warn!(%error, "the limits of connections stay as they are"),
        }
    }
}
