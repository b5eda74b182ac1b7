//! Brokers that have not answered for so long that the application is to hear of it.
//!
//! A broker that restarts or hands its partitions over is not worth an error: the consumer goes on by
//! itself. What fails without a success between for `request.timeout.ms` is told to the application,
//! and again each time it has failed for as long once more. Pure.

use crate::Error;
use model::BrokerId;
use std::collections::BTreeMap;

/// What does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Any broker, when asked for metadata.
    Metadata,
    /// The coordinator of the group, or who should name it.
    Coordinator,
    /// The broker with this id, when asked for records or offsets.
    Broker(BrokerId),
}

/// What fails at the moment, and since when.
#[derive(Debug)]
pub(super) struct UnresponsiveBrokers {
    patience_ms: i64,
    failing: BTreeMap<Source, (i64, Error)>,
}

impl UnresponsiveBrokers {
    /// None yet; each is told of after `patience_ms`.
    pub(super) const fn new(patience_ms: i64) -> Self {
        Self {
            patience_ms,
            failing: BTreeMap::new(),
        }
    }

    /// What was asked for at `asked_at_ms` has failed.
    pub(super) fn handle_failure(&mut self, source: Source, asked_at_ms: i64, error: Error) {
        let (_, last) = self
            .failing
            .entry(source)
            .or_insert_with(|| (asked_at_ms, error.clone()));
        *last = error;
    }

    /// There was an answer, or none is needed any more.
    pub(super) fn handle_success(&mut self, source: Source) {
        self.failing.remove(&source);
    }

    /// The error to tell the application of, if it is time for one. Brokers that are not `needed`
    /// for anything are forgotten.
    pub(super) fn take(&mut self, now_ms: i64, needed: impl Fn(BrokerId) -> bool) -> Option<Error> {
        self.failing.retain(|source, _| match source {
            Source::Broker(id) => needed(*id),
            Source::Metadata | Source::Coordinator => true,
        });
        let patience_ms = self.patience_ms;
        let is_due = |since_ms: i64| now_ms.saturating_sub(since_ms) >= patience_ms;
        let mut failing = self.failing.values_mut();
        let (since_ms, error) = failing.find(|(since_ms, _)| is_due(*since_ms))?;
        *since_ms = now_ms;
        Some(error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment, and what happens then.
    enum Step {
        Fails(Source),
        Succeeds(Source),
        /// What the application is told, when only this broker is needed.
        Takes(BrokerId, Option<&'static str>),
    }
    use Source::{Broker, Coordinator};
    use Step::{Fails, Succeeds, Takes};

    fn check(script: &[(i64, Step)]) {
        let mut troubles = UnresponsiveBrokers::new(100);
        for (now_ms, step) in script {
            match step {
                Fails(source) => {
                    let error = Error::Invalid(format!("{source:?}"));
                    troubles.handle_failure(*source, *now_ms, error);
                }
                Succeeds(source) => troubles.handle_success(*source),
                Takes(needed, expect) => {
                    let told = troubles.take(*now_ms, |id| id == *needed);
                    let told = told.map(|error| error.to_string());
                    assert_eq!(told.as_deref(), *expect, "at {now_ms} ms");
                }
            }
        }
    }

    #[test]
    fn what_fails_for_long_is_told_again_and_again() {
        check(&[
            (0, Fails(Coordinator)),
            (50, Takes(BrokerId(1), None)),
            (60, Fails(Coordinator)),
            (99, Takes(BrokerId(1), None)),
            (100, Takes(BrokerId(1), Some("Coordinator"))),
            (100, Takes(BrokerId(1), None)),
            (150, Fails(Coordinator)),
            (199, Takes(BrokerId(1), None)),
            (200, Takes(BrokerId(1), Some("Coordinator"))),
        ]);
    }

    #[test]
    fn a_success_ends_the_trouble() {
        check(&[
            (0, Fails(Broker(BrokerId(1)))),
            (90, Succeeds(Broker(BrokerId(1)))),
            (95, Fails(Broker(BrokerId(1)))),
            (150, Takes(BrokerId(1), None)),
            (195, Takes(BrokerId(1), Some("Broker(1)"))),
        ]);
    }

    #[test]
    fn a_broker_that_nothing_is_read_from_troubles_nobody() {
        check(&[
            (0, Fails(Broker(BrokerId(1)))),
            (0, Fails(Broker(BrokerId(2)))),
            (100, Takes(BrokerId(2), Some("Broker(2)"))),
            (500, Takes(BrokerId(1), None)),
        ]);
    }
}
