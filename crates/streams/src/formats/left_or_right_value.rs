//! The value of one side of an outer stream-stream join: 1 and the left value, or 0 and the right.
//! Its store keeps them in a [`list`](super::list).

use super::FormatError;
use super::field_reader::FieldReader;

/// A serialized value of the left or the right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOrRightValue<'a> {
    /// Of the left side.
    Left(&'a [u8]),
    /// Of the right side.
    Right(&'a [u8]),
}

impl<'a> LeftOrRightValue<'a> {
    /// Reads the value.
    ///
    /// # Errors
    /// When there is no byte for the side, or it is neither.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(bytes);
        Ok(match reader.flag()? {
            true => Self::Left(reader.rest()),
            false => Self::Right(reader.rest()),
        })
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Left(value) => [&[1], *value].concat(),
            Self::Right(value) => [&[0], *value].concat(),
        }
    }
}
