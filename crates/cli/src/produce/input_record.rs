//! One record of the input, before it has a topic.

/// What a line says of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InputRecord {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// Where `part` begins in `bytes`.
pub(super) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
