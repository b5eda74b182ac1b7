//! Offsets that are told by others, or not yet.

/// What an offset is that nobody has told.
pub(crate) const UNKNOWN_OFFSET: i64 = -1;
