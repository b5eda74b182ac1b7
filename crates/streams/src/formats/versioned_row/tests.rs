//! Rows of versioned stores: the examples of Kafka Streams 4.3.1, and operations against a model.

use super::*;
use crate::formats::fuzz::hex;
use crate::formats::fuzz_versioned_row;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn rows_are_those_of_kafka_streams() {
    let mut row = VersionedRow::new(Some(b"A"), 1000, 2000);
    let check = |row: &VersionedRow<'_>, text: &str| {
        assert_eq!(row.to_bytes(), hex(text));
        assert_eq!(VersionedRow::read(&row.to_bytes()).as_ref(), Ok(row));
    };
    check(
        &row,
        "00000000000007d0 00000000000003e8 00000000000003e8 00000001 41",
    );
    let mut earliest = row.clone();
    earliest.insert_as_earliest(500, None);
    check(
        &earliest,
        "00000000000007d0 00000000000001f4 00000000000003e8 00000001 00000000000001f4 ffffffff 41",
    );
    row.insert_as_latest(Some(b"BB"), 2000, 3000);
    check(
        &row,
        "0000000000000bb8 00000000000003e8 00000000000007d0 00000002 00000000000003e8 00000001 41 4242",
    );
    row.insert_as_latest(Some(b"C"), 3500, 4000);
    check(
        &row,
        "0000000000000fa0 00000000000003e8 0000000000000dac 00000001 0000000000000bb8 ffffffff
         00000000000007d0 00000002 00000000000003e8 00000001 41 4242 43",
    );
    let degenerate = VersionedRow::new(None, 1000, 1000);
    assert!(degenerate.is_degenerate());
    check(
        &degenerate,
        "00000000000003e8 00000000000003e8 00000000000003e8 ffffffff",
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let check = |text: &str, expected| {
        assert_eq!(VersionedRow::read(&hex(text)), Err(expected), "{text}");
    };
    let (n, m) = ("0000000000000009", "0000000000000001");
    check(n, FormatError::Truncated);
    check(&format!("{n} {m} {m}"), FormatError::Truncated);
    check(
        &format!("{n} {m} {m} 00000001"),
        FormatError::LengthBeyondEnd,
    );
    check(
        &format!("{n} {m} {m} 00000000 41"),
        FormatError::TrailingBytes,
    );
    check(
        &format!("{n} {m} {m} fffffffe"),
        FormatError::NegativeLength,
    );
    // The lowest timestamp never comes; one that is too high, one that is too low.
    check(
        &format!("{n} {m} 0000000000000002 00000000"),
        FormatError::Truncated,
    );
    check(
        &format!("{n} {m} 000000000000000a 00000000"),
        FormatError::Contradiction,
    );
    check(
        &format!("{n} {m} 0000000000000000 00000000"),
        FormatError::Contradiction,
    );
    // A value of no duration.
    check(&format!("{n} {n} {n} 00000000"), FormatError::Contradiction);
}

/// What a row says, a millisecond at a time.
fn by_time(row: &VersionedRow<'_>) -> BTreeMap<i64, Option<Vec<u8>>> {
    let times = (-1..40).filter_map(|time| Some((time, row.find(time)?)));
    times
        .map(|(time, found)| {
            assert!((found.valid_from_ms..found.valid_to_ms).contains(&time));
            (time, found.value.map(<[u8]>::to_vec))
        })
        .collect()
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn operations_do_to_a_row_what_they_do_to_its_time(
        values in proptest::collection::vec(proptest::option::of("[a-z]{0,3}"), 9),
        steps in proptest::collection::vec((0..4u8, 0..38i64, 1..9i64), 8),
    ) {
        let values: Vec<Option<&[u8]>> =
            values.iter().map(|value| value.as_deref().map(str::as_bytes)).collect();
        let mut row = VersionedRow::new(values[0], 10, 20);
        let mut model = by_time(&row);
        for (value, (step, time, duration)) in values[1..].iter().zip(steps) {
            let value_of = |value: &Option<&[u8]>| value.map(<[u8]>::to_vec);
            match (step, row.find(time)) {
                (0, _) => {
                    row.insert_as_latest(*value, time, time + duration);
                    model.retain(|&known, _| known < time);
                    let next = model.last_key_value().map(|(&last, _)| last + 1);
                    model.extend((next.unwrap_or(time)..time).map(|gap| (gap, None)));
                    model.extend((time..time + duration).map(|at| (at, value_of(value))));
                }
                (1, None) if time < row.min_timestamp_ms() => {
                    let until = row.min_timestamp_ms();
                    row.insert_as_earliest(time, *value);
                    model.extend((time..until).map(|at| (at, value_of(value))));
                }
                (2, Some(found)) if found.valid_from_ms < time => {
                    row.insert(found.index, time, *value);
                    model.extend((time..found.valid_to_ms).map(|at| (at, value_of(value))));
                }
                (3, Some(found)) => {
                    row.update(found.index, found.valid_from_ms, *value);
                    let valid = found.valid_from_ms..found.valid_to_ms;
                    model.extend(valid.map(|at| (at, value_of(value))));
                }
                _ => {}
            }
            model.retain(|&known, _| known < 40);
            assert_eq!(by_time(&row), model, "{row:?}");
            let bytes = row.to_bytes();
            assert_eq!(VersionedRow::read(&bytes), Ok(row.clone()));
            fuzz_versioned_row(&bytes);
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>, timestamps in proptest::collection::vec(0..4i64, 0..6)) {
        fuzz_versioned_row(&bytes);
        let entries = timestamps.iter().flat_map(|time| time.to_be_bytes());
        fuzz_versioned_row(&entries.chain(bytes).collect::<Vec<u8>>());
    }
}
