//! Primitives of Kafka's encodings, written: an exact size first, then the bytes.

use crate::varint;

/// The longest string that the protocol can carry.
pub(crate) const STRING_BYTES_MAX: usize = 0x7fff;

/// Sizes of the primitives, and functions that append them to a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Writer;

impl Writer {
    /// Bytes of a length of `count` before bytes or an array.
    #[inline]
    pub const fn length_size(count: usize, flexible: bool) -> usize {
        if flexible {
            varint::size_of_unsigned_varint(count as u32 + 1)
        } else {
            4
        }
    }

    /// Appends the length of bytes or of an array; `None` is null.
    #[inline]
    pub fn length(count: Option<usize>, flexible: bool, out: &mut Vec<u8>) {
        if flexible {
            varint::write_unsigned_varint(count.map_or(0, |n| n as u32 + 1), out);
        } else {
            out.extend_from_slice(&count.map_or(-1, |n| n as i32).to_be_bytes());
        }
    }

    /// The part of a string that the protocol can carry: all of it, up to `STRING_BYTES_MAX`.
    /// Only texts that quote what a peer has sent can be longer.
    #[inline]
    const fn carried(value: &str) -> &str {
        if value.len() <= STRING_BYTES_MAX {
            return value;
        }
        value
            .split_at(value.floor_char_boundary(STRING_BYTES_MAX))
            .0
    }

    /// Bytes of a string with its length; `None` is null.
    #[inline]
    pub const fn string_size(value: Option<&str>, flexible: bool) -> usize {
        let length = match value {
            Some(value) => Self::carried(value).len(),
            None => return if flexible { 1 } else { 2 },
        };
        length
            + if flexible {
                varint::size_of_unsigned_varint(length as u32 + 1)
            } else {
                2
            }
    }

    /// Appends a string; `None` is null. What is longer than the protocol can carry is cut off.
    #[inline]
    pub fn string(value: Option<&str>, flexible: bool, out: &mut Vec<u8>) {
        let value = value.map(Self::carried);
        let length = value.map(str::len);
        if flexible {
            varint::write_unsigned_varint(length.map_or(0, |n| n as u32 + 1), out);
        } else {
            out.extend_from_slice(&length.map_or(-1, |n| n as i16).to_be_bytes());
        }
        out.extend_from_slice(value.unwrap_or_default().as_bytes());
    }

    /// Bytes of a byte string with its length; `None` is null.
    #[inline]
    pub const fn bytes_size(value: Option<&[u8]>, flexible: bool) -> usize {
        match value {
            Some(value) => value.len() + Self::length_size(value.len(), flexible),
            None if flexible => 1,
            None => 4,
        }
    }

    /// Appends a byte string; `None` is null.
    #[inline]
    pub fn bytes(value: Option<&[u8]>, flexible: bool, out: &mut Vec<u8>) {
        Self::length(value.map(<[u8]>::len), flexible, out);
        out.extend_from_slice(value.unwrap_or_default());
    }

    /// Bytes of a tagged field whose value takes `size` bytes.
    #[inline]
    pub const fn tagged_size(tag: u32, size: usize) -> usize {
        varint::size_of_unsigned_varint(tag) + varint::size_of_unsigned_varint(size as u32) + size
    }

    /// Appends the tag and the size of a tagged field, whose value must follow.
    #[inline]
    pub fn tagged(tag: u32, size: usize, out: &mut Vec<u8>) {
        varint::write_unsigned_varint(tag, out);
        varint::write_unsigned_varint(size as u32, out);
    }
}

/// Puts fields of known sizes into an array, one after the other.
///
/// Where they are appended to a buffer together, it looks for room once and not for each; of the
/// array itself nothing is left after compilation.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a mut [u8],
}

impl<'a> Fields<'a> {
    /// Begins at the front of `bytes`.
    #[inline]
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Puts the next field.
    ///
    /// # Panics
    /// When the array has no room for it.
    #[inline]
    pub const fn put<const N: usize>(self, field: [u8; N]) -> Self {
        let (room, rest) = self
            .rest
            .split_first_chunk_mut()
            .expect("the array is as long as its fields");
        *room = field;
        Self { rest }
    }
}
