//! Values of keys, how they are printed, and why one is refused.
//!
//! Text is trimmed by Java's rule (everything up to U+0020), numbers are Java's, lists are split
//! at commas with the white space around them. The messages of errors have the shape that Kafka's
//! clients and their tests know: `Invalid value x for configuration y: ...`.

use std::fmt;

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
pub struct Password(pub(crate) String);

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
pub(crate) fn print_double(value: f64) -> String {
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
