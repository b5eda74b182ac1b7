//! Errors of the broker as codes of Kafka's, for all rooms that answer clients; what clients of old do not
//! know is told by a code that they do.
//!
//! Crates below have a table each beside their errors: `replication::AppendError::code` and
//! `ReadError::code`, and `coordinator::runtime::append_error`.

use crate::coordinators::transaction_verification::TransactionSupport;
use crate::logs::partitions::Absence;
use controller::ApiError;
use model::{ErrorCode, LeaderEpoch};
use replication::check_leader_epoch;

impl Absence {
    /// What a client is told that knows the leader of `current_leader_epoch`; -1 does not say.
    pub(crate) fn code_for(self, current_leader_epoch: LeaderEpoch) -> ErrorCode {
        match self {
            Self::UnknownTopicId => ErrorCode::UnknownTopicId,
            Self::Unknown => ErrorCode::UnknownTopicOrPartition,
            Self::NotLed { leader_epoch, .. } => {
                let checked = check_leader_epoch(leader_epoch, current_leader_epoch);
                checked.err().unwrap_or(ErrorCode::NotLeaderOrFollower)
            }
            Self::Offline => ErrorCode::KafkaStorageError,
            // As a broker of Kafka says which does not know yet what the metadata have.
            Self::Unmade => ErrorCode::NotLeaderOrFollower,
        }
    }
}

impl From<Absence> for ErrorCode {
    fn from(absence: Absence) -> Self {
        absence.code_for(LeaderEpoch::NONE)
    }
}

impl TransactionSupport {
    /// An error of the coordinator as the client may know it.
    pub(super) const fn translate(self, error: ErrorCode) -> ErrorCode {
        match (error, self) {
            // Producers expect to handle this code here.
            (ErrorCode::ProducerFenced, _) => ErrorCode::InvalidProducerEpoch,
            (ErrorCode::TransactionAbortable, Self::Verified) => ErrorCode::InvalidTxnState,
            (error, _) => error,
        }
    }
}

/// What a producer is told that another one has taken the place of: clients of old do not know
/// PRODUCER_FENCED.
pub(crate) fn fencing_error(error: ErrorCode, knows_producer_fenced: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if !knows_producer_fenced => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// That of a topic that does not exist, in this version of OffsetCommit: offsets of a topic by its id since 10.
pub(crate) const fn unknown_committed_topic(version: i16) -> ErrorCode {
    match version {
        10.. => ErrorCode::UnknownTopicId,
        _ => ErrorCode::UnknownTopicOrPartition,
    }
}

/// Clients of before version 3 do not know that deletion can be disabled.
pub(crate) fn topic_deletion(version: i16, result: &Result<(), ApiError>) -> ErrorCode {
    match result {
        Ok(()) => ErrorCode::None,
        Err(error) if version < 3 && error.code == ErrorCode::TopicDeletionDisabled => {
            ErrorCode::InvalidRequest
        }
        Err(error) => error.code,
    }
}
