//! Kafka's uuids: 16 bytes, big-endian on the wire, 22 characters of URL-safe base64 as text.

use std::fmt;
use std::str::FromStr;

/// The id of a topic, a log directory, a cluster or an incarnation of a process.
///
/// Its text form is URL-safe base64 without padding, as in `partition.metadata` and
/// `meta.properties`. All zero means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(u128);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The text is not a base64 uuid of 22 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidUuid(pub String);

impl fmt::Display for InvalidUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an id of 22 base64 characters", self.0)
    }
}

impl std::error::Error for InvalidUuid {}

impl Uuid {
    /// All zero: no id.
    pub const ZERO: Self = Self(0);
    /// The id of the topic `__cluster_metadata`.
    pub const METADATA_TOPIC: Self = Self(1);

    /// The id of these big-endian bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The id as big-endian bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id of this number.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Whether this is [`Uuid::ZERO`].
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// An id of version 4 made of 16 random bytes; `None` for bytes that would give a reserved
    /// id or a text that starts with a dash, which command lines take for an option.
    pub fn from_random(bytes: [u8; 16]) -> Option<Self> {
        let version = (u128::from_be_bytes(bytes) & !(0xf << 76)) | (4 << 76);
        let id = Self((version & !(3 << 62)) | (2 << 62));
        let first = (id.0 >> 122) as u8;
        (first != 62).then_some(id)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 22];
        for (index, out) in text.iter_mut().enumerate() {
            // 22 characters hold 132 bits: the last one carries four zero bits at its end.
            let shift = 122 - 6 * index as i32;
            let six = if shift >= 0 {
                self.0 >> shift
            } else {
                self.0 << -shift
            };
            *out = ALPHABET[(six & 63) as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        let invalid = || InvalidUuid(text.chars().take(64).collect());
        let text_bytes = text.trim_end_matches('=').as_bytes();
        if text_bytes.len() != 22 {
            return Err(invalid());
        }
        let mut value = 0u128;
        for (index, byte) in text_bytes.iter().enumerate() {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'-' | b'+' => 62,
                b'_' | b'/' => 63,
                _ => return Err(invalid()),
            } as u128;
            let shift = 122 - 6 * index as i32;
            value |= if shift >= 0 {
                six << shift
            } else {
                six >> -shift
            };
        }
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_kafkas() {
        let check = |id: Uuid, text: &str| {
            assert_eq!(id.to_string(), text);
            assert_eq!(text.parse(), Ok(id));
        };
        check(Uuid::ZERO, "AAAAAAAAAAAAAAAAAAAAAA");
        check(Uuid::METADATA_TOPIC, "AAAAAAAAAAAAAAAAAAAAAQ");
        check(Uuid::from_u128(u128::MAX), "_____________________w");
    }

    #[test]
    fn text_that_is_not_an_id_is_refused() {
        for text in [
            "",
            "A",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAA!",
            "é234567890123456789012",
        ] {
            assert!(text.parse::<Uuid>().is_err(), "{text}");
        }
    }

    #[test]
    fn random_ids_are_of_version_four_and_never_start_with_a_dash() {
        let id = Uuid::from_random([7; 16]).expect("not a dash");
        assert_eq!(id.to_bytes()[6] >> 4, 4);
        assert_eq!(id.to_bytes()[8] >> 6, 2);
        assert_eq!(Uuid::from_random([0xf8; 16]), None);
    }
}
