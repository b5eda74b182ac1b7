//! Reading, checking and printing values as Kafka does.
//!
//! Text is trimmed by Java's rule (everything up to U+0020), numbers are Java's, lists are split
//! at commas with the white space around them. The messages of errors have the shape that Kafka's
//! clients and their tests know: `Invalid value x for configuration y: ...`.

use std::fmt;

use crate::constraint;
use crate::definition::{ConfigDefinition, ConfigType, Constraint, DefaultValue};

/// A value of a known key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a `Boolean` key.
    Boolean(bool),
    /// Of a `String` or `Class` key.
    Text(String),
    /// Of an `Int` key.
    Int(i32),
    /// Of a `Short` key.
    Short(i16),
    /// Of a `Long` key.
    Long(i64),
    /// Of a `Double` key.
    Double(f64),
    /// Of a `List` key.
    List(Vec<String>),
    /// Of a `Password` key.
    Password(Password),
}

/// Secret text. It is never printed, not even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not of the key's type, or outside of what the key allows.
    #[error("Invalid value {value} for configuration {name}: {reason}")]
    Invalid {
        /// The key.
        name: String,
        /// The value as it was given; a list in brackets if the list as a whole is wrong.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// A list that needs an element has none.
    #[error("Configuration '{name}' must not be empty. Valid values include: {allowed}")]
    EmptyList {
        /// The key.
        name: String,
        /// The elements allowed.
        allowed: String,
    },
    /// A list has an element without a character.
    #[error("Configuration '{name}' values must not be empty.")]
    EmptyElement {
        /// The key.
        name: String,
    },
    /// A key without a default is not given.
    #[error("Missing required configuration \"{name}\" which has no default value.")]
    Missing {
        /// The key.
        name: String,
    },
}

impl ValueError {
    /// The value `value` of `name` breaks the rule `reason`.
    pub fn invalid(
        name: impl Into<String>,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            name: name.into(),
            value: value.into(),
            reason: reason.into(),
        }
    }
}

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

/// The elements of a list in `text`: split at commas, trimmed; none if the text is blank.
pub fn split_list(text: &str) -> Vec<String> {
    let trimmed = trim(text);
    if trimmed.is_empty() {
        return Vec::new();
    }
    trimmed
        .split(',')
        .map(|element| element.trim_matches(is_regex_space).to_owned())
        .collect()
}

/// `text` without the characters up to U+0020 at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|character: char| character <= ' ')
}

fn is_regex_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
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

impl fmt::Display for Value {
    /// Prints the value as Kafka does; a password as `[hidden]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Int(value) => write!(f, "{value}"),
            Self::Short(value) => write!(f, "{value}"),
            Self::Long(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&print_double(*value)),
            Self::List(elements) => f.write_str(&elements.join(",")),
            Self::Password(value) => write!(f, "{value:?}"),
        }
    }
}

/// A double as Java prints it: `0.5`, `1.0E7`, `NaN`.
fn print_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => format!("{mantissa}E{exponent}"),
        Some((mantissa, exponent)) => format!("{mantissa}.0E{exponent}"),
        None => scientific,
    }
}

#[cfg(test)]
mod tests;
