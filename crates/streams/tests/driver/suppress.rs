//! Suppress, through the test driver.

use crate::cases::{Error, Text, write_windows};
use riverrun_streams::dsl::{
    BufferConfig, Grouped, KTable, Materialized, SessionWindows, SlidingWindows, StreamsBuilder,
    Suppressed, TimeWindows,
};
use riverrun_streams::serde::{DefaultSerde as _, Window, Windowed, time_windowed};
use riverrun_streams::test_driver::TopologyTestDriver;

fn driver_of(fields: &[&str]) -> Result<TopologyTestDriver, Error> {
    let number = |index: usize| fields[index].parse::<i64>();
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<Text, Text>("in");
    let grouped = stream.group_by_key();
    let final_results = |table: KTable<Windowed<Text>, i64>| {
        let suppressed = Suppressed::until_window_closes(BufferConfig::unbounded());
        write_windows(&table.suppress(suppressed));
    };
    match fields[0] {
        "tumbling" | "hopping" => {
            let mut windows = TimeWindows::of_size_and_grace(number(1)?, number(2)?);
            if fields[0] == "hopping" {
                windows = windows.advance_by(number(3)?);
            }
            final_results(
                grouped
                    .windowed_by(windows)
                    .count_with(Materialized::named("store")),
            );
        }
        "sliding" => {
            let windows = SlidingWindows::of_time_difference_and_grace(number(1)?, number(2)?);
            final_results(
                grouped
                    .windowed_by_sliding(windows)
                    .count_with(Materialized::named("store")),
            );
        }
        "session" => {
            let windows = SessionWindows::of_inactivity_gap_and_grace(number(1)?, number(2)?);
            final_results(
                grouped
                    .windowed_by_sessions(windows)
                    .count_with(Materialized::named("store")),
            );
        }
        _ => {
            let table = grouped.reduce_with(
                |before, value| {
                    let (before, value) = (before.clone()?, value.clone()?);
                    (value != "x").then(|| format!("{before}{value}"))
                },
                Materialized::named("store"),
            );
            let most = fields[3].parse()?;
            let config = match fields[2] {
                "records" => BufferConfig::max_records(most),
                _ => BufferConfig::max_bytes(most),
            };
            let suppressed = match fields[4] {
                "stop" => Suppressed::until_time_limit(number(1)?, config.shut_down_when_full()),
                _ => Suppressed::until_time_limit(number(1)?, config),
            };
            table
                .suppress(suppressed)
                .to_stream()
                .map_values(|value| value.clone().flatten())
                .to("out");
        }
    }
    crate::cases::driver(&builder.build()?)
}

#[test]
fn suppress_gives_what_kafka_streams_gives() -> Result<(), Error> {
    crate::cases::run(include_str!("cases/suppress.txt"), "SUPPRESS", driver_of)
}

#[test]
fn names_are_those_of_kafka_streams() -> Result<(), Error> {
    let described = |suppressed: Suppressed<Windowed<String>>| {
        let builder = StreamsBuilder::new();
        let windows = TimeWindows::of_size_with_no_grace(10);
        let stream = builder.stream::<String, String>("in");
        let table = stream.group_by_key().windowed_by(windows).count();
        let filtered = table.filter(|_, count| *count > 1).suppress(suppressed);
        filtered.to_stream().for_each(|_, _| ());
        builder
            .build()
            .map(|topology| topology.describe().to_string())
    };
    let suppressed = Suppressed::until_window_closes(BufferConfig::unbounded());
    let text = described(suppressed.clone())?;
    let expected =
        "Processor: KTABLE-SUPPRESS-0000000004 (stores: [KTABLE-SUPPRESS-STATE-STORE-0000000005])";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("KTABLE-TOSTREAM-0000000006"), "{text}");
    let text = described(suppressed.with_name("s"))?;
    assert!(text.contains("Processor: s (stores: [s-store])"), "{text}");
    assert!(text.contains("KTABLE-TOSTREAM-0000000004"), "{text}");
    Ok(())
}

#[test]
fn windows_that_never_close_are_refused() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    let grouped = Grouped::with(time_windowed(String::serde(), 10), String::serde());
    let table = stream
        .select_key(|key, _| Windowed::new(key.clone(), Window::of_time(0, 10)))
        .group_by_key_with(grouped)
        .count();
    table.suppress(Suppressed::until_window_closes(BufferConfig::unbounded()));
    let error = builder
        .build()
        .expect_err("no windowed aggregation")
        .to_string();
    assert!(
        error.contains("comes of no windowed aggregation"),
        "{error}"
    );
}
