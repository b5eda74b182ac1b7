//! What the two sides of a foreign-key join send one another.
//!
//! ```text
//!   subscription   version, with bit 7 for "no hash" │ instruction │ hash of 16 bytes
//!                                    │ primary key │ i32 primary partition (from version 1)
//!   response       0, with bit 7 for "no hash" │ hash of 16 bytes │ foreign value, or nothing
//! ```
//!
//! The hash is that of the left value ([`murmur3_128`](super::murmur3::murmur3_128)): an answer to
//! an older left value is dropped. An empty foreign value reads as none.

use super::FormatError;
use super::field_reader::FieldReader;

/// In the first byte: no hash follows.
const NO_HASH: u8 = 0x80;

/// What the right side does with a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Delete it, and answer nothing.
    DeleteKeyNoPropagate,
    /// Delete it, and answer that there is no foreign value.
    DeleteKeyAndPropagate,
    /// Keep it, and answer whether or not there is a foreign value.
    PropagateNullIfNoForeignKey,
    /// Keep it, and answer if there is a foreign value.
    PropagateOnlyIfForeignKey,
}

impl Instruction {
    /// Every instruction, in the order of their bytes.
    const ALL: [Self; 4] = [
        Self::DeleteKeyNoPropagate,
        Self::DeleteKeyAndPropagate,
        Self::PropagateNullIfNoForeignKey,
        Self::PropagateOnlyIfForeignKey,
    ];
}

/// Kafka Streams' `SubscriptionWrapper`: a left record asks for a right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// Of the left value; `None` when there is none.
    pub hash: Option<[u8; 16]>,
    /// What is to be done.
    pub instruction: Instruction,
    /// The serialized key of the left record.
    pub primary_key: &'a [u8],
    /// The partition of the left record; `None` in version 0, which does not say it.
    pub primary_partition: Option<i32>,
}

impl<'a> Subscription<'a> {
    /// Reads a subscription, from its topic or its store.
    ///
    /// # Errors
    /// When the bytes end early, or version or instruction are unknown.
    pub fn read(value: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(value);
        let first = reader.u8()?;
        let instruction = reader.u8()?;
        let known = Instruction::ALL.get(usize::from(instruction));
        let unknown = FormatError::UnknownFlag(i32::from(instruction));
        let instruction = *known.ok_or(unknown)?;
        let hash = read_hash(first, &mut reader)?;
        let (primary_key, primary_partition) = match first & !NO_HASH {
            0 => (reader.rest(), None),
            1 => {
                let split = reader.rest().split_last_chunk();
                let (key, partition) = split.ok_or(FormatError::Truncated)?;
                (key, Some(i32::from_be_bytes(*partition)))
            }
            other => return Err(FormatError::UnknownVersion(i32::from(other))),
        };
        Ok(Self {
            hash,
            instruction,
            primary_key,
            primary_partition,
        })
    }

    /// The subscription's bytes: version 1 with a partition, else version 0.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = u8::from(self.primary_partition.is_some());
        let mut bytes = vec![first_byte(version, self.hash), self.instruction as u8];
        bytes.extend(self.hash.iter().flatten());
        bytes.extend_from_slice(self.primary_key);
        bytes.extend(
            self.primary_partition
                .iter()
                .flat_map(|one| one.to_be_bytes()),
        );
        bytes
    }
}

/// Kafka Streams' `SubscriptionResponseWrapper`: the right record for a left one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionResponse<'a> {
    /// That of the subscription.
    pub hash: Option<[u8; 16]>,
    /// The serialized value of the right record, if there is one.
    pub foreign_value: Option<&'a [u8]>,
}

impl<'a> SubscriptionResponse<'a> {
    /// Reads a response.
    ///
    /// # Errors
    /// When the bytes end early, or the version is unknown.
    pub fn read(value: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(value);
        let first = reader.u8()?;
        if first & !NO_HASH != 0 {
            let version = i32::from(first & !NO_HASH);
            return Err(FormatError::UnknownVersion(version));
        }
        let hash = read_hash(first, &mut reader)?;
        let foreign_value = Some(reader.rest()).filter(|value| !value.is_empty());
        Ok(Self {
            hash,
            foreign_value,
        })
    }

