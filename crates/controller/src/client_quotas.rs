//! AlterClientQuotas and DescribeClientQuotas (KIP-546): limits of users, client ids and addresses.
//!
//! Each entity is altered whole or not at all; whether a host of an `ip` entity can be resolved is
//! for the caller to find out. Quotas are kept, and not enforced yet.

use crate::decision::{ApiError, Decision};
use config::{CLIENT_QUOTA, ConfigDefinition, ConfigType, IP_QUOTA};
use metadata::{MetadataImage, MetadataRecord, QuotaEntity, Quotas};
use model::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";

/// What shall become of the quotas of an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAlteration {
    /// Whose quotas.
    pub entity: QuotaEntity,
    /// Keys with their values in the order of the request; `None` removes the quota.
    pub operations: Vec<(String, Option<f64>)>,
}

/// What became of each entity, once each, in the order of the request.
pub type QuotaResults = Vec<(QuotaEntity, Result<(), ApiError>)>;

/// Decides over quotas. `is_host` tells whether a name of an `ip` entity is an address or resolves.
pub fn alter_client_quotas(
    image: &MetadataImage,
    alterations: &[QuotaAlteration],
    is_host: &dyn Fn(&str) -> bool,
    validate_only: bool,
) -> Decision<QuotaResults> {
    let mut records = Vec::new();
    let mut results: QuotaResults = Vec::new();
    let mut places: BTreeMap<&QuotaEntity, usize> = BTreeMap::new();
    for alteration in alterations {
        let entity = &alteration.entity;
        let mut keys = BTreeSet::new();
        let repeats_key = !alteration
            .operations
            .iter()
            .all(|(key, _)| keys.insert(key));
        let earlier = places.get(entity).copied();
        let outcome = if repeats_key || earlier.is_some() {
            let words = format!("Ignoring duplicate entity {}", shown(entity));
            Err(invalid(words))
        } else {
            altered(image, alteration, is_host).map(|new| records.extend(new))
        };
        match earlier.and_then(|place| results.get_mut(place)) {
            Some((_, result)) => *result = outcome,
            None => {
                places.insert(entity, results.len());
                results.push((entity.clone(), outcome));
            }
        }
    }
    if validate_only {
        records.clear();
    }
    Decision::atomic(records, results)
}

fn invalid(words: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, words)
}

/// An entity in the words of Kafka's errors.
fn shown(entity: &QuotaEntity) -> String {
    let entries: Vec<String> = entity
        .0
        .iter()
        .map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("null")))
        .collect();
    format!("ClientQuotaEntity(entries={{{}}})", entries.join(", "))
}

/// The records of one alteration.
fn altered(
    image: &MetadataImage,
    alteration: &QuotaAlteration,
    is_host: &dyn Fn(&str) -> bool,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let entity = &alteration.entity;
    check_entity(entity)?;
    let definition_of = keys_of(entity, is_host)?;
    let current = image.client_quotas.get(entity);
    let mut records = Vec::new();
    for (key, value) in &alteration.operations {
        let now = current.and_then(|quotas| quotas.get(key)).copied();
        match value {
            None if now.is_none() => continue,
            None => {}
            Some(value) => {
                let definition = definition_of(key)
                    .ok_or_else(|| invalid(format!("Invalid configuration key {key}")))?;
                check_value(definition, *value)?;
                if now.is_some_and(|now| now.to_bits() == value.to_bits()) {
                    continue;
                }
            }
        }
        records.push(MetadataRecord::ClientQuota {
            entity: entity.clone(),
            key: key.clone(),
            value: *value,
        });
    }
    Ok(records)
}

fn check_entity(entity: &QuotaEntity) -> Result<(), ApiError> {
    if entity.0.is_empty() {
        return Err(invalid("Invalid empty client quota entity"));
    }
    for (kind, name) in &entity.0 {
        if ![USER, CLIENT_ID, IP].contains(&kind.as_str()) {
            return Err(invalid(format!(
                "Unhandled client quota entity type: {kind}"
            )));
        }
        if name.as_deref() == Some("") {
            return Err(invalid(format!("Empty {kind} not supported")));
        }
    }
    Ok(())
}

