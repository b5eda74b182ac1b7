//! Why a record of `__consumer_offsets` cannot be read.

use model::DecodeError;

/// A record cannot be read; it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The key is not one of its type.
    #[error("the key of a group record is damaged: {0}")]
    Key(DecodeError),
    /// The value is not one of its key's type.
    #[error("the value of a group record is damaged: {0}")]
    Value(DecodeError),
    /// The value has a version that only a later coordinator knows: what it says must not be lost.
    #[error("the value of a group record has version {0}, which a later release has written")]
    LaterVersion(i16),
}

impl ReplayError {
    /// Tells a later version from damage.
    pub(super) fn of_value(self, value: Option<&[u8]>) -> Self {
        let version = value.and_then(|value| value.first_chunk());
        let version = version.map(|bytes| i16::from_be_bytes(*bytes));
        match (self, version) {
            (Self::Value(DecodeError::UnsupportedVersion), Some(version)) if version > 0 => {
                Self::LaterVersion(version)
            }
            (error, _) => error,
        }
    }
}
