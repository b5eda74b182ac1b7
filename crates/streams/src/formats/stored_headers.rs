//! The headers in front of a stored value (KIP-1271).
//!
//! ```text
//!   00                                  no headers: one byte
//!   varint size                         else the bytes that follow up to the value
//!     varint count                      zero and less: no headers
//!     (varint key length, key, varint value length or -1, value)*
//! ```
//!
//! They are checked once, when they are taken from the stored bytes, and borrowed from them.
//! As Kafka Streams does, a reader takes padded varints, and ignores what follows the last header
//! within the size.

use super::FormatError;
use super::field_reader::read_varint;
use model::varint::{size_of_varint, unzigzag_u32, write_varint};
use record::Header;

/// Headers, borrowed from the bytes of a stored value.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredHeaders<'a> {
    /// Begins with the headers, each of which was read once without error.
    bytes: &'a [u8],
    count: usize,
}

impl<'a> StoredHeaders<'a> {
    /// Takes the headers off the front of a stored value: they, and the bytes behind them.
    ///
    /// # Errors
    /// When the bytes do not begin with headers of the size that they claim.
    #[inline]
    pub fn split(stored: &'a [u8]) -> Result<(Self, &'a [u8]), FormatError> {
        match stored {
            [0, rest @ ..] => Ok((Self::default(), rest)),
            _ => {
                let (block, rest) = split_block(stored)?;
                Ok((Self::parse(block)?, rest))
            }
        }
    }

    /// The headers of a block whose size stood before it.
    fn parse(block: &'a [u8]) -> Result<Self, FormatError> {
        if block.is_empty() {
            return Ok(Self::default());
        }
        let (count, length) = read_varint(block)?;
        let Ok(count @ 1..) = usize::try_from(count) else {
            return Ok(Self::default());
        };
        let bytes = &block[length..];
        let mut end = 0;
        // Each header takes two bytes at least, so a count that lies ends with the bytes.
        for _ in 0..count {
            (_, end) = header_at(bytes, end)?;
        }
        Ok(Self { bytes, count })
    }

    /// How many headers there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers, in order.
    #[inline]
    pub const fn iter(&self) -> Iter<'a> {
        Iter {
            bytes: self.bytes,
            at: 0,
            left_count: self.count,
        }
    }
}

/// Headers are equal however their lengths are padded.
impl PartialEq for StoredHeaders<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StoredHeaders<'_> {}

impl<'a> IntoIterator for StoredHeaders<'a> {
    type Item = Header<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The headers of [`StoredHeaders`], in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: usize,
    left_count: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        self.left_count = self.left_count.checked_sub(1)?;
        let header = header_at(self.bytes, self.at);
        let (header, end) = header.expect("it was read once without error");
        self.at = end;
        Some(header)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left_count, Some(self.left_count))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Splits a stored value into the block of its headers, not looked into, and what is behind it.
#[inline]
pub(super) fn split_block(stored: &[u8]) -> Result<(&[u8], &[u8]), FormatError> {
    match stored {
        [size, rest @ ..] if *size < 0x80 => {
            let size = usize::try_from(unzigzag_u32(u32::from(*size)));
            let size = size.map_err(|_| FormatError::NegativeLength)?;
            rest.split_at_checked(size)
                .ok_or(FormatError::LengthBeyondEnd)
        }
        _ => split_large_block(stored),
    }
}

/// The same, of a size that takes more than one byte.
#[inline(never)]
fn split_large_block(stored: &[u8]) -> Result<(&[u8], &[u8]), FormatError> {
    let (size, length) = read_varint(stored)?;
    let size = usize::try_from(size).map_err(|_| FormatError::NegativeLength)?;
    let split = stored[length..].split_at_checked(size);
    split.ok_or(FormatError::LengthBeyondEnd)
}

/// The header that starts at a place, and where it ends.
#[inline(always)]
fn header_at(bytes: &[u8], at: usize) -> Result<(Header<'_>, usize), FormatError> {
    let (size, at) = length_at(bytes, at)?;
    let (key, at) = sized_at(bytes, at, size)?;
    let (size, at) = length_at(bytes, at)?;
    if size == -1 {
        return Ok((Header { key, value: None }, at));
    }
    let (value, at) = sized_at(bytes, at, size)?;
    let value = Some(value);
    Ok((Header { key, value }, at))
}

/// The length at a place, most of which are one byte, and where it ends.
#[inline(always)]
fn length_at(bytes: &[u8], at: usize) -> Result<(i32, usize), FormatError> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok((unzigzag_u32(u32::from(byte)), at + 1)),
        _ => long_length_at(bytes, at),
    }
}

#[cold]
fn long_length_at(bytes: &[u8], at: usize) -> Result<(i32, usize), FormatError> {
    let (value, length) = read_varint(bytes.get(at..).unwrap_or_default())?;
    Ok((value, at + length))
}

/// So many bytes from a place on, and where they end.
#[inline(always)]
fn sized_at(bytes: &[u8], at: usize, size: i32) -> Result<(&[u8], usize), FormatError> {
    let size = usize::try_from(size).map_err(|_| FormatError::NegativeLength)?;
    let end = at + size;
    let sized = bytes.get(at..end).ok_or(FormatError::LengthBeyondEnd)?;
    Ok((sized, end))
}

/// Appends headers with their size, as they stand in front of a stored value.
///
/// # Panics
/// When they take 2 GiB or more, which no record of Kafka's holds.
pub fn write_headers<'a, I>(headers: I, out: &mut Vec<u8>)
where
    I: IntoIterator<Item = Header<'a>>,
    I::IntoIter: ExactSizeIterator + Clone,
{
    let headers = headers.into_iter();
    if headers.len() == 0 {
        return out.push(0);
    }
    let count = varint_of(headers.len());
    let sizes = headers.clone().map(|header| {
        let value = header.value.map_or(-1, |value| varint_of(value.len()));
        let lengths = size_of_varint(varint_of(header.key.len())) + size_of_varint(value);
        lengths + header.key.len() + header.value.map_or(0, <[u8]>::len)
    });
    let size = size_of_varint(count) + sizes.sum::<usize>();
    write_varint(varint_of(size), out);
    out.reserve(size);
    write_varint(count, out);
    for Header { key, value } in headers {
        write_varint(varint_of(key.len()), out);
        out.extend_from_slice(key);
        write_varint(value.map_or(-1, |value| varint_of(value.len())), out);
        out.extend_from_slice(value.unwrap_or_default());
    }
}

fn varint_of(length: usize) -> i32 {
    i32::try_from(length).expect("what a record holds is smaller than 2 GiB")
}
