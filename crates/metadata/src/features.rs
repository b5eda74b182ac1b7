//! Finalized features: the levels that the whole cluster works with.

use crate::MetadataVersion;
use std::collections::BTreeMap;

/// The feature of dynamic quorums. Its level is in the quorum's control records, never here.
pub const KRAFT_VERSION_FEATURE: &str = "kraft.version";
/// The feature of eligible leader replicas (KIP-966).
pub const ELIGIBLE_LEADER_REPLICAS_FEATURE: &str = "eligible.leader.replicas.version";
/// The feature of the newer group coordinator: from level 1 on, consumer groups of KIP-848.
pub const GROUP_VERSION_FEATURE: &str = "group.version";
/// The feature of share groups (KIP-932).
pub const SHARE_VERSION_FEATURE: &str = "share.version";
/// The feature of streams groups (KIP-1071).
pub const STREAMS_VERSION_FEATURE: &str = "streams.version";
/// The feature of transactions: level 1 has flexible records, level 2 is KIP-890's protocol.
pub const TRANSACTION_VERSION_FEATURE: &str = "transaction.version";

/// The finalized features.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeaturesImage {
    /// `None` until the log's first record says it.
    pub(crate) metadata_version: Option<MetadataVersion>,
    /// The levels of the other features; level zero has no entry.
    pub(crate) levels: BTreeMap<String, i16>,
}

impl FeaturesImage {
    /// The metadata version; `None` while the log is empty.
    pub const fn metadata_version(&self) -> Option<MetadataVersion> {
        self.metadata_version
    }

    /// The level of a feature but `metadata.version`; zero when it is not finalized.
    pub fn level(&self, feature: &str) -> i16 {
        self.levels.get(feature).copied().unwrap_or(0)
    }

    /// The levels of all features but `metadata.version` that are above zero.
    pub const fn levels(&self) -> &BTreeMap<String, i16> {
        &self.levels
    }

    /// All finalized features with their levels, `metadata.version` included.
    pub fn finalized(&self) -> BTreeMap<String, i16> {
        let mut levels = self.levels.clone();
        if let Some(version) = self.metadata_version {
            levels.insert(MetadataVersion::FEATURE.to_owned(), version.level());
        }
        levels
    }

    /// Whether eligible leader replicas are kept.
    pub fn has_eligible_leader_replicas(&self) -> bool {
        self.level(ELIGIBLE_LEADER_REPLICAS_FEATURE) > 0
    }
}
