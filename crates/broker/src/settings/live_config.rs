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
use config::ServerConfig;
use config::server::ServerConfigError;
use metadata::MetadataImage;
use std::sync::Arc;

impl Node {
    /// Puts in force what the image says of brokers.
    pub(crate) fn reconfigure(&self, image: &MetadataImage) {
        match self.config_as_of(image) {
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

    /// What this node was started with, and over it what the image says of brokers.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn config_as_of(
        &self,
        image: &MetadataImage,
    ) -> Result<ServerConfig, Vec<ServerConfigError>> {
        let layers = ConfigLayers::of(&self.config, image);
        ServerConfig::of_layers(&layers.layers())
    }
}
