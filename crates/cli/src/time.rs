//! Moments and durations as people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2023-11-14T22:13:20.123Z`; a dash for no time and for one beyond all calendars.
pub(crate) fn date(timestamp_ms: i64) -> String {
    let moment = u64::try_from(timestamp_ms)
        .ok()
        // The last moment of the year 9999, after which there is no way to write it.
        .filter(|since_1970_ms| *since_1970_ms <= 253_402_300_799_999)
        .map(|since_1970_ms| UNIX_EPOCH + Duration::from_millis(since_1970_ms));
    moment.map_or_else(
        || "-".to_owned(),
        |moment| humantime::format_rfc3339_millis(moment).to_string(),
    )
}

/// A number of milliseconds since 1970, a date, or a date and a time of day in UTC.
pub(crate) fn timestamp_ms(text: &str) -> Result<i64, String> {
    if let Ok(timestamp_ms) = text.parse::<u32>().map(i64::from).or_else(|_| text.parse()) {
        return (timestamp_ms >= 0)
            .then_some(timestamp_ms)
            .ok_or_else(|| format!("`{text}` is before 1970"));
    }
    let of_day = if text.contains('T') { "" } else { "T00:00:00" };
    let moment = humantime::parse_rfc3339_weak(&format!("{text}{of_day}"));
    let since_1970 = moment
        .ok()
        .and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
    since_1970
        .and_then(|since_1970| i64::try_from(since_1970.as_millis()).ok())
        .ok_or_else(|| {
            format!(
                "`{text}` is not a valid time; use milliseconds since 1970, 2026-11-21 or \
                 2026-11-21T08:30:00Z"
            )
        })
}

/// `90s`, `15m`, `1h30m`, `7d` or `500ms`, in milliseconds.
pub(crate) fn duration_ms(text: &str) -> Result<i64, String> {
    let duration = humantime::parse_duration(text).ok();
    duration
        .and_then(|duration| i64::try_from(duration.as_millis()).ok())
        .ok_or_else(|| format!("`{text}` is not a valid duration; use 500ms, 90s, 15m, 1h or 7d"))
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since_1970| since_1970.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        for (timestamp, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        ] {
            assert_eq!(date(timestamp), text);
            assert_eq!(timestamp_ms(text), Ok(timestamp));
            assert_eq!(timestamp_ms(&timestamp.to_string()), Ok(timestamp));
        }
        assert_eq!(date(-1), "-");
        assert_eq!(date(i64::MAX), "-");
        assert_eq!(timestamp_ms("2000-02-29T00:00:00.5"), Ok(951_782_400_500));
        assert_eq!(timestamp_ms("2000-02-29"), Ok(951_782_400_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-02-30",
            "2026-13-01",
            "26-1-1",
            "2026-11-21T25:00:00",
            "1969-12-31",
            "now",
            "-1",
        ] {
            assert!(timestamp_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration_ms("90s"), Ok(90_000));
        assert_eq!(duration_ms("500ms"), Ok(500));
        assert_eq!(duration_ms("1h30m"), Ok(5_400_000));
        for text in ["", "90", "h", "-1s", "9223372036854775807d"] {
            assert!(duration_ms(text).is_err(), "{text}");
        }
    }
}
