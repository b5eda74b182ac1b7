//! Time and randomness: the one place where the server takes them from the machine.

use model::Uuid;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_millis() as i64
}

/// Milliseconds since the epoch, never going back: the time of whatever has a deadline. A clock that
/// is set back must not keep the dead among the members of a group. One that is set forward is
/// followed, since records that outlive the process have this time too: a machine that learns the
/// date after it has started must not write the wrong one.
pub(crate) fn steady_ms() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    static START_MS: AtomicI64 = AtomicI64::new(i64::MIN);
    steady_at(&START_MS, START.elapsed().as_millis() as i64, now_ms())
}

/// The time when `elapsed_ms` have passed by a clock that nobody sets and `wall_ms` by one that is
/// set; `start_ms` is the latest time at which the former can have begun.
fn steady_at(start_ms: &AtomicI64, elapsed_ms: i64, wall_ms: i64) -> i64 {
    let begun_ms = wall_ms - elapsed_ms;
    start_ms
        .fetch_max(begun_ms, Ordering::Relaxed)
        .max(begun_ms)
        + elapsed_ms
}

/// Random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// A fresh random id.
pub(crate) fn random_uuid() -> Uuid {
    loop {
        if let Some(id) = Uuid::from_random(random_bytes()) {
            return id;
        }
    }
}

/// A fresh random id in the dashed hexadecimal form of member ids.
pub(crate) fn random_member_suffix() -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(random_uuid().to_bytes()));
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_time_follows_a_clock_forward_and_goes_on_when_it_is_set_back() {
        let start_ms = AtomicI64::new(i64::MIN);
        assert_eq!(steady_at(&start_ms, 0, 1_000), 1_000);
        assert_eq!(steady_at(&start_ms, 10, 1_010), 1_010);
        assert_eq!(steady_at(&start_ms, 20, 9_000), 9_000, "set forward");
        assert_eq!(steady_at(&start_ms, 30, 500), 9_010, "set back");
        assert_eq!(steady_at(&start_ms, 40, 9_020), 9_020);
    }
}
