//! UpdateFeatures: the cluster goes to other levels of its features.
//!
//! One wrong update refuses the request. Up to version 1 the answer repeats the success for each
//! feature. In version 0 a permitted downgrade is a safe one. The level of kraft.version lives in
//! the quorum: the decision tells the level that it shall have.

use crate::bootstrap::cluster_min_insync_replicas;
use crate::context::ControllerContext;
use crate::create_topics::MIN_INSYNC_REPLICAS;
use crate::decision::{ApiError, Decision};
use crate::features::{SUPPORTED_FEATURES, supported_versions};
use metadata::{
    ConfigResource, ConfigResourceType, ELIGIBLE_LEADER_REPLICAS_FEATURE, KRAFT_VERSION_FEATURE,
    MetadataImage, MetadataRecord, MetadataVersion, SupportedFeatures, VersionRange,
};
use model::ErrorCode;
use std::collections::BTreeMap;

/// How far an update may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeType {
    /// A number without a meaning.
    Unknown,
    /// To a higher level only.
    Upgrade,
    /// To a lower level if nothing is lost.
    SafeDowngrade,
    /// To a lower level whatever is lost.
    UnsafeDowngrade,
}

impl UpgradeType {
    /// The type of this number in requests from version 1 on.
    pub const fn from_id(id: i8) -> Self {
        match id {
            1 => Self::Upgrade,
            2 => Self::SafeDowngrade,
            3 => Self::UnsafeDowngrade,
            _ => Self::Unknown,
        }
    }
}

/// A feature that shall have another level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub feature: String,
    /// The level that it shall have; zero disables it.
    pub level: i16,
    /// How far the update may go.
    pub upgrade_type: UpgradeType,
}

/// What the update asks of the quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdatedFeatures {
    /// The level that kraft.version shall have, if it changes.
    pub kraft_version: Option<i16>,
}

/// Decides whether the features go to other levels. `kraft_version` is the level in the quorum.
///
/// # Errors
/// The first fault among the updates, for the whole request.
pub fn update_features(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    kraft_version: i16,
    updates: &[FeatureUpdate],
    validate_only: bool,
) -> Result<Decision<UpdatedFeatures>, ApiError> {
    // The last update of a feature that is named twice counts.
    let by_name: BTreeMap<&str, &FeatureUpdate> = updates
        .iter()
        .map(|update| (&*update.feature, update))
        .collect();
    let mut proposed = image.features.finalized();
    proposed.extend(by_name.values().map(|u| (u.feature.clone(), u.level)));
    let mut records = Vec::new();
    let mut updated = UpdatedFeatures::default();
    for update in by_name.into_values() {
        let record = Update {
            image,
            context,
            kraft_version,
            update,
        }
        .check(&proposed)
        .map_err(|words| {
            let all = "The update failed for all features since the following feature had an error";
            ApiError::new(ErrorCode::InvalidUpdateVersion, format!("{all}: {words}"))
        })?;
        if update.feature == KRAFT_VERSION_FEATURE && update.level != kraft_version {
            updated.kraft_version = Some(update.level);
        }
        records.extend(record);
    }
    if validate_only {
        return Ok(Decision::unchanged(updated));
    }
    let enables_eligible_leaders = updates
        .iter()
        .any(|update| update.feature == ELIGIBLE_LEADER_REPLICAS_FEATURE && update.level > 0);
    if enables_eligible_leaders {
        let mut first = one_min_insync_replicas(image, context);
        first.append(&mut records);
        records = first;
    }
    Ok(Decision::atomic(records, updated))
}

/// Makes `min.insync.replicas` the same on every broker, as eligible leader replicas need.
fn one_min_insync_replicas(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    let all_brokers = ConfigResource::all_brokers();
    if image
        .configs
        .value(&all_brokers, MIN_INSYNC_REPLICAS)
        .is_none()
    {
        records.push(cluster_min_insync_replicas(
            context.config.topics.min_insync_replicas,
        ));
    }
    for (resource, values) in image.configs.by_resource().iter() {
        let is_of_one_broker =
            resource.resource_type == ConfigResourceType::Broker && !resource.name.is_empty();
        if is_of_one_broker && values.contains_key(MIN_INSYNC_REPLICAS) {
            records.push(MetadataRecord::Config {
                resource: resource.clone(),
                name: MIN_INSYNC_REPLICAS.to_owned(),
                value: None,
            });
        }
    }
    records
}

/// One update, with what it is judged against.
struct Update<'a> {
    image: &'a MetadataImage,
    context: &'a ControllerContext<'a>,
    kraft_version: i16,
    update: &'a FeatureUpdate,
}

