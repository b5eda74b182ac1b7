//! Reads the big-endian fields of a format front to back, and checks each length before it is used.

use super::FormatError;
use model::varint::unzigzag_u32;

/// The zigzag varint of 32 bits at the front, and how many bytes it takes. As in Kafka Streams, bits of a fifth byte
/// that an i32 has no room for are dropped; records and requests refuse them.
pub(super) fn read_varint(bytes: &[u8]) -> Result<(i32, usize), FormatError> {
    const BYTES_MAX: usize = 5;
    let mut value = 0;
    for (at, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Ok((unzigzag_u32(value), at + 1));
        }
    }
    Err(match bytes.len() {
        ..BYTES_MAX => FormatError::Truncated,
        _ => FormatError::VarintTooLong,
    })
}

/// At the next field of some bytes.
#[derive(Clone, Debug)]
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are left.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing is left.
    pub(super) const fn end(&self) -> Result<(), FormatError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(FormatError::TrailingBytes),
        }
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let split = self.rest.split_first_chunk();
        let (head, rest) = split.ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, FormatError> {
        self.array().map(u8::from_be_bytes)
    }

    /// A byte of 0 or 1.
    pub(super) fn flag(&mut self) -> Result<bool, FormatError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FormatError::UnknownFlag(i32::from(other))),
        }
    }

    pub(super) fn i16(&mut self) -> Result<i16, FormatError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FormatError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, FormatError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, FormatError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A zigzag varint of 32 bits.
    pub(super) fn varint(&mut self) -> Result<i32, FormatError> {
        let (value, length) = read_varint(self.rest)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// As many bytes as a length says that stood before.
    pub(super) fn take(&mut self, length: i32) -> Result<&'a [u8], FormatError> {
        let length = usize::try_from(length).map_err(|_| FormatError::NegativeLength)?;
        let split = self.rest.split_at_checked(length);
        let (head, rest) = split.ok_or(FormatError::LengthBeyondEnd)?;
        self.rest = rest;
        Ok(head)
    }

    /// An i32 length, and as many bytes.
    pub(super) fn sized(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.i32()?;
        self.take(length)
    }

    /// An i32 length, -1 for null, and as many bytes.
    pub(super) fn nullable_sized(&mut self) -> Result<Option<&'a [u8]>, FormatError> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.take(length).map(Some),
        }
    }

    /// An i32 length, and as many bytes of text.
    pub(super) fn text(&mut self) -> Result<&'a str, FormatError> {
        str::from_utf8(self.sized()?).map_err(|_| FormatError::InvalidUtf8)
    }

    /// An i32 count of elements that take `element_bytes_min` bytes at least: never more than
    /// there is room for, so that it may size a list.
    pub(super) fn count(&mut self, element_bytes_min: usize) -> Result<usize, FormatError> {
        let count = self.i32()?;
        let count = usize::try_from(count).map_err(|_| FormatError::NegativeLength)?;
        if count.saturating_mul(element_bytes_min) > self.rest.len() {
            return Err(FormatError::LengthBeyondEnd);
        }
        Ok(count)
    }

    /// A list: an i32 count, and as many elements of `element_bytes_min` bytes at least.
    pub(super) fn list<T>(
        &mut self,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let count = self.count(element_bytes_min)?;
        (0..count).map(|_| element(self)).collect()
    }
}

/// Appends an i32 length and as many bytes; -1 for null.
pub(super) fn write_sized(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            write_count(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Appends an i32 count.
///
/// # Panics
/// For 2 GiB and more, which no record of Kafka's holds.
pub(super) fn write_count(count: usize, out: &mut Vec<u8>) {
    let count = i32::try_from(count).expect("what a record holds is smaller than 2 GiB");
    out.extend_from_slice(&count.to_be_bytes());
}
