//! Time and randomness: the one place where the server takes them from the machine.

mod running_time;

use model::{MonotonicTime, Now, RetentionClock, Uuid};
use parking_lot::{Mutex, RwLock};
use running_time::RunningTime;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch, by a clock that is set: the time of records.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_millis() as i64
}

/// The servers of this process tell that it runs.
static RUNNING: RwLock<RunningTime> = RwLock::new(RunningTime::new());

fn elapsed_ms() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as i64
}

/// The time that nobody sets: of whatever is waited for. It stands while the machine is suspended,
/// as its clients do, and while this process is stopped, which hears from nobody then.
pub(crate) fn monotonic() -> MonotonicTime {
    RUNNING.read().at(elapsed_ms())
}

/// Tells of the time that the process runs, for as long as it is polled.
pub(crate) async fn keep_pulse() {
    const INTERVAL: Duration = Duration::from_millis(RunningTime::PULSE_INTERVAL_MS.unsigned_abs());
    struct Teller;
    impl Drop for Teller {
        fn drop(&mut self) {
            RUNNING.write().end_pulses(elapsed_ms());
        }
    }
    RUNNING.write().begin_pulses(elapsed_ms());
    let _teller = Teller;
    loop {
        tokio::time::sleep(INTERVAL).await;
        RUNNING.write().pulse(elapsed_ms());
    }
}

/// Now, by both clocks.
pub(crate) fn now() -> Now {
    Now {
        monotonic: monotonic(),
        wall_ms: now_ms(),
    }
}

/// The time by which records grow old, in milliseconds since the epoch.
pub(crate) fn retention_ms() -> i64 {
    static CLOCK: LazyLock<Mutex<RetentionClock>> =
        LazyLock::new(|| Mutex::new(RetentionClock::new(now())));
    let mut clock = CLOCK.lock();
    clock.wall_ms(now())
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
