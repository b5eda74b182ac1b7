//! The primitive types of Kafka's encodings, and arrays of them.
//!
//! A message is read through a [`Reader`] that borrows from the frame and written in two passes by a
//! [`Writer`](crate::Writer): an exact size, then the bytes. [`Array`](crate::Array) is a view of the encoded elements
//! when it was decoded, so a decoded message allocates nothing, whatever counts its peer claims.

use crate::Uuid;
use crate::invalid_strings::InvalidStrings;
use crate::varint::{self, VarintError};
use std::fmt;

/// Why bytes are not the message that they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end within a field, or a length exceeds what is left.
    Truncated,
    /// A varint is longer than its type allows.
    VarintTooLong,
    /// A string is longer than the protocol allows.
    InvalidLength,
    /// A field that may not be null is null.
    UnexpectedNull,
    /// A string is not UTF-8.
    InvalidUtf8,
    /// Bytes are left after the message's end.
    TrailingBytes,
    /// The message has no such version.
    UnsupportedVersion,
    /// Its arrays have more elements than the reader may take.
    TooManyElements,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end within a field",
            Self::VarintTooLong => "a variable-length integer is too long",
            Self::InvalidLength => "a length is out of its bounds",
            Self::UnexpectedNull => "a field that may not be null is null",
            Self::InvalidUtf8 => "a string is not UTF-8",
            Self::TrailingBytes => "bytes are left after the message",
            Self::UnsupportedVersion => "the message has no such version",
            Self::TooManyElements => {
                "its arrays have more elements than may be asked for at a time"
            }
        })
    }
}

impl std::error::Error for DecodeError {}

impl From<VarintError> for DecodeError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLong => Self::VarintTooLong,
        }
    }
}

/// The version of a message, and whether its encoding is the flexible one (KIP-482).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The version's number.
    pub number: i16,
    /// Compact lengths and tagged fields.
    pub flexible: bool,
}

/// A message with versions: a request, a response, a header or a record on disk.
pub trait Message<'a>: Element<'a> + Default {
    /// The name of the message in Kafka's schemas.
    const NAME: &'static str;
    /// The lowest valid version.
    const MIN_VERSION: i16;
    /// The highest valid version.
    const MAX_VERSION: i16;
    /// The first flexible version; beyond `MAX_VERSION` when there is none.
    const FLEXIBLE_FROM: i16;

    /// The layout of version `number`.
    fn layout(number: i16) -> Version {
        Version {
            number,
            flexible: number >= Self::FLEXIBLE_FROM,
        }
    }

    /// Reads a whole message: `bytes` must hold nothing else.
    ///
    /// # Errors
    /// A [`DecodeError`] when the bytes are not a message of this version.
    fn from_bytes(bytes: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let message = Self::read(&mut reader, version)?;
        if reader.is_empty() {
            Ok(message)
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }

    /// Reads a message at the reader's position.
    ///
    /// # Errors
    /// A [`DecodeError`] when the bytes are not a message of this version.
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::MIN_VERSION..=Self::MAX_VERSION).contains(&version) {
            return Err(DecodeError::UnsupportedVersion);
        }
        Self::decode(reader, Self::layout(version))
    }

    /// Bytes that the message takes in `version`.
    fn size(&self, version: i16) -> usize {
        self.encoded_size(Self::layout(version))
    }

    /// Appends the message in `version`.
    fn write(&self, version: i16, out: &mut Vec<u8>) {
        let layout = Self::layout(version);
        out.reserve(self.encoded_size(layout));
        self.encode(layout, out);
    }

    /// The message in `version` as bytes.
    fn to_bytes(&self, version: i16) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(version, &mut out);
        out
    }
}

/// What an array can hold, and every message: a value with an encoding.
pub trait Element<'a>: Clone {
    /// Reads one value.
    ///
    /// # Errors
    /// A [`DecodeError`] when the bytes are not such a value.
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError>;
    /// Bytes that the value takes.
    fn encoded_size(&self, version: Version) -> usize;
    /// Appends the value.
    fn encode(&self, version: Version, out: &mut Vec<u8>);
}

/// Reads the primitives of the protocol from a slice, front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Where strings that are not UTF-8 are noted instead of being an error.
    invalid: Option<&'a InvalidStrings>,
    /// How many more elements arrays may have.
    elements_left: usize,
}

