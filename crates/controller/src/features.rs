//! The features that this build can work with, and how far.

use metadata::{
    ELIGIBLE_LEADER_REPLICAS_FEATURE, KRAFT_VERSION_FEATURE, MetadataVersion, VersionRange,
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
    up_to("group.version", 0),
    up_to(KRAFT_VERSION_FEATURE, 1),
    SupportedFeature {
        name: MetadataVersion::FEATURE,
        versions: VersionRange {
            min: MetadataVersion::MINIMUM.level(),
            max: MetadataVersion::LATEST.level(),
        },
    },
    up_to("share.version", 0),
    up_to("streams.version", 0),
    up_to("transaction.version", 0),
];

/// The levels of `feature` that this build can work with; zero alone for an unknown one.
pub fn supported_versions(feature: &str) -> VersionRange {
    SUPPORTED_FEATURES
        .iter()
        .find(|supported| supported.name == feature)
        .map_or(VersionRange { min: 0, max: 0 }, |supported| {
            supported.versions
        })
}
