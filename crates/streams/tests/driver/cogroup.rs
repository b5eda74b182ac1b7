//! Aggregations of several groups, through the test driver.

use crate::cases::{Error, Text, write_windows};
use riverrun_streams::dsl::{
    Materialized, Named, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::test_driver::TopologyTestDriver;

fn driver_of(fields: &[&str]) -> Result<TopologyTestDriver, Error> {
    let number = |index: usize| fields[index].parse::<i64>();
    let builder = StreamsBuilder::new();
    let [left, right] = ["left", "right"].map(|topic| {
        let stream = builder.stream::<Text, Text>(topic);
        stream.group_by_key()
    });
    let add = |side: &'static str| {
        move |_: &Text, value: &Text, aggregate: String| {
            format!("{aggregate}{side}{}", value.as_deref().unwrap_or("null"))
        }
    };
    let cogrouped = left.cogroup(add("l")).cogroup(&right, add("r"));
    let kept = Materialized::named("store").with_value_serde(String::serde());
    match fields[0] {
        "all" => cogrouped
            .aggregate_with(String::new, kept)
            .to_stream()
            .to("out"),
        "tumbling" => {
            let windows = TimeWindows::of_size_and_grace(number(1)?, number(2)?);
            let windowed = cogrouped.windowed_by(windows);
            write_windows(&windowed.aggregate_with(String::new, kept));
        }
        "sliding" => {
            let windows = SlidingWindows::of_time_difference_and_grace(number(1)?, number(2)?);
            let windowed = cogrouped.windowed_by_sliding(windows);
            write_windows(&windowed.aggregate_with(String::new, kept));
        }
        _ => {
            let windows = SessionWindows::of_inactivity_gap_and_grace(number(1)?, number(2)?);
            let windowed = cogrouped.windowed_by_sessions(windows);
            let merger = |_: &Text, left: String, right: String| left + &right;
            write_windows(&windowed.aggregate_with(String::new, merger, kept));
        }
    }
    crate::cases::driver(&builder.build()?)
}

#[test]
fn cogroup_gives_what_kafka_streams_gives() -> Result<(), Error> {
    crate::cases::run(include_str!("cases/cogroup.txt"), "", driver_of)
}

#[test]
fn names_are_those_of_kafka_streams() -> Result<(), Error> {
    let described = |name: Option<&str>| {
        let builder = StreamsBuilder::new();
        let first = builder.stream::<String, String>("first").group_by_key();
        let second = builder.stream::<String, String>("second");
        let second = second.group_by(|_, value| value.clone());
        let longest = |_: &String, value: &String, longest: i64| longest.max(value.len() as i64);
        let cogrouped = first.cogroup(longest).cogroup(&second, longest);
        let table = match name {
            Some(name) => {
                let kept = Materialized::default().with_value_serde(i64::serde());
                cogrouped.aggregate_with(|| 0, (Named::new(name), kept))
            }
            None => cogrouped.aggregate(|| 0),
        };
        table.to_stream().for_each(|_, _| ());
        builder
            .build()
            .map(|topology| topology.describe().to_string())
    };
    let check = |text: &str, lines: &[&str]| {
        for line in lines {
            assert!(text.contains(line), "no `{line}` in:\n{text}");
        }
    };
    let store = "(stores: [COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003])";
    check(
        &described(None)?,
        &[
            "(topic: COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition)",
            "Source: COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-source",
            &format!("Processor: COGROUPKSTREAM-AGGREGATE-0000000007 {store}"),
            &format!("Processor: COGROUPKSTREAM-AGGREGATE-0000000008 {store}"),
            "Processor: COGROUPKSTREAM-MERGE-0000000009 (stores: [])",
            "Processor: KTABLE-TOSTREAM-0000000010",
        ],
    );
    check(
        &described(Some("n"))?,
        &[
            &format!("Processor: n-cogroup-agg-0 {store}"),
            &format!("Processor: n-cogroup-agg-1 {store}"),
            "Processor: n-cogroup-merge (stores: [])",
            "Processor: KTABLE-TOSTREAM-0000000010",
        ],
    );
    Ok(())
}
