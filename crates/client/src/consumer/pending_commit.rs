//! A commit that goes on by itself, for whoever wants to know how it ends.

use crate::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// A commit of [`Consumer::commit_in_background`](super::Consumer::commit_in_background): a future of
/// how it ends.
///
/// Dropping it does not take the commit back: it keeps its place among the commits, `close` waits for
/// it, and what it fails with is logged. Nor does dropping the consumer; only the end of the runtime
/// ends it, with [`Error::Closed`].
///
/// ```no_run
/// # async fn example(consumer: &mut riverrun_client::consumer::Consumer) -> Result<(), riverrun_client::Error> {
/// let commit = consumer.commit_in_background()?;
/// // ... poll on and process ...
/// commit.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PendingCommit(JoinHandle<Result<(), Error>>);

impl PendingCommit {
    pub(super) const fn of(task: JoinHandle<Result<(), Error>>) -> Self {
        Self(task)
    }

    /// Whether it has ended, so that awaiting it does not wait.
    pub fn is_done(&self) -> bool {
        self.0.is_finished()
    }
}

impl Future for PendingCommit {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(Pin::new(&mut self.0).poll(context));
        // Its task runs no code of the application: it ends early with its runtime alone.
        Poll::Ready(ended.unwrap_or(Err(Error::Closed("consumer"))))
    }
}
