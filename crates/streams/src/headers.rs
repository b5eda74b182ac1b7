//! Headers of a record: pairs of a key and bytes, in order; keys may repeat.

use bytes::Bytes;

/// One header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The key.
    pub key: Box<str>,
    /// The value; a header may have none.
    pub value: Option<Bytes>,
}

/// The headers of a record. Most records have none: then there is no allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// No headers.
    pub const EMPTY: Self = Self(Vec::new());

    /// No headers.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a header at the end.
    pub fn add(&mut self, key: impl Into<Box<str>>, value: impl Into<Option<Bytes>>) {
        self.0.push(Header {
            key: key.into(),
            value: value.into(),
        });
    }

    /// Removes every header of this key.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|header| &*header.key != key);
    }

    /// The last header of this key.
    pub fn last(&self, key: &str) -> Option<&Header> {
        self.0.iter().rev().find(|header| &*header.key == key)
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
