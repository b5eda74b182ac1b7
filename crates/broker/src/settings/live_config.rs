//! The configuration that the broker runs with: what it was started with, and over it what has been
//! set while it runs, for all brokers and for this one (KIP-226).
//!
//! ```text
//!   change of a broker's values ──> reconfigure ──> live_config      read where it is needed
//!                                               ├─> limits of connections
//!                                               └─> (hosting) settings of every log
//! ```
//!
//! Keys that cannot change while a broker runs are refused by the controller, so reading any key
//! from the live configuration is right; what is read at the start only says so itself.

use crate::settings::node::{ConfigLayers, Node};
use crate::settings::told_changes::tell_what_has_no_effect;
use config::ServerConfig;
use metadata::{ConfigResource, MetadataImage};
use std::sync::Arc;

impl Node {
    /// Puts in force what the image says of brokers, if anything.
    pub(crate) fn reconfigure_at_start(&self, image: &MetadataImage) {
        let set = |resource| image.configs.of(&resource).is_some();
        if set(ConfigResource::all_brokers()) || set(ConfigResource::broker(self.id)) {
            self.reconfigure(image);
        }
        tell_what_has_no_effect(image);
    }

    /// Puts in force what the image says of brokers.
    pub(crate) fn reconfigure(&self, image: &MetadataImage) {
        let layers = ConfigLayers::of(&self.config, image);
        match ServerConfig::of_layers(&layers.layers()) {
            Ok(config) => *self.live_config.write() = Arc::new(config),
            Err(errors) => {
                let reasons: Vec<_> = errors.iter().map(ToString::to_string).collect();
                let reasons = reasons.join("; ");
                tracing::warn!(
                    reasons,
                    "invalid configuration of the broker; the previous one stays in force"
                );
            }
        }
    }
}
