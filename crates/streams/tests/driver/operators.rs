//! Processors that keep keys, branches with functions of their own, functions that fail, and printed records.

use riverrun_streams::dsl::{Branched, KStream, Printed, StreamsBuilder};
use riverrun_streams::processor::{
    DeadLetterTopic, FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord, Handlers,
};
use riverrun_streams::state::StoreFault;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};
use riverrun_streams::{Failure, StreamsError};
use std::sync::{Arc, Mutex};

type Error = Box<dyn std::error::Error>;
type Numbers = KStream<String, i64>;

/// Numbers the records, and adds what was seen to the time.
#[derive(Default)]
struct Number {
    seen: i64,
}

impl FixedKeyProcessor<String, i64, String> for Number {
    fn process(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, String, String>,
        record: FixedKeyRecord<String, i64>,
    ) -> Result<(), Failure> {
        self.seen += 1;
        let value = format!("{}:{}", self.seen, record.value());
        let timestamp_ms = record.timestamp_ms() + self.seen;
        context.forward(record.with_value(value).with_timestamp(timestamp_ms))
    }
}

#[test]
fn a_processor_of_values_keeps_keys_and_needs_no_repartition() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let numbered: KStream<String, String> = builder
        .stream::<String, i64>("in")
        .process_values(Number::default, &[]);
    numbered.to("out");
    numbered.group_by_key().count();
    let topology = builder.build()?;
    assert_eq!(
        topology.subtopologies().len(),
        1,
        "nothing is repartitioned"
    );
    let driver = TopologyTestDriver::new(&topology)?;
    let input = driver.input_topic::<String, i64>("in");
    input.pipe("a".to_owned(), 7, 10)?;
    input.pipe("b".to_owned(), 8, 20)?;
    let output = driver
        .output_topic::<String, String>("out")
        .read_records()?;
    let read: Vec<_> = output
        .iter()
        .map(|record| (&*record.key, &*record.value, record.timestamp_ms))
        .collect();
    assert_eq!(read, [("a", "1:7", 11), ("b", "2:8", 22)]);
    Ok(())
}

#[test]
fn a_branch_goes_to_its_function() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let branches = builder
        .stream::<String, i64>("in")
        .split_named("size-")
        .branch(
            |_, value| *value < 10,
            Branched::with_consumer(|stream: Numbers| stream.to("few")),
        )
        .branch(
            |_, value| *value < 100,
            Branched::with_function(|stream: Numbers| stream.map_values(|value| -value)),
        )
        .branch(|_, value| *value < 1000, Branched::named("many"))
        .no_default_branch();
    let names: Vec<_> = branches.keys().map(String::as_str).collect();
    assert_eq!(names, ["size-2", "size-many"]);
    branches["size-2"].to("some");
    branches["size-many"].to("many");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    for value in [500, 5, 50, 5000] {
        input.pipe("k".to_owned(), value, 0)?;
    }
    for (topic, expected) in [("few", 5), ("some", -50), ("many", 500)] {
        let read = driver
            .output_topic::<String, i64>(topic)
            .read_key_values()?;
        assert_eq!(read, [("k".to_owned(), expected)], "{topic}");
    }
    Ok(())
}

/// Adds an operator below a stream, whose function fails for odd numbers.
type Add = fn(&Numbers);

fn even(value: i64) -> Result<i64, String> {
    match value % 2 {
        0 => Ok(value),
        _ => Err(format!("{value} is odd")),
    }
}

#[test]
fn what_a_function_fails_on_is_asked_of_the_processing_handler() -> Result<(), Error> {
    let operators: [(&str, Add); 7] = [
        ("filter", |stream| {
            stream
                .try_filter(|_, value| even(*value).map(|_| true))
                .to("out");
        }),
        ("map_values", |stream| {
            stream.try_map_values(|_, value| even(*value)).to("out")
        }),
        ("map", |stream| {
            stream
                .try_map(|key, value| even(*value).map(|even| (key.clone(), even)))
                .to("out");
        }),
        ("flat_map", |stream| {
            stream
                .try_flat_map(|key, value| even(*value).map(|even| [(key.clone(), even)]))
                .to("out");
        }),
        ("flat_map_values", |stream| {
            stream
                .try_flat_map_values(|_, value| even(*value).map(|even| [even]))
                .to("out");
        }),
        ("select_key", |stream| {
            stream
                .try_select_key(|key, value| even(*value).map(|_| key.clone()))
                .to("out");
        }),
        ("for_each", |stream| {
            stream.try_for_each(|_, value| even(*value).map(|_| ()));
            stream.filter(|_, value| value % 2 == 0).to("out");
        }),
    ];
    for (operator, add) in operators {
        let builder = StreamsBuilder::new();
        add(&builder.stream::<String, i64>("in"));
        let topology = builder.build()?;
        let failing = TopologyTestDriver::new(&topology)?;
        let piped = failing
            .input_topic::<String, i64>("in")
            .pipe("k".to_owned(), 1, 0);
        let error = piped.expect_err(operator).to_string();
        assert!(error.contains("1 is odd"), "{operator}: {error}");

        let config = TestDriverConfig {
            handlers: Handlers::log_and_continue(DeadLetterTopic::default()),
            ..TestDriverConfig::default()
        };
        let going_on = TopologyTestDriver::with(&topology, config)?;
        let input = going_on.input_topic::<String, i64>("in");
        for value in [1, 2] {
            input.pipe("k".to_owned(), value, 0)?;
        }
        let read = going_on
            .output_topic::<String, i64>("out")
            .read_key_values()?;
        assert_eq!(read, [("k".to_owned(), 2)], "{operator}");
    }
    Ok(())
}

