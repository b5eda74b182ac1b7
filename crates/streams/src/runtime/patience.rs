//! How long a thread goes on without brokers: `task.timeout.ms` (KIP-572).

use super::kafka_streams::client_error;
use crate::error::StreamsError;
use std::time::{Duration, Instant};

/// How long something may fail before it ends the thread. Each success begins anew.
#[derive(Debug)]
pub(super) struct Patience {
    timeout: Duration,
    failing_since: Option<Instant>,
}

impl Patience {
    pub(super) const fn new(timeout_ms: u64) -> Self {
        Self {
            timeout: Duration::from_millis(timeout_ms),
            failing_since: None,
        }
    }

    /// It went well.
    pub(super) const fn reset(&mut self) {
        self.failing_since = None;
    }

    /// It has failed; it may be tried again if this is no error.
    ///
    /// # Errors
    /// `error`, if it does not pass by itself or has lasted too long.
    pub(super) fn bear(
        &mut self,
        error: riverrun_client::Error,
        now: Instant,
    ) -> Result<(), StreamsError> {
        let since = *self.failing_since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= self.timeout;
        if !error.is_retriable() || is_over {
            return Err(client_error(error));
        }
        tracing::warn!(%error, "it is tried again until `task.timeout.ms`");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riverrun_client::Error;

    #[test]
    fn what_may_pass_is_borne_for_a_time() {
        let mut patience = Patience::new(1_000);
        let start = Instant::now();
        let away = || Error::Disconnected {
            address: "broker".to_owned(),
            reason: "it ended".to_owned(),
        };
        let after = |ms| start + Duration::from_millis(ms);
        assert!(patience.bear(away(), after(0)).is_ok());
        assert!(patience.bear(away(), after(999)).is_ok());
        patience.reset();
        assert!(patience.bear(away(), after(1_500)).is_ok());
        assert!(patience.bear(away(), after(2_500)).is_err());
        patience.reset();
        let lasting = Error::Invalid("it makes no sense".to_owned());
        assert!(patience.bear(lasting, after(3_000)).is_err());
    }
}
