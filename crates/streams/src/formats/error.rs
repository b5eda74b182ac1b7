//! Why bytes are not what they are read as: one error for every format of this room.

use model::varint::VarintError;
use thiserror::Error;

/// Why bytes are not in the format that they are read in.
///
/// It names the fault and not the place: the caller knows the store, the topic and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The bytes end within a field.
    #[error("the bytes end within a field")]
    Truncated,
    /// A variable-length integer of more bytes or bits than 32 bits take.
    #[error("a variable-length integer is too long")]
    VarintTooLong,
    /// A length or count below zero, where null is not allowed or is -1.
    #[error("a length is negative")]
    NegativeLength,
    /// A length or count that promises more bytes than there are.
    #[error("a length exceeds the bytes that are left")]
    LengthBeyondEnd,
    /// Bytes follow the last field.
    #[error("bytes are left after the last field")]
    TrailingBytes,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    InvalidUtf8,
    /// Text that is not what a file or a commit should hold.
    #[error("text is not in its format")]
    InvalidText,
    /// A flag, an instruction or an error code that the format does not have.
    #[error("the format has no flag {0}")]
    UnknownFlag(i32),
    /// A version that the format does not have.
    #[error("the format has no version {0}")]
    UnknownVersion(i32),
    /// Fields that contradict one another, such as versions out of order.
    #[error("fields contradict one another")]
    Contradiction,
    /// A task of a named topology, which this implementation does not have.
    #[error("a task belongs to a named topology")]
    NamedTopology,
}

impl From<VarintError> for FormatError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLong => Self::VarintTooLong,
        }
    }
}
