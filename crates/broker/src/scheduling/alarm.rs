//! What wakes a task that acts on deadlines: the first of them, or one that came since and is
//! earlier than what the task sleeps for.

use model::MonotonicTime;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The task looks for deadlines again after this time, whatever happens.
const SLEEP_MAX_MS: i64 = 3_600_000;

/// An alarm for one sleeper. Each round, the sleeper [unsets](Alarm::unset) it, looks at all
/// deadlines, and [sleeps](Alarm::sleep_until). Whoever changes a deadline says so
/// [afterwards](Alarm::wake_by).
///
/// What is compared is the time that the sleeper waits for, never a deadline of before: that one may
/// be overdue, and then no later one would ever wake anybody.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// When the sleeper wakes by itself. While it looks it is never early enough: a deadline may
    /// come where it has looked already, and then it looks again.
    set_for_ms: AtomicI64,
    rung: Notify,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self {
            set_for_ms: AtomicI64::new(i64::MAX),
            rung: Notify::new(),
        }
    }

    /// Begins a look at all deadlines.
    pub(crate) fn unset(&self) {
        self.set_for_ms.store(i64::MAX, Ordering::SeqCst);
    }

    /// There is something to do at this time. To be called after the deadline can be seen.
    pub(crate) fn wake_by(&self, deadline: Option<MonotonicTime>) {
        let set_for_ms = self.set_for_ms.load(Ordering::SeqCst);
        if deadline.is_some_and(|at| at.as_ms() < set_for_ms) {
            self.rung.notify_one();
        }
    }

    /// Ends a look that found `next` as the first deadline: sleeps until then, or until woken.
    pub(crate) async fn sleep_until(&self, next: Option<MonotonicTime>, now: MonotonicTime) {
        let latest = now.plus_ms(SLEEP_MAX_MS);
        let at = next.unwrap_or(latest).min(latest);
        self.set_for_ms.store(at.as_ms(), Ordering::SeqCst);
        // What is due and was left must not keep the processor busy.
        let wait_ms = at.ms_since(now).max(1).unsigned_abs();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            () = self.rung.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    const NOW_MS: i64 = 1_000_000;

    /// Whether a sleeper that found `next` wakes when deadlines come: `during` its look, and
    /// `after` it.
    fn wakes(next: Option<i64>, during: &[i64], after: &[i64]) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let _guard = runtime.enter();
        let time = MonotonicTime::from_ms;
        let alarm = Alarm::new();
        alarm.unset();
        for at_ms in during {
            alarm.wake_by(Some(time(*at_ms)));
        }
        let mut sleep = pin!(alarm.sleep_until(next.map(time), time(NOW_MS)));
        let mut context = Context::from_waker(Waker::noop());
        let mut is_awake = || sleep.as_mut().poll(&mut context).is_ready();
        let woke = is_awake();
        for at_ms in after {
            alarm.wake_by(Some(time(*at_ms)));
        }
        woke || is_awake()
    }

    #[test]
    fn an_earlier_deadline_wakes_and_a_later_one_does_not() {
        let soon = Some(NOW_MS + 60_000);
        assert!(!wakes(soon, &[], &[]));
        assert!(wakes(soon, &[], &[NOW_MS + 59_999]));
        assert!(!wakes(soon, &[], &[NOW_MS + 60_000, NOW_MS + 60_001]));
        assert!(wakes(soon, &[], &[NOW_MS + 60_001, NOW_MS - 1]), "overdue");
        assert!(wakes(None, &[], &[NOW_MS + 10_000]), "nothing was due");
    }

    #[test]
    fn a_deadline_that_comes_during_the_look_is_looked_for_again() {
        assert!(wakes(Some(NOW_MS + 60_000), &[NOW_MS + 90_000], &[]));
        assert!(wakes(None, &[NOW_MS + 90_000], &[]));
    }
}
