//! How settings are set by Kafka's names: [`Settings`], what is set from text by name, and [`Setting`], what
//! one of them can hold. A name that nobody knows is refused with the nearest one that exists.

use crate::Error;

/// A struct whose fields are settings with Kafka's names.
pub trait Settings {
    /// The names, with those of embedded structs.
    fn keys() -> Vec<&'static str>;

    /// Sets `key` to what `value` says; `None` when this struct has no such key.
    fn assign(&mut self, key: &str, value: &str) -> Option<Result<(), Error>>;

    /// The value of `key` as text; `None` when this struct has no such key.
    fn text_of(&self, key: &str) -> Option<String>;

    /// Sets `key` to what `value` says.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a key that does not exist and for a value that is not allowed.
    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.assign(key, value)
            .unwrap_or_else(|| Err(unknown(key, value, &Self::keys())))
    }
}

/// What a setting can hold.
pub trait Setting: Sized {
    /// Reads the value; otherwise says what is allowed.
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes the value as [`Setting::parse`] reads it.
    fn text(&self) -> String;
    /// The value as a number, where bounds apply.
    fn number(&self) -> Option<i128> {
        None
    }
}

macro_rules! number_setting {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| {
                    format!("must be a whole number from {} to {}", Self::MIN, Self::MAX)
                })
            }
            fn text(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<i128> {
                i128::try_from(*self).ok()
            }
        }
    )*};
}

number_setting! { i32 i64 u32 u64 usize }

impl Setting for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("must be `true` or `false`".to_owned()),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

/// Absent when the text is empty.
impl<T: Setting> Setting for Option<T> {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        T::parse(text).map(Some)
    }

    fn text(&self) -> String {
        self.as_ref().map(T::text).unwrap_or_default()
    }

    fn number(&self) -> Option<i128> {
        self.as_ref().and_then(T::number)
    }
}

/// Elements between commas.
impl<T: Setting> Setting for Vec<T> {
    fn parse(text: &str) -> Result<Self, String> {
        let elements = text.split(',').map(str::trim);
        elements.filter(|e| !e.is_empty()).map(T::parse).collect()
    }

    fn text(&self) -> String {
        let elements: Vec<String> = self.iter().map(T::text).collect();
        elements.join(",")
    }
}

/// The error for a value of `key` that is not allowed.
pub(crate) fn not_allowed(key: &str, value: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Configuration {
        key: key.to_owned(),
        value: value.into(),
        reason: reason.into(),
    }
}

fn unknown(key: &str, value: &str, keys: &[&'static str]) -> Error {
    let nearest = keys.iter().min_by_key(|known| distance(key, known));
    let reason = match nearest {
        Some(known) if distance(key, known) <= known.len() / 3 => {
            format!("there is no such setting; did you mean `{known}`?")
        }
        _ => "there is no such setting".to_owned(),
    };
    not_allowed(key, value, reason)
}

/// How many bytes must be added, removed or replaced to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    // A name longer than any setting is near to none, whatever it is.
    let one = &one.as_bytes()[..one.len().min(128)];
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
