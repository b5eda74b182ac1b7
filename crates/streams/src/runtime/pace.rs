//! How a thread works through records that wait: its clients do what they have to do in the background meanwhile, such
//! as to tell the group that it lives, and it polls in time.

use std::time::{Duration, Instant};

/// So long at most, but for one record, clients wait for their turn.
const REST_AFTER: Duration = Duration::from_millis(50);

/// What a thread may do before it polls or commits again. The clock is looked at after each record: any of them may
/// take as long as the session of the group allows.
#[derive(Debug)]
pub(super) struct Pace {
    /// When it is to do so, however many records wait.
    until: Instant,
    rested: Instant,
    is_over: bool,
    is_late: bool,
}

impl Pace {
    /// From `now` on, for `limit`.
    pub(super) fn new(now: Instant, limit: Duration) -> Self {
        Self {
            until: now.checked_add(limit).unwrap_or(now),
            rested: now,
            is_over: false,
            is_late: false,
        }
    }

    /// A record was processed. Whether it is the clients' turn.
    pub(super) fn is_time_to_rest(&mut self, now: Instant) -> bool {
        self.is_over |= now >= self.until;
        self.is_late |= now.saturating_duration_since(self.until) >= REST_AFTER;
        let is_due = now.saturating_duration_since(self.rested) >= REST_AFTER;
        if is_due {
            self.rested = now;
        }
        is_due
    }

    /// Whether it is time to poll or to commit, once each task has had its turn.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether tasks that have not had their turn wait until that is done, too: a record of each may take long.
    pub(super) const fn is_late(&self) -> bool {
        self.is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_their_turn_and_the_thread_polls_in_time() {
        let start = Instant::now();
        let mut pace = Pace::new(start, Duration::from_secs(1));
        let mut turns = Vec::new();
        let (mut over, mut late) = (None, None);
        for ms in (0..1_200).step_by(5) {
            if pace.is_time_to_rest(start + Duration::from_millis(ms)) {
                turns.push(ms);
            }
            if pace.is_over() {
                over = over.or(Some(ms));
            }
            if pace.is_late() {
                late = late.or(Some(ms));
            }
        }
        assert_eq!(turns[..3], [50, 100, 150]);
        assert_eq!((over, late), (Some(1_000), Some(1_050)));
    }

    /// A record may take nearly as long as the session: the group is told after each one that the member lives.
    #[test]
    fn clients_have_their_turn_after_each_slow_record() {
        let start = Instant::now();
        let mut pace = Pace::new(start, Duration::from_secs(150));
        let turns =
            (1..=25).map(|number| pace.is_time_to_rest(start + Duration::from_secs(6 * number)));
        assert_eq!(turns.filter(|is_due| *is_due).count(), 25);
        assert!(pace.is_over());
    }
}
