//! Log directories that take no new partitions: `cordoned.log.dirs` (KIP-1066).
//!
//! The configuration names them, and this broker's registration in the metadata has their ids, so
//! that the controller places nothing here once no directory is left. Whoever needs to know looks at
//! the registration.

use crate::logs::Logs;
use crate::logs::log_directories::{LogDirectory, absolute};
use config::ServerConfig;
use controller::ChangeDirectories;
use metadata::MetadataImage;
use std::path::Path;

impl Logs {
    /// Whether the directory takes no new partitions.
    pub(crate) fn is_cordoned(&self, directory: &LogDirectory) -> bool {
        let image = self.node.image();
        let registration = image.cluster.broker(self.node.id);
        let cordoned = registration.and_then(|one| one.cordoned_directories.as_deref());
        cordoned.is_some_and(|ids| ids.contains(&directory.id()))
    }

    /// What makes the registration in `image` say what is configured, if it does not.
    pub(crate) fn cordoning_change(
        &self,
        image: &MetadataImage,
        config: &ServerConfig,
    ) -> Option<ChangeDirectories> {
        let registration = image.cluster.broker(self.node.id)?;
        let directories = self.directories.iter();
        let cordoned = directories.filter(|one| one.is_usable() && is_named(config, one));
        let (ids, names): (Vec<_>, Vec<_>) = cordoned.map(|one| (one.id(), one.name())).unzip();
        let known = registration.cordoned_directories.as_deref();
        let is_known = match known {
            Some(known) => known.len() == ids.len() && ids.iter().all(|id| known.contains(id)),
            None => ids.is_empty(),
        };
        if is_known || !image.metadata_version().supports_cordoned_directories() {
            return None;
        }
        if names.is_empty() {
            tracing::info!("no log directory is cordoned any more");
        } else {
            tracing::info!(
                directories = names.join(","),
                "only these log directories are cordoned: they take no new partitions"
            );
        }
        Some(ChangeDirectories {
            broker_id: self.node.id,
            broker_epoch: self.node.broker_epoch(),
            offline: Vec::new(),
            cordoned: Some(ids),
        })
    }
}

/// Whether the configuration says that the directory takes no new partitions.
pub(crate) fn is_named(config: &ServerConfig, directory: &LogDirectory) -> bool {
    let is_named = |name: &String| name == "*" || absolute(Path::new(name)) == directory.path();
    config.log.cordoned_log_dirs.iter().any(is_named)
}
