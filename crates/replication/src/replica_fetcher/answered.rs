//! What an answer says of a partition; and why an answer is not taken.

use crate::partition_key::PartitionKey;
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset};

/// Where an answer has what it says of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnsweredAt {
    pub(super) at: u32,
    pub(super) records_at: u32,
    pub(super) records_bytes: u32,
}

impl AnsweredAt {
    /// The number of an answer to ListOffsets.
    pub(super) const fn number(number: u32) -> Self {
        Self {
            at: number,
            records_at: 0,
            records_bytes: 0,
        }
    }

    pub(super) const fn as_number(self) -> usize {
        self.at as usize
    }
}

/// One of the partitions that an answer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnsweredPartition {
    pub(super) slot: u32,
    /// Where a fetch answer has it, or the number of the answer to ListOffsets.
    pub(super) at: AnsweredAt,
}

/// What the leader says of it, where that is not that there are records, or nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionOutcome {
    /// The logs differ: the last epoch of the leader that is not above ours, and where it ends.
    Diverging(LeaderEpoch, Offset),
    /// Where its log ends.
    End(Offset),
    /// Where its log starts.
    Start(Offset),
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
