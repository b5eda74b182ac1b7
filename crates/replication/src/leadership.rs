//! How long a broker leads, and how epochs of leaders follow each other.

/// A time for which this broker leads a partition without a pause, over any number of epochs: what is in
/// its log stays there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leadership(pub(crate) u32);

/// How the epoch of a role comes after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochChange {
    /// It is the same, of the same leader.
    None,
    /// The same leader goes on in the next one.
    Next,
    /// Another broker may have led in between. Changes of the metadata come together as well as one by one, so a
    /// leader need not have heard of it.
    Later,
}
