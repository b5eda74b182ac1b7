//! What is wrong with a configuration.

/// What is wrong with a configuration, in the words of Kafka's `ConfigException`. `Debug` shows them, too, as that of
/// `StreamsError` does.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A setting without a default is not there.
    #[error("Missing required configuration \"{0}\" which has no default value.")]
    Missing(&'static str),
    /// A value is not allowed.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    Invalid {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// There is no such setting.
    #[error(
        "Unknown configuration '{0}'; `StreamsConfig::from_properties_lenient` leaves such keys aside"
    )]
    Unknown(String),
}

impl std::fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The error for a value that is not allowed.
pub(super) fn invalid(key: &str, value: &str, reason: &str) -> ConfigError {
    ConfigError::Invalid {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.to_owned(),
    }
}