/// Has a store whose disk is full, as those of the library tell it.
#[derive(Default)]
struct OnFullDisk;

impl FixedKeyProcessor<String, i64, i64> for OnFullDisk {
    fn process(
        &mut self,
        _: &mut FixedKeyProcessorContext<'_, '_, String, i64>,
        _: FixedKeyRecord<String, i64>,
    ) -> Result<(), Failure> {
        Err(Failure::fatal(full_disk()))
    }
}

fn full_disk() -> StreamsError {
    StoreFault::Poisoned.of(&Arc::from("counts"))
}

#[test]
fn no_handler_goes_on_without_the_disk() -> Result<(), Error> {
    type Add = fn(Numbers) -> Numbers;
    let adds: [(&str, Add); 2] = [
        ("KSTREAM-MAPVALUES-0000000001", |stream| {
            stream.try_map_values(|_, _| Err(full_disk()))
        }),
        ("KSTREAM-PROCESSVALUES-0000000001", |stream| {
            stream.process_values(OnFullDisk::default, &[])
        }),
    ];
    for (node, add) in adds {
        let builder = StreamsBuilder::new();
        add(builder.stream::<String, i64>("in")).to("out");
        let config = TestDriverConfig {
            handlers: Handlers::log_and_continue(DeadLetterTopic::default()),
            ..TestDriverConfig::default()
        };
        let driver = TopologyTestDriver::with(&builder.build()?, config)?;
        let input = driver.input_topic::<String, i64>("in");
        let error = input.pipe("k".to_owned(), 1, 0).expect_err("the disk");
        let error = error.to_string();
        let place = format!("(node `{node}`, topic `in`, partition 0, offset 0)");
        assert!(error.contains(&place), "{error}");
        assert!(error.contains("state store `counts`"), "{error}");
    }
    Ok(())
}

#[test]
fn records_are_printed_with_the_stream_s_name() -> Result<(), Error> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, i64>("in");
    let write = |lines: &Arc<Mutex<Vec<String>>>| {
        let lines = Arc::clone(lines);
        move |line: &str| lines.lock().expect("nobody panics").push(line.to_owned())
    };
    stream.print(Printed::to(write(&lines)));
    let shown = |key: &String, value: &i64| format!("{key}={value}");
    stream.print(
        Printed::to(write(&lines))
            .with_label("numbers")
            .with_key_value_mapper(shown),
    );
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    driver
        .input_topic::<String, i64>("in")
        .pipe("k".to_owned(), 1, 0)?;
    let lines = lines.lock().expect("nobody panics").clone();
    assert_eq!(
        lines,
        ["[KSTREAM-SOURCE-0000000000]: \"k\", 1", "[numbers]: k=1"]
    );
    Ok(())
}

#[test]
fn a_record_that_cannot_be_read_is_a_dead_letter_at_once() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder.stream::<String, i64>("in").to("out");
    let config = TestDriverConfig {
        handlers: Handlers::log_and_continue(DeadLetterTopic(Some(Arc::from("dead-letters")))),
        ..TestDriverConfig::default()
    };
    let driver = TopologyTestDriver::with(&builder.build()?, config)?;
    let input = driver.input_topic::<String, String>("in");
    input.pipe("a".to_owned(), "no number".to_owned(), 10)?;
    let letters = driver.output_topic::<String, String>("dead-letters");
    assert_eq!(
        letters.read_key_values()?,
        [("a".to_owned(), "no number".to_owned())]
    );
    Ok(())
}
