//! Controllers register themselves, so that features are raised only as far as all of them go.

use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::registration_size::RegistrationSize;
use metadata::{ControllerRegistration, MetadataImage, MetadataRecord};
use model::ErrorCode;

/// ControllerRegistration: what a controller says of itself replaces what it said before. The controller of `context`
/// votes alone. Nothing takes a registration back, and all who are registered decide how far features go: so no other
/// id is taken. A controller of Apache Kafka that observes asks again after a while, and goes on meanwhile.
///
/// # Errors
/// UNSUPPORTED_VERSION while the metadata version knows no registrations of controllers; INVALID_REGISTRATION for
/// who does not vote, or says too much of itself.
pub fn register_controller(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    registration: &ControllerRegistration,
) -> Result<Decision<()>, ApiError> {
    if !image.metadata_version().supports_controller_registration() {
        return Err(ApiError::new(
            ErrorCode::UnsupportedVersion,
            "The current MetadataVersion is too old to support controller registrations.",
        ));
    }
    if registration.id != context.node_id {
        let words = format!(
            "Controller {} is no voter: {} is the only one.",
            registration.id, context.node_id
        );
        return Err(ApiError::new(ErrorCode::InvalidRegistration, words));
    }
    RegistrationSize {
        node: "A controller",
        endpoints: &registration.endpoints,
        features: &registration.features,
        rack: None,
        directory_count: 0,
    }
    .check()?;
    let record = MetadataRecord::RegisterController(registration.clone());
    Ok(Decision::atomic(vec![record], ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;
    use metadata::VersionRange;
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
        let decision =
            register_controller(&cluster.image, &cluster.context(), &registration).unwrap();
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
        let error =
            register_controller(&cluster.image, &cluster.context(), &registration).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnsupportedVersion);
    }
    /// Nothing takes a registration back, and one that supports no feature keeps all of them from being raised.
    #[test]
    fn who_does_not_vote_or_says_too_much_is_not_registered() {
        let cluster = TestCluster::new(&[]);
        let refused = |id, features: usize| {
            let registration = ControllerRegistration {
                id: BrokerId(id),
                incarnation_id: Uuid::from_u128(9),
                is_zk_migration_ready: false,
                endpoints: Vec::new(),
                features: (0..features)
                    .map(|number| (format!("{number:01000}"), VersionRange { min: 0, max: 1 }))
                    .collect(),
            };
            let decided = register_controller(&cluster.image, &cluster.context(), &registration);
            decided.err().map(|error| error.to_string())
        };
        assert_eq!(refused(1, 65), None);
        let words = [refused(2, 0), refused(-7, 0), refused(1, 66)];
        assert_eq!(
            words.map(Option::unwrap_or_default),
            [
                "INVALID_REGISTRATION: Controller 2 is no voter: 1 is the only one.",
                "INVALID_REGISTRATION: Controller -7 is no voter: 1 is the only one.",
                "INVALID_REGISTRATION: A controller registers with 66000 bytes of names; 65536 are the most.",
            ]
        );
    }
}
