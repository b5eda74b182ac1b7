//! A broker at one address: connected to once for all who need it, with backoff between failures.

use crate::{Connection, Deadline, Endpoint, Error, Options, open};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The connection to one address, as long as it lives, and the failures to make another one.
///
/// It connects only when it is asked to. After failures in a row the next attempt first waits as
/// [`Options::reconnect`] says, and may take longer, as [`Options::setup_timeout`] says.
#[derive(Debug)]
pub struct Peer {
    endpoint: Endpoint,
    live: Mutex<Option<Connection>>,
    /// Why the last attempt failed, for those whose deadline comes before another one ends.
    last_error: Mutex<Option<Error>>,
    /// Held while a connection is made, so that it is made once.
    attempts: tokio::sync::Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// In a row.
    failures: u32,
    /// Not before then.
    retry_at: Option<Instant>,
}

/// What errors say of a peer.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// Its address, such as `host:9092 (broker 1)`.
    pub address: &'a str,
    /// What to look at when it cannot be reached: that depends on where the caller has it from.
    pub advice: &'a str,
}

impl Peer {
    /// The broker at this address, not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            live: Mutex::default(),
            last_error: Mutex::default(),
            attempts: tokio::sync::Mutex::default(),
        }
    }

    /// The connection, if it lives.
    pub fn live(&self) -> Option<Connection> {
        let mut live = self.live.lock();
        if live.as_ref().is_some_and(Connection::is_closed) {
            *live = None;
        }
        live.clone()
    }

    /// The live connection, or one attempt to make it once the backoff is over; who asks while another
    /// one's attempt goes on waits for that, and then makes its own if it failed. `random` gives any
    /// number, which spreads the waits of those who failed together.
    ///
    /// # Errors
    /// As [`Connection::open`]. When the deadline comes before the attempt ends, why the last one
    /// failed, or [`Error::TimedOut`] when none has.
    pub async fn connect(
        &self,
        called: Called<'_>,
        options: &Options,
        deadline: Deadline,
        random: impl Fn() -> u64,
    ) -> Result<Connection, Error> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let attempt = self.attempt(called, options, random);
        match deadline.bound(attempt).await {
            Some(connected) => connected,
            None => Err(self.error_at(deadline, called.address)),
        }
    }

    async fn attempt(
        &self,
        called: Called<'_>,
        options: &Options,
        random: impl Fn() -> u64,
    ) -> Result<Connection, Error> {
        let mut attempts = self.attempts.lock().await;
        if let Some(live) = self.live() {
            return Ok(live);
        }
        if let Some(retry_at) = attempts.retry_at {
            tokio::time::sleep_until(retry_at).await;
        }
        let setup_timeout = options.setup_timeout;
        let setup_timeout_ms = match attempts.failures {
            0 => setup_timeout.base_ms,
            failures => setup_timeout.delay_ms(failures + 1, random()),
        };
        match open::open(&self.endpoint, called.address, options, setup_timeout_ms).await {
            Ok(connection) => {
                *attempts = Attempts::default();
                *self.last_error.lock() = None;
                *self.live.lock() = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                let error = with_advice(error, called.advice);
                tracing::debug!(%error, "not connected");
                attempts.failures = attempts.failures.saturating_add(1);
                let delay_ms = options.reconnect.delay_ms(attempts.failures, random());
                attempts.retry_at = Some(Instant::now() + Duration::from_millis(delay_ms));
                *self.last_error.lock() = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The error at a deadline: why the last attempt failed, if there was one.
    fn error_at(&self, deadline: Deadline, address: &str) -> Error {
        match self.last_error.lock().clone() {
            Some(Error::Unreachable {
                address, reason, ..
            }) => Error::Unreachable {
                address,
                waited_ms: deadline.waited_ms(),
                reason,
            },
            Some(error) => error,
            None => deadline.error("connect", address),
        }
    }
}

/// Adds to an error what to look at.
fn with_advice(error: Error, advice: &str) -> Error {
    match error {
        Error::Unreachable {
            address,
            waited_ms,
            reason,
        } => Error::Unreachable {
            address,
            waited_ms,
            reason: format!("{reason}; {advice}"),
        },
        other => other,
    }
}
