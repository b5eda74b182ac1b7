//! What a coordinator answers to a request: records to append, and replies.
//!
//! The shell appends the records of a [`Decision`] to the log as one batch (or several, when it is
//! not atomic), replays each of them into the shard, and sends the reply and the released answers
//! once the high watermark has passed everything that the shard has appended so far.

use crate::group::{JoinGroupResponse, SyncGroupResponse};

/// A record of a coordinator's topic; a value of `None` is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// The type of the record and its key.
    pub key: Vec<u8>,
    /// The version of the value and the value.
    pub value: Option<Vec<u8>>,
}

impl CoordinatorRecord {
    /// Bytes that the record takes in a batch, at most.
    pub fn size_in_bytes_max(&self) -> usize {
        // Length, attributes, timestamp delta, offset delta, two lengths and a header count.
        const FRAME_BYTES_MAX: usize = 5 + 1 + 10 + 5 + 5 + 5 + 1;
        FRAME_BYTES_MAX + self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Names a request whose answer waits for other members of its group.
///
/// A shard never gives the same token twice, and releases each token that it gave exactly once:
/// in a later [`Decision`], or when it is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The answer of a request that was parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupResponse {
    /// Of a JoinGroup request.
    Join(JoinGroupResponse),
    /// Of a SyncGroup request.
    Sync(SyncGroupResponse),
}

/// When a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<R> {
    /// With this, once the decision's records are below the high watermark.
    Now(R),
    /// When a later decision, or unloading, releases the token.
    Parked(Token),
}

/// The outcome of a request or of time that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "records must be appended and replayed, and tokens answered"]
pub struct Decision<R> {
    /// To append to the log and then to replay, in this order.
    pub records: Vec<CoordinatorRecord>,
    /// Whether the records must stand in one batch. Those of a decision that is not atomic may be
    /// split between any two records.
    pub is_atomic: bool,
    /// The answer of the request itself.
    pub reply: Reply<R>,
    /// Answers of requests that were parked before. A token that this very decision parks is never
    /// among them.
    pub released: Vec<(Token, GroupResponse)>,
}

impl<R> Decision<R> {
    /// Answers `reply`; nothing to append, nobody to wake.
    pub const fn reply(reply: R) -> Self {
        Self {
            records: Vec::new(),
            is_atomic: true,
            reply: Reply::Now(reply),
            released: Vec::new(),
        }
    }
}
