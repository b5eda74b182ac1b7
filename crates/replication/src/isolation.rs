//! What readers of a partition may see.

/// Up to where a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A follower: all of the log.
    LogEnd,
    /// A consumer: what is replicated.
    HighWatermark,
    /// A consumer that reads committed records: what no open transaction can change.
    LastStableOffset,
}
