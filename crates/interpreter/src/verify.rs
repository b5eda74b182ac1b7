//! What must hold of a generated codec, as checks that panic with the message's name, version
//! and bytes.

use crate::codec::Codec;
use crate::encode::encode;
use crate::random::{Random, random_message};
use codegen::{Message, Schema};

/// The message of each codec.
///
/// # Panics
/// When the schema and the table do not have the same messages.
pub fn with_messages<'a>(schema: &'a Schema, codecs: &'a [Codec]) -> Vec<(&'a Message, Codec)> {
    assert_eq!(schema.messages.len(), codecs.len());
    let named = |codec: &Codec| {
        let mut messages = schema.messages.iter();
        let message = messages.find(|message| message.name == codec.name);
        message.unwrap_or_else(|| panic!("the schema has no {}", codec.name))
    };
    codecs.iter().map(|codec| (named(codec), *codec)).collect()
}

/// Random bytes in every version decode, and encode to the same bytes, less the tagged fields
/// that the schema does not know.
///
/// # Panics
/// When they do not.
pub fn round_trip(message: &Message, codec: Codec, random: &mut Random) {
    for version in message.versions.first..=message.versions.last {
        let value = random_message(message, version, true, random);
        let bytes = encode(message, version, &value);
        let expected = encode(message, version, &value.without_unknown());
        let context = || format!("{} {version}: {value}\n{bytes:02x?}", message.name);
        let recoded = (codec.recode)(&bytes, version, version);
        let recoded = recoded.unwrap_or_else(|error| panic!("{error}: {}", context()));
        assert_eq!(recoded.bytes, expected, "{}", context());
        assert_eq!(recoded.announced_size, expected.len(), "{}", context());
        assert!(recoded.is_stable, "{}", context());
    }
}

/// No prefix of a message is a message, nor is one with a byte too many.
///
/// # Panics
/// When one is.
pub fn truncation(message: &Message, codec: Codec, random: &mut Random) {
    /// Prefixes tried of a long message.
    const MAX_PREFIXES: usize = 200;
    for version in message.versions.first..=message.versions.last {
        let value = random_message(message, version, true, random);
        let mut bytes = encode(message, version, &value);
        let step = 1 + bytes.len() / MAX_PREFIXES;
        for length in (0..bytes.len()).step_by(step) {
            let decoded = (codec.decode)(&bytes[..length], version);
            assert!(
                decoded.is_err(),
                "{} {version}, {length} of {bytes:02x?}",
                message.name
            );
        }
        bytes.push(0);
        let decoded = (codec.decode)(&bytes, version);
        assert!(decoded.is_err(), "{} {version}: {bytes:02x?}", message.name);
    }
}

/// `count` damaged messages, each with its version: bits flipped, bytes overwritten by numbers
/// that make wild lengths, pieces cut out or doubled.
pub fn damaged(message: &Message, count: usize, random: &mut Random) -> Vec<(i16, Vec<u8>)> {
    let versions: Vec<i16> = (message.versions.first..=message.versions.last).collect();
    let one = |_| {
        let version = *random.choice(&versions);
        let value = random_message(message, version, true, random);
        let mut bytes = encode(message, version, &value);
        bytes.truncate(4_000);
        for _ in 0..1 + random.below(4) {
            damage(&mut bytes, random);
        }
        (version, bytes)
    };
    (0..count).map(one).collect()
}

/// Changes `bytes` in one place.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.bits() as u8);
        return;
    }
    let at = random.below(bytes.len());
    match random.below(6) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = *random.choice(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => {
            let wild = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f];
            for (byte, wild) in bytes[at..].iter_mut().zip(wild) {
                *byte = wild;
            }
        }
        3 => {
            let end = bytes.len().min(at + 1 + random.below(8));
            bytes.drain(at..end);
        }
        4 => {
            let end = bytes.len().min(at + 1 + random.below(8));
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => bytes[at] = random.bits() as u8,
    }
}

/// Damaged messages do not panic, and what still decodes encodes to bytes that stay the same.
///
/// # Panics
/// When it does not.
pub fn damage_is_refused(message: &Message, codec: Codec, count: usize, random: &mut Random) {
    for (version, bytes) in damaged(message, count, random) {
        if let Ok(recoded) = (codec.recode)(&bytes, version, version) {
            assert_eq!(
                recoded.announced_size,
                recoded.bytes.len(),
                "{} {version}: {bytes:02x?}",
                message.name
            );
            assert!(
                recoded.is_stable,
                "{} {version}: {bytes:02x?}",
                message.name
            );
        }
    }
}
