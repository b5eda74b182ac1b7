//! How a window, session or versioned store is cut into segments, each of which is dropped whole.
//!
//! A segment has the number `time / interval` and the name `<store>.<time at which it starts>`.
//! The interval must not change over existing data.

/// The shortest interval of the segments of windows and sessions.
const INTERVAL_MS_MIN: i64 = 60_000;

/// The interval of the segments of a window or session store that keeps its rows so long.
pub fn segment_interval_ms(retention_ms: i64) -> i64 {
    (retention_ms / 2).max(INTERVAL_MS_MIN)
}

/// The interval of the segments of a versioned store with such a history.
pub fn versioned_segment_interval_ms(history_retention_ms: i64) -> i64 {
    const SECOND_MS: i64 = 1000;
    const MINUTE_MS: i64 = 60 * SECOND_MS;
    const FIVE_MINUTES_MS: i64 = 5 * MINUTE_MS;
    const HOUR_MS: i64 = 60 * MINUTE_MS;
    let of_history = |history_ms| history_retention_ms <= history_ms;
    let (parts, interval_ms_min) = if of_history(MINUTE_MS) {
        (3, 2 * SECOND_MS)
    } else if of_history(FIVE_MINUTES_MS) {
        (5, 20 * SECOND_MS)
    } else if of_history(HOUR_MS) {
        (12, MINUTE_MS)
    } else {
        (24, FIVE_MINUTES_MS)
    };
    (history_retention_ms / parts).max(interval_ms_min)
}

/// The number of the segment that a time belongs to.
pub const fn segment_id(time_ms: i64, interval_ms: i64) -> i64 {
    time_ms / interval_ms
}

/// The lowest segment that a store still writes to; what belongs to one below it has expired.
///
/// `observed_time_ms` is the greatest time that was written to the store.
pub const fn first_live_segment_id(
    observed_time_ms: i64,
    retention_ms: i64,
    interval_ms: i64,
) -> i64 {
    segment_id(observed_time_ms.saturating_sub(retention_ms), interval_ms)
}

/// The earliest time that fetches still show, although its segment may be there.
pub const fn first_visible_time_ms(observed_time_ms: i64, retention_ms: i64) -> i64 {
    observed_time_ms
        .saturating_sub(retention_ms)
        .saturating_add(1)
}

/// The name of a segment of `store`.
pub fn segment_name(store: &str, segment_id: i64, interval_ms: i64) -> String {
    format!("{store}.{}", segment_id.saturating_mul(interval_ms))
}

/// The number of the segment of `store` that has this name; `None` for other names.
pub fn segment_id_of_name(name: &str, store: &str, interval_ms: i64) -> Option<i64> {
    let start = name.strip_prefix(store)?.strip_prefix('.')?;
    // Only what a name is written with: no sign, no zeros in front.
    let time_ms: i64 = start.parse().ok()?;
    (time_ms >= 0 && time_ms.to_string() == start).then(|| segment_id(time_ms, interval_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_kafka_streams() {
        for (retention_ms, expected) in [(0, 60_000), (120_000, 60_000), (600_000, 300_000)] {
            assert_eq!(segment_interval_ms(retention_ms), expected);
        }
        for (history_ms, expected) in [
            (0, 2_000),
            (60_000, 20_000),
            (60_001, 20_000),
            (300_000, 60_000),
            (300_001, 60_000),
            (3_600_000, 300_000),
            (3_600_001, 300_000),
            (86_400_000, 3_600_000),
        ] {
            let interval_ms = versioned_segment_interval_ms(history_ms);
            assert_eq!(interval_ms, expected, "{history_ms}");
        }
    }

    #[test]
    fn names_tell_where_a_segment_starts() {
        assert_eq!(segment_name("counts", 3, 60_000), "counts.180000");
        let parse = |name| segment_id_of_name(name, "counts", 60_000);
        assert_eq!(parse("counts.180000"), Some(3));
        assert_eq!(parse("counts.0"), Some(0));
        for other in [
            "counts",
            "counts.",
            "counts.x",
            "counts.-1",
            "counts.+1",
            "counts.01",
            "other.0",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_older_than_the_retention_is_hidden_and_its_segment_dies_later() {
        assert_eq!(first_live_segment_id(200_000, 120_000, 60_000), 1);
        assert_eq!(first_visible_time_ms(200_000, 120_000), 80_001);
    }
}
