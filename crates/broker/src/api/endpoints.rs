//! Brokers as the clients of one listener reach them.
//!
//! Others are where they have registered a listener of the same name; this one is where the client has
//! reached it.

use crate::api::cluster_node::ClusterNode;
use crate::net::ConnectionContext;
use crate::scheduling::clock::random_bytes;
use metadata::{BrokerRegistration, MetadataImage, NO_LEADER, Partition};
use model::{Array, BrokerId};
use std::sync::Arc;

/// A broker as clients of one listener see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerEndpoint {
    pub(crate) id: BrokerId,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) rack: Option<String>,
    pub(crate) is_fenced: bool,
}

impl BrokerEndpoint {
    /// As the answers to Produce and Fetch name it.
    pub(crate) fn as_node(&self) -> (BrokerId, &str, i32, Option<&str>) {
        let rack = self.rack.as_deref();
        (self.id, &self.host, i32::from(self.port), rack)
    }
}

/// The brokers of the metadata as one connection reaches them.
pub(crate) struct Endpoints<'c> {
    this: BrokerId,
    context: &'c ConnectionContext,
    pub(crate) image: Arc<MetadataImage>,
}

impl<'c> Endpoints<'c> {
    /// Those of the newest metadata.
    pub(crate) fn new(server: &ClusterNode, context: &'c ConnectionContext) -> Self {
        Self {
            this: server.node.id,
            context,
            image: server.node.image(),
        }
    }

    /// All brokers with a listener of this name, fenced ones included.
    pub(crate) fn all(&self) -> Vec<BrokerEndpoint> {
        let brokers = self.image.cluster.brokers().iter();
        let brokers = brokers.filter_map(|(_, registration)| self.endpoint(registration));
        brokers.collect()
    }

    /// This controller, and those that are registered with a listener of this name (KIP-919).
    pub(crate) fn controllers(&self) -> Vec<BrokerEndpoint> {
        let endpoint = |id, (host, port)| BrokerEndpoint {
            id,
            host,
            port,
            rack: None,
            is_fenced: false,
        };
        let listener = &self.context.listener.name;
        let registered = self.image.cluster.controllers().values();
        let others = registered.filter(|one| one.id != self.this);
        let others = others.filter_map(|one| {
            let found = one.endpoints.iter().find(|found| found.name == *listener)?;
            Some(endpoint(one.id, (found.host.clone(), found.port)))
        });
        let this = endpoint(self.this, self.context.advertised());
        let mut all: Vec<BrokerEndpoint> = std::iter::once(this).chain(others).collect();
        all.sort_by_key(|one| one.id);
        all
    }

    /// A broker that is not fenced.
    pub(crate) fn live(&self, id: BrokerId) -> Option<BrokerEndpoint> {
        let registration = self.image.cluster.broker(id)?;
        (!registration.is_fenced).then(|| self.endpoint(registration))?
    }

    /// Those of these brokers that are not fenced, each once.
    pub(crate) fn live_of(&self, mut ids: Vec<BrokerId>) -> Vec<BrokerEndpoint> {
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.live(id)).collect()
    }

    /// Whether a broker has a listener of this name.
    pub(crate) fn has(&self, id: BrokerId) -> bool {
        id == self.this || {
            let registration = self.image.cluster.broker(id);
            registration.is_some_and(|one| one.endpoint(&self.context.listener.name).is_some())
        }
    }

    /// The replicas of a partition that the client does not reach, or whose directory is offline.
    pub(crate) fn offline_replicas(&self, partition: &Partition) -> Array<'static, BrokerId> {
        let listener = &self.context.listener.name;
        let offline = self.image.cluster.offline_replicas(partition, listener);
        offline.collect()
    }

    /// The broker that the client takes for the controller: any that is not fenced, as each of them passes
    /// requests on.
    pub(crate) fn controller(&self) -> BrokerId {
        let brokers = self.image.cluster.brokers().iter();
        let live = brokers.filter(|(id, one)| !one.is_fenced && self.has(**id));
        let live: Vec<BrokerId> = live.map(|(id, _)| *id).collect();
        let at = match live.len() {
            0 | 1 => 0,
            count => u32::from_be_bytes(random_bytes()) as usize % count,
        };
        live.get(at).copied().unwrap_or(NO_LEADER)
    }

    fn endpoint(&self, registration: &BrokerRegistration) -> Option<BrokerEndpoint> {
        let (host, port) = match registration.id == self.this {
            true => self.context.advertised(),
            false => {
                let endpoint = registration.endpoint(&self.context.listener.name)?;
                (endpoint.host.clone(), endpoint.port)
            }
        };
        Some(BrokerEndpoint {
            id: registration.id,
            host,
            port,
            rack: registration.rack.clone(),
            is_fenced: registration.is_fenced,
        })
    }
}
