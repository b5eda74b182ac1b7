//! Joins of tables where a value of the left one names a key of the right one.

use super::harness::{Texts, check, table, versioned};
use bytes::Bytes;
use riverrun_streams::dsl::{Materialized, StreamsBuilder, TableJoined};
use riverrun_streams::record::Record;
use riverrun_streams::serde::text;
use riverrun_streams::test_driver::TopologyTestDriver;

type Error = Box<dyn std::error::Error>;

/// The first letter; a question mark is no key.
fn foreign_key(value: &str) -> Option<String> {
    (!value.starts_with('?')).then(|| value[..1].to_owned())
}

fn both(left: &String, right: &String) -> String {
    format!("{left}+{right}")
}

fn tables(builder: &StreamsBuilder) -> (Texts, Texts) {
    (table(builder, "a"), table(builder, "b"))
}

#[test]
fn left_records_are_joined_with_the_right_ones_that_they_name() {
    check("fk", |builder| {
        let (a, b) = tables(builder);
        let joined = a.join_foreign_key(&b, |_, value| foreign_key(value), both);
        joined.to_stream().to("out");
    });
    check("fk-named", |builder| {
        let (a, b) = tables(builder);
        let kept = Materialized::named("s").with_value_serde(text());
        let named = TableJoined::named("n");
        let joined = a.join_foreign_key_with(&b, |_, value| foreign_key(value), both, named, kept);
        joined.to_stream().to("out");
    });
}

#[test]
fn left_records_that_name_no_right_one_are_joined_with_nothing() {
    check("fk-left", |builder| {
        let (a, b) = tables(builder);
        let left = |left: &String, right: Option<&String>| {
            format!("{left}+{}", right.map_or("null", |right| right))
        };
        let joined = a.left_join_foreign_key(&b, |_, value| foreign_key(value), left);
        joined.to_stream().to("out");
    });
}

#[test]
fn a_table_names_itself_and_versions_are_left_out_and_results_are_joined() {
    check("fk-self", |builder| {
        let a = table(builder, "a");
        let joined = a.join_foreign_key(&a, |_, value| value.clone(), both);
        joined.to_stream().to("out");
    });
    check("fk-versioned", |builder| {
        let (a, b) = (versioned(builder, "a"), versioned(builder, "b"));
        let joined = a.join_foreign_key(&b, |_, value| foreign_key(value), both);
        joined.to_stream().to("out");
    });
    check("fk-joined", |builder| {
        let (a, b) = tables(builder);
        let joined = a.join_foreign_key(&b, |_, value| foreign_key(value), both);
        let again = joined.join(&table(builder, "c"), both);
        again.to_stream().to("out");
    });
}

/// The right table has a newer version.
#[test]
fn an_older_version_of_the_right_table_is_told_to_nobody() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let (a, b) = (versioned(&builder, "a"), versioned(&builder, "b"));
    let joined = a.join_foreign_key(&b, |_, value| foreign_key(value), both);
    joined.to_stream().to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = |topic| driver.input_topic::<String, String>(topic);
    input("a").pipe("1".to_owned(), "x1".to_owned(), 10)?;
    input("b").pipe("x".to_owned(), "new".to_owned(), 20)?;
    input("b").pipe("x".to_owned(), "old".to_owned(), 15)?;
    let out = driver.output_topic::<String, Option<String>>("out");
    let values = out.read_records()?.into_iter().map(|result| result.value);
    assert!(values.eq([Some("x1+new".to_owned())]));
    assert_eq!(driver.metrics().dropped_records, 1);
    Ok(())
}

#[test]
fn headers_of_left_records_come_back_and_stay_with_their_subscriptions() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let (a, b) = tables(&builder);
    let joined = a.join_foreign_key(&b, |_, value| foreign_key(value), both);
    joined.to_stream().to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = |topic| driver.input_topic::<String, String>(topic);
    input("b").pipe("x".to_owned(), "X".to_owned(), 5)?;
    let mut left = Record::new("1".to_owned(), "x1".to_owned(), 10);
    left.headers.add("h", Bytes::from_static(b"1"));
    input("a").pipe_record(left)?;
    let out = driver.output_topic::<String, Option<String>>("out");
    let result = out.read_record()?.ok_or("a result")?;
    assert_eq!(result.value.as_deref(), Some("x1+X"));
    assert!(result.headers.last("h").is_some());
    let store = "test-KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010-changelog";
    let rows = driver.output_topic::<Bytes, Bytes>(store).read_records()?;
    let [row] = &rows[..] else {
        return Err("one subscription".into());
    };
    assert!(row.headers.last("h").is_some());
    let table = driver.output_topic::<Bytes, Bytes>("test-a-STATE-STORE-0000000000-changelog");
    let row = table.read_record()?.ok_or("a row")?;
    assert!(row.headers.is_empty(), "a table keeps no headers");
    Ok(())
}
