//! The time, for threads.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since any time that is the same for all who ask.
pub(super) fn clock_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let since = BEGAN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether `interval_ms` have passed from `since_ms` until `now_ms`, or the clock was put back meanwhile: nobody waits
/// until it has caught up.
pub(super) const fn has_passed(interval_ms: i64, since_ms: i64, now_ms: i64) -> bool {
    let passed_ms = now_ms.saturating_sub(since_ms);
    passed_ms < 0 || passed_ms >= interval_ms
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_put_back_is_not_waited_for() {
        for (since_ms, now_ms, expected) in [
            (0, 1_000_000, true),
            (1_000, 1_099, false),
            (1_000, 1_100, true),
            (1_000, 1_000, false),
            (1_000, 999, true),
            (i64::MAX, i64::MIN, true),
        ] {
            assert_eq!(has_passed(100, since_ms, now_ms), expected, "{now_ms}");
        }
    }
}
