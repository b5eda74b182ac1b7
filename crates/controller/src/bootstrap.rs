//! The first records of a cluster, and what a controller writes when it becomes the active one.
//!
//! ```text
//!   empty log      BeginTransaction | features, … | min.insync.replicas | EndTransaction
//!   any other log  AbortTransaction, if its last transaction is unfinished
//! ```

use crate::create_topics::MIN_INSYNC_REPLICAS;
use crate::features::supported_versions;
use metadata::{
    ConfigResource, ELIGIBLE_LEADER_REPLICAS_FEATURE, GROUP_VERSION_FEATURE, MetadataRecord,
    MetadataVersion, SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE, TRANSACTION_VERSION_FEATURE,
};

/// From which metadata version on a new cluster gets which level of a feature: those that Apache Kafka's `kafka-storage
/// format` writes. Also of groups that are not served: a node of Apache Kafka that takes over such a directory has what
/// one has that it formatted itself. Clients are told by the APIs that there are no such groups.
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

/// What an empty log begins with: the `bootstrap` records, and with eligible leader replicas the
/// cluster's `min_insync_replicas`.
///
/// # Errors
/// [`NoMetadataVersion`] when they say none.
pub fn first_records(
    mut bootstrap: Vec<MetadataRecord>,
    min_insync_replicas: i32,
) -> Result<Vec<MetadataRecord>, NoMetadataVersion> {
    let level_of = |feature: &str| {
        bootstrap.iter().rev().find_map(|record| match record {
            MetadataRecord::FeatureLevel { name, level } if name == feature => Some(*level),
            _ => None,
        })
    };
    level_of(MetadataVersion::FEATURE)
        .and_then(MetadataVersion::from_level)
        .ok_or(NoMetadataVersion)?;
    if level_of(ELIGIBLE_LEADER_REPLICAS_FEATURE).is_some_and(|level| level > 0) {
        bootstrap.push(cluster_min_insync_replicas(min_insync_replicas));
    }
    Ok(bootstrap)
}

/// What a controller writes when it becomes active: `first` if the log is empty, at a metadata version
/// that may support transactions. `is_in_transaction` says that the log ends within one.
pub fn activation(
    first: Vec<MetadataRecord>,
    supports_transactions: bool,
    is_in_transaction: bool,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    if is_in_transaction {
        records.push(MetadataRecord::AbortTransaction {
            reason: Some("Controller failover".to_owned()),
        });
    }
    let is_transaction = supports_transactions && !first.is_empty();
    let begin = MetadataRecord::BeginTransaction {
        name: Some("Bootstrap records".to_owned()),
    };
    records.extend(is_transaction.then_some(begin));
    records.extend(first);
    records.extend(is_transaction.then_some(MetadataRecord::EndTransaction));
    records
}

/// With eligible leader replicas, `min.insync.replicas` is one for the whole cluster: the
/// controller's own is written down.
pub(crate) fn cluster_min_insync_replicas(own: i32) -> MetadataRecord {
    MetadataRecord::Config {
        resource: ConfigResource::all_brokers(),
        name: MIN_INSYNC_REPLICAS.to_owned(),
        value: Some(own.to_string()),
    }
}

#[cfg(test)]
mod tests;