impl Update<'_> {
    /// The record of the update, if it has one; or what is wrong with it.
    fn check(&self, proposed: &BTreeMap<String, i16>) -> Result<Option<MetadataRecord>, String> {
        let FeatureUpdate {
            feature,
            level,
            upgrade_type,
        } = self.update;
        if *upgrade_type == UpgradeType::Unknown {
            return self.invalid("The controller does not support the given upgrade type.");
        }
        if *level < 0 {
            return self.invalid("A feature version cannot be less than 0.");
        }
        if let Some(reason) = self.reason_not_supported() {
            return self.invalid(&reason);
        }
        let current = self.current_level();
        if *level < current && *upgrade_type == UpgradeType::Upgrade {
            return self.invalid(
                "Can't downgrade the version of this feature without setting the upgrade type to \
                 either safe or unsafe downgrade.",
            );
        }
        if *level > current && *upgrade_type != UpgradeType::Upgrade {
            return self.invalid("Can't downgrade to a newer version.");
        }
        match feature.as_str() {
            MetadataVersion::FEATURE => self.check_metadata_version()?,
            // The record gives the request an offset to wait for; the quorum writes the level.
            KRAFT_VERSION_FEATURE if *upgrade_type == UpgradeType::Upgrade => {
                return Ok(Some(MetadataRecord::NoOp));
            }
            KRAFT_VERSION_FEATURE if *level == current => return Ok(None),
            KRAFT_VERSION_FEATURE => {
                return self.invalid("Can't downgrade the version of this feature.");
            }
            _ => self.check_dependencies(proposed)?,
        }
        Ok(Some(MetadataRecord::FeatureLevel {
            name: feature.clone(),
            level: *level,
        }))
    }

    fn invalid<T>(&self, reason: &str) -> Result<T, String> {
        let FeatureUpdate { feature, level, .. } = self.update;
        Err(format!(
            "Invalid update version {level} for feature {feature}. {reason}"
        ))
    }

    fn current_level(&self) -> i16 {
        match self.update.feature.as_str() {
            MetadataVersion::FEATURE => self.image.metadata_version().level(),
            KRAFT_VERSION_FEATURE => self.kraft_version,
            other => self.image.features.level(other),
        }
    }

    /// Every node must be able to work with the level.
    fn reason_not_supported(&self) -> Option<String> {
        let FeatureUpdate { feature, level, .. } = self.update;
        let reason = |node: String, range: VersionRange| {
            if range.contains(*level) {
                return None;
            }
            Some(match range {
                VersionRange { max: 0, .. } => format!("{node} does not support this feature."),
                VersionRange { min, max } if min == max => {
                    format!("{node} only supports versions {min}")
                }
                VersionRange { min, max } => format!("{node} only supports versions {min}-{max}"),
            })
        };
        let own_id = self.context.node_id;
        let own = reason(
            format!("Local controller {own_id}"),
            supported_versions(feature),
        );
        let range_of = |features: &SupportedFeatures| {
            features
                .get(feature)
                .copied()
                .unwrap_or(VersionRange { min: 0, max: 0 })
        };
        let cluster = &self.image.cluster;
        let mut brokers = cluster.brokers().values();
        let controllers = cluster.controllers().values();
        own.or_else(|| {
            brokers.find_map(|b| reason(format!("Broker {}", b.id), range_of(&b.features)))
        })
        .or_else(|| {
            if !self
                .image
                .metadata_version()
                .supports_controller_registration()
            {
                return None;
            }
            let mut others = controllers.filter(|c| c.id != own_id);
            others.find_map(|c| reason(format!("Controller {}", c.id), range_of(&c.features)))
        })
    }

    /// A lower metadata version must be able to say everything that the log holds.
    fn check_metadata_version(&self) -> Result<(), String> {
        let current = self.image.metadata_version();
        let level = self.update.level;
        let Some(wanted) = MetadataVersion::from_level(level) else {
            return Err(format!("Invalid metadata.version {level}."));
        };
        if wanted >= current || !current.changes_records(wanted) {
            return Ok(());
        }
        let reason = if self.update.upgrade_type == UpgradeType::UnsafeDowngrade {
            "Unsafe metadata downgrade is not supported in this version."
        } else {
            "Refusing to perform the requested downgrade because it might delete metadata \
             information."
        };
        Err(format!(
            "Unsupported metadata.version downgrade from {} to {level}. {reason}",
            current.level()
        ))
    }

    /// A feature may need another one at some level.
    fn check_dependencies(&self, proposed: &BTreeMap<String, i16>) -> Result<(), String> {
        let FeatureUpdate { feature, level, .. } = self.update;
        if !SUPPORTED_FEATURES.iter().any(|known| known.name == feature) {
            return self.invalid(&format!("Feature {feature} not found."));
        }
        let needed = DEPENDENCIES
            .iter()
            .filter(|(dependent, since, ..)| dependent == feature && level >= since);
        for (_, _, other, other_level) in needed {
            if proposed.get(*other).copied().unwrap_or(0) < *other_level {
                return self.invalid(&format!(
                    "{feature} could not be set to {level} because it depends on {other} level \
                     {other_level}"
                ));
            }
        }
        Ok(())
    }
}

/// A feature from a level on, and the feature that it needs at a level or above.
const DEPENDENCIES: &[(&str, i16, &str, i16)] = &[(
    ELIGIBLE_LEADER_REPLICAS_FEATURE,
    1,
    MetadataVersion::FEATURE,
    23,
)];

#[cfg(test)]
mod tests;
