//! The features that this build can work with, and how far.
//!
//! A level is in the table when a directory with it is kept whole: nothing of it is dropped or
//! misread. Whether clients can use what the level stands for is told by the APIs: those of share
//! and streams groups are not served, so nobody starts such a group, and their records stay as
//! they are.

use metadata::{
    ELIGIBLE_LEADER_REPLICAS_FEATURE, GROUP_VERSION_FEATURE, KRAFT_VERSION_FEATURE, MetadataImage,
    MetadataVersion, SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE, SupportedFeatures,
    TRANSACTION_VERSION_FEATURE, VersionRange,
};

/// A feature with the levels that this build can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportedFeature {
    /// The feature's name.
    pub name: &'static str,
    /// Its levels; a feature that ends at zero cannot be enabled.
    pub versions: VersionRange,
}

const fn up_to(name: &'static str, max: i16) -> SupportedFeature {
    SupportedFeature {
        name,
        versions: VersionRange { min: 0, max },
    }
}

/// Every feature of Kafka 4.3 by name: what brokers register, controllers check and ApiVersions
/// tells.
pub const SUPPORTED_FEATURES: &[SupportedFeature] = &[
    up_to(ELIGIBLE_LEADER_REPLICAS_FEATURE, 1),
    up_to(GROUP_VERSION_FEATURE, 1),
    up_to(KRAFT_VERSION_FEATURE, 1),
    SupportedFeature {
        name: MetadataVersion::FEATURE,
        versions: VersionRange {
            min: MetadataVersion::MINIMUM.level(),
            max: MetadataVersion::LATEST.level(),
        },
    },
    up_to(SHARE_VERSION_FEATURE, 1),
    up_to(STREAMS_VERSION_FEATURE, 1),
    up_to(TRANSACTION_VERSION_FEATURE, 2),
];

/// What a broker of this build registers: the features that can be enabled.
pub fn broker_features() -> SupportedFeatures {
    let can_be_enabled = |feature: &&SupportedFeature| feature.versions.max > 0;
    let enabled = SUPPORTED_FEATURES.iter().filter(can_be_enabled);
    enabled
        .map(|one| (one.name.to_owned(), one.versions))
        .collect()
}

/// The finalized features that this build cannot work with, each with its level: a directory that
/// has any is left as it is.
pub fn unsupported_features(image: &MetadataImage) -> Vec<(String, i16)> {
    let finalized = image.features.finalized().into_iter();
    finalized
        .filter(|(name, level)| !supported_versions(name).contains(*level))
        .collect()
}

/// The levels of `feature` that this build can work with; zero alone for an unknown one.
pub fn supported_versions(feature: &str) -> VersionRange {
    SUPPORTED_FEATURES
        .iter()
        .find(|supported| supported.name == feature)
        .map_or(VersionRange { min: 0, max: 0 }, |supported| {
            supported.versions
        })
}
