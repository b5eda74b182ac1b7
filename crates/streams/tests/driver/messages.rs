//! What an application's author is told of a mistake: where it is, and what to do.

use riverrun_streams::Failure;
use riverrun_streams::dsl::{SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows};
use riverrun_streams::processor::{Processor, ProcessorContext};
use riverrun_streams::record::Record;
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{KeyValueStore, Stores};
use riverrun_streams::test_driver::TopologyTestDriver;
use std::sync::Arc;

#[test]
fn windows_that_make_no_sense_are_told_with_where_they_are() {
    let check = |windowed: fn(&StreamsBuilder), expected: &str| {
        let builder = StreamsBuilder::new();
        windowed(&builder);
        let error = builder.build().expect_err(expected).to_string();
        assert_eq!(
            error,
            format!("`windows after KSTREAM-SOURCE-0000000000`: {expected}")
        );
    };
    check(
        |builder| {
            let groups = builder.stream::<String, String>("in").group_by_key();
            groups
                .windowed_by(TimeWindows::of_size_with_no_grace(0))
                .count();
        },
        "a window of 0 ms has no size; choose at least 1 ms",
    );
    check(
        |builder| {
            let groups = builder.stream::<String, String>("in").group_by_key();
            groups
                .windowed_by_sliding(SlidingWindows::of_time_difference_and_grace(5, -1))
                .count();
        },
        "a grace of -1 ms is negative; choose at least 0 ms",
    );
    check(
        |builder| {
            let groups = builder.stream::<String, String>("in").group_by_key();
            groups
                .windowed_by_sessions(SessionWindows::of_inactivity_gap_with_no_grace(-1))
                .count();
        },
        "a gap of -1 ms is negative; choose at least 0 ms",
    );
}

/// Asks for the store `seen`.
struct Asks;

impl Processor<String, String, String, i64> for Asks {
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, String, i64>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let seen = context.store::<KeyValueStore<String, i64>>("seen")?;
        let count = seen.borrow().get(&record.key)?.unwrap_or(0);
        context.forward(record.with_value(count))
    }
}

#[test]
fn a_store_that_is_not_connected_is_not_one_of_another_type()
-> Result<(), Box<dyn std::error::Error>> {
    let check = |stores: &[&str], expected: &str| {
        let builder = StreamsBuilder::new();
        builder.add_state_store(Arc::new(Stores::key_value_store_builder(
            Stores::in_memory_key_value_store("seen"),
            String::serde(),
            String::serde(),
        )));
        builder
            .stream::<String, String>("in")
            .process(|| Asks, stores)
            .to("out");
        let driver = TopologyTestDriver::new(&builder.build()?)?;
        let input = driver.input_topic::<String, String>("in");
        let piped = input.pipe("a".to_owned(), "b".to_owned(), 0);
        assert_eq!(
            piped.expect_err("no such store").to_string(),
            expected.to_owned()
        );
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    check(
        &[],
        "node `KSTREAM-PROCESSOR-0000000001` is not connected to a state store `seen`; name the store where you add \
         the node, as in `process(supplier, &[\"seen\"])`, or call `Topology::connect`",
    )?;
    check(
        &["seen"],
        "state store `seen` of node `KSTREAM-PROCESSOR-0000000001` is no `KeyValueStore<String, i64>`; ask for the \
         type that it was made with",
    )
}
