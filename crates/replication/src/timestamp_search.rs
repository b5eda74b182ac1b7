//! What a search for a record by its time may say.

use storage::TimestampOffset;

/// What became of a search for a record by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampSearch {
    /// The record, if there is one.
    Ended(Option<TimestampOffset>),
    /// The records of a batch expand beyond the limit.
    TooLarge,
}
