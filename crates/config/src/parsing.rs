//! Reading and checking values as Kafka does: numbers are Java's, lists are split at commas.

use crate::constraint;
use crate::definition::{ConfigDefinition, ConfigType, Constraint, DefaultValue};
use crate::value::{Password, Value, ValueError, split_list, trim};

/// Reads `text` as a value of the key and checks it.
pub fn parse(definition: &ConfigDefinition, text: &str) -> Result<Value, ValueError> {
    let trimmed = trim(text);
    let invalid = |reason: String| ValueError::invalid(definition.name, text, reason);
    let not_a_number = || invalid(format!("Not a number of type {}", definition.kind));
    let value = match definition.kind {
        ConfigType::Boolean if trimmed.eq_ignore_ascii_case("true") => Value::Boolean(true),
        ConfigType::Boolean if trimmed.eq_ignore_ascii_case("false") => Value::Boolean(false),
        ConfigType::Boolean => {
            return Err(invalid(
                "Expected value to be either true or false".to_owned(),
            ));
        }
        // Kafka's own classes stand for what is built in; others would have to be loaded.
        ConfigType::Class if !trimmed.starts_with("org.apache.kafka.") => {
            return Err(invalid(format!(
                "Class {trimmed} could not be found; no Java classes are loaded here"
            )));
        }
        ConfigType::String | ConfigType::Class => Value::Text(trimmed.to_owned()),
        ConfigType::Int => Value::Int(trimmed.parse().map_err(|_| not_a_number())?),
        ConfigType::Short => Value::Short(trimmed.parse().map_err(|_| not_a_number())?),
        ConfigType::Long => Value::Long(trimmed.parse().map_err(|_| not_a_number())?),
        ConfigType::Double => Value::Double(parse_double(trimmed).ok_or_else(not_a_number)?),
        ConfigType::List => Value::List(parse_list(definition, trimmed)),
        ConfigType::Password => Value::Password(Password(trimmed.to_owned())),
    };
    constraint::check(definition, &value)?;
    Ok(value)
}

/// The value that holds when the key is not given; none for null.
pub fn default_value(definition: &ConfigDefinition) -> Result<Option<Value>, ValueError> {
    match definition.default {
        DefaultValue::Text(text) => parse(definition, text).map(Some),
        DefaultValue::Null => Ok(None),
        DefaultValue::Required => Err(ValueError::Missing {
            name: definition.name.to_owned(),
        }),
    }
}

fn parse_list(definition: &ConfigDefinition, text: &str) -> Vec<String> {
    let mut elements = split_list(text);
    if matches!(definition.constraint, Constraint::ListOf { .. }) {
        let mut kept: Vec<String> = Vec::with_capacity(elements.len());
        for element in elements {
            if !kept.contains(&element) {
                kept.push(element);
            }
        }
        elements = kept;
    }
    elements
}

/// A double in Java's decimal form: a suffix `d` or `f` is allowed, `inf` and `nan` are not.
/// Java's hexadecimal form is refused.
fn parse_double(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.strip_prefix(['+', '-']) {
        Some(magnitude) if text.starts_with('-') => (-1.0, magnitude),
        Some(magnitude) => (1.0, magnitude),
        None => (1.0, text),
    };
    match magnitude {
        "NaN" => return Some(f64::NAN),
        "Infinity" => return Some(sign * f64::INFINITY),
        _ => {}
    }
    let digits = magnitude
        .strip_suffix(['d', 'D', 'f', 'F'])
        .unwrap_or(magnitude);
    let is_decimal = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_decimal {
        return None;
    }
    digits.parse::<f64>().ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests;
