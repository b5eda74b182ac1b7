//! UpdateFeatures: v0–2. Finalized features go to other levels (KIP-584).
//!
//! - Version 0 allows a downgrade or not, version 1 tells safe from unsafe ones and can only
//!   validate (KIP-778), version 2 has one error for the whole request and no results.
//! - `kraft.version` belongs to the quorum: raising it takes a voter that configuration has fixed
//!   into the log.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::update_features::{FeatureUpdate, UpgradeType};
use controller::{ApiError, UpdateFeatures};
use model::{DecodeError, ErrorCode};
use wire::messages::update_features_response::UpdatableFeatureResult;
use wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: UpdateFeaturesRequest<'_> = request.decode()?;
    let updates: Vec<FeatureUpdate> = message
        .feature_updates
        .iter()
        .map(|update| FeatureUpdate {
            feature: update.feature.to_owned(),
            level: update.max_version_level,
            upgrade_type: match request.version {
                0 if update.allow_downgrade => UpgradeType::SafeDowngrade,
                0 => UpgradeType::Upgrade,
                _ => UpgradeType::from_id(update.upgrade_type),
            },
        })
        .collect();
    let result = server.update_features(updates, message.validate_only).await;
    let (error, error_message) = match &result {
        Ok(()) => (ErrorCode::None, None),
        Err(error) => (error.code, error.message.as_deref()),
    };
    let results = message
        .feature_updates
        .iter()
        .map(|update| UpdatableFeatureResult {
            feature: update.feature,
            error_code: ErrorCode::None.code(),
            // Kafka names the lack of an error, too.
            error_message: Some(ErrorCode::None.name()),
        });
    let response = UpdateFeaturesResponse {
        error_code: error.code(),
        error_message,
        results: match error {
            ErrorCode::None if request.version < 2 => results.collect(),
            _ => Vec::new().into(),
        },
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

impl ClusterNode {
    async fn update_features(
        &self,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), ApiError> {
        let update = UpdateFeatures {
            updates,
            validate_only,
        };
        let updated = self.controller.request(update).await;
        let updated = updated.map_err(ApiError::with_default_message)?;
        updated.map(drop)
    }
}
