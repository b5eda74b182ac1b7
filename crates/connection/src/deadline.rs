//! Until when a call may wait, and which setting says so.

use crate::Error;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// The end of a wait, on the clock of tokio.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    started: Instant,
    at: Instant,
    setting: &'static str,
}

impl Deadline {
    /// `timeout_ms` from now, because the caller's `setting` says so.
    pub fn after_ms(timeout_ms: u64, setting: &'static str) -> Self {
        let started = Instant::now();
        // A timeout beyond a century is none; clocks cannot add every duration.
        let timeout = Duration::from_millis(timeout_ms.min(100 * 365 * 24 * 3_600_000));
        Self {
            started,
            at: started + timeout,
            setting,
        }
    }

    /// The instant.
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Whichever of two deadlines comes first.
    pub fn earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// Whether it has come.
    pub fn has_passed(&self) -> bool {
        Instant::now() >= self.at
    }

    /// What is left until it comes.
    pub fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// What is left until it comes, in whole milliseconds.
    pub fn remaining_ms(&self) -> u64 {
        self.remaining().as_millis() as u64
    }

    /// How long it has been waited, in ms.
    pub fn waited_ms(&self) -> u64 {
        self.waited_ms_at(Instant::now())
    }

    /// How long it had been waited by `now`, in ms.
    pub fn waited_ms_at(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_millis() as u64
    }

    /// [`Error::TimedOut`] as of `now`, when `operation` had asked `address`.
    pub fn error_at(
        &self,
        now: Instant,
        operation: impl Into<String>,
        address: impl Into<String>,
    ) -> Error {
        Error::TimedOut {
            operation: operation.into(),
            address: address.into(),
            waited_ms: self.waited_ms_at(now),
            setting: self.setting,
        }
    }

    /// [`Error::TimedOut`] as of now, when `operation` had asked `address`.
    pub fn error(&self, operation: impl Into<String>, address: impl Into<String>) -> Error {
        self.error_at(Instant::now(), operation, address)
    }

    /// Awaits `future`, or the deadline: then `None`.
    pub async fn bound<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at, future).await.ok()
    }

    /// Sleeps for `delay_ms`; `false` when the deadline comes first, at once if it is sure to.
    pub async fn sleep_ms(&self, delay_ms: u64) -> bool {
        let end = Instant::now() + Duration::from_millis(delay_ms);
        if end >= self.at {
            return false;
        }
        tokio::time::sleep_until(end).await;
        true
    }
}
