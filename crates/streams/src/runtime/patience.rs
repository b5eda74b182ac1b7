//! How long a thread goes on without brokers, `task.timeout.ms` (KIP-572), and without topics.

use super::failure::client_error;
use crate::error::StreamsError;
use std::time::{Duration, Instant};

/// How long calls to brokers may fail before they end the thread. Each success starts the time again.
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

    /// A call has succeeded.
    pub(super) const fn reset(&mut self) {
        self.failing_since = None;
    }

    /// A call has failed. It may be tried again if this returns no error.
    ///
    /// # Errors
    /// `error`, if it is not retriable or calls have failed for too long.
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
        tracing::warn!(%error, "brokers do not answer; the thread tries again for `task.timeout.ms`");
        Ok(())
    }
}

/// Whether something that is to reach an end makes progress.
#[derive(Debug)]
pub(super) struct Progress {
    timeout: Duration,
    /// How many parts were not at their ends, their places summed up, and since when that has not changed.
    stands: Option<(usize, i64, Instant)>,
}

impl Progress {
    /// Without progress for so long it is stuck.
    pub(super) const fn new(timeout_ms: u64) -> Self {
        Self {
            timeout: Duration::from_millis(timeout_ms),
            stands: None,
        }
    }

    /// So many parts are not at their ends now, and their places add up to `place`. Whether nothing has changed for too
    /// long.
    pub(super) fn is_stuck(&mut self, (parts, place): (usize, i64), now: Instant) -> bool {
        match self.stands {
            Some((known_parts, known_place, since))
                if (known_parts, known_place) == (parts, place) =>
            {
                now.saturating_duration_since(since) >= self.timeout
            }
            _ => {
                self.stands = Some((parts, place, now));
                false
            }
        }
    }
}

/// How long the leader of a group may not know an input topic: one that was made just now comes within this time.
const MISSING_FOR: Duration = Duration::from_secs(30);
/// The group rebalances again after as long.
const MISSING_PAUSE_MS: i64 = 500;

/// Input topics that the leader of the group does not know.
#[derive(Debug, Default)]
pub(super) struct MissingTopics {
    since: Option<Instant>,
}

impl MissingTopics {
    /// It knows all of them.
    pub(super) const fn found(&mut self) {
        self.since = None;
    }

    /// It does not know some of `inputs`. After how many ms another rebalance is to look again.
    ///
    /// # Errors
    /// It has not known them for too long.
    pub(super) fn bear<'a>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a String>,
        now: Instant,
    ) -> Result<i64, StreamsError> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MISSING_FOR {
            let inputs: Vec<String> = inputs.into_iter().map(|name| format!("`{name}`")).collect();
            return Err(StreamsError::Other(format!(
                "an input topic is missing, one of {}; create it, and start the application again",
                inputs.join(", ")
            )));
        }
        tracing::warn!("the leader of the group does not know all input topics yet");
        Ok(MISSING_PAUSE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riverrun_client::Error;

    #[test]
    fn a_topic_may_come_late() {
        let mut missing = MissingTopics::default();
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let inputs = ["lines".to_owned(), "words".to_owned()];
        assert!(missing.bear(&inputs, after(0)).is_ok());
        assert!(missing.bear(&inputs, after(29)).is_ok());
        missing.found();
        assert!(missing.bear(&inputs, after(31)).is_ok());
        let error = missing.bear(&inputs, after(61)).expect_err("too late");
        assert_eq!(
            error.to_string(),
            "an input topic is missing, one of `lines`, `words`; create it, and start the application again"
        );
    }

    #[test]
    fn what_goes_on_is_not_stuck() {
        let mut progress = Progress::new(1_000);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        assert!(!progress.is_stuck((2, 5), after(0)));
        assert!(!progress.is_stuck((2, 5), after(999)));
        assert!(!progress.is_stuck((2, 6), after(1_100)));
        assert!(!progress.is_stuck((1, 6), after(2_050)));
        assert!(!progress.is_stuck((1, 6), after(3_049)));
        assert!(progress.is_stuck((1, 6), after(3_050)));
    }

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