macro_rules! read_integer {
    ($($name:ident)*) => {$(
        #[doc = concat!("A big-endian ", stringify!($name), ".")]
        #[inline]
        pub fn $name(&mut self) -> Result<$name, DecodeError> {
            let (head, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
            self.bytes = rest;
            Ok($name::from_be_bytes(*head))
        }
    )*};
}

#[expect(
    clippy::missing_errors_doc,
    reason = "each fails as DecodeError says, and only so"
)]
impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            invalid: None,
            elements_left: usize::MAX,
        }
    }

    /// A reader that notes each string that is not UTF-8, and goes on with an empty one in its
    /// place.
    pub const fn noting(bytes: &'a [u8], invalid: &'a InvalidStrings) -> Self {
        Self {
            bytes,
            invalid: Some(invalid),
            elements_left: usize::MAX,
        }
    }

    /// The same reader, for arrays of so many elements in all: what is made of an element may be a
    /// hundred times as long as its encoding.
    #[must_use]
    pub const fn with_elements_max(mut self, elements_max: usize) -> Self {
        self.elements_left = elements_max;
        self
    }

    /// Takes the room for the elements of an array.
    pub(crate) fn take_elements(&mut self, count: usize) -> Result<(), DecodeError> {
        let left = self.elements_left.checked_sub(count);
        self.elements_left = left.ok_or(DecodeError::TooManyElements)?;
        Ok(())
    }

    /// The bytes that are left.
    #[inline]
    pub const fn remaining(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether nothing is left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    read_integer!(i8 i16 u16 i32 u32 i64 f64);

    /// The next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(head)
    }

    /// A boolean: any byte but zero is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// A uuid of 16 bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        let (head, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(Uuid::from_bytes(*head))
    }

    /// An unsigned varint of 32 bits.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let (value, length) = varint::read_unsigned_varint(self.bytes)?;
        self.take(length)?;
        Ok(value)
    }

    /// A zigzag varint of 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let (value, length) = varint::read_varint(self.bytes)?;
        self.take(length)?;
        Ok(value)
    }

    /// A length that stands before a string: i16, or compact. `None` for null, which is any length
    /// below zero, as Apache Kafka reads it.
    #[inline]
    fn string_length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let length = if flexible {
            self.compact_length()?
        } else {
            i32::from(self.i16()?)
        };
        match length {
            ..0 => Ok(None),
            0..=0x7fff => Ok(Some(length as usize)),
            _ => Err(DecodeError::InvalidLength),
        }
    }

    /// A length that stands before bytes or an array: i32, or compact. `None` for null, which is
    /// any length below zero, as Apache Kafka reads it.
    #[inline]
    pub fn length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let length = if flexible {
            self.compact_length()?
        } else {
            self.i32()?
        };
        Ok(usize::try_from(length).ok())
    }

    /// One less than an unsigned varint, in the 32 bits of a signed integer.
    #[inline]
    fn compact_length(&mut self) -> Result<i32, DecodeError> {
        Ok((self.unsigned_varint()? as i32).wrapping_sub(1))
    }

    /// A string that may be null.
    #[inline]
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<&'a str>, DecodeError> {
        let whole = self.bytes;
        let Some(length) = self.string_length(flexible)? else {
            return Ok(None);
        };
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => self.invalid_string(whole, length, flexible).map(Some),
        }
    }

    /// A string at the front of `whole` that is not UTF-8.
    #[cold]
    fn invalid_string(
        &self,
        whole: &'a [u8],
        length: usize,
        flexible: bool,
    ) -> Result<&'a str, DecodeError> {
        let invalid = self.invalid.ok_or(DecodeError::InvalidUtf8)?;
        let field = &whole[..whole.len() - self.bytes.len()];
        invalid.note(field, length, flexible);
        Ok("")
    }

    /// A string.
    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<&'a str, DecodeError> {
        self.nullable_string(flexible)?
            .ok_or(DecodeError::UnexpectedNull)
    }

    /// Bytes that may be null; records have the same form.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.length(flexible)? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes.
    #[inline]
    pub fn bytes(&mut self, flexible: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(flexible)?
            .ok_or(DecodeError::UnexpectedNull)
    }

    /// A struct that may be null: a byte below zero for null, then the struct.
    #[inline]
    pub fn nullable_struct<T: Element<'a>>(
        &mut self,
        version: Version,
    ) -> Result<Option<T>, DecodeError> {
        if self.i8()? < 0 {
            Ok(None)
        } else {
            T::decode(self, version).map(Some)
        }
    }

    /// A struct that may be null as the value of a tagged field: a varint, zero for null, then the
    /// struct.
    #[inline]
    pub fn nullable_tagged_struct<T: Element<'a>>(
        &mut self,
        version: Version,
    ) -> Result<Option<T>, DecodeError> {
        if self.unsigned_varint()? == 0 {
            Ok(None)
        } else {
            T::decode(self, version).map(Some)
        }
    }

    /// The tagged fields at the end of a flexible struct that knows none.
    #[inline]
    pub fn skip_tagged_fields(&mut self) -> Result<(), DecodeError> {
        let (invalid, elements_left) = (self.invalid, self.elements_left);
        let of = |bytes| Self {
            bytes,
            invalid,
            elements_left,
        };
        *self = match self.bytes {
            [0, rest @ ..] => of(rest),
            bytes => of(bytes).past_tagged_fields()?,
        };
        Ok(())
    }

    /// By value, so that the frequent case keeps its reader in registers.
    #[cold]
    fn past_tagged_fields(mut self) -> Result<Self, DecodeError> {
        self.tagged_fields(|_, _| Ok(()))?;
        Ok(self)
    }

    /// The tagged fields at the end of a flexible struct: calls `field` with each tag and a reader
    /// of its bytes. `field` leaves alone what it does not know.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let whole = self.bytes;
            let length = self.unsigned_varint()? as usize;
            let size = &whole[..whole.len() - self.bytes.len()];
            let content = self.take(length)?;
            let mut reader = Self {
                bytes: content,
                invalid: self.invalid,
                elements_left: self.elements_left,
            };
            let noted = self.invalid.map(InvalidStrings::count);
            field(tag, &mut reader)?;
            self.elements_left = reader.elements_left;
            if let Some(invalid) = self.invalid
                && noted != Some(invalid.count())
            {
                // A tag that comes again and again costs its sender as much as an element.
                self.take_elements(1)?;
                invalid.note_tagged(size, content);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::STRING_BYTES_MAX;
    use crate::{Array, Writer};

    #[test]
    fn all_arrays_of_a_reader_share_its_elements() {
        let layout = Version {
            number: 0,
            flexible: true,
        };
        let mut bytes = Vec::new();
        let numbers: Array<'_, i8> = vec![1, 2, 3].into();
        Array::encode(Some(&numbers), layout, &mut bytes);
        // A tagged field with an array of as many.
        let size = bytes.len() as u8;
        bytes.extend([1, 0, size]);
        bytes.extend_from_within(..usize::from(size));
        Array::encode(Some(&numbers), layout, &mut bytes);
        let read = |elements_max| {
            let mut reader = Reader::new(&bytes).with_elements_max(elements_max);
            Array::<'_, i8>::decode(&mut reader, layout)?;
            reader.tagged_fields(|_, field| {
                Array::<'_, i8>::decode(field, layout).map(|array| assert_eq!(array.len(), 3))
            })?;
            Array::<'_, i8>::decode(&mut reader, layout).map(|array| array.len())
        };
        assert_eq!(read(9), Ok(3));
        for too_few in [0, 2, 5, 8] {
            assert_eq!(read(too_few), Err(DecodeError::TooManyElements));
        }
    }

    #[test]
    fn a_string_beyond_the_protocol_is_cut_between_characters() {
        let fits = "x".repeat(STRING_BYTES_MAX);
        for (text, expected) in [
            (fits.clone(), &fits[..]),
            (format!("{fits}x"), &fits),
            (format!("{}é", &fits[1..]), &fits[1..]),
        ] {
            for flexible in [false, true] {
                let mut bytes = Vec::new();
                Writer::string(Some(&text), flexible, &mut bytes);
                assert_eq!(bytes.len(), Writer::string_size(Some(&text), flexible));
                assert_eq!(Reader::new(&bytes).string(flexible), Ok(expected));
            }
        }
    }
}
