//! `--offset`: where reading starts and where it ends.
//!
//! ```text
//!   start | end | 42 | -10 (ten before the end) | +10 (ten after the start) | @1700000000000
//!   @2026-11-21 | @2026-11-21T08:00:00Z | @-1h (an hour ago)     FROM:TO for a range
//! ```

use crate::time;
use std::str::FromStr;

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where the log starts.
    Start,
    /// Where the log ends when the command starts.
    End,
    /// This offset.
    Offset(i64),
    /// So many records before the end.
    BeforeEnd(i64),
    /// So many records after the start.
    AfterStart(i64),
    /// The first record that is not older.
    Timestamp {
        /// Milliseconds since 1970.
        timestamp_ms: i64,
    },
    /// The first record that is younger than this many milliseconds.
    Ago {
        /// The age.
        duration_ms: i64,
    },
}

/// From where to where; without an end, reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Place,
    pub(crate) to: Option<Place>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| digits.parse::<i64>().ok().filter(|number| *number >= 0);
        let place = match text {
            "start" | "beginning" | "earliest" => Some(Self::Start),
            "end" | "latest" => Some(Self::End),
            _ => match text.split_at_checked(1) {
                Some(("-", digits)) => number(digits).map(Self::BeforeEnd),
                Some(("+", digits)) => number(digits).map(Self::AfterStart),
                Some(("@", moment)) => return time_place(moment),
                _ => number(text).map(Self::Offset),
            },
        };
        place.ok_or_else(|| {
            format!(
                "`{text}` is not a valid offset; use start, end, 100, -10, +10, @-1h or \
                 @2026-11-21T08:30:00Z"
            )
        })
    }
}

fn time_place(moment: &str) -> Result<Place, String> {
    if let Some(age) = moment.strip_prefix('-') {
        let duration_ms = time::duration_ms(age)?;
        return Ok(Place::Ago { duration_ms });
    }
    let timestamp_ms = time::timestamp_ms(moment)?;
    Ok(Place::Timestamp { timestamp_ms })
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The colons of a time of day stand between digits; that of a range follows a date's `Z`,
        // a date without a time, or no date at all: the first split whose halves both parse counts.
        if let Ok(from) = text.parse() {
            return Ok(Self { from, to: None });
        }
        let halves = text.match_indices(':').map(|(at, _)| text.split_at(at));
        for (from, to) in halves {
            let from = if from.is_empty() {
                Ok(Place::Start)
            } else {
                from.parse()
            };
            let to = &to[1..];
            let to = if to.is_empty() {
                Ok(None)
            } else {
                to.parse().map(Some)
            };
            if let (Ok(from), Ok(to)) = (from, to) {
                return Ok(Self { from, to });
            }
        }
        text.parse::<Place>().map(|from| Self { from, to: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ranges_are_understood() {
        let day = Place::Timestamp {
            timestamp_ms: 1_795_219_200_000,
        };
        for (text, from, to) in [
            ("start", Place::Start, None),
            ("end", Place::End, None),
            ("42", Place::Offset(42), None),
            ("-10", Place::BeforeEnd(10), None),
            ("+3", Place::AfterStart(3), None),
            ("@2026-11-21", day, None),
            ("@2026-11-21T00:00:00Z", day, None),
            ("@1795219200000", day, None),
            (
                "@-1h",
                Place::Ago {
                    duration_ms: 3_600_000,
                },
                None,
            ),
            ("5:10", Place::Offset(5), Some(Place::Offset(10))),
            (":end", Place::Start, Some(Place::End)),
            ("7:", Place::Offset(7), None),
            ("@2026-11-21T00:00:00Z:@2026-11-21", day, Some(day)),
        ] {
            assert_eq!(text.parse(), Ok(Range { from, to }), "{text}");
        }
        for text in ["", "x", "--1", "@", "@yesterday", "1:2:3"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}
