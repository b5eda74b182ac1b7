//! Results that are given when windows close: once, restarts or not.

use crate::harness::{
    Error, TestBroker, await_committed, config, create_topic, read_values, write_at,
};
use riverrun_streams::dsl::{EmitStrategy, Materialized, StreamsBuilder, TimeWindows};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee};
use riverrun_streams::topology::Topology;

/// Counts words by seconds, each second once.
fn final_counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .group_by_key()
        .windowed_by(TimeWindows::of_size_and_grace(1_000, 0))
        .emit_strategy(EmitStrategy::on_window_close())
        .count_with(Materialized::named("eowc"))
        .to_stream()
        .map(|windowed, count| {
            let start_ms = windowed.window.start_ms;
            let text = format!("{} {start_ms}: {}", windowed.key, count.unwrap_or(0));
            (windowed.key.clone(), text)
        })
        .to("final-counts");
    Ok(builder.build()?)
}

/// Records that an instance reads, and everything that the output has after it.
type Run<'a> = (&'a [(&'a str, &'a str, i64)], &'a [&'a str]);

fn what_closed_windows_gave_is_not_given_again(
    guarantee: ProcessingGuarantee,
) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    create_topic(&broker, "final-counts", 1)?;
    let state = trials::directory();
    let config = config(&broker, guarantee, state.path())?;
    // An instance looks for closed windows at its first record, and then once in a second.
    let runs: [Run<'_>; 3] = [
        (&[("a", "", 100), ("a", "", 200)], &[]),
        (&[("b", "", 1_500)], &["a 0: 2"]),
        (&[("c", "", 2_500)], &["a 0: 2", "b 1000: 1"]),
    ];
    let mut written = 0;
    for (records, counts) in runs {
        write_at(&broker, "words", records)?;
        written += i64::try_from(records.len())?;
        let streams = KafkaStreams::new(final_counts()?, config.clone());
        streams.start()?;
        await_committed(&broker, "words", written)?;
        streams.close()?;
        assert_eq!(read_values(&broker, "final-counts", counts.len())?, counts);
    }
    Ok(())
}

#[test]
fn what_closed_windows_gave_is_not_given_again_at_least_once() -> Result<(), Error> {
    what_closed_windows_gave_is_not_given_again(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn what_closed_windows_gave_is_not_given_again_exactly_once() -> Result<(), Error> {
    what_closed_windows_gave_is_not_given_again(ProcessingGuarantee::ExactlyOnceV2)
}
