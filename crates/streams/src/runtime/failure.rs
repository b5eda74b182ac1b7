//! What clients and threads fail with, as errors of the library: whether a thread's tasks are lost is told by it.

use crate::error::StreamsError;
use crate::task::Task;
use riverrun_client::ErrorCode;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What the thread that runs has panicked with.
pub(super) fn panic_error(panicked: &(dyn Any + Send)) -> StreamsError {
    let thread = std::thread::current();
    StreamsError::Other(format!(
        "thread `{}` has panicked: {}",
        thread.name().unwrap_or_default(),
        panic_text(panicked)
    ))
}

fn panic_text(panicked: &(dyn Any + Send)) -> &str {
    let text = panicked.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panicked.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("see what it has printed")
}

/// Calls nodes of `task`. A panic of one of them goes on, and its text says at which node and record.
pub(super) fn with_place<T>(task: &mut Task, call: impl FnOnce(&mut Task) -> T) -> T {
    match catch_unwind(AssertUnwindSafe(|| call(task))) {
        Ok(done) => done,
        Err(panicked) => {
            let (text, place) = (panic_text(&*panicked), task.context().place());
            resume_unwind(Box::new(format!("{text} ({place})")))
        }
    }
}

/// An error of a client. Who was fenced, or has lost its place in the group, has lost its tasks, and so has a producer
/// that the brokers do not know any more: another one is made. But a static member whose name another one has got would
/// only take it back, again and again.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn client_error(error: riverrun_client::Error) -> StreamsError {
    use riverrun_client::Error;
    let has_migrated = match &error {
        Error::TransactionFailed(reason) | Error::ProducerFailed(reason) => !is_lasting(reason),
        Error::TransactionAborted => true,
        Error::Refused { code, .. } => matches!(
            code,
            ErrorCode::IllegalGeneration
                | ErrorCode::UnknownMemberId
                | ErrorCode::StaleMemberEpoch
                | ErrorCode::FencedMemberEpoch
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
        ),
        _ => false,
    };
    match has_migrated {
        true => StreamsError::TaskMigrated(error.to_string()),
        false => StreamsError::Other(error.to_string()),
    }
}

/// Whether the next transaction would fail for the same reason as this one.
fn is_lasting(reason: &riverrun_client::Error) -> bool {
    use riverrun_client::Error;
    match reason {
        Error::Refused { code, .. } => matches!(
            code,
            ErrorCode::TopicAuthorizationFailed
                | ErrorCode::GroupAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidTopicException
                | ErrorCode::OffsetMetadataTooLarge
                | ErrorCode::InvalidCommitOffsetSize
                | ErrorCode::InvalidTransactionTimeout
                | ErrorCode::FencedInstanceId
                | ErrorCode::PolicyViolation
        ),
        Error::Configuration { .. }
        | Error::Unsupported { .. }
        | Error::Serialization { .. }
        | Error::Invalid(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lost_its_tasks_begins_again_unless_that_would_not_end() {
        use ErrorCode as Code;
        use riverrun_client::Error;
        let check = |code, begins_again| {
            let refused = || Error::Refused {
                subject: "the client".to_owned(),
                code,
                message: None,
            };
            for error in [
                refused(),
                Error::TransactionFailed(Box::new(refused())),
                Error::ProducerFailed(Box::new(refused())),
            ] {
                let has_migrated = matches!(client_error(error), StreamsError::TaskMigrated(_));
                assert_eq!(has_migrated, begins_again, "{code}");
            }
        };
        // Of members of groups.
        for code in [
            Code::IllegalGeneration,
            Code::UnknownMemberId,
            Code::StaleMemberEpoch,
            Code::FencedMemberEpoch,
        ] {
            check(code, true);
        }
        // Of producers: replaced, their transactions timed out, or forgotten after days without one.
        for code in [
            Code::ProducerFenced,
            Code::InvalidProducerEpoch,
            Code::InvalidProducerIdMapping,
            Code::OutOfOrderSequenceNumber,
            Code::UnknownProducerId,
        ] {
            check(code, true);
        }
        for code in [
            Code::FencedInstanceId,
            Code::GroupAuthorizationFailed,
            Code::MessageTooLarge,
        ] {
            check(code, false);
        }
    }
}
