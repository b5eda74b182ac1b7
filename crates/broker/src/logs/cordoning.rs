//! Log directories that take no new partitions: `cordoned.log.dirs` (KIP-1066).
//!
//! The configuration names them, and this broker's registration in the metadata has their ids, so
//! that the controller places nothing here once no directory is left. Whoever needs to know looks at
//! the registration.

use crate::Broker;
use crate::logs::log_directories::{LogDirectory, absolute};
use controller::ControllerContext;
use controller::directories::change_directories;
use metadata::{MetadataImage, MetadataRecord};
use std::path::Path;

impl Broker {
    /// Whether the directory takes no new partitions.
    pub(crate) fn is_cordoned(&self, directory: &LogDirectory) -> bool {
        let image = self.image();
        let registration = image.cluster.broker(self.node_id);
        let cordoned = registration.and_then(|one| one.cordoned_directories.as_deref());
        cordoned.is_some_and(|ids| ids.contains(&directory.id()))
    }

    /// The records that make the registration in `image` say what is configured, if it does not.
    pub(crate) fn cordoning_records(&self, image: &MetadataImage) -> Vec<MetadataRecord> {
        let Some(registration) = image.cluster.broker(self.node_id) else {
            return Vec::new();
        };
        let config = self.live_config();
        let configured = &config.log.cordoned_log_dirs;
        let directories = self.log_directories.iter();
        let cordoned = directories.filter(|one| {
            let is_named = |name: &String| name == "*" || absolute(Path::new(name)) == one.path();
            one.is_usable() && configured.iter().any(is_named)
        });
        let (ids, names): (Vec<_>, Vec<_>) = cordoned.map(|one| (one.id(), one.name())).unzip();
        if ids.is_empty() && registration.cordoned_directories.is_none() {
            return Vec::new();
        }
        let context = ControllerContext::new(&self.config);
        let broker = (self.node_id, registration.epoch);
        let decided = change_directories(image, &context, broker, &[], Some(&ids));
        let records = decided.map_or_else(|_| Vec::new(), |decision| decision.records);
        if !records.is_empty() && names.is_empty() {
            tracing::info!("no log directory is cordoned any more");
        } else if !records.is_empty() {
            tracing::info!(
                directories = names.join(","),
                "only these log directories are cordoned: they take no new partitions"
            );
        }
        records
    }
}
