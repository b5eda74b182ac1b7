//! Arrays of messages: a view of encoded elements, or elements to encode.

use crate::primitives::{DecodeError, Element, Reader, Version};
use crate::writer::Writer;
use crate::{BrokerId, Uuid};
use std::fmt;

/// An array field of a message.
///
/// Decoding checks every element and keeps a view of their bytes; [`Array::iter`] decodes them
/// again as it goes. To encode, make one from a vector or a slice.
#[derive(Clone)]
pub struct Array<'a, T>(Content<'a, T>);

#[derive(Clone)]
enum Content<'a, T> {
    /// `count` encoded elements, each already decoded once without error.
    Encoded {
        bytes: &'a [u8],
        count: usize,
        version: Version,
    },
    Slice(&'a [T]),
    Owned(Vec<T>),
}

impl<'a, T: 'a> Array<'a, T> {
    /// An array of nothing.
    pub const EMPTY: &'a Self = &Self(Content::Slice(&[]));
}

impl<'a, T: Element<'a>> Array<'a, T> {
    /// Decodes an array that may be null.
    ///
    /// # Errors
    /// A [`DecodeError`] when an element is not what it should be, or when there are fewer bytes
    /// left than elements.
    pub fn decode_nullable(
        reader: &mut Reader<'a>,
        version: Version,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(count) = reader.length(version.flexible)? else {
            return Ok(None);
        };
        let bytes = reader.remaining();
        // Every element takes at least one byte, so this bounds the loop by what was sent.
        if count > bytes.len() {
            return Err(DecodeError::Truncated);
        }
        reader.take_elements(count)?;
        for _ in 0..count {
            T::decode(reader, version)?;
        }
        let length = bytes.len() - reader.remaining().len();
        Ok(Some(Self(Content::Encoded {
            bytes: &bytes[..length],
            count,
            version,
        })))
    }

    /// Decodes an array.
    ///
    /// # Errors
    /// As [`Array::decode_nullable`], and when the array is null.
    pub fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        Self::decode_nullable(reader, version)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// The elements in order.
    pub fn iter(&self) -> Iter<'a, '_, T> {
        match &self.0 {
            Content::Encoded { bytes, version, .. } => Iter::Encoded {
                reader: Reader::new(bytes),
                version: *version,
            },
            Content::Slice(slice) => Iter::Slice(slice.iter()),
            Content::Owned(vec) => Iter::Slice(vec.iter()),
        }
    }

    /// Bytes that the array takes with its length; `None` is null.
    pub fn size_of(array: Option<&Self>, version: Version) -> usize {
        let Some(array) = array else {
            return if version.flexible { 1 } else { 4 };
        };
        let elements: usize = match &array.0 {
            Content::Encoded { .. } => array.iter().map(|e| e.encoded_size(version)).sum(),
            Content::Slice(slice) => slice.iter().map(|e| e.encoded_size(version)).sum(),
            Content::Owned(vec) => vec.iter().map(|e| e.encoded_size(version)).sum(),
        };
        Writer::length_size(array.len(), version.flexible) + elements
    }

    /// Appends the array with its length; `None` is null.
    pub fn encode(array: Option<&Self>, version: Version, out: &mut Vec<u8>) {
        Writer::length(array.map(Self::len), version.flexible, out);
        let Some(array) = array else {
            return;
        };
        match &array.0 {
            Content::Encoded { .. } => array.iter().for_each(|e| e.encode(version, out)),
            Content::Slice(slice) => slice.iter().for_each(|e| e.encode(version, out)),
            Content::Owned(vec) => vec.iter().for_each(|e| e.encode(version, out)),
        }
    }
}

impl<T> Array<'_, T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Encoded { count, .. } => *count,
            Content::Slice(slice) => slice.len(),
            Content::Owned(vec) => vec.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The elements of an [`Array`]; see [`Array::iter`].
#[derive(Debug, Clone)]
pub enum Iter<'a, 'b, T> {
    /// Decodes as it goes.
    Encoded {
        /// At the next element.
        reader: Reader<'a>,
        /// How the elements are laid out.
        version: Version,
    },
    /// Clones as it goes.
    Slice(std::slice::Iter<'b, T>),
}

impl<'a, T: Element<'a>> Iterator for Iter<'a, '_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::Encoded { reader, .. } if reader.is_empty() => None,
            Self::Encoded { reader, version } => {
                Some(T::decode(reader, *version).expect("decoded once without error"))
            }
            Self::Slice(slice) => slice.next().cloned(),
        }
    }
}

/// The elements of an [`Array`] that is given up for them.
#[derive(Debug, Clone)]
pub enum IntoIter<'a, T> {
    /// Those of an array that is another's, or that are decoded as they come.
    Iter(Iter<'a, 'a, T>),
    /// Those of the array itself.
    Owned(std::vec::IntoIter<T>),
}

impl<'a, T: Element<'a>> Iterator for IntoIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::Iter(elements) => elements.next(),
            Self::Owned(elements) => elements.next(),
        }
    }
}

impl<'a, T: Element<'a>> IntoIterator for Array<'a, T> {
    type Item = T;
    type IntoIter = IntoIter<'a, T>;

    #[inline]
    fn into_iter(self) -> IntoIter<'a, T> {
        IntoIter::Iter(match self.0 {
            Content::Encoded { bytes, version, .. } => Iter::Encoded {
                reader: Reader::new(bytes),
                version,
            },
            Content::Slice(slice) => Iter::Slice(slice.iter()),
            Content::Owned(vec) => return IntoIter::Owned(vec.into_iter()),
        })
    }
}

impl<T> Default for Array<'_, T> {
    fn default() -> Self {
        Self(Content::Slice(&[]))
    }
}

impl<T> From<Vec<T>> for Array<'_, T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Content::Owned(elements))
    }
}

impl<'a, T> From<&'a [T]> for Array<'a, T> {
    fn from(elements: &'a [T]) -> Self {
        Self(Content::Slice(elements))
    }
}

impl<'a, T> From<&'a Vec<T>> for Array<'a, T> {
    fn from(elements: &'a Vec<T>) -> Self {
        Self(Content::Slice(elements))
    }
}

impl<T> FromIterator<T> for Array<'_, T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(Content::Owned(elements.into_iter().collect()))
    }
}

impl<'a, T: Element<'a> + PartialEq> PartialEq for Array<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for Array<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

macro_rules! fixed_element {
    ($($type:ty, $read:ident, $size:literal;)*) => {$(
        impl<'a> Element<'a> for $type {
            #[inline]
            fn decode(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
                reader.$read()
            }
            #[inline]
            fn encoded_size(&self, _: Version) -> usize {
                $size
            }
            #[inline]
            fn encode(&self, _: Version, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

fixed_element! {
    i8, i8, 1;
    i16, i16, 2;
    i32, i32, 4;
    i64, i64, 8;
}

impl<'a> Element<'a> for BrokerId {
    #[inline]
    fn decode(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.i32().map(Self)
    }
    #[inline]
    fn encoded_size(&self, _: Version) -> usize {
        4
    }
    #[inline]
    fn encode(&self, _: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl<'a> Element<'a> for Uuid {
    fn decode(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.uuid()
    }
    fn encoded_size(&self, _: Version) -> usize {
        16
    }
    fn encode(&self, _: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}

impl<'a> Element<'a> for &'a str {
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.string(version.flexible)
    }
    fn encoded_size(&self, version: Version) -> usize {
        Writer::string_size(Some(self), version.flexible)
    }
    fn encode(&self, version: Version, out: &mut Vec<u8>) {
        Writer::string(Some(self), version.flexible, out);
    }
}
