//! The key of a foreign-key join's subscriptions: i32 length of the foreign key, foreign key,
//! primary key. All subscriptions of a foreign key stand together.

use super::FormatError;
use super::field_reader::{FieldReader, write_sized};
use super::key_range::KeyRange;

/// Who subscribes to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CombinedKey<'a> {
    /// The serialized key of the right table.
    pub foreign_key: &'a [u8],
    /// The serialized key of the left table.
    pub primary_key: &'a [u8],
}

impl<'a> CombinedKey<'a> {
    /// Reads the key.
    ///
    /// # Errors
    /// When the length of the foreign key is negative or more than there are bytes.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(stored);
        Ok(Self {
            foreign_key: reader.sized()?,
            primary_key: reader.rest(),
        })
    }

    /// The key's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = prefix(self.foreign_key);
        bytes.extend_from_slice(self.primary_key);
        bytes
    }

    /// Where all subscriptions of a foreign key are.
    pub fn range_of_foreign_key(foreign_key: &[u8]) -> KeyRange {
        KeyRange::of_prefix(&prefix(foreign_key))
    }
}

fn prefix(foreign_key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_sized(Some(foreign_key), &mut bytes);
    bytes
}
