//! Punctuation: when nodes want to be called, by stream time or by the clock.

/// Which time calls a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PunctuationType {
    /// The largest timestamp of the records that the task has taken.
    StreamTime,
    /// The clock.
    WallClockTime,
}

/// A call that a node has asked for, again and again until it cancels it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule(u32);

#[derive(Debug)]
struct Scheduled {
    schedule: Schedule,
    /// Index of the node in the task.
    node: usize,
    kind: PunctuationType,
    interval_ms: i64,
    next_ms: i64,
}

/// The calls that the nodes of a task have asked for.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    scheduled: Vec<Scheduled>,
    last: u32,
    /// The node whose `init` or `process` runs, as `TaskContext` does not know its index.
    pub(crate) node: usize,
}

impl Schedules {
    /// Calls the node that runs every `interval_ms`, first at `first_ms`.
    pub(crate) fn add(
        &mut self,
        kind: PunctuationType,
        interval_ms: i64,
        first_ms: i64,
    ) -> Schedule {
        self.last += 1;
        let schedule = Schedule(self.last);
        self.scheduled.push(Scheduled {
            schedule,
            node: self.node,
            kind,
            interval_ms,
            next_ms: first_ms,
        });
        schedule
    }

    pub(crate) fn cancel(&mut self, schedule: Schedule) {
        self.scheduled
            .retain(|scheduled| scheduled.schedule != schedule);
    }

    /// Whether no node has asked for a call.
    pub(crate) const fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// The next call that is due at `now_ms`, earliest first: its node and itself. Times that were missed are skipped:
    /// the next one is on the grid of the interval, after `now_ms`.
    pub(crate) fn poll_due(
        &mut self,
        kind: PunctuationType,
        now_ms: i64,
    ) -> Option<(usize, Schedule)> {
        let due = self
            .scheduled
            .iter_mut()
            .filter(|scheduled| scheduled.kind == kind && scheduled.next_ms <= now_ms)
            .min_by_key(|scheduled| scheduled.next_ms)?;
        let called = (due.node, due.schedule);
        let missed = now_ms.saturating_sub(due.next_ms) / due.interval_ms;
        let later_ms = missed
            .checked_add(1)
            .and_then(|count| count.checked_mul(due.interval_ms));
        match later_ms.and_then(|later_ms| due.next_ms.checked_add(later_ms)) {
            Some(next_ms) => due.next_ms = next_ms,
            // A record of the last time there is has come: no call is after it.
            None => self.cancel(called.1),
        }
        Some(called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_last_time_does_not_call_without_end() {
        for first_ms in [-1, 0, i64::MAX] {
            let mut schedules = Schedules::default();
            let schedule = schedules.add(PunctuationType::StreamTime, 10, first_ms);
            let mut poll = || schedules.poll_due(PunctuationType::StreamTime, i64::MAX);
            assert_eq!(poll(), Some((0, schedule)), "{first_ms}");
            assert_eq!(poll(), None, "{first_ms}");
        }
    }
}
