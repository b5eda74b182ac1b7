//! Windowed aggregations that emit when windows close, through the test driver.

use crate::cases::{Error, Text, write_windows};
use riverrun_streams::dsl::{
    EmitStrategy, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows,
    UnlimitedWindows,
};
use riverrun_streams::processor::EmitIntervals;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};

/// The driver of an aggregation: windows, size or gap, grace, then how far windows advance or, after an `r`, for how
/// long they are kept.
fn driver_of(fields: &[&str], is_cached: bool) -> Result<TopologyTestDriver, Error> {
    let number = |index: usize| fields[index].parse::<i64>();
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<Text, Text>("in");
    let grouped = stream.group_by_key();
    let strategy = EmitStrategy::on_window_close();
    let mut kept = match is_cached {
        true => Materialized::named("store"),
        false => Materialized::named("store").with_caching_disabled(),
    };
    let (size_ms, grace_ms) = (number(1)?, number(2)?);
    let counts = match fields[0] {
        "tumbling" | "hopping" => {
            let mut windows = TimeWindows::of_size_and_grace(size_ms, grace_ms);
            if let Some(last) = fields.get(3) {
                match last.strip_prefix('r') {
                    Some(retention_ms) => kept = kept.with_retention(retention_ms.parse()?),
                    None => windows = windows.advance_by(last.parse()?),
                }
            }
            let windowed = grouped.windowed_by(windows).emit_strategy(strategy);
            windowed.count_with(kept)
        }
        "sliding" => {
            let windows = SlidingWindows::of_time_difference_and_grace(size_ms, grace_ms);
            let windowed = grouped.windowed_by_sliding(windows);
            windowed.emit_strategy(strategy).count_with(kept)
        }
        _ => {
            let windows = SessionWindows::of_inactivity_gap_and_grace(size_ms, grace_ms);
            let windowed = grouped.windowed_by_sessions(windows);
            windowed.emit_strategy(strategy).count_with(kept)
        }
    };
    write_windows(&counts);
    crate::cases::driver(&builder.build()?)
}

#[test]
fn windows_that_close_give_what_kafka_streams_gives() -> Result<(), Error> {
    let no_changelog = "none of this name";
    let cases = include_str!("cases/emit_strategy.txt");
    crate::cases::run(cases, no_changelog, |fields| driver_of(fields, false))?;
    let cases = include_str!("cases/emit_strategy_cached.txt");
    crate::cases::run(cases, no_changelog, |fields| driver_of(fields, true))
}

#[test]
fn a_window_without_an_end_never_closes() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    let windowed = stream
        .group_by_key()
        .windowed_by_unlimited(UnlimitedWindows::of());
    windowed
        .emit_strategy(EmitStrategy::on_window_close())
        .count();
    let error = builder.build().expect_err("it never closes").to_string();
    assert!(error.contains("never closes"), "{error}");
}

/// Each look at a store costs more than a record does.
#[test]
fn a_store_is_looked_through_once_in_an_interval_of_the_clock() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<Text, Text>("in");
    let windowed = stream
        .group_by_key()
        .windowed_by(TimeWindows::of_size_with_no_grace(10));
    write_windows(
        &windowed
            .emit_strategy(EmitStrategy::on_window_close())
            .count(),
    );
    let config = TestDriverConfig {
        emit_intervals: EmitIntervals {
            windowed_aggregation_ms: 1000,
            ..EmitIntervals::NONE
        },
        ..TestDriverConfig::default()
    };
    let driver = TopologyTestDriver::with(&builder.build()?, config)?;
    let input = driver.input_topic::<Text, Text>("in");
    let output = driver.output_topic::<Text, Text>("out");
    let check = |by_ms: i64, timestamp_ms: i64, expected: &[&str]| -> Result<(), Error> {
        driver.advance_wall_clock_time(by_ms)?;
        input.pipe(Some("k".to_owned()), None, timestamp_ms)?;
        let given = output.read_records()?.into_iter();
        let keys: Vec<String> = given.filter_map(|result| result.key).collect();
        assert_eq!(keys, expected, "at {timestamp_ms}");
        Ok(())
    };
    check(0, 0, &[])?;
    check(1000, 10, &["k@0-10"])?;
    check(999, 20, &[])?;
    check(1, 30, &["k@10-20", "k@20-30"])
}
