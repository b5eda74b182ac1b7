//! How long a connection may bring nothing: `connections.max.idle.ms`.
//!
//! The timer stays where it is while bytes arrive; only when it ends is it looked at since when the
//! connection waits. So a request costs a look at the clock and no work on timers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The limit of one connection.
#[derive(Debug)]
pub(crate) struct Idle {
    /// None for no limit.
    limit: Option<(Duration, Pin<Box<Sleep>>)>,
    since: Instant,
}

impl Idle {
    /// Counts from now on; without a limit the connection is never idle.
    pub(crate) fn new(max_idle_ms: Option<i64>) -> Self {
        let since = Instant::now();
        let limit = max_idle_ms.map(|ms| {
            let max_idle = Duration::from_millis(ms.max(0) as u64);
            (max_idle, Box::pin(sleep_until(since + max_idle)))
        });
        Self { limit, since }
    }

    /// Counts from then on.
    pub(crate) const fn restart(&mut self, since: Instant) {
        self.since = since;
    }

    /// Ready when nothing has come for too long.
    pub(crate) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((max_idle, sleep)) = &mut self.limit else {
            return Poll::Pending;
        };
        loop {
            ready!(sleep.as_mut().poll(context));
            let end = self.since + *max_idle;
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(end);
        }
    }
}
