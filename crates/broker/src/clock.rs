//! Time and randomness: the one place where the server takes them from the machine.

use model::Uuid;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_millis() as i64
}

/// Milliseconds since the epoch as they would be if nobody had set the machine's clock since the
/// first call: the time of whatever has a deadline. A clock that is set forward must not end every
/// session of a group at once, nor one that is set back keep the dead among its members.
pub(crate) fn steady_ms() -> i64 {
    static START: LazyLock<(i64, Instant)> = LazyLock::new(|| (now_ms(), Instant::now()));
    let (start_ms, start) = *START;
    start_ms + start.elapsed().as_millis() as i64
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
