//! The records of a consumer as a stream, for code that composes streams.

use super::{Consumer, OwnedRecord};
use crate::Error;
use futures_core::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

type Next<'a> =
    Pin<Box<dyn Future<Output = (&'a mut Consumer, Result<OwnedRecord, Error>)> + Send + 'a>>;

/// The records of a [`Consumer`], owned, in the order of [`Consumer::next`].
///
/// It never ends; an error is an item, after which it goes on. Dropping it loses nothing: the
/// consumer goes on with the record after the last one that was yielded.
pub struct RecordStream<'a>(State<'a>);

enum State<'a> {
    Idle(&'a mut Consumer),
    Waiting(Next<'a>),
    /// Only within a call.
    Moving,
}

impl Consumer {
    /// The records from here on as a stream.
    pub const fn stream(&mut self) -> RecordStream<'_> {
        RecordStream(State::Idle(self))
    }
}

impl Stream for RecordStream<'_> {
    type Item = Result<OwnedRecord, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut waiting: Next<'_> = match std::mem::replace(&mut self.0, State::Moving) {
            State::Idle(consumer) => {
                if let Some(record) = consumer.pending.pop_front() {
                    self.0 = State::Idle(consumer);
                    return Poll::Ready(Some(Ok(record)));
                }
                Box::pin(async move {
                    let record = consumer.next().await;
                    (consumer, record)
                })
            }
            State::Waiting(waiting) => waiting,
            // A poll before this one has panicked.
            State::Moving => return Poll::Ready(None),
        };
        match waiting.as_mut().poll(context) {
            Poll::Pending => {
                self.0 = State::Waiting(waiting);
                Poll::Pending
            }
            Poll::Ready((consumer, record)) => {
                self.0 = State::Idle(consumer);
                Poll::Ready(Some(record))
            }
        }
    }
}

impl fmt::Debug for RecordStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordStream").finish_non_exhaustive()
    }
}
