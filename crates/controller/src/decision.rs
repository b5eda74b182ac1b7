//! What a decision is: records for the metadata log and an answer.

use metadata::MetadataRecord;
use model::ErrorCode;

/// The outcome of a request.
///
/// The records are appended to the metadata log and replayed; the response is sent once they are
/// below the high watermark.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "records must be appended and replayed"]
pub struct Decision<R> {
    /// To append, in this order; often none.
    pub records: Vec<MetadataRecord>,
    /// Whether the records must stand in one batch. Those of a decision that is not atomic may be
    /// split between any two records: each prefix leaves a sound image.
    pub is_atomic: bool,
    /// The answer.
    pub response: R,
}

impl<R> Decision<R> {
    /// Records that stand in one batch, and an answer.
    pub const fn atomic(records: Vec<MetadataRecord>, response: R) -> Self {
        Self {
            records,
            is_atomic: true,
            response,
        }
    }

    /// Records that may be split, and an answer.
    pub const fn splittable(records: Vec<MetadataRecord>, response: R) -> Self {
        Self {
            records,
            is_atomic: false,
            response,
        }
    }

    /// The same with another answer.
    pub fn map<S>(self, response: impl FnOnce(R) -> S) -> Decision<S> {
        Decision {
            records: self.records,
            is_atomic: self.is_atomic,
            response: response(self.response),
        }
    }

    /// An answer that changes nothing.
    pub const fn unchanged(response: R) -> Self {
        Self::atomic(Vec::new(), response)
    }
}

impl<R> Decision<Result<R, ApiError>> {
    /// A decision, or the refusal of the whole request, which changes nothing.
    pub fn of(decided: Result<Decision<R>, ApiError>) -> Self {
        match decided {
            Ok(decision) => decision.map(Ok),
            Err(error) => Self::unchanged(Err(error)),
        }
    }
}

/// Why something was refused: a code, and the words that tools print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", code.name(), message.as_deref().unwrap_or_else(|| code.message()))]
pub struct ApiError {
    /// The code.
    pub code: ErrorCode,
    /// The words; without any, clients print those of the code.
    pub message: Option<String>,
}

impl ApiError {
    /// A code with words of its own.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
        }
    }

    /// A code whose own message is sent along.
    pub fn with_default_message(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }

    /// Why a request was not decided at all; nothing needs to be said about a timeout.
    pub fn undecided(code: ErrorCode) -> Self {
        match code {
            ErrorCode::RequestTimedOut => Self::bare(code),
            code => Self::with_default_message(code),
        }
    }

    /// A code without words.
    pub const fn bare(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
        }
    }
}

impl From<config::alter::AlterError> for ApiError {
    fn from(error: config::alter::AlterError) -> Self {
        Self::new(error.code, error.message)
    }
}

/// What became of one topic of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicResult<T> {
    /// The topic's name as requested.
    pub name: String,
    /// What was decided, or why not.
    pub result: Result<T, ApiError>,
}

/// What became of the partitions of one topic of a request, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionResults {
    /// The topic's name as requested.
    pub topic: String,
    /// Each partition, and why it was refused.
    pub partitions: Vec<(i32, Result<(), ApiError>)>,
}