    /// The response's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![first_byte(0, self.hash)];
        bytes.extend(self.hash.iter().flatten());
        bytes.extend_from_slice(self.foreign_value.unwrap_or_default());
        bytes
    }
}

const fn first_byte(version: u8, hash: Option<[u8; 16]>) -> u8 {
    match hash {
        Some(_) => version,
        None => version | NO_HASH,
    }
}

fn read_hash(first: u8, reader: &mut FieldReader<'_>) -> Result<Option<[u8; 16]>, FormatError> {
    match first & NO_HASH {
        0 => reader.array().map(Some),
        _ => Ok(None),
    }
}

/// Takes any bytes for a subscription and for a response.
pub fn fuzz_subscription(bytes: &[u8]) {
    if let Ok(subscription) = Subscription::read(bytes) {
        assert_eq!(subscription.to_bytes(), bytes);
    }
    if let Ok(response) = SubscriptionResponse::read(bytes) {
        assert_eq!(response.to_bytes(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fuzz::hex;
    use crate::formats::murmur3::murmur3_128;
    use proptest::prelude::*;

    const SUBSCRIPTION: Subscription<'static> = Subscription {
        hash: None,
        instruction: Instruction::DeleteKeyAndPropagate,
        primary_key: b"pk",
        primary_partition: Some(4),
    };

    #[test]
    fn subscriptions_are_those_of_kafka_streams() {
        let hash = Some(murmur3_128(b"v"));
        let instruction = Instruction::PropagateOnlyIfForeignKey;
        let check = |subscription: Subscription<'_>, text: &str| {
            assert_eq!(subscription.to_bytes(), hex(text));
            assert_eq!(Subscription::read(&hex(text)), Ok(subscription));
        };
        let asking = Subscription {
            hash,
            instruction,
            ..SUBSCRIPTION
        };
        check(
            asking,
            "0103 e001ba9f5f750d05 18bc9338ae3e72f3 706b 00000004",
        );
        check(SUBSCRIPTION, "8101 706b 00000004");
        let primary_partition = None;
        let first = Subscription {
            primary_partition,
            ..asking
        };
        check(first, "0003 e001ba9f5f750d05 18bc9338ae3e72f3 706b");
        let first = Subscription {
            primary_partition,
            ..SUBSCRIPTION
        };
        check(first, "8001 706b");
    }

    #[test]
    fn responses_are_those_of_kafka_streams() {
        let hash = Some(murmur3_128(b"v"));
        for (hash, foreign_value, text) in [
            (
                hash,
                Some(&b"fv"[..]),
                "00 e001ba9f5f750d0518bc9338ae3e72f3 6676",
            ),
            (None, None, "80"),
        ] {
            let response = SubscriptionResponse {
                hash,
                foreign_value,
            };
            assert_eq!(response.to_bytes(), hex(text));
            assert_eq!(SubscriptionResponse::read(&hex(text)), Ok(response));
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("81", FormatError::Truncated),
            ("8104 00000000", FormatError::UnknownFlag(4)),
            ("8200 00000000", FormatError::UnknownVersion(2)),
            ("8101 000000", FormatError::Truncated),
            ("0101 000000", FormatError::Truncated),
        ] {
            assert_eq!(Subscription::read(&hex(text)), Err(expected), "{text}");
        }
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("00 00", FormatError::Truncated),
            ("81", FormatError::UnknownVersion(1)),
        ] {
            assert_eq!(
                SubscriptionResponse::read(&hex(text)),
                Err(expected),
                "{text}"
            );
        }
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, head in proptest::array::uniform2(0..5u8)) {
            fuzz_subscription(&bytes);
            fuzz_subscription(&[&head[..], &bytes].concat());
            fuzz_subscription(&[&[head[0] | NO_HASH, head[1]], &bytes[..]].concat());
        }
    }
}
