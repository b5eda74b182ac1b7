//! Which versions of each API a broker serves. Pure.

use crate::Error;
use model::ErrorCode;
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::ApiVersionsResponse;

/// What a broker said about itself when the connection was made (KIP-35).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedVersions {
    /// The lowest and the highest version, by the API's number.
    ranges: BTreeMap<i16, (i16, i16)>,
    /// The finalized levels of features, by name (KIP-584).
    features: BTreeMap<String, i16>,
}

impl ServedVersions {
    /// What the answer to ApiVersions says.
    ///
    /// # Errors
    /// The code of an answer that is an error.
    pub fn of(response: &ApiVersionsResponse<'_>) -> Result<Self, ErrorCode> {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => Ok(Self {
                ranges: response
                    .api_keys
                    .iter()
                    .map(|api| (api.api_key, (api.min_version, api.max_version)))
                    .collect(),
                features: response
                    .finalized_features
                    .iter()
                    .map(|feature| (feature.name.to_owned(), feature.max_version_level))
                    .collect(),
            }),
            code => Err(code),
        }
    }

    /// The finalized level of a feature; 0 without one.
    pub fn finalized_level(&self, feature: &str) -> i16 {
        self.features.get(feature).copied().unwrap_or(0)
    }

    /// The lowest and the highest version of `api` that the broker serves, whatever this side has.
    pub fn range(&self, api: ApiKey) -> Option<(i16, i16)> {
        self.ranges.get(&(api as i16)).copied()
    }

    /// Whether the broker serves some version of `api` that this side has.
    pub fn serves(&self, api: ApiKey) -> bool {
        self.highest(api, i16::MAX).is_some()
    }

    /// The highest version of `api` that both sides have, not above `at_most`; `None` without one.
    pub fn highest(&self, api: ApiKey, at_most: i16) -> Option<i16> {
        let facts = api.facts();
        let &(first, last) = self.ranges.get(&(api as i16))?;
        let version = last.min(facts.max_stable_version).min(at_most);
        (version >= first.max(facts.min_version)).then_some(version)
    }

    /// As [`ServedVersions::highest`], of the broker that errors call `address`.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names both sides.
    pub fn version_of(&self, api: ApiKey, at_most: i16, address: &str) -> Result<i16, Error> {
        self.highest(api, at_most).ok_or_else(|| {
            let facts = api.facts();
            let ours = facts.max_stable_version.min(at_most);
            let detail = match self.ranges.get(&(api as i16)) {
                Some((first, last)) => format!(
                    " in versions {} to {ours}, which this call needs: it has {first} to {last}",
                    facts.min_version
                ),
                None => ": it does not serve this API".to_owned(),
            };
            Error::Unsupported {
                address: address.to_owned(),
                api: facts.name,
                detail,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::api_versions_response::ApiVersion;

    fn served(ranges: &[(ApiKey, i16, i16)]) -> ServedVersions {
        let apis = ranges.iter().map(|&(api, first, last)| ApiVersion {
            api_key: api as i16,
            min_version: first,
            max_version: last,
        });
        let response = ApiVersionsResponse {
            api_keys: apis.collect(),
            ..ApiVersionsResponse::default()
        };
        ServedVersions::of(&response).expect("no error")
    }

    #[test]
    fn the_highest_version_of_both_sides_is_used() {
        let check = |first: i16, last: i16, at_most: i16, expect: Option<i16>| {
            let served = served(&[(ApiKey::Metadata, first, last)]);
            assert_eq!(served.highest(ApiKey::Metadata, at_most), expect);
        };
        check(0, 13, i16::MAX, Some(13));
        check(0, 99, i16::MAX, Some(13));
        check(0, 9, i16::MAX, Some(9));
        check(0, 13, 4, Some(4));
        check(5, 13, 4, None);
        check(14, 99, i16::MAX, None);
        check(3, 2, i16::MAX, None);
    }

    #[test]
    fn what_is_not_served_is_an_error_that_names_both_sides() {
        let served = served(&[(ApiKey::Metadata, 20, 21)]);
        let check = |api: ApiKey, expect: &str| {
            let error = served.version_of(api, i16::MAX, "one:9092");
            assert_eq!(error.expect_err("has none").to_string(), expect);
        };
        check(
            ApiKey::Metadata,
            "one:9092 does not support Metadata in versions 0 to 13, which this call needs: it has \
             20 to 21",
        );
        check(
            ApiKey::CreateTopics,
            "one:9092 does not support CreateTopics: it does not serve this API",
        );
    }

    #[test]
    fn an_error_is_no_answer() {
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..ApiVersionsResponse::default()
        };
        assert_eq!(
            ServedVersions::of(&response),
            Err(ErrorCode::UnsupportedVersion)
        );
    }
}
