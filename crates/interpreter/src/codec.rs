//! A generated codec behind function pointers, so that a table of them can be checked against
//! the interpreted schema.

use model::DecodeError;

/// The generated codec of one message; [`codec!`](crate::codec!) makes it.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The message's name.
    pub name: &'static str,
    /// Decodes bytes in the first version and encodes the message in the second.
    pub recode: fn(&[u8], i16, i16) -> Result<Recoded, DecodeError>,
    /// Decodes bytes in a version, and only that.
    pub decode: fn(&[u8], i16) -> Result<(), DecodeError>,
    /// The default message in a version.
    pub default: fn(i16) -> Vec<u8>,
}

/// What a message became when it was encoded again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recoded {
    /// The message's bytes.
    pub bytes: Vec<u8>,
    /// What the codec said that they would take.
    pub announced_size: usize,
    /// Whether decoding these bytes yields a message that encodes to them again.
    pub is_stable: bool,
}

/// The [`Codec`] of a message type.
#[macro_export]
macro_rules! codec {
    ($message:ident in $module:path) => {{
        use $crate::model::Message as _;
        use $module as messages;
        $crate::Codec {
            name: stringify!($message),
            recode: |bytes, from, to| {
                let message = messages::$message::from_bytes(bytes, from)?;
                let encoded = message.to_bytes(to);
                let is_stable = messages::$message::from_bytes(&encoded, to)
                    .is_ok_and(|again| again.to_bytes(to) == encoded);
                Ok($crate::Recoded {
                    announced_size: message.size(to),
                    is_stable,
                    bytes: encoded,
                })
            },
            decode: |bytes, version| messages::$message::from_bytes(bytes, version).map(|_| ()),
            default: |version| messages::$message::default().to_bytes(version),
        }
    }};
}
