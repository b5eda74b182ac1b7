//! Windowed aggregations that emit when windows close, through the test driver.

use crate::cases::{Error, Text, write_windows};
use riverrun_streams::dsl::{
    EmitStrategy, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows,
    UnlimitedWindows,
};
use riverrun_streams::test_driver::TopologyTestDriver;

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
