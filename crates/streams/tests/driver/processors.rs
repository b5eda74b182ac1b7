//! Processors of an application: how they begin, and when they are called.

use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::processor::{
    DeadLetterTopic, Handlers, Processor, ProcessorContext, PunctuationType, Schedule,
};
use riverrun_streams::record::Record;
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{KeyValueStore, Stores};
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};
use riverrun_streams::{Failure, StreamsError};
use std::sync::Arc;

type Context<'a> = ProcessorContext<'a, String, i64>;

/// What a processor does when it begins.
type Begin = fn(&mut Context<'_>) -> Result<(), Failure>;

/// Forwards the times at which it is called.
struct Beginner(Begin);

impl Processor<String, String, String, i64> for Beginner {
    fn init(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        (self.0)(context)
    }

    fn process(&mut self, _: &mut Context<'_>, _: Record<String, String>) -> Result<(), Failure> {
        Ok(())
    }

    fn punctuate(
        &mut self,
        context: &mut Context<'_>,
        _: Schedule,
        now_ms: i64,
    ) -> Result<(), Failure> {
        context.forward(Record::new("called".to_owned(), now_ms, now_ms))
    }
}

/// Runs a processor with a store, at the time 1000 of the clock; errors of processors are logged.
fn driver(begin: Begin) -> Result<TopologyTestDriver, StreamsError> {
    let builder = StreamsBuilder::new();
    let supplier = Stores::persistent_timestamped_key_value_store("s");
    let store =
        Stores::timestamped_key_value_store_builder(supplier, String::serde(), i64::serde());
    builder.add_state_store(Arc::new(store));
    builder
        .stream::<String, String>("in")
        .process(move || Beginner(begin), &["s"])
        .to("out");
    let config = TestDriverConfig {
        wall_clock_ms: 1000,
        handlers: Handlers::log_and_continue(DeadLetterTopic::default()),
        ..TestDriverConfig::default()
    };
    TopologyTestDriver::with(&builder.build().expect("a topology"), config)
}

#[test]
fn a_processor_that_cannot_begin_ends_the_task_whatever_the_handler_says() {
    let begun = driver(|_| Err(Failure::of("no service")));
    let error = begun.expect_err("it has not begun").to_string();
    assert!(error.contains("no service"), "{error}");
    assert!(error.contains("KSTREAM-PROCESSOR-0000000001"), "{error}");
    // It would not.
    assert!(!error.contains("log_and_continue"), "{error}");
}

#[test]
fn what_a_processor_puts_when_it_begins_is_of_the_time_of_the_clock() -> Result<(), StreamsError> {
    let driver = driver(|context| {
        let store = context.store::<KeyValueStore<String, i64>>("s")?;
        let (key, value) = ("k".to_owned(), 7);
        store.borrow().put(context.task(), &key, Some(&value))?;
        Ok(())
    })?;
    let input = driver.input_topic::<String, String>("in");
    input.pipe("a".to_owned(), "x".to_owned(), 5)?;
    let changelog = driver.output_topic::<String, i64>("test-s-changelog");
    let logged = changelog.read_record()?.expect("a row");
    assert_eq!((logged.value, logged.timestamp_ms), (7, 1000));
    Ok(())
}

/// Kafka Streams 4.3.1 calls at these times.
#[test]
fn calls_from_a_time_on_are_on_its_grid_and_after_now() -> Result<(), StreamsError> {
    let check = |begin: Begin, expected: &[i64]| {
        let driver = driver(begin)?;
        for by_ms in [0, 1, 49, 100] {
            driver.advance_wall_clock_time(by_ms)?;
        }
        let called = driver
            .output_topic::<String, i64>("out")
            .read_key_values()?;
        let times: Vec<i64> = called.into_iter().map(|(_, time_ms)| time_ms).collect();
        assert_eq!(times, expected);
        Ok::<_, StreamsError>(())
    };
    // 1000, which is now, is on the grid.
    check(
        |context| {
            context.schedule_from(100, 50, PunctuationType::WallClockTime);
            Ok(())
        },
        &[1050, 1150],
    )?;
    check(
        |context| {
            context.schedule_from(1000, 50, PunctuationType::WallClockTime);
            Ok(())
        },
        &[1000, 1050, 1150],
    )?;
    check(
        |context| {
            context.schedule_from(999, 50, PunctuationType::WallClockTime);
            Ok(())
        },
        &[1050, 1150],
    )?;
    check(
        |context| {
            context.schedule_from(1100, 50, PunctuationType::WallClockTime);
            Ok(())
        },
        &[1150],
    )?;
    check(
        |context| {
            context.schedule_from(i64::MIN, 1, PunctuationType::WallClockTime);
            Ok(())
        },
        &[1001, 1050, 1150],
    )
}
