//! Which names a topic may have, and which names collide.
//!
//! Metrics write `.` as `_`, so `a.b` and `a_b` are not allowed side by side.

use metadata::TopicsImage;

/// The longest name.
pub const LENGTH_MAX: usize = 249;

/// The topic of the metadata log, which is not a topic of the image.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Why a name is refused, in Kafka's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    /// There is no character.
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    /// The name is `.` or `..`.
    #[error("Topic name is invalid: '{0}' is not allowed")]
    Dots(String),
    /// The name is longer than [`LENGTH_MAX`].
    #[error(
        "Topic name is invalid: the length of '{0}' is longer than the max allowed length \
         {LENGTH_MAX}"
    )]
    TooLong(String),
    /// There is a character that no name has.
    #[error(
        "Topic name is invalid: '{0}' contains one or more characters other than ASCII \
         alphanumerics, '.', '_' and '-'"
    )]
    IllegalCharacter(String),
}

/// Whether a topic may have the name `name`.
///
/// # Errors
/// [`InvalidTopicName`] when it may not.
pub fn check(name: &str) -> Result<(), InvalidTopicName> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() {
        return Err(InvalidTopicName::Empty);
    }
    if name == "." || name == ".." {
        return Err(InvalidTopicName::Dots(name.to_owned()));
    }
    // Java counts UTF-16 units.
    if name.encode_utf16().count() > LENGTH_MAX {
        return Err(InvalidTopicName::TooLong(name.to_owned()));
    }
    if !name.bytes().all(is_legal) {
        return Err(InvalidTopicName::IllegalCharacter(name.to_owned()));
    }
    Ok(())
}

/// The existing topic whose name differs from `name` in nothing but dots and underscores, or not
/// at all.
pub fn collision<'a>(topics: &'a TopicsImage, name: &str) -> Option<&'a str> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let unified = |byte: u8| if byte == b'.' { b'_' } else { byte };
    let collides = |other: &str| other.bytes().map(unified).eq(name.bytes().map(unified));
    topics
        .iter()
        .map(|topic| &*topic.name)
        .find(|other| collides(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_in_kafkas_words() {
        let check = |name: &str, words: &str| {
            let shown = check(name).map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(shown, words, "{name}");
        };
        let long = "x".repeat(250);
        check("a", "");
        check("A-9._z", "");
        check("...", "");
        check(&long[1..], "");
        check("", "Topic name is invalid: the empty string is not allowed");
        check(".", "Topic name is invalid: '.' is not allowed");
        check("..", "Topic name is invalid: '..' is not allowed");
        check(
            &long,
            &format!(
                "Topic name is invalid: the length of '{long}' is longer than the max allowed \
                 length 249"
            ),
        );
        for name in ["a b", "a/b", "é", "a:", "a\0"] {
            check(
                name,
                &format!(
                    "Topic name is invalid: '{name}' contains one or more characters other than \
                     ASCII alphanumerics, '.', '_' and '-'"
                ),
            );
        }
    }
}
