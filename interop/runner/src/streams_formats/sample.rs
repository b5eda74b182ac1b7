//! A format, random samples of it, and how fields stand in a line (`Text.java` reads them).

use anyhow::Result;
use interpreter::Random;
use record::Header;

use super::super::oracle::{from_hex, hex};

/// Something that both sides read and write.
pub(super) struct Format {
    /// Its name in questions.
    pub(super) name: &'static str,
    /// A random sample.
    pub(super) sample: fn(&mut Random) -> Sample,
    /// The fields that are read here, as text.
    pub(super) read: fn(&[u8]) -> Result<String>,
    /// Whether Kafka Streams still writes it.
    pub(super) is_written_by_kafka: bool,
    /// Whether equal fields are equal bytes; what Kafka Streams keeps in hash maps has any order.
    pub(super) has_order: bool,
}

/// Fields and their bytes as they are written here.
pub(super) struct Sample {
    /// What is written.
    pub(super) fields: String,
    /// What is read.
    pub(super) shown: String,
    /// The bytes that are written here.
    pub(super) bytes: Vec<u8>,
}

impl Sample {
    /// A sample whose fields are read as they were written.
    pub(super) fn new(fields: String, bytes: Vec<u8>) -> Self {
        let shown = fields.clone();
        Self {
            fields,
            shown,
            bytes,
        }
    }
}

/// Bytes as a word.
pub(super) fn text(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some([]) => ".".to_owned(),
        Some(bytes) => hex(bytes),
    }
}

/// Text as a word.
pub(super) fn text_of(text_: &str) -> String {
    text(Some(text_.as_bytes()))
}

/// The bytes of a word.
pub(super) fn bytes(word: &str) -> Result<Vec<u8>> {
    match word {
        "." => Ok(Vec::new()),
        word => from_hex(word),
    }
}

/// A list as a word.
pub(super) fn list(elements: impl IntoIterator<Item = String>) -> String {
    let elements: Vec<String> = elements.into_iter().collect();
    match elements.is_empty() {
        true => "none".to_owned(),
        false => elements.join(","),
    }
}

/// A list whose order does not matter, sorted as Java sorts text.
pub(super) fn sorted(elements: impl IntoIterator<Item = String>) -> String {
    let mut elements: Vec<String> = elements.into_iter().collect();
    elements.sort_unstable();
    list(elements)
}

/// Headers as a word. Java reads what is not UTF-8 with replacement characters.
pub(super) fn text_of_headers<'a>(headers: impl Iterator<Item = Header<'a>>) -> String {
    list(headers.map(|header| format!("{}:{}", text_of(&header.key_text()), text(header.value))))
}

/// Headers that somebody owns.
#[derive(Default)]
pub(super) struct OwnedHeaders(Vec<(String, Option<Vec<u8>>)>);

impl OwnedHeaders {
    /// None to three random ones.
    pub(super) fn random(random: &mut Random) -> Self {
        let count = random.below(4);
        Self(
            (0..count)
                .map(|_| (string(random), nullable(random)))
                .collect(),
        )
    }

    /// The headers.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Header<'_>> + Clone {
        self.0.iter().map(|(key, value)| Header {
            key: key.as_bytes(),
            value: value.as_deref(),
        })
    }
}

/// Random bytes, sometimes none, sometimes as many as need a longer varint.
pub(super) fn some(random: &mut Random) -> Vec<u8> {
    let length = match random.below(8) {
        0 => 0,
        7 => 60 + random.below(80),
        _ => 1 + random.below(9),
    };
    random.bytes(length)
}

/// Random bytes or null.
pub(super) fn nullable(random: &mut Random) -> Option<Vec<u8>> {
    match random.chance(1, 4) {
        true => None,
        false => Some(some(random)),
    }
}

/// Random text.
pub(super) fn string(random: &mut Random) -> String {
    let length = random.below(6);
    (0..length)
        .map(|_| *random.choice(&['a', 'b', 'z', '-', 'é', '日']))
        .collect()
}

/// The name of a topic.
pub(super) fn topic(random: &mut Random) -> String {
    format!("topic-{}", random.below(4))
}

/// A random time, of 0 and of the end of time too.
pub(super) fn time(random: &mut Random) -> i64 {
    match random.below(8) {
        0 => 0,
        1 => i64::MAX - random.below(3) as i64,
        2 => random.below(300) as i64,
        _ => 1_600_000_000_000 + random.below(1 << 40) as i64,
    }
}
