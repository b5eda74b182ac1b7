//! What the batches of a request say of the request, before any of them is looked at more closely.

use super::Refusal;
use model::ErrorCode;
use record::{BatchError, RecordBatch};

/// What the first batches of a request's partitions say of all of it. The first that says something
/// counts.
#[derive(Default)]
pub(super) struct Inspection {
    found: Option<Found>,
}

enum Found {
    TransactionalBatch,
    /// What should be a batch is none.
    NoBatch(BatchError),
}

impl Inspection {
    /// Takes in what the records of the next partition start with.
    pub(super) fn look_at(&mut self, parsed: &Result<(RecordBatch<'_>, &[u8]), BatchError>) {
        if self.found.is_some() {
            return;
        }
        self.found = match parsed {
            Ok((batch, _)) if batch.is_transactional() => Some(Found::TransactionalBatch),
            Err(error @ (BatchError::InvalidLength(_) | BatchError::UnknownMagic(_))) => {
                Some(Found::NoBatch(*error))
            }
            _ => None,
        };
    }

    /// Whether a batch of the request is transactional, and why the whole request is refused: such a
    /// batch is of no transaction, or what should be a batch before it is none.
    pub(super) fn verdict(self, transactional_id: Option<&str>) -> (bool, Option<Refusal>) {
        match self.found {
            None => (false, None),
            Some(Found::TransactionalBatch) => {
                let refusal = (ErrorCode::TransactionalIdAuthorizationFailed, None);
                (true, transactional_id.is_none().then_some(refusal))
            }
            Some(Found::NoBatch(error)) => {
                let refusal = (ErrorCode::CorruptMessage, Some(error.to_string()));
                (false, Some(refusal))
            }
        }
    }
}
