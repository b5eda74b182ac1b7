//! Values by type: what is accepted, and how it is printed.

use proptest::prelude::*;

use super::{Value, default_value, parse, parse_double, split_list};
use crate::broker::BROKER;
use crate::client_metrics::CLIENT_METRICS;
use crate::definition::{
    ConfigDefinition, boolean, class, double, int, list, long, password, short, string,
};
use crate::group::GROUP;
use crate::quota::{BROKER_QUOTA, CLIENT_QUOTA, IP_QUOTA};
use crate::topic::TOPIC;
use crate::value::print_double;

fn check(definition: ConfigDefinition, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let outcome = match parse(&definition, text) {
            Ok(value) => format!("<{value}>"),
            Err(error) => error.to_string(),
        };
        assert_eq!(&outcome, expected, "{} <{text}>", definition.kind);
    }
}

#[test]
fn whole_numbers_follow_java() {
    check(
        int("k"),
        &[
            (" 2 ", "<2>"),
            ("-0", "<0>"),
            ("+5", "<5>"),
            ("007", "<7>"),
            ("\t5\n", "<5>"),
            ("-2147483648", "<-2147483648>"),
            (
                "2147483648",
                "Invalid value 2147483648 for configuration k: Not a number of type INT",
            ),
            (
                "0x1",
                "Invalid value 0x1 for configuration k: Not a number of type INT",
            ),
            (
                "1.0",
                "Invalid value 1.0 for configuration k: Not a number of type INT",
            ),
            (
                "",
                "Invalid value  for configuration k: Not a number of type INT",
            ),
        ],
    );
    check(
        short("k"),
        &[(
            "32768",
            "Invalid value 32768 for configuration k: Not a number of type SHORT",
        )],
    );
    check(
        long("k"),
        &[
            ("9223372036854775807", "<9223372036854775807>"),
            (
                "1l",
                "Invalid value 1l for configuration k: Not a number of type LONG",
            ),
        ],
    );
}

#[test]
fn doubles_are_read_and_printed_as_java_does() {
    for (text, expected) in [
        ("1", "1.0"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e400", "Infinity"),
        ("0.1d", "0.1"),
        ("0.1f", "0.1"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("1e5", "100000.0"),
        ("123456789.0", "1.23456789E8"),
        ("1e7", "1.0E7"),
        ("9999999", "9999999.0"),
        ("1e-3", "0.001"),
        ("0.0001", "1.0E-4"),
        ("-0.0", "-0.0"),
        ("1.7976931348623157E308", "1.7976931348623157E308"),
        ("+.5e-2", "0.005"),
        ("2147483647", "2.147483647E9"),
        ("1e21", "1.0E21"),
    ] {
        check(double("k"), &[(text, &format!("<{expected}>"))]);
    }
    for text in [
        "infinity", "nan", "inf", "", "1e", "0.5 f", "e5", "-", "--1", "d", "+-1",
    ] {
        assert_eq!(parse_double(text), None, "{text}");
    }
}

#[test]
fn text_booleans_and_secrets_are_trimmed() {
    check(string("k"), &[(" a b ", "<a b>"), ("  ", "<>")]);
    check(
        boolean("k"),
        &[
            (" TRUE ", "<true>"),
            ("False", "<false>"),
            (
                "yes",
                "Invalid value yes for configuration k: Expected value to be either true or false",
            ),
        ],
    );
    check(
        class("k"),
        &[
            (" org.apache.kafka.common.X ", "<org.apache.kafka.common.X>"),
            (
                "foo.Bar",
                "Invalid value foo.Bar for configuration k: Class foo.Bar could not be found; no \
                 Java classes are loaded here",
            ),
        ],
    );
    check(password("k"), &[("secret", "<[hidden]>")]);
    let value = parse(&password("k"), " secret ").expect("any text is a password");
    assert_eq!(format!("{value:?}"), "Password([hidden])");
    assert!(matches!(value, Value::Password(password) if password.reveal() == "secret"));
}

#[test]
fn lists_are_split_at_commas() {
    check(
        list("k"),
        &[
            ("", "<>"),
            (",", "<,>"),
            (" a , b ", "<a,b>"),
            ("a,,b", "<a,,b>"),
            ("a b, c", "<a b,c>"),
            ("a,a", "<a,a>"),
        ],
    );
    assert_eq!(split_list(" , ").len(), 2);
}

#[test]
fn every_default_satisfies_its_own_constraint() {
    for table in [
        &BROKER,
        &TOPIC,
        &GROUP,
        &CLIENT_METRICS,
        &CLIENT_QUOTA,
        &IP_QUOTA,
        &BROKER_QUOTA,
    ] {
        for definition in table.iter() {
            if let Some(text) = definition.default_text() {
                let value = default_value(definition).expect("the default is valid");
                assert_eq!(
                    value.expect("there is a default").to_string(),
                    text,
                    "{}",
                    definition.name
                );
            }
        }
    }
}

proptest! {

    #![proptest_config(trials::property(256))]

    #[test]
    fn printed_doubles_are_read_back(bits in any::<u64>()) {
        let number = f64::from_bits(bits);
        let back = parse_double(&print_double(number)).expect("printed doubles are doubles");
        prop_assert!(back == number || (back.is_nan() && number.is_nan()));
    }

    #[test]
    fn no_text_panics(text in ".{0,12}") {
        for definition in [int("k"), double("k"), list("k"), boolean("k")] {
            let _ = parse(&definition, &text);
        }
        let _ = super::super::constraint::duration_ms(&text);
    }
}
