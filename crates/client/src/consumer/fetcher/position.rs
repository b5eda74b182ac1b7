//! Where a consumer stands in a partition, and what it does without a place to stand.

use crate::config::Setting;
use model::LeaderEpoch;

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The next offset to read.
    pub(crate) offset: i64,
    /// The leader epoch of the record before it; -1 when that is not known.
    pub(crate) leader_epoch: LeaderEpoch,
}

impl Position {
    /// A place whose leader epoch is not known.
    pub(crate) const fn at(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: LeaderEpoch::NONE,
        }
    }
}

/// Where to start without a committed offset, or with one that is gone (`auto.offset.reset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// After the last record.
    Latest,
    /// At the first record there is.
    Earliest,
    /// Nowhere: [`Consumer::poll`](super::super::Consumer::poll) fails.
    None,
    /// At the first record of the last so many milliseconds (KIP-1106).
    ByDuration(i64),
}

/// The timestamp that asks for the end of a partition.
pub(crate) const LATEST: i64 = -1;
/// The timestamp that asks for the start of a partition.
pub(crate) const EARLIEST: i64 = -2;

impl OffsetReset {
    /// The timestamp to ask for; `None` when there is nowhere to start.
    pub(crate) const fn timestamp(self, now_ms: i64) -> Option<i64> {
        match self {
            Self::Latest => Some(LATEST),
            Self::Earliest => Some(EARLIEST),
            Self::None => None,
            Self::ByDuration(duration_ms) => {
                let start_ms = now_ms.saturating_sub(duration_ms);
                Some(if start_ms < 0 { 0 } else { start_ms })
            }
        }
    }
}

impl Setting for OffsetReset {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        let refusal = "must be `latest`, `earliest`, `none` or `by_duration:` with a duration such \
                       as `PT1H30M` or `P2D`";
        match text.as_str() {
            "latest" => Ok(Self::Latest),
            "earliest" => Ok(Self::Earliest),
            "none" => Ok(Self::None),
            text => text
                .strip_prefix("by_duration:")
                .and_then(parse_duration_ms)
                .map(Self::ByDuration)
                .ok_or_else(|| refusal.to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Latest => "latest".to_owned(),
            Self::Earliest => "earliest".to_owned(),
            Self::None => "none".to_owned(),
            Self::ByDuration(ms) => {
                format!("by_duration:PT{}.{:03}S", ms / 1_000, ms % 1_000)
            }
        }
    }
}

/// Milliseconds of an ISO 8601 duration in lower case: days, hours, minutes and seconds.
fn parse_duration_ms(text: &str) -> Option<i64> {
    let (date, time) = match text.strip_prefix('p')?.split_once('t') {
        Some((date, time)) => (date, Some(time)),
        None => (text.strip_prefix('p')?, None),
    };
    if (date.is_empty() && time.is_none()) || time.is_some_and(str::is_empty) {
        return None;
    }
    let mut total_ms: i64 = 0;
    for (mut rest, mut units) in [
        (date, &[('d', 86_400_000)][..]),
        (
            time.unwrap_or_default(),
            &[('h', 3_600_000), ('m', 60_000), ('s', 1_000)][..],
        ),
    ] {
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let unit = rest[end..].chars().next()?;
            let place = units.iter().position(|(name, _)| *name == unit)?;
            let unit_ms = units[place].1;
            let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
            if !fraction.is_empty() && unit != 's' {
                return None;
            }
            let whole: i64 = whole.parse().ok()?;
            let thousandths: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
            total_ms = total_ms.checked_add(whole.checked_mul(unit_ms)?)?;
            total_ms = total_ms.checked_add(thousandths * unit_ms / 1_000)?;
            units = &units[place + 1..];
            rest = &rest[end + 1..];
        }
    }
    (total_ms >= 0).then_some(total_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("by_duration:PT1H30M", Some(5_400_000)),
            ("by_duration:P2D", Some(172_800_000)),
            ("by_duration:P1DT0.5S", Some(86_400_500)),
            ("by_duration:PT", None),
            ("by_duration:P", None),
            ("by_duration:PT1M1H", None),
            ("by_duration:1h", None),
            ("by_duration:PT99999999999999999H", None),
        ] {
            let parsed = OffsetReset::parse(text).ok();
            assert_eq!(parsed, expected.map(OffsetReset::ByDuration), "{text}");
            if let Some(parsed) = parsed {
                assert_eq!(OffsetReset::parse(&parsed.text()), Ok(parsed));
            }
        }
        assert_eq!(OffsetReset::parse("Earliest"), Ok(OffsetReset::Earliest));
        assert!(OffsetReset::parse("first").is_err());
    }
}
