//! ApiVersions: v0–4. Which APIs and versions this listener serves, and the cluster's features.
//!
//! - The response header stays at version 0, and an unsupported version is answered rather than
//!   refused: body version 0, error 35, so that the client can choose again (KIP-511).
//! - From version 3 the client must name its software as KIP-511 says, or gets INVALID_REQUEST.
//! - Before version 4 a supported feature whose minimum is 0 is left out (KIP-584 readers).
//! - `kraft.version` is finalized by the quorum, not by a record: it is told beside the image's.
//! - What a broker passes on to the controller is advertised as the active controller serves it (KIP-590).
//! - Produce is advertised from 0: librdkafka stops at a broker that does not (KAFKA-18659).

use super::{Request, Served, served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use metadata::KRAFT_VERSION_FEATURE;
use model::{DecodeError, ErrorCode};
use std::sync::atomic::Ordering;
use wire::ApiKey;
use wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

pub(crate) fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ApiVersionsRequest<'_> = request.decode()?;
    let named = [
        message.client_software_name,
        message.client_software_version,
    ];
    if request.version >= 3 && !named.into_iter().all(is_software_name) {
        let error_code = ErrorCode::InvalidRequest.code();
        request.answer(
            &ApiVersionsResponse {
                error_code,
                ..Default::default()
            },
            out,
        );
        return Ok(Served::Answered);
    }
    let image = server.node.image();
    let supported = controller::SUPPORTED_FEATURES;
    let supported_features = supported
        .iter()
        .filter(|feature| feature.versions.max > 0)
        .filter(|feature| request.version >= 4 || feature.versions.min > 0)
        .map(|feature| SupportedFeatureKey {
            name: feature.name,
            min_version: feature.versions.min,
            max_version: feature.versions.max,
        })
        .collect();
    let finalized = image.features.finalized();
    let level = server.node.kraft_version.load(Ordering::Acquire);
    let kraft_version = (KRAFT_VERSION_FEATURE, level);
    let finalized_features = finalized
        .iter()
        .map(|(name, level)| (&**name, *level))
        .chain((kraft_version.1 > 0).then_some(kraft_version))
        .map(|(name, level)| FinalizedFeatureKey {
            name,
            max_version_level: level,
            min_version_level: level,
        })
        .collect();
    let response = ApiVersionsResponse {
        api_keys: api_keys(server, context.listener.is_controller).into(),
        supported_features,
        finalized_features_epoch: image.provenance.last_offset.0,
        finalized_features,
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// Answers a version that does not exist.
pub(crate) fn unsupported_version(request: &Request<'_>, out: &mut ResponseBuffer) {
    let facts = ApiKey::ApiVersions.facts();
    let own = ApiVersion {
        api_key: facts.key as i16,
        min_version: facts.min_version,
        max_version: facts.max_version,
    };
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![own].into(),
        ..Default::default()
    };
    request.answer_as(&response, 0, out);
}

/// What is served here, and what is passed on to the controller of another node as that serves it.
fn api_keys(server: &ClusterNode, is_controller: bool) -> Vec<ApiVersion> {
    let forwarding = server.forwarding.as_ref().filter(|_| !is_controller);
    let is_passed_on = |api: ApiKey| forwarding.is_some() && served::is_decided_by_controller(api);
    let own = served::on_listener(is_controller).filter(|one| !is_passed_on(one.api));
    let own = own.map(|one| ApiVersion {
        api_key: one.api as i16,
        min_version: match one.api {
            ApiKey::Produce => 0,
            _ => one.min_version,
        },
        max_version: one.max_version,
    });
    let passed_on = forwarding.into_iter().flat_map(|forwarding| {
        let apis = ApiKey::all().filter(|facts| served::is_decided_by_controller(facts.key));
        apis.filter_map(|facts| {
            let (first, last) = forwarding.versions(facts.key)?;
            let min_version = facts.min_version.max(first);
            let max_version = facts.max_stable_version.min(last);
            (min_version <= max_version).then_some(ApiVersion {
                api_key: facts.key as i16,
                min_version,
                max_version,
            })
        })
    });
    let mut all: Vec<ApiVersion> = own.chain(passed_on).collect();
    all.sort_by_key(|one| one.api_key);
    all
}

/// Letters, digits, dots and dashes, with a letter or digit at both ends.
fn is_software_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.chars().all(inner) && outer(name.chars().next()) && outer(name.chars().last())
}

#[cfg(test)]
mod tests {
    use super::is_software_name;

    #[test]
    fn software_names() {
        for name in ["a", "apache-kafka-java", "4.3.1", "a..b"] {
            assert!(is_software_name(name), "{name}");
        }
        for name in ["", "-a", "a-", ".", "a b", "a_b", "é"] {
            assert!(!is_software_name(name), "{name}");
        }
    }
}
