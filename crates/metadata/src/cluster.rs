//! The nodes of the cluster: registered brokers and controllers.

use crate::shared_map::SharedMap;
use crate::topics::Partition;
use model::{BrokerEpoch, BrokerId, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a listener of a broker or a controller is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name.
    pub name: String,
    /// The host that clients are told.
    pub host: String,
    /// The port that clients are told.
    pub port: u16,
    /// The security protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// The levels of a feature that a node can work with, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest level.
    pub min: i16,
    /// The highest level.
    pub max: i16,
}

impl VersionRange {
    /// Whether the node can work with `level`.
    pub const fn contains(self, level: i16) -> bool {
        self.min <= level && level <= self.max
    }
}

/// The features that a node can work with, by name.
pub type SupportedFeatures = BTreeMap<String, VersionRange>;

/// A broker as it has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// The broker's id.
    pub id: BrokerId,
    /// The registration's epoch: the offset of its record.
    pub epoch: BrokerEpoch,
    /// The id of this run of the broker's process.
    pub incarnation_id: Uuid,
    /// The broker's listeners.
    pub endpoints: Vec<Endpoint>,
    /// The features that the broker can work with.
    pub features: SupportedFeatures,
    /// The broker's rack.
    pub rack: Option<String>,
    /// Whether the broker may not lead: it has not caught up, or is not heard of.
    pub is_fenced: bool,
    /// Whether the broker is shutting down and gives its leaderships away.
    pub is_in_controlled_shutdown: bool,
    /// Set on brokers of a cluster that moved away from ZooKeeper; kept as it is.
    pub is_migrating_zk_broker: bool,
    /// The ids of the broker's online log directories.
    pub directories: Vec<Uuid>,
    /// The log directories that take no new replicas; `None` until the broker says.
    pub cordoned_directories: Option<Vec<Uuid>>,
}

impl BrokerRegistration {
    /// The listener of this name.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.name == listener)
    }

    /// Whether the broker may lead partitions: neither fenced nor shutting down.
    pub const fn is_active(&self) -> bool {
        !self.is_fenced && !self.is_in_controlled_shutdown
    }

    /// Whether a new replica may be placed in one of the broker's directories.
    pub fn has_uncordoned_directory(&self) -> bool {
        match &self.cordoned_directories {
            Some(cordoned) if !self.directories.is_empty() => {
                self.directories.iter().any(|id| !cordoned.contains(id))
            }
            _ => true,
        }
    }

    /// Whether the replica's directory is online: reserved ids but that of a lost directory
    /// count as online, and so does any directory of a broker that has named none.
    pub fn has_online_directory(&self, directory: Uuid) -> bool {
        if directory == crate::LOST_DIRECTORY {
            return false;
        }
        directory == crate::UNASSIGNED_DIRECTORY
            || directory == crate::MIGRATING_DIRECTORY
            || self.directories.is_empty()
            || self.directories.contains(&directory)
    }
}

/// A change of a broker's registration: what is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerRegistrationChange {
    /// The broker's id.
    pub broker_id: BrokerId,
    /// The epoch of the registration that changes.
    pub broker_epoch: BrokerEpoch,
    /// Whether the broker may not lead.
    pub is_fenced: Option<bool>,
    /// The broker begins its controlled shutdown. Only a new registration ends one.
    pub enters_controlled_shutdown: bool,
    /// The broker's online log directories.
    pub directories: Option<Vec<Uuid>>,
    /// The log directories that take no new replicas.
    pub cordoned_directories: Option<Vec<Uuid>>,
}

/// A controller as it has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerRegistration {
    /// The controller's id.
    pub id: BrokerId,
    /// The id of this run of the controller's process.
    pub incarnation_id: Uuid,
    /// Whether the controller could migrate from ZooKeeper; kept as it is.
    pub is_zk_migration_ready: bool,
    /// The controller's listeners.
    pub endpoints: Vec<Endpoint>,
    /// The features that the controller can work with.
    pub features: SupportedFeatures,
}

/// The nodes of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterImage {
    pub(crate) brokers: SharedMap<BrokerId, Arc<BrokerRegistration>>,
    pub(crate) controllers: SharedMap<BrokerId, Arc<ControllerRegistration>>,
}

impl ClusterImage {
    /// The registration of a broker.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    /// All registered brokers by id.
    pub const fn brokers(&self) -> &SharedMap<BrokerId, Arc<BrokerRegistration>> {
        &self.brokers
    }

    /// All registered controllers by id.
    pub const fn controllers(&self) -> &SharedMap<BrokerId, Arc<ControllerRegistration>> {
        &self.controllers
    }

    /// The replicas of a partition that clients of a listener cannot reach: their broker is fenced, or has no
    /// such listener, or their directory is offline.
    pub fn offline_replicas(
        &self,
        partition: &Partition,
        listener: &str,
    ) -> impl Iterator<Item = BrokerId> {
        let replicas = partition.replicas.iter().zip(&partition.directories);
        let offline = replicas.filter(move |(id, directory)| {
            self.broker(**id).is_none_or(|broker| {
                broker.is_fenced
                    || broker.endpoint(listener).is_none()
                    || !broker.has_online_directory(**directory)
            })
        });
        offline.map(|(id, _)| *id)
    }

    /// Whether `id` is a broker that may lead partitions.
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|broker| broker.is_active())
    }
}
