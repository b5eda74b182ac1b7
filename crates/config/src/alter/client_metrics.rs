//! What a client metrics subscription must satisfy.

use super::AlterError;
use crate::client_metrics::CLIENT_METRICS;
use crate::layers::ConfigMap;
use crate::parsing::parse;
use crate::value::Value;

/// Attributes of a client that a subscription can ask for.
const ATTRIBUTES: &[&str] = &[
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// One condition of a subscription: an attribute and the regular expression it must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMatch {
    /// Name of the attribute.
    pub attribute: &'static str,
    /// The regular expression.
    pub pattern: String,
}

/// The conditions in the elements of `match`; the wrong element if there is one.
pub fn client_matches(elements: &[String]) -> Result<Vec<ClientMatch>, &str> {
    let condition = |element: &String| {
        let (attribute, pattern) = element.split_once('=')?;
        let attribute = ATTRIBUTES
            .iter()
            .find(|known| **known == attribute.trim())?;
        let pattern = pattern.trim();
        is_pattern(pattern).then(|| ClientMatch {
            attribute,
            pattern: pattern.to_owned(),
        })
    };
    elements
        .iter()
        .map(|element| condition(element).ok_or(element.as_str()))
        .collect()
}

/// Checks the values of a subscription.
pub(super) fn check(overrides: &ConfigMap) -> Result<(), AlterError> {
    for (name, text) in overrides {
        let Some(definition) = CLIENT_METRICS.definition(name) else {
            return Err(AlterError::invalid_request(format!(
                "Unknown client metrics configuration: {name}"
            )));
        };
        match (
            *name == "match",
            parse(definition, text).map_err(AlterError::invalid_config)?,
        ) {
            (_, Value::Int(interval_ms)) if !(100..=3_600_000).contains(&interval_ms) => {
                return Err(AlterError::invalid_request(format!(
                    "Invalid value {interval_ms} for configuration {name}: Value must be between \
                     100 and 3600000 (one hour)"
                )));
            }
            (true, Value::List(elements)) => {
                client_matches(&elements).map_err(|element| {
                    AlterError::invalid_config(format!(
                        "Illegal client matching pattern: {element}"
                    ))
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the brackets of a regular expression are closed and its repetitions have something to
/// repeat. Whoever compiles it finds out the rest.
fn is_pattern(pattern: &str) -> bool {
    let mut open_groups = 0_usize;
    let mut in_class = false;
    let mut is_repeatable = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                if characters.next().is_none() {
                    return false;
                }
                is_repeatable = true;
            }
            ']' if in_class => {
                in_class = false;
                is_repeatable = true;
            }
            _ if in_class => {}
            '[' => in_class = true,
            '(' => {
                open_groups += 1;
                is_repeatable = false;
            }
            ')' => {
                let Some(rest) = open_groups.checked_sub(1) else {
                    return false;
                };
                open_groups = rest;
                is_repeatable = true;
            }
            // After an opening bracket a question mark makes a special group.
            '*' | '+' if !is_repeatable => return false,
            '|' => is_repeatable = false,
            _ => is_repeatable = true,
        }
    }
    !pattern.is_empty() && open_groups == 0 && !in_class
}
