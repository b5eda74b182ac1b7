//! What an answer says of a partition, noted until its log has taken it; and why an answer is not taken.

use crate::log_host::PartitionKey;
use model::{DecodeError, ErrorCode, LeaderEpoch};

/// One of the partitions that an answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) slot: u32,
    pub(super) told: Told,
}

/// What the leader says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Records, if there are any: where in the answer they begin, and how many bytes.
    Records {
        start: u32,
        length: u32,
        high_watermark: i64,
        log_start_offset: i64,
    },
    /// The logs differ: the last epoch of the leader that is not above ours, and where it ends.
    Diverging(LeaderEpoch, i64),
    /// Where its log ends.
    End(i64),
    /// Where its log starts.
    Start(i64),
    Error(ErrorCode),
}

/// Why an answer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing was asked.
    #[error("nothing was asked")]
    NotAsked,
    /// It is no response of the version that was asked for.
    #[error("the answer is malformed: {0}")]
    Malformed(DecodeError),
    /// It is not about the partitions that were asked for. The session begins anew.
    #[error("the answer is about other partitions than were asked for{}", named(.0.as_ref()))]
    OtherPartitions(Option<PartitionKey>),
    /// It is of another session. The session begins anew.
    #[error("the answer is of session {found}, not {expected}")]
    OtherSession {
        /// The session of the answer.
        found: i32,
        /// That of the request.
        expected: i32,
    },
    /// The leader refuses the whole request. The session begins anew.
    #[error("the leader refuses the request: {0}")]
    Refused(ErrorCode),
}

fn named(key: Option<&PartitionKey>) -> String {
    key.map_or_else(String::new, |(topic_id, index)| {
        format!(", such as partition {index} of topic {topic_id}")
    })
}
