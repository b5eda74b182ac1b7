//! Authentication and authorization. Keys of single listeners are read with
//! `ServerConfig::listener_value`.

use crate::layers::ConfigMap;
use crate::typed::TypedValues;
use crate::value::{Password, trim};

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityConfig {
    /// Class name of the authorizer; none allows every request.
    pub authorizer_class_name: Option<String>,
    /// Principals that every request is allowed for, such as `User:admin`.
    pub super_users: Vec<String>,
    /// Whether a resource without rules is open to everyone.
    pub allow_everyone_if_no_acl_found: bool,
    /// Mechanisms offered on every SASL listener without a list of its own.
    pub sasl_enabled_mechanisms: Vec<String>,
    /// Mechanism between brokers.
    pub sasl_mechanism_inter_broker_protocol: String,
    /// Mechanism towards controllers.
    pub sasl_mechanism_controller_protocol: String,
    /// Secret of delegation tokens; none switches them off.
    pub delegation_token_secret_key: Option<Password>,
    /// How long a delegation token is valid without renewal.
    pub delegation_token_expiry_time_ms: i64,
    /// Longest life of a delegation token.
    pub delegation_token_max_lifetime_ms: i64,
    /// Time between two searches for expired delegation tokens.
    pub delegation_token_expiry_check_interval_ms: i64,
}

impl SecurityConfig {
    pub(super) fn of_values(values: &TypedValues, given: &ConfigMap) -> Self {
        let text = |name: &str| values.text(name).unwrap_or_default().to_owned();
        let super_users = given
            .get("super.users")
            .map(String::as_str)
            .unwrap_or_default();
        let everyone = given
            .get("allow.everyone.if.no.acl.found")
            .map(String::as_str);
        Self {
            authorizer_class_name: Some(text("authorizer.class.name"))
                .filter(|name| !name.is_empty()),
            super_users: super_users
                .split(';')
                .map(trim)
                .filter(|user| !user.is_empty())
                .map(str::to_owned)
                .collect(),
            allow_everyone_if_no_acl_found: everyone
                .is_some_and(|text| trim(text).eq_ignore_ascii_case("true")),
            sasl_enabled_mechanisms: values.list("sasl.enabled.mechanisms").to_vec(),
            sasl_mechanism_inter_broker_protocol: text("sasl.mechanism.inter.broker.protocol"),
            sasl_mechanism_controller_protocol: text("sasl.mechanism.controller.protocol"),
            delegation_token_secret_key: values.password("delegation.token.secret.key").cloned(),
            delegation_token_expiry_time_ms: values.long("delegation.token.expiry.time.ms"),
            delegation_token_max_lifetime_ms: values.long("delegation.token.max.lifetime.ms"),
            delegation_token_expiry_check_interval_ms: values
                .long("delegation.token.expiry.check.interval.ms"),
        }
    }
}
