//! The format, line by line, and a round trip of any pairs.

use proptest::prelude::*;

use super::{PropertiesError, parse, write};

fn check(text: &str, expected: &[(&str, &str)]) {
    let properties = parse(text).expect("the text is in the format");
    let pairs: Vec<_> = properties
        .iter()
        .map(|property| (property.key.as_str(), property.value.as_str()))
        .collect();
    assert_eq!(pairs, expected, "{text:?}");
}

#[test]
fn separators_are_equals_colon_and_blanks() {
    check("a=b", &[("a", "b")]);
    check("a:b", &[("a", "b")]);
    check("a b", &[("a", "b")]);
    check("  a \t= \t b  ", &[("a", "b  ")]);
    check("a = = b", &[("a", "= b")]);
    check("a", &[("a", "")]);
    check("a=", &[("a", "")]);
    check("=b", &[("", "b")]);
    check("a\\=b\\:c\\ d=e", &[("a=b:c d", "e")]);
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    check(
        "# a=b\n! c=d\n\n   \n  # e=f\ng=#h\r\ni=j\rk=l",
        &[("g", "#h"), ("i", "j"), ("k", "l")],
    );
    check("# a=b\\\nc=d", &[("c", "d")]);
}

#[test]
fn a_backslash_at_the_end_continues_the_line() {
    check("a=b,\\\n   c,\\\r\n  d\ne=f", &[("a", "b,c,d"), ("e", "f")]);
    check("a=b\\\\\nc=d", &[("a", "b\\"), ("c", "d")]);
    check("a=b\\", &[("a", "b")]);
    check("a\\\n  b=c", &[("ab", "c")]);
    check("\\\n# a comment\na=b", &[("a", "b")]);
    check("a=b\\\n# not a comment", &[("a", "b# not a comment")]);
}

#[test]
fn escapes_stand_for_characters() {
    check("a=\\t\\n\\r\\f\\\\\\q\\\"", &[("a", "\t\n\r\u{c}\\q\"")]);
    check("\\u0061=\\u00e9\\uD83D\\uDE00!", &[("a", "é😀!")]);
    check("a=\\uD83Dx", &[("a", "\u{fffd}x")]);
    assert_eq!(parse("a=b\nc=\\u12"), Err(PropertiesError { line: 2 }));
    assert_eq!(parse("\\u00zz=1"), Err(PropertiesError { line: 1 }));
}

#[test]
fn lines_are_numbered_where_the_key_stands() {
    let properties = parse("# x\na=1\\\n2\n\nb=3").expect("the text is in the format");
    let lines: Vec<_> = properties.iter().map(|property| property.line).collect();
    assert_eq!(lines, [2, 5]);
}

proptest! {

    #![proptest_config(trials::property(256))]

    #[test]
    fn what_is_written_is_read_back(pairs in proptest::collection::vec((".{0,8}", ".{0,8}"), 0..5)) {
        let text = write(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        prop_assert!(text.is_ascii());
        let back: Vec<_> = parse(&text)
            .expect("what is written is in the format")
            .into_iter()
            .map(|property| (property.key, property.value))
            .collect();
        // A pair of empty texts is the line `=`, which has an empty key as well.
        prop_assert_eq!(back, pairs);
    }

    #[test]
    fn no_text_panics(text in "[a=:# \\\\u0\n\r]{0,24}") {
        let _ = parse(&text);
    }
}
