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
    interval_ms: i64,
    next_ms: i64,
    is_cancelled: bool,
}

impl Scheduled {
    /// The call after this one, when it is `now_ms`. Times that were missed are skipped: it is on the grid of the
    /// interval, after now. None after the last time there is.
    fn later(mut self, now_ms: i64) -> Option<Self> {
        let missed = now_ms.saturating_sub(self.next_ms) / self.interval_ms;
        let later_ms = missed.checked_add(1)?.checked_mul(self.interval_ms)?;
        self.next_ms = self.next_ms.checked_add(later_ms)?;
        Some(self)
    }
}

/// Calls by one of the times: a binary heap whose first is the earliest. Which of several calls of one time comes first
/// is what becomes of the order in the heap. Nodes of Kafka Streams see the same: its calls are in such a heap, where
/// those that are cancelled stay until their time.
#[derive(Debug, Default)]
struct Calls(Vec<Scheduled>);

impl Calls {
    fn add(&mut self, scheduled: Scheduled) {
        let mut at = self.0.len();
        self.0.push(scheduled);
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[at].next_ms >= self.0[parent].next_ms {
                return;
            }
            self.0.swap(at, parent);
            at = parent;
        }
    }

    /// Takes the first if it is due at `now_ms`.
    fn take_due(&mut self, now_ms: i64) -> Option<Scheduled> {
        self.0.first().filter(|first| first.next_ms <= now_ms)?;
        let first = self.0.swap_remove(0);
        let mut at = 0;
        while let Some(left) = self.0.get(2 * at + 1) {
            let right = self.0.get(2 * at + 2);
            let child = match right.is_some_and(|right| right.next_ms < left.next_ms) {
                true => 2 * at + 2,
                false => 2 * at + 1,
            };
            if self.0[at].next_ms <= self.0[child].next_ms {
                break;
            }
            self.0.swap(at, child);
            at = child;
        }
        Some(first)
    }

    fn cancel(&mut self, schedule: Schedule) {
        let mut calls = self.0.iter_mut();
        let Some(cancelled) = calls.find(|scheduled| scheduled.schedule == schedule) else {
            return;
        };
        cancelled.is_cancelled = true;
        // A node that cancels without end must not fill the memory.
        if self.0.len() > Self::CANCELLED_MAX {
            let calls = std::mem::take(&mut self.0);
            let kept = calls.into_iter().filter(|call| !call.is_cancelled);
            kept.for_each(|call| self.add(call));
        }
    }

    /// So many calls wait before those that are cancelled are removed.
    const CANCELLED_MAX: usize = 1000;
}

/// The calls that the nodes of a task have asked for.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    by_stream_time: Calls,
    by_clock: Calls,
    /// The call that a node is in, and when it was due.
    running: Option<(PunctuationType, i64, Scheduled)>,
    last: u32,
    /// The node whose `init` or `process` runs, as `TaskContext` does not know its index.
    pub(crate) node: usize,
}

impl Schedules {
    const fn calls(&mut self, kind: PunctuationType) -> &mut Calls {
        match kind {
            PunctuationType::StreamTime => &mut self.by_stream_time,
            PunctuationType::WallClockTime => &mut self.by_clock,
        }
    }

    /// Calls the node that runs every `interval_ms`, first at `first_ms`.
    pub(crate) fn add(
        &mut self,
        kind: PunctuationType,
        interval_ms: i64,
        first_ms: i64,
    ) -> Schedule {
        self.last += 1;
        let schedule = Schedule(self.last);
        let scheduled = Scheduled {
            schedule,
            node: self.node,
            interval_ms,
            next_ms: first_ms,
            is_cancelled: false,
        };
        self.calls(kind).add(scheduled);
        schedule
    }

    pub(crate) fn cancel(&mut self, schedule: Schedule) {
        if let Some((_, _, running)) = &mut self.running
            && running.schedule == schedule
        {
            running.is_cancelled = true;
        }
        self.by_stream_time.cancel(schedule);
        self.by_clock.cancel(schedule);
    }

    /// Whether no node has asked for a call.
    pub(crate) const fn is_empty(&self) -> bool {
        self.by_stream_time.0.is_empty() && self.by_clock.0.is_empty() && self.running.is_none()
    }

    /// The next call that is due at `now_ms`, earliest first: its node and itself. The call before it has ended.
    pub(crate) fn poll_due(
        &mut self,
        kind: PunctuationType,
        now_ms: i64,
    ) -> Option<(usize, Schedule)> {
        if let Some((kind, now_ms, ended)) = self.running.take()
            && !ended.is_cancelled
            && let Some(later) = ended.later(now_ms)
        {
            self.calls(kind).add(later);
        }
        while let Some(due) = self.calls(kind).take_due(now_ms) {
            if !due.is_cancelled {
                let called = (due.node, due.schedule);
                self.running = Some((kind, now_ms, due));
                return Some(called);
            }
        }
        None
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

    /// What the calls of four nodes give when all are due, round by round; then one that cancels is called by none.
    #[test]
    fn calls_of_one_time_come_in_the_order_of_kafka_streams() {
        let mut schedules = Schedules::default();
        let kind = PunctuationType::StreamTime;
        let first: Vec<Schedule> = (0..4)
            .map(|node| {
                schedules.node = node;
                schedules.add(kind, 10, 0)
            })
            .collect();
        let round = |schedules: &mut Schedules, now_ms| {
            let polled = std::iter::from_fn(|| schedules.poll_due(kind, now_ms));
            polled.map(|(node, _)| node).collect::<Vec<_>>()
        };
        assert_eq!(round(&mut schedules, 0), [0, 3, 1, 2]);
        assert_eq!(round(&mut schedules, 10), [1, 2, 0, 3]);
        schedules.cancel(first[1]);
        assert_eq!(round(&mut schedules, 25), [0, 3, 2]);
        assert_eq!(round(&mut schedules, 29), [0; 0]);
    }

    #[test]
    fn cancelled_calls_do_not_fill_the_memory() {
        let mut schedules = Schedules::default();
        for _ in 0..10_000 {
            let schedule = schedules.add(PunctuationType::WallClockTime, 10, 1_000_000);
            schedules.cancel(schedule);
        }
        assert!(schedules.by_clock.0.len() <= Calls::CANCELLED_MAX);
    }
}
