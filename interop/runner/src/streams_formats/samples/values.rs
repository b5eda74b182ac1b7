//! Samples of stored values.

use anyhow::Result;
use interpreter::Random;
use riverrun_streams::formats::stored_value::{AggregationWithHeaders, ValueTimestampHeaders};
use riverrun_streams::formats::versioned_row::VersionedRow;

use super::super::sample::{
    OwnedHeaders, Sample, list, nullable, some, text, text_of_headers, time,
};

pub(super) fn value(random: &mut Random) -> Sample {
    let (value, timestamp_ms) = (some(random), time(random));
    let headers = OwnedHeaders::random(random);
    let mut bytes = Vec::new();
    ValueTimestampHeaders::write(&value, timestamp_ms, headers.iter(), &mut bytes);
    let headers = text_of_headers(headers.iter());
    Sample::new(
        format!("{} {timestamp_ms} {headers}", text(Some(&value))),
        bytes,
    )
}

pub(super) fn read_value(bytes: &[u8]) -> Result<String> {
    let ValueTimestampHeaders {
        value,
        timestamp_ms,
        headers,
    } = ValueTimestampHeaders::read(bytes)?;
    let headers = text_of_headers(headers.iter());
    Ok(format!("{} {timestamp_ms} {headers}", text(Some(value))))
}

pub(super) fn aggregation(random: &mut Random) -> Sample {
    let (aggregation, headers) = (some(random), OwnedHeaders::random(random));
    let mut bytes = Vec::new();
    AggregationWithHeaders::write(&aggregation, headers.iter(), &mut bytes);
    let headers = text_of_headers(headers.iter());
    Sample::new(format!("{} {headers}", text(Some(&aggregation))), bytes)
}

pub(super) fn read_aggregation(bytes: &[u8]) -> Result<String> {
    let AggregationWithHeaders {
        aggregation,
        headers,
    } = AggregationWithHeaders::read(bytes)?;
    let headers = text_of_headers(headers.iter());
    Ok(format!("{} {headers}", text(Some(aggregation))))
}

/// A row after some steps, which both sides take.
pub(super) fn row(random: &mut Random) -> Sample {
    let values: Vec<Option<Vec<u8>>> = (0..8).map(|_| nullable(random)).collect();
    let mut values = values.iter().map(Option::as_deref);
    let mut next_value = || values.next().flatten();
    let first = match random.chance(1, 4) {
        true => None,
        false => next_value(),
    };
    // A tombstone may be of no duration.
    let duration = match first {
        None => random.below(2) as i64 * 1000,
        Some(_) => 1000,
    };
    let mut steps = vec![format!("new:{}:5000:{}", text(first), 5000 + duration)];
    let mut row = VersionedRow::new(first, 5000, 5000 + duration);
    for _ in 0..random.below(6) {
        let value = next_value();
        let word = text(value);
        let (lowest, next) = (row.min_timestamp_ms(), row.next_timestamp_ms());
        let found = row.find(lowest + random.below(1 + (next - lowest) as usize) as i64);
        match (random.below(5), found) {
            (0, Some(found)) => {
                let time_ms = found.valid_from_ms;
                steps.push(format!("update:{word}:{time_ms}:{}", found.index));
                row.update(found.index, time_ms, value);
            }
            (1, Some(found)) if found.valid_to_ms - found.valid_from_ms > 1 => {
                let time_ms = found.valid_from_ms + 1;
                steps.push(format!("insert:{word}:{time_ms}:{}", found.index));
                row.insert(found.index, time_ms, value);
            }
            (2, _) => {
                let time_ms = lowest - 1 - random.below(50) as i64;
                steps.push(format!("earliest:{word}:{time_ms}"));
                row.insert_as_earliest(time_ms, value);
            }
            (3, Some(found)) => {
                // What the row says of later times is given up.
                let (from_ms, to_ms) = (found.valid_from_ms, next + 10);
                steps.push(format!("latest:{word}:{from_ms}:{to_ms}"));
                row.insert_as_latest(value, from_ms, to_ms);
            }
            _ => {
                let from_ms = next + random.below(2) as i64 * 7;
                let to_ms = from_ms + 1 + random.below(100) as i64;
                steps.push(format!("latest:{word}:{from_ms}:{to_ms}"));
                row.insert_as_latest(value, from_ms, to_ms);
            }
        }
    }
    Sample {
        fields: list(steps),
        shown: text_of_row(&row),
        bytes: row.to_bytes(),
    }
}

pub(super) fn read_row(bytes: &[u8]) -> Result<String> {
    Ok(text_of_row(&VersionedRow::read(bytes)?))
}

fn text_of_row(row: &VersionedRow<'_>) -> String {
    if row.is_degenerate() {
        return list([]);
    }
    list(row.versions().map(|version| {
        let (from_ms, to_ms) = (version.valid_from_ms, version.valid_to_ms);
        format!("{from_ms}:{to_ms}:{}", text(version.value))
    }))
}
