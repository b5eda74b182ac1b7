//! What became of a batch, shared by all who wait for its records.
//!
//! A [`Delivery`] is an index into the outcome of its batch, so a record costs no allocation of its
//! own. A batch that was split passes its deliveries on to the parts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use model::ErrorCode;
use parking_lot::Mutex;

use super::record::RecordMetadata;
use crate::Error;

/// The offset of a record whose offset nobody told.
pub(crate) const UNKNOWN_OFFSET: i64 = -1;
/// The log append time of a batch that keeps its own times.
pub(crate) const NO_LOG_APPEND_TIME: i64 = -1;

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchResult {
    /// It is in the log.
    Written {
        /// Offset of its first record, or [`UNKNOWN_OFFSET`].
        base_offset: i64,
        /// When the broker appended it, or [`NO_LOG_APPEND_TIME`].
        log_append_time_ms: i64,
    },
    /// It is not, or nobody knows.
    Failed {
        /// Why.
        error: Error,
        /// The records that the broker refuses the batch for, with its reasons (KIP-467).
        record_errors: Vec<(i32, Option<String>)>,
    },
}

impl BatchResult {
    /// A failure of all records alike.
    pub(crate) const fn failed(error: Error) -> Self {
        Self::Failed {
            error,
            record_errors: Vec::new(),
        }
    }
}

/// The outcome of a batch, which is set once.
#[derive(Debug)]
pub(crate) struct Outcome {
    topic: Arc<str>,
    partition: i32,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Who waits; a delivery keeps its place in the list.
    Pending(Vec<Waker>),
    Done(BatchResult),
    /// The outcomes of the parts, by the index of their first record.
    Split(Vec<(u32, Arc<Outcome>)>),
}

impl Outcome {
    /// The outcome of a batch of a partition that is not known yet.
    pub(crate) fn new(topic: Arc<str>, partition: i32) -> Arc<Self> {
        Arc::new(Self {
            topic,
            partition,
            state: Mutex::new(State::Pending(Vec::new())),
        })
    }

    pub(crate) const fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) const fn partition(&self) -> i32 {
        self.partition
    }

    /// Topic and index of the partition.
    pub(crate) fn name(&self) -> (&str, i32) {
        (&self.topic, self.partition)
    }

    /// Sets the outcome and wakes who waits for it.
    pub(crate) fn complete(&self, result: BatchResult) {
        self.leave_pending(State::Done(result));
    }

    /// Passes who waits on to the outcomes of the batch's parts.
    pub(crate) fn split(&self, parts: Vec<(u32, Arc<Self>)>) {
        self.leave_pending(State::Split(parts));
    }

    fn leave_pending(&self, state: State) {
        let old = std::mem::replace(&mut *self.state.lock(), state);
        let State::Pending(wakers) = old else {
            unreachable!("an outcome is set once");
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// What `result` means for the record at `index`, whose own time is `timestamp`.
    pub(crate) fn of_record(
        &self,
        result: &BatchResult,
        index: u32,
        timestamp: i64,
    ) -> Result<RecordMetadata, Error> {
        match result {
            BatchResult::Written {
                base_offset,
                log_append_time_ms,
            } => Ok(RecordMetadata {
                topic: Arc::clone(&self.topic),
                partition: self.partition,
                offset: (*base_offset != UNKNOWN_OFFSET).then(|| base_offset + i64::from(index)),
                timestamp: match *log_append_time_ms {
                    NO_LOG_APPEND_TIME => timestamp,
                    time_ms => time_ms,
                },
            }),
            BatchResult::Failed {
                error,
                record_errors,
            } => Err(self.error_of_record(error, record_errors, index)),
        }
    }

    fn error_of_record(
        &self,
        error: &Error,
        record_errors: &[(i32, Option<String>)],
        index: u32,
    ) -> Error {
        if record_errors.is_empty() {
            return error.clone();
        }
        let own = record_errors
            .iter()
            .find(|(at, _)| u32::try_from(*at) == Ok(index));
        let (code, message) = match own {
            Some((_, Some(message))) => (ErrorCode::InvalidRecord, message.clone()),
            Some((_, None)) => return error.clone(),
            None => (
                ErrorCode::InvalidRecord,
                "the record itself is valid, but others of its batch are not".to_owned(),
            ),
        };
        Error::Refused {
            subject: format!("{}-{}", self.topic, self.partition),
            code,
            message: Some(message),
        }
    }
}

/// What becomes of a record: a future of where it was written.
///
/// A dropped delivery does not take its record back.
#[derive(Debug)]
#[must_use = "a record that fails says so only here; drop the delivery to do without"]
pub struct Delivery {
    outcome: Arc<Outcome>,
    index: u32,
    timestamp: i64,
    /// Where its waker stands in the outcome's list.
    waker_at: Option<usize>,
}

impl Delivery {
    pub(crate) const fn new(outcome: Arc<Outcome>, index: u32, timestamp: i64) -> Self {
        Self {
            outcome,
            index,
            timestamp,
            waker_at: None,
        }
    }

    /// The topic of the record.
    pub fn topic(&self) -> &str {
        &self.outcome.topic
    }

    /// The partition that was chosen for the record.
    pub fn partition(&self) -> i32 {
        self.outcome.partition
    }

    /// What became of the record, if it is known by now.
    pub fn try_result(&mut self) -> Option<Result<RecordMetadata, Error>> {
        self.result(None)
    }

    /// The result, or the waker's place in the list of those who wait.
    fn result(&mut self, waker: Option<&Waker>) -> Option<Result<RecordMetadata, Error>> {
        loop {
            let part = match &mut *self.outcome.state.lock() {
                State::Done(result) => {
                    return Some(self.outcome.of_record(result, self.index, self.timestamp));
                }
                State::Split(parts) => {
                    let at = parts.partition_point(|(first, _)| *first <= self.index) - 1;
                    (parts[at].0, Arc::clone(&parts[at].1))
                }
                State::Pending(wakers) => {
                    if let Some(waker) = waker {
                        set_waker(wakers, &mut self.waker_at, waker);
                    }
                    return None;
                }
            };
            self.index -= part.0;
            self.outcome = part.1;
            self.waker_at = None;
        }
    }
}

/// Every delivery has at most one place in the list, however often it is polled.
fn set_waker(wakers: &mut Vec<Waker>, at: &mut Option<usize>, waker: &Waker) {
    match at.and_then(|at| wakers.get_mut(at)) {
        Some(own) if own.will_wake(waker) => {}
        Some(own) => own.clone_from(waker),
        None => {
            *at = Some(wakers.len());
            wakers.push(waker.clone());
        }
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.result(Some(context.waker())) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}
