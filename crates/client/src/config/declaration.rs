//! How settings are declared.
//!
//! [`settings!`](crate::config::settings) makes a struct of typed fields with Kafka's defaults, and its
//! [`Settings`](crate::config::Settings). A struct may embed others, so that a producer's configuration takes the
//! names that every client has.

use super::{Setting, not_allowed};
use crate::Error;

/// Parses the value of `key`, which lies between the bounds if it is a number.
pub(crate) fn parse_bounded<T: Setting>(
    key: &'static str,
    text: &str,
    bounds: Option<(i128, i128)>,
) -> Result<T, Error> {
    let value = T::parse(text).map_err(|reason| not_allowed(key, text, reason))?;
    match (value.number(), bounds) {
        (Some(number), Some((first, last))) if !(first..=last).contains(&number) => {
            let reason = format!("must be from {first} to {last}");
            Err(not_allowed(key, text, reason))
        }
        _ => Ok(value),
    }
}

/// The first and the last value of a range, as [`parse_bounded`] takes them.
pub(crate) fn bounds_of(range: impl std::ops::RangeBounds<i128>) -> Option<(i128, i128)> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let first = match range.start_bound() {
        Included(first) => *first,
        Excluded(before) => before + 1,
        Unbounded => i128::MIN,
    };
    let last = match range.end_bound() {
        Included(last) => *last,
        Excluded(end) => end - 1,
        // Kafka's whole numbers end there unless they say otherwise.
        Unbounded => i128::from(i64::MAX),
    };
    Some((first, last))
}

/// Declares a struct of settings:
///
/// ```text
/// settings! {
///     /// What it is.
///     pub struct ProducerConfig {
///         embeds client: ClientConfig;
///         /// How long a batch waits for more records.
///         "linger.ms" linger_ms: u64 = 5, in 0..=i32::MAX as i128;
///         /// The codec.
///         "compression.type" compression: CompressionType = CompressionType::None;
///     }
/// }
/// ```
///
/// It has `Default`, [`Settings`], and `from_pairs`.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(embeds $(#[$embedded_about:meta])* $embedded:ident: $embedded_type:ty;)*
            $(
                $(#[$field_about:meta])*
                $key:literal $field:ident: $type:ty = $default:expr $(, in $range:expr)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(
                $(#[$embedded_about])*
                pub $embedded: $embedded_type,
            )*
            $(
                $(#[$field_about])*
                #[doc = concat!("\n\nKafka's `", $key, "`.")]
                pub $field: $type,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($embedded: <$embedded_type>::default(),)*
                    $($field: $default,)*
                }
            }
        }

        impl $name {
            /// The defaults, changed by pairs of Kafka's names and values as text.
            ///
            /// # Errors
            /// [`Error::Configuration`](crate::Error::Configuration) for a key that does not exist
            /// and for a value that is not allowed.
            pub fn from_pairs<'a>(
                pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
            ) -> Result<Self, crate::Error> {
                let mut config = Self::default();
                for (key, value) in pairs {
                    config.set(key, value)?;
                }
                Ok(config)
            }

            /// The defaults, changed by what a properties file says.
            ///
            /// # Errors
            /// [`Error::Configuration`](crate::Error::Configuration) for a key that does not exist
            /// and for a value that is not allowed.
            pub fn from_properties(
                properties: &crate::config::Properties,
            ) -> Result<Self, crate::Error> {
                let mut config = Self::default();
                properties.apply_strictly(&mut config)?;
                Ok(config)
            }

            /// As [`from_properties`](Self::from_properties), but keys that do not exist are left
            /// aside, and returned for a warning.
            ///
            /// # Errors
            /// [`Error::Configuration`](crate::Error::Configuration) for a value that is not allowed.
            pub fn from_properties_lenient(
                properties: &crate::config::Properties,
            ) -> Result<(Self, Vec<String>), crate::Error> {
                let mut config = Self::default();
                let ignored = properties.apply(&mut config)?;
                Ok((config, ignored))
            }

            /// Whether `key` is one of its settings.
            pub fn is_key(key: &str) -> bool {
                <Self as crate::config::Settings>::keys().contains(&key)
            }

            /// Sets `key`, one of Kafka's names, to what `value` says.
            ///
            /// # Errors
            /// [`Error::Configuration`](crate::Error::Configuration) for a key that does not exist
            /// and for a value that is not allowed.
            pub fn set(&mut self, key: &str, value: &str) -> Result<(), crate::Error> {
                crate::config::Settings::set(self, key, value)
            }
        }

        impl crate::config::Settings for $name {
            fn keys() -> Vec<&'static str> {
                #[allow(unused_mut, reason = "only what embeds others adds to it")]
                let mut keys = vec![$($key,)*];
                $(keys.extend(<$embedded_type as crate::config::Settings>::keys());)*
                keys
            }

            fn assign(&mut self, key: &str, value: &str) -> Option<Result<(), crate::Error>> {
                match key {
                    $($key => {
                        #[allow(unused_mut, unused_assignments, reason = "not every setting has bounds")]
                        let mut bounds = None;
                        $(bounds = crate::config::bounds_of($range);)?
                        Some(
                            crate::config::parse_bounded($key, value, bounds)
                                .map(|value| self.$field = value),
                        )
                    })*
                    _ => {
                        $(
                            let embedded = crate::config::Settings::assign(
                                &mut self.$embedded, key, value,
                            );
                            if embedded.is_some() {
                                return embedded;
                            }
                        )*
                        None
                    }
                }
            }

            fn text_of(&self, key: &str) -> Option<String> {
                match key {
                    $($key => Some(crate::config::Setting::text(&self.$field)),)*
                    _ => {
                        $(
                            let text = crate::config::Settings::text_of(&self.$embedded, key);
                            if text.is_some() {
                                return text;
                            }
                        )*
                        None
                    }
                }
            }
        }
    };
}

/// Declares an enum whose values have names in the configuration; names are read in any case.
///
/// ```text
/// choices! {
///     /// What it chooses.
///     pub enum GroupProtocol {
///         /// The one since 0.9.
///         Classic = "classic",
///     }
/// }
/// ```
macro_rules! choices {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$variant_about:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_about])* $variant,)*
        }

        impl crate::config::Setting for $name {
            fn parse(text: &str) -> Result<Self, String> {
                let text = text.trim();
                $(if text.eq_ignore_ascii_case($text) {
                    return Ok(Self::$variant);
                })*
                Err(format!("must be one of {}", [$(concat!("`", $text, "`")),*].join(", ")))
            }

            fn text(&self) -> String {
                match self {
                    $(Self::$variant => $text.to_owned(),)*
                }
            }
        }
    };
}

pub(crate) use {choices, settings};
