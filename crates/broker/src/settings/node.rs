//! This node, as every room may see it: what it is configured to be, the newest metadata, and whether it
//! stops.

use super::loggers::Loggers;
use super::replication_throttle::{ReplicationThrottle, ThrottledEnd};
use config::{BrokerLayers, ConfigMap, ServerConfig};
use metadata::{Config, ConfigResource, MetadataDelta, MetadataImage};
use model::{BrokerEpoch, BrokerId};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, AtomicI64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A node that runs.
#[derive(Debug)]
pub(crate) struct Node {
    /// What it was started with.
    pub(crate) config: ServerConfig,
    /// The configuration in force; see [`Node::live_config`].
    pub(super) live_config: RwLock<Arc<ServerConfig>>,
    /// The cluster's id, as `meta.properties` has it.
    pub(crate) cluster_id: String,
    /// The level of `kraft.version`: the quorum's, hence not in the image.
    pub(crate) kraft_version: AtomicI16,
    /// `node.id`.
    pub(crate) id: BrokerId,
    /// The epoch of the registration of this run; -1 before.
    pub(crate) broker_epoch: AtomicI64,
    /// What goes to followers of throttled partitions.
    pub(crate) leader_throttle: Arc<ReplicationThrottle>,
    /// What this process logs.
    pub(crate) loggers: Loggers,
    /// Where tasks run.
    pub(crate) runtime: Handle,
    /// True once the node stops; every task looks at it.
    pub(crate) stop: watch::Sender<bool>,
    /// Why the process is to end at once; empty while it is not.
    pub(crate) halted: watch::Sender<String>,
    /// The newest image.
    image: RwLock<Arc<MetadataImage>>,
}

impl Node {
    /// A node of this configuration, in a cluster of this id, which knows no metadata yet.
    pub(crate) fn new(
        config: ServerConfig,
        cluster_id: String,
        loggers: Loggers,
        runtime: Handle,
    ) -> Self {
        let window = config.replication.replication_quota_window;
        let leader_throttle = ReplicationThrottle::new(ThrottledEnd::Leader, window);
        Self {
            cluster_id,
            leader_throttle: Arc::new(leader_throttle),
            kraft_version: AtomicI16::new(0),
            id: config.node_id,
            broker_epoch: AtomicI64::new(BrokerEpoch::NONE.0),
            loggers,
            runtime,
            stop: watch::Sender::new(false),
            halted: watch::Sender::default(),
            image: RwLock::new(Arc::new(MetadataImage::default())),
            live_config: RwLock::new(Arc::new(config.clone())),
            config,
        }
    }

    /// The newest image of the cluster.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.read().clone()
    }

    /// Lets everybody see the newest image.
    pub(crate) fn set_image(&self, image: Arc<MetadataImage>) {
        *self.image.write() = image;
    }

    /// The configuration in force.
    pub(crate) fn live_config(&self) -> Arc<ServerConfig> {
        self.live_config.read().clone()
    }

    /// Puts in force which followers are throttled by this broker as their leader.
    pub(crate) fn throttle_followers(&self, delta: &MetadataDelta) {
        self.leader_throttle.learn(delta, self.id);
    }

    /// The epoch of this run's registration.
    pub(crate) fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.broker_epoch.load(Ordering::Acquire))
    }

    /// The layers of this broker's configuration, with what has been set while it runs.
    pub(crate) fn config_layers(&self) -> ConfigLayers {
        ConfigLayers::of(&self.config, &self.image())
    }

    /// Gives up: there is nothing that the broker could go on with. Whoever runs the server ends the
    /// process, so that a supervisor starts it again.
    pub(crate) fn halt(&self, reason: String) {
        let is_news = |halted: &mut String| {
            let is_news = halted.is_empty();
            if is_news {
                tracing::error!(reason, "the server halts");
                halted.clone_from(&reason);
            }
            is_news
        };
        self.halted.send_if_modified(is_news);
    }
}

/// The layers of this broker's configuration as of one image.
#[derive(Debug)]
pub(crate) struct ConfigLayers {
    static_values: ConfigMap,
    cluster_wide: Option<Arc<Config>>,
    per_broker: Option<Arc<Config>>,
}

impl ConfigLayers {
    pub(crate) fn of(config: &ServerConfig, image: &MetadataImage) -> Self {
        Self {
            static_values: config.values.clone(),
            cluster_wide: image.configs.of(&ConfigResource::all_brokers()).cloned(),
            per_broker: image
                .configs
                .of(&ConfigResource::broker(config.node_id))
                .cloned(),
        }
    }

    pub(crate) fn layers(&self) -> BrokerLayers<'_> {
        BrokerLayers {
            cluster_wide: self
                .cluster_wide
                .as_deref()
                .unwrap_or(&config::layers::NO_VALUES),
            per_broker: self
                .per_broker
                .as_deref()
                .unwrap_or(&config::layers::NO_VALUES),
            ..BrokerLayers::of_static(&self.static_values)
        }
    }
}
