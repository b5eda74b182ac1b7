//! What a decision knows beside the image: the controller's own configuration, and random bytes.

use config::{BrokerLayers, ServerConfig, TopicDefaults};
use metadata::{ConfigResource, MetadataImage};
use model::{BrokerId, Uuid};

/// The controller that decides.
#[derive(Debug, Clone, Copy)]
pub struct ControllerContext<'a> {
    /// The controller's node id.
    pub node_id: BrokerId,
    /// The controller's configuration as given at start: dynamic values come from the image.
    pub config: &'a ServerConfig,
}

impl<'a> ControllerContext<'a> {
    /// The context of the node with this configuration.
    pub const fn new(config: &'a ServerConfig) -> Self {
        Self {
            node_id: config.node_id,
            config,
        }
    }

    /// What topics without values of their own have, with what has been set for brokers.
    pub fn topic_defaults(&self, image: &MetadataImage) -> TopicDefaults {
        TopicDefaults::of_broker(&self.layers(image))
            .unwrap_or_else(|_| self.config.topic_defaults.clone())
    }

    /// The layers of the configuration that topics fall back to.
    pub fn layers(&self, image: &'a MetadataImage) -> BrokerLayers<'a> {
        let set = |resource: &ConfigResource| {
            image
                .configs
                .of(resource)
                .map_or(&config::layers::NO_VALUES, |values| &**values)
        };
        BrokerLayers {
            static_values: &self.config.values,
            cluster_wide: set(&ConfigResource::all_brokers()),
            per_broker: set(&ConfigResource::broker(self.node_id)),
        }
    }
}

/// Draws 16 random bytes. Must not return the same bytes for ever.
pub type Random<'a> = dyn FnMut() -> [u8; 16] + 'a;

/// A random id for which `is_taken` is false.
pub(crate) fn random_id(random: &mut Random<'_>, is_taken: impl Fn(Uuid) -> bool) -> Uuid {
    loop {
        if let Some(id) = Uuid::from_random(random()).filter(|id| !is_taken(*id)) {
            return id;
        }
    }
}

/// A random number below `bound`, or zero.
pub(crate) fn random_below(random: &mut Random<'_>, bound: usize) -> usize {
    let drawn = u128::from_be_bytes(random());
    // 128 random bits: what the remainder favors is beyond measure.
    usize::try_from(drawn % bound.max(1) as u128).expect("below a usize")
}
