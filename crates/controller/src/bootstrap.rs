//! The first records of a cluster, and what a controller writes when it becomes the active one.
//!
//! ```text
//!   empty log      BeginTransaction | features, … | min.insync.replicas | EndTransaction
//!   any other log  AbortTransaction, if its last transaction is unfinished
//! ```

use crate::context::ControllerContext;
use crate::create_topics::MIN_INSYNC_REPLICAS;
use crate::decision::Decision;
use crate::features::supported_versions;
use metadata::{
    ConfigResource, ELIGIBLE_LEADER_REPLICAS_FEATURE, GROUP_VERSION_FEATURE, MetadataImage,
    MetadataRecord, MetadataVersion, SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE,
    TRANSACTION_VERSION_FEATURE,
};

/// From which metadata version on a new cluster gets which level of a feature.
const DEFAULT_LEVELS: &[(&str, i16, i16)] = &[
    (ELIGIBLE_LEADER_REPLICAS_FEATURE, 26, 1),
    (GROUP_VERSION_FEATURE, 22, 1),
    (SHARE_VERSION_FEATURE, 28, 1),
    (STREAMS_VERSION_FEATURE, 29, 1),
    (TRANSACTION_VERSION_FEATURE, 24, 2),
];

/// The bootstrap records do not say the metadata version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bootstrap records have no feature level of metadata.version")]
pub struct NoMetadataVersion;

/// The bootstrap records of a new cluster: the features that it starts with. A feature at level
/// zero has no record, and the level of kraft.version is the quorum's.
pub fn bootstrap_records(metadata_version: MetadataVersion) -> Vec<MetadataRecord> {
    let feature = |name: &str, level| MetadataRecord::FeatureLevel {
        name: name.to_owned(),
        level,
    };
    let level_of = |name: &str, since: i16, level: i16| {
        if metadata_version.level() < since {
            0
        } else {
            level.min(supported_versions(name).max)
        }
    };
    let defaults = DEFAULT_LEVELS
        .iter()
        .map(|(name, since, level)| (name, level_of(name, *since, *level)))
        .filter(|(_, level)| *level > 0)
        .map(|(name, level)| feature(name, level));
    [feature(MetadataVersion::FEATURE, metadata_version.level())]
        .into_iter()
        .chain(defaults)
        .collect()
}

/// What a controller writes when it becomes active over `image`. `is_in_transaction` says that
/// the log ends within a transaction; the image is the one before it.
///
/// # Errors
/// [`NoMetadataVersion`] when the log is empty and `bootstrap` cannot begin one.
pub fn activate(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    bootstrap: &[MetadataRecord],
    is_in_transaction: bool,
) -> Result<Decision<()>, NoMetadataVersion> {
    let mut records = Vec::new();
    if is_in_transaction {
        records.push(MetadataRecord::AbortTransaction {
            reason: Some("Controller failover".to_owned()),
        });
    }
    if !image.is_empty() {
        return Ok(Decision::atomic(records, ()));
    }
    let level_of = |feature: &str| {
        bootstrap.iter().rev().find_map(|record| match record {
            MetadataRecord::FeatureLevel { name, level } if name == feature => Some(*level),
            _ => None,
        })
    };
    let metadata_version = level_of(MetadataVersion::FEATURE)
        .and_then(MetadataVersion::from_level)
        .ok_or(NoMetadataVersion)?;
    let has_transactions = metadata_version.supports_transactions();
    if has_transactions {
        records.push(MetadataRecord::BeginTransaction {
            name: Some("Bootstrap records".to_owned()),
        });
    }
    records.extend_from_slice(bootstrap);
    if level_of(ELIGIBLE_LEADER_REPLICAS_FEATURE).is_some_and(|level| level > 0) {
        records.push(cluster_min_insync_replicas(context));
    }
    if has_transactions {
        records.push(MetadataRecord::EndTransaction);
        return Ok(Decision::splittable(records, ()));
    }
    Ok(Decision::atomic(records, ()))
}

/// With eligible leader replicas, `min.insync.replicas` is one for the whole cluster: the
/// controller's own is written down.
pub(crate) fn cluster_min_insync_replicas(context: &ControllerContext<'_>) -> MetadataRecord {
    let own = context.config.topics.min_insync_replicas;
    MetadataRecord::Config {
        resource: ConfigResource::all_brokers(),
        name: MIN_INSYNC_REPLICAS.to_owned(),
        value: Some(own.to_string()),
    }
}

#[cfg(test)]
mod tests;
