//! Stored values: the examples of Kafka Streams 4.3.1 to the byte, and what it takes and refuses.

use super::super::raw;
use super::*;
use crate::formats::fuzz::hex;
use proptest::prelude::*;

const A: Header<'static> = Header {
    key: b"a",
    value: Some(&[1]),
};

fn check_headers(headers: &[Header<'_>], value: &[u8], expected: &str) {
    let mut stored = Vec::new();
    ValueTimestampHeaders::write(value, 1000, headers.iter().copied(), &mut stored);
    assert_eq!(stored, hex(expected));
    let whole = ValueTimestampHeaders::read(&stored).unwrap();
    assert_eq!(whole.headers.iter().collect::<Vec<_>>(), headers);
    assert_eq!((whole.timestamp_ms, whole.value), (1000, value));
    let timestamped = [&1000i64.to_be_bytes(), value].concat();
    assert_eq!(raw::timestamped_value(&stored), Ok(&*timestamped));
    fuzz_stored_value(&stored);
}

#[test]
fn values_are_those_of_kafka_streams() {
    check_headers(&[], b"v", "00 00000000000003e8 76");
    check_headers(&[A], b"v", "0a 02 02 61 02 01 00000000000003e8 76");
    let others = [
        Header {
            key: b"n",
            value: None,
        },
        Header {
            key: "é".as_bytes(),
            value: Some(b""),
        },
    ];
    check_headers(
        &[A, others[0], others[1]],
        b"v",
        "18 06 02610201 026e01 04c3a900 00000000000003e8 76",
    );
    let long = Header {
        key: b"a",
        value: Some(&[7; 70]),
    };
    let mut stored = Vec::new();
    write_headers([long], &mut stored);
    // 75 bytes: the count, 2 for the key, 2 for the length of the value, 70.
    assert_eq!((&stored[..3], stored.len()), (&hex("960102")[..], 2 + 75));
}

#[test]
fn aggregations_are_those_of_kafka_streams() {
    for (headers, expected) in [(&[][..], "00 616767"), (&[A], "0a 0202610201 616767")] {
        let mut stored = Vec::new();
        AggregationWithHeaders::write(b"agg", headers.iter().copied(), &mut stored);
        assert_eq!(stored, hex(expected));
        assert_eq!(raw::aggregation(&stored), Ok(&b"agg"[..]));
        assert_eq!(raw::value(&stored), Ok(&b"agg"[..]));
        let whole = AggregationWithHeaders::read(&stored).unwrap();
        assert_eq!(whole.headers.iter().collect::<Vec<_>>(), headers);
    }
}

#[test]
fn older_forms_become_newer_ones() {
    let timestamped = plain_to_timestamped(b"v");
    assert_eq!(timestamped, hex("ffffffffffffffff 76"));
    let expected = hex("00 ffffffffffffffff 76");
    assert_eq!(add_empty_headers(&timestamped), expected);
    assert_eq!(plain_to_headers(b"v"), expected);
    let value = TimestampedValue::read(&timestamped).unwrap();
    assert_eq!((value.timestamp_ms, value.value), (NO_TIMESTAMP, &b"v"[..]));
    let mut written = Vec::new();
    value.write(&mut written);
    assert_eq!(written, timestamped);
    let short = TimestampedValue::read(&timestamped[..7]);
    assert_eq!(short, Err(FormatError::Truncated));
}

/// What each reader makes of bytes that Kafka Streams does not write.
fn check_bad(
    text: &str,
    timestamped: Result<&str, FormatError>,
    headers: Result<usize, FormatError>,
    aggregation: Result<&str, FormatError>,
) {
    let stored = hex(text);
    let timestamped = timestamped.map(hex);
    let of_raw = raw::timestamped_value(&stored).map(<[u8]>::to_vec);
    assert_eq!(of_raw, timestamped, "{text}");
    let plain = timestamped.clone().map(|bytes| bytes[8..].to_vec());
    let of_raw = raw::plain_value(&stored).map(<[u8]>::to_vec);
    assert_eq!(of_raw, plain, "{text}");
    let error = raw::timestamp(&stored).err();
    assert_eq!(error, timestamped.err(), "{text}");
    let count = raw::headers(&stored).map(|headers| headers.len());
    assert_eq!(count, headers, "{text}");
    let of_raw = raw::aggregation(&stored).map(<[u8]>::to_vec);
    assert_eq!(of_raw, aggregation.map(hex), "{text}");
    fuzz_stored_value(&stored);
}

#[test]
fn bad_bytes_are_an_error_of_each_reader() {
    use FormatError::{LengthBeyondEnd, NegativeLength, Truncated, VarintTooLong};
    for text in ["", "80"] {
        check_bad(text, Err(Truncated), Err(Truncated), Err(Truncated));
    }
    check_bad("00", Err(Truncated), Ok(0), Ok(""));
    check_bad("00 01", Err(Truncated), Ok(0), Ok("01"));
    let negative = NegativeLength;
    check_bad("01", Err(negative), Err(negative), Err(negative));
    let lying = LengthBeyondEnd;
    check_bad("02", Err(lying), Err(lying), Err(lying));
    let long = VarintTooLong;
    check_bad("ffffffffff01", Err(long), Err(long), Err(long));
    check_bad("02 00 01", Err(Truncated), Ok(0), Ok("01"));
    check_bad("06 04 02 61", Err(Truncated), Err(Truncated), Ok(""));
    // Of a key, of a value, and of a size that says more than an i32 can.
    check_bad("04 02 01", Err(Truncated), Err(negative), Ok(""));
    check_bad("08 02 02 61 04", Err(Truncated), Err(lying), Ok(""));
    check_bad("08 02 02 61 03", Err(Truncated), Err(negative), Ok(""));
    check_bad("feffffff0f", Err(lying), Err(lying), Err(lying));
    // A count that nothing could back: found without room for it being made.
    let most = "0c feffffff0f 00";
    check_bad(most, Err(Truncated), Err(Truncated), Ok(""));
}

#[test]
fn what_kafka_streams_takes_is_taken() {
    let value = "0000000000000001 76";
    let check = |text: &str, count: usize| {
        let stored = format!("{text} {value}");
        check_bad(&stored, Ok(value), Ok(count), Ok(value));
    };
    // A padded size, a count of zero, one below zero, and bytes behind the last header.
    check("8000", 0);
    check("02 00", 0);
    check("02 01", 0);
    check("06 01 02 61", 0);
    check("0e 02 02 61 02 01 02 61", 1);
    check("0c 8200 02 61 02 01", 1);
    // A size and a count whose fifth bytes have bits that an i32 has no room for.
    check("8080808020", 0);
    check("0a ffffffff62", 0);
    check("8c80808020 02 02 61 02 01 02", 1);
}

fn headers() -> impl Strategy<Value = Vec<(Vec<u8>, Option<Vec<u8>>)>> {
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..80));
    let header = ("\\PC{0,9}".prop_map(String::into_bytes), value);
    proptest::collection::vec(header, 0..5)
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn what_is_written_is_read(headers in headers(), timestamp_ms: i64, value: Vec<u8>) {
        let borrowed = headers.iter().map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        });
        let mut stored = Vec::new();
        ValueTimestampHeaders::write(&value, timestamp_ms, borrowed.clone(), &mut stored);
        let whole = ValueTimestampHeaders::read(&stored).unwrap();
        assert!(whole.headers.iter().eq(borrowed));
        assert_eq!((whole.timestamp_ms, whole.value), (timestamp_ms, &*value));
        fuzz_stored_value(&stored);
        for cut in 0..stored.len() - value.len() {
            assert!(ValueTimestampHeaders::read(&stored[..cut]).is_err(), "{cut}");
            fuzz_stored_value(&stored[..cut]);
        }
    }

    #[test]
    fn one_wrong_byte_is_no_panic(headers in headers(), at: prop::sample::Index, wrong: u8) {
        let borrowed = headers.iter().map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        });
        let mut stored = Vec::new();
        ValueTimestampHeaders::write(b"value", 1000, borrowed, &mut stored);
        let at = at.index(stored.len());
        stored[at] = wrong;
        fuzz_stored_value(&stored);
    }

    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>, head in "[\\x00-\\x0c]{0,8}") {
        fuzz_stored_value(&bytes);
        fuzz_stored_value(&[head.as_bytes(), &bytes].concat());
    }
}
