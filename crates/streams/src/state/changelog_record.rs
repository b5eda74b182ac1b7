//! A record of a changelog.

use crate::headers::Headers;
use bytes::Bytes;

/// A record of a changelog, as it is restored. Records without a key are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangelogRecord {
    /// The key.
    pub key: Bytes,
    /// The value; the key was deleted when there is none.
    pub value: Option<Bytes>,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The headers.
    pub headers: Headers,
    /// Its offset.
    pub offset: i64,
}
