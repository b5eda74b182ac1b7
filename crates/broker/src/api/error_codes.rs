//! Errors as the version of a request may know them: what clients of old do not know is told by a code that they do.
//!
//! Everything else has its code beside its type: `Unavailable` in `logs/partitions`, `TransactionSupport` in
//! `coordinators/transaction_verification`, what a Produce makes of them in `produce`; so have the crates below,
//! `replication::AppendError::code` and `ReadError::code`, and `coordinator::runtime::append_error`.

use controller::ApiError;
use model::ErrorCode;

/// What a producer is told that another one has taken the place of: clients of old do not know
/// PRODUCER_FENCED.
pub(super) fn fencing_error(error: ErrorCode, knows_producer_fenced: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if !knows_producer_fenced => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// That of a topic that does not exist, in this version of OffsetCommit: offsets of a topic by its id since 10.
pub(super) const fn unknown_committed_topic(version: i16) -> ErrorCode {
    match version {
        10.. => ErrorCode::UnknownTopicId,
        _ => ErrorCode::UnknownTopicOrPartition,
    }
}

/// Clients of before version 3 do not know that deletion can be disabled.
pub(super) fn topic_deletion(version: i16, result: &Result<(), ApiError>) -> ErrorCode {
    match result {
        Ok(()) => ErrorCode::None,
        Err(error) if version < 3 && error.code == ErrorCode::TopicDeletionDisabled => {
            ErrorCode::InvalidRequest
        }
        Err(error) => error.code,
    }
}
