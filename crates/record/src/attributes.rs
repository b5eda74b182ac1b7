//! The attribute bits of a record batch: codec, timestamp type and three flags.
//!
//! ```text
//! bit   15 ............. 7 |      6         |    5    |       4       |       3        | 2..0
//!       unused, zero       | delete horizon | control | transactional | timestamp type | codec
//! ```

use crate::compression::Compression;

const CODEC_MASK: i16 = 0b111;
const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;
const DELETE_HORIZON_BIT: i16 = 1 << 6;
const KNOWN_BITS: i16 = 0b111_1111;

/// Who decided the timestamps of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer: each record carries its own.
    #[default]
    CreateTime,
    /// The broker: the batch's `max_timestamp` is the time of append of every record.
    LogAppendTime,
}

impl TimestampType {
    /// The value of the topic configuration `message.timestamp.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }

    /// The inverse of [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "CreateTime" => Some(Self::CreateTime),
            "LogAppendTime" => Some(Self::LogAppendTime),
            _ => None,
        }
    }
}

/// The attributes of a batch, unknown bits included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// The codec, or `None` for the ids 5 to 7 that no codec has.
    pub fn compression(self) -> Option<Compression> {
        Compression::from_id((self.0 & CODEC_MASK) as i8)
    }

    /// The id of the codec, known or not.
    pub const fn compression_id(self) -> i8 {
        (self.0 & CODEC_MASK) as i8
    }

    /// Who decided the timestamps.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch holds control records, which consumers never deliver.
    pub const fn is_control(self) -> bool {
        self.0 & CONTROL_BIT != 0
    }

    /// Whether `base_timestamp` holds the time after which tombstones may go.
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON_BIT != 0
    }

    /// These attributes with another codec.
    #[must_use]
    pub const fn with_compression(self, compression: Compression) -> Self {
        Self((self.0 & !CODEC_MASK) | compression.id() as i16)
    }

    /// These attributes with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with_bit(
            LOG_APPEND_TIME_BIT,
            matches!(timestamp_type, TimestampType::LogAppendTime),
        )
    }

    /// These attributes with the transactional bit set or cleared.
    #[must_use]
    pub const fn with_transactional(self, transactional: bool) -> Self {
        self.with_bit(TRANSACTIONAL_BIT, transactional)
    }

    /// These attributes with the control bit set or cleared.
    #[must_use]
    pub const fn with_control(self, control: bool) -> Self {
        self.with_bit(CONTROL_BIT, control)
    }

    /// These attributes with the delete horizon bit set or cleared.
    #[must_use]
    pub const fn with_delete_horizon(self, delete_horizon: bool) -> Self {
        self.with_bit(DELETE_HORIZON_BIT, delete_horizon)
    }

    /// These attributes without the bits that have no meaning.
    #[must_use]
    pub const fn known(self) -> Self {
        Self(self.0 & KNOWN_BITS)
    }

    const fn with_bit(self, bit: i16, set: bool) -> Self {
        if set {
            Self(self.0 | bit)
        } else {
            Self(self.0 & !bit)
        }
    }
}
