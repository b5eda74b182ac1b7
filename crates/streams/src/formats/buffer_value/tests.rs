//! Buffers: the example of Kafka Streams 4.3.1, the changelogs of older releases, any bytes.

use super::*;
use crate::formats::fuzz::hex;
use proptest::prelude::*;
use record::Header;

const CONTEXT: &str = "00000000000003e8 0000000000000005 00000002 7470 00000000
                       00000001 00000001 61 00000001 01";

fn context() -> ProcessorRecordContext<'static> {
    ProcessorRecordContext {
        timestamp_ms: 1000,
        offset: 5,
        topic: "tp",
        partition: 0,
        headers: vec![Header {
            key: b"a",
            value: Some(&[1]),
        }],
    }
}

#[test]
fn buffers_are_those_of_kafka_streams() {
    let value = BufferValue {
        context: context(),
        prior: Some(b"o"),
        old: Some(b"o"),
        new: Some(b"v"),
    };
    let text = format!("{CONTEXT} 00000001 6f fffffffe 00000001 76");
    let mut bytes = Vec::new();
    value.write(&mut bytes);
    assert_eq!(bytes, hex(&text));
    assert_eq!(BufferValue::read(&bytes).as_ref(), Ok(&value));
    let changelog = value.to_changelog(2000);
    assert_eq!(changelog, hex(&format!("{text} 00000000000007d0")));
    let change = BufferChange {
        context: Some(context()),
        prior: Some(Some(b"o")),
        old: Some(b"o"),
        new: Some(b"v"),
        buffer_time_ms: 2000,
    };
    let version = BufferVersion::of_header(Some(&VERSION_HEADER_VALUE));
    assert_eq!(BufferChange::read(version.unwrap(), &changelog), Ok(change));
}

#[test]
fn changelogs_of_older_releases_are_read() {
    let change = "ffffffff 00000001 76";
    let expected = BufferChange {
        context: None,
        prior: None,
        old: None,
        new: Some(b"v"),
        buffer_time_ms: 2000,
    };
    let check = |header: Option<&[u8]>, text: &str, expected: &BufferChange<'_>| {
        let version = BufferVersion::of_header(header).unwrap();
        let bytes = hex(text);
        assert_eq!(
            BufferChange::read(version, &bytes).as_ref(),
            Ok(expected),
            "{text}"
        );
    };
    check(None, &format!("00000000000007d0 {change}"), &expected);
    let expected = BufferChange {
        context: Some(context()),
        ..expected
    };
    let text = format!("00000000000007d0 {CONTEXT} 00000009 {change}");
    check(Some(&[1]), &text, &expected);
    let old = BufferChange {
        old: Some(b"o"),
        ..expected.clone()
    };
    assert_eq!(old.prior_or(None), Some(&b"o"[..]));
    assert_eq!(old.prior_or(Some(b"b")), Some(&b"b"[..]));
    let expected = BufferChange {
        prior: Some(Some(b"o")),
        ..expected
    };
    let text = format!("{CONTEXT} 00000009 {change} 00000001 6f 00000000000007d0");
    check(Some(&[2]), &text, &expected);
    // What some releases wrote under the same number.
    let text = format!("{CONTEXT} 00000001 6f {change} 00000000000007d0");
    check(Some(&[2]), &text, &expected);
}

#[test]
fn what_is_no_buffer_is_refused() {
    let check = |text: &str, expected| {
        assert_eq!(BufferValue::read(&hex(text)), Err(expected), "{text}");
    };
    check("", FormatError::Truncated);
    check(CONTEXT, FormatError::Truncated);
    check(
        &format!("{CONTEXT} ffffffff fffffffd ffffffff"),
        FormatError::NegativeLength,
    );
    check(
        &format!("{CONTEXT} 00000009 6f"),
        FormatError::LengthBeyondEnd,
    );
    check(
        &format!("{CONTEXT} ffffffff ffffffff ffffffff 00"),
        FormatError::TrailingBytes,
    );
    let head = "00000000000003e8 0000000000000005 00000002 7470 00000000";
    check(&format!("{head} 7fffffff"), FormatError::LengthBeyondEnd);
    check(&format!("{head} fffffffe"), FormatError::NegativeLength);
    let none = format!("{head} ffffffff ffffffff ffffffff ffffffff");
    assert_eq!(BufferValue::read(&hex(&none)).unwrap().context.headers, []);
    let unknown = BufferVersion::of_header(Some(&[4]));
    assert_eq!(unknown, Err(FormatError::UnknownVersion(4)));
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn buffers_come_back(
        topic in "\\PC{0,4}",
        numbers: (i64, i64, i32, i64),
        headers in proptest::collection::vec(("\\PC{0,3}", proptest::option::of("[a-c]{0,3}")), 0..3),
        values in proptest::array::uniform3(proptest::option::of("[a-c]{0,1}")),
    ) {
        let headers = headers.iter().map(|(key, value)| Header {
            key: key.as_bytes(),
            value: value.as_deref().map(str::as_bytes),
        });
        let context = ProcessorRecordContext {
            timestamp_ms: numbers.0,
            offset: numbers.1,
            topic: &topic,
            partition: numbers.2,
            headers: headers.collect(),
        };
        let [prior, old, new] = values.each_ref().map(|one| one.as_deref().map(str::as_bytes));
        let value = BufferValue { context, prior, old, new };
        let changelog = value.to_changelog(numbers.3);
        let read = BufferValue::read(&changelog[..changelog.len() - 8]);
        prop_assert_eq!(read, Ok(value));
        fuzz_buffer(&changelog);
        for cut in 0..changelog.len() {
            fuzz_buffer(&changelog[..cut]);
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(0..2u8, 0..80), others: Vec<u8>) {
        fuzz_buffer(&bytes);
        fuzz_buffer(&[hex(CONTEXT), others].concat());
    }
}