/// Which keys an entity may have: those of addresses, or those of users and clients.
fn keys_of(
    entity: &QuotaEntity,
    is_host: &dyn Fn(&str) -> bool,
) -> Result<fn(&str) -> Option<&'static ConfigDefinition>, ApiError> {
    let Some(address) = entity.0.get(IP) else {
        return Ok(|key| CLIENT_QUOTA.definition(key));
    };
    if entity.0.len() > 1 {
        return Err(invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or \
             ClientId",
        ));
    }
    match address {
        Some(host) if !is_host(host) => Err(invalid(format!(
            "{host} is not a valid IP or resolvable host."
        ))),
        _ => Ok(|key| IP_QUOTA.definition(key)),
    }
}

fn check_value(definition: &ConfigDefinition, value: f64) -> Result<(), ApiError> {
    /// 2^63: the largest whole number, as Java rounds it to a double.
    const LONG_MAX: f64 = 9_223_372_036_854_775_807_i64 as f64;
    let key = definition.name;
    if value <= 0.0 {
        return Err(invalid(format!("Quota {key} must be greater than 0")));
    }
    let (max, kind) = match definition.kind {
        ConfigType::Int => (f64::from(i32::MAX), "an INT"),
        ConfigType::Long => (LONG_MAX, "a LONG"),
        _ => return Ok(()),
    };
    if value > max {
        return Err(invalid(format!(
            "Proposed value for {key} is too large for {kind}."
        )));
    }
    if (value % 1.0).abs() > 1e-6 {
        return Err(invalid(format!("{key} cannot be a fractional value.")));
    }
    Ok(())
}

/// Which entities to describe, by one of their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaFilter {
    /// The type: `user`, `client-id` or `ip`.
    pub entity_type: String,
    /// 0 the name given, 1 the default, 2 any.
    pub match_type: i8,
    /// The name, for match type 0 alone.
    pub name: Option<String>,
}

/// The entities that match every filter, with their quotas. `is_strict` leaves out those that have
/// further types.
///
/// # Errors
/// INVALID_REQUEST or UNSUPPORTED_VERSION, for the whole request.
pub fn describe_client_quotas<'a>(
    image: &'a MetadataImage,
    filters: &[QuotaFilter],
    is_strict: bool,
) -> Result<Vec<(&'a QuotaEntity, &'a Quotas)>, ApiError> {
    let mut exact: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut any: BTreeSet<&str> = BTreeSet::new();
    for filter in filters {
        let kind = filter.entity_type.as_str();
        if kind.is_empty() {
            return Err(invalid("Invalid empty entity type."));
        }
        if exact.contains_key(kind) || any.contains(kind) {
            return Err(invalid(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            )));
        }
        if ![USER, CLIENT_ID, IP].contains(&kind) {
            return Err(ApiError::new(
                ErrorCode::UnsupportedVersion,
                format!("Unsupported entity type {kind}"),
            ));
        }
        match (filter.match_type, filter.name.as_deref()) {
            (0, None) => {
                return Err(invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.",
                ));
            }
            (0, name) => drop(exact.insert(kind, name)),
            (1, None) => drop(exact.insert(kind, None)),
            (2, None) => drop(any.insert(kind)),
            (1, Some(_)) => {
                return Err(invalid(
                    "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
                ));
            }
            (2, Some(_)) => {
                return Err(invalid(
                    "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
                ));
            }
            (other, _) => return Err(invalid(format!("Unknown match type {other}"))),
        }
    }
    let named = |kind: &str| exact.contains_key(kind) || any.contains(kind);
    if named(IP) && (named(USER) || named(CLIENT_ID)) {
        return Err(invalid(
            "Invalid entity filter component combination. IP filter component should not be used \
             with user or clientId filter component.",
        ));
    }
    let matches = |entity: &QuotaEntity| {
        (!is_strict || entity.0.len() == exact.len() + any.len())
            && exact.iter().all(|(kind, name)| {
                entity
                    .0
                    .get(*kind)
                    .is_some_and(|found| found.as_deref() == *name)
            })
            && any.iter().all(|kind| entity.0.contains_key(*kind))
    };
    let all = image.client_quotas.iter();
    Ok(all
        .filter(|(entity, _)| matches(entity))
        .map(|(entity, quotas)| (entity, &**quotas))
        .collect())
}

#[cfg(test)]
mod tests;
