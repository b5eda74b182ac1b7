//! Controllers register themselves, so that features are raised only as far as all of them go.

use crate::decision::{ApiError, Decision};
use metadata::{ControllerRegistration, MetadataImage, MetadataRecord};
use model::ErrorCode;

/// ControllerRegistration: what a controller says of itself replaces what it said before.
///
/// # Errors
/// UNSUPPORTED_VERSION while the metadata version knows no registrations of controllers.
pub fn register_controller(
    image: &MetadataImage,
    registration: &ControllerRegistration,
) -> Result<Decision<()>, ApiError> {
    if !image.metadata_version().supports_controller_registration() {
        return Err(ApiError::new(
            ErrorCode::UnsupportedVersion,
            "The current MetadataVersion is too old to support controller registrations.",
        ));
    }
    let record = MetadataRecord::RegisterController(registration.clone());
    Ok(Decision::atomic(vec![record], ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;
    use model::{BrokerId, Uuid};

    #[test]
    fn controllers_register_from_a_metadata_version_on() {
        let mut cluster = TestCluster::new(&[]);
        let registration = ControllerRegistration {
            id: BrokerId(1),
            incarnation_id: Uuid::from_u128(9),
            is_zk_migration_ready: false,
            endpoints: Vec::new(),
            features: crate::SUPPORTED_FEATURES
                .iter()
                .map(|feature| (feature.name.to_owned(), feature.versions))
                .collect(),
        };
        let decision = register_controller(&cluster.image, &registration).unwrap();
        cluster.replay(&decision.records);
        let registered = cluster
            .image
            .cluster
            .controllers()
            .get(&BrokerId(1))
            .unwrap();
        assert_eq!(**registered, registration);
        cluster.replay(&[MetadataRecord::FeatureLevel {
            name: "metadata.version".to_owned(),
            level: 14,
        }]);
        let error = register_controller(&cluster.image, &registration).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnsupportedVersion);
    }
}
