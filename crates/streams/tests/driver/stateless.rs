//! Operators that look at one record at a time, through the test driver.

use riverrun_streams::dsl::{Branched, StreamsBuilder};
use riverrun_streams::processor::DefaultTimestampExtractor;
use riverrun_streams::record::Record;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};
use riverrun_streams::topology::{Consumed, Produced, StreamPartitioner, TimestampExtractor};
use std::sync::Arc;

type Error = Box<dyn std::error::Error>;

#[test]
fn words_are_split_and_counted_by_their_length() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .select_key(|_, word| word.len() as i64)
        .repartition()
        .to("words");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let lines = driver.input_topic::<Option<String>, String>("lines");
    let words = driver.output_topic::<i64, String>("words");
    lines.pipe(None, "to be or".to_owned(), 10)?;
    lines.pipe(None, "not".to_owned(), 20)?;
    let read = words.read_records()?;
    let expected = [(2, "to", 10), (2, "be", 10), (2, "or", 10), (3, "not", 20)]
        .map(|(key, value, at)| Record::new(key, value.to_owned(), at));
    assert_eq!(read, expected);
    assert_eq!(
        driver.produced_topic_names(),
        ["test-KSTREAM-REPARTITION-0000000003-repartition", "words"].map(Into::into)
    );
    Ok(())
}

#[test]
fn a_record_that_gets_no_partition_is_dropped() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let partitioner: StreamPartitioner<String, String> =
        Arc::new(|_, _, value, _| (value == "none").then(Vec::new));
    let produced = Produced::default().with_stream_partitioner(partitioner);
    builder
        .stream::<String, String>("in")
        .to_with("out", produced);
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    input.pipe("k".to_owned(), "none".to_owned(), 0)?;
    input.pipe("k".to_owned(), "any".to_owned(), 0)?;
    let output = driver.output_topic::<String, String>("out");
    let read = output.read_records()?.into_iter();
    let values: Vec<_> = read.map(|record| record.value).collect();
    assert_eq!(values, ["any"]);
    assert_eq!(driver.metrics().dropped_records, 1);
    Ok(())
}

#[test]
fn each_record_goes_to_the_first_branch_that_takes_it() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let branches = builder
        .stream::<String, i64>("in")
        .split()
        .branch(|_, value| *value < 0, Branched::default())
        .branch(|_, value| *value < 10, Branched::named("few"))
        .default_branch(Branched::default());
    let names: Vec<_> = branches.keys().cloned().collect();
    assert_eq!(
        names,
        [
            "KSTREAM-BRANCH-00000000010",
            "KSTREAM-BRANCH-00000000011",
            "KSTREAM-BRANCH-0000000001few"
        ]
    );
    for (name, branch) in &branches {
        branch.to(name);
    }
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    for value in [5, -5, 50] {
        input.pipe("k".to_owned(), value, 0)?;
    }
    for (name, value) in names.iter().zip([50, -5, 5]) {
        let output = driver.output_topic::<String, i64>(name);
        assert_eq!(
            output.read_key_values()?,
            [("k".to_owned(), value)],
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn null_is_refused_by_a_type_that_cannot_be_null() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder.stream::<String, i64>("in").to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let error = driver
        .input_topic::<Option<String>, i64>("in")
        .pipe(None, 1, 0)
        .expect_err("a key is null");
    assert_eq!(
        error.to_string(),
        "cannot read a record (node `KSTREAM-SOURCE-0000000000`, topic `in`, partition 0, offset 0): key: it is null, \
         and `String` cannot be; read it as `Option<String>`; `Handlers::log_and_continue` goes on without such records"
    );
    Ok(())
}

#[test]
fn topics_that_match_a_pattern_are_read() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream_pattern::<String, i64>("in-[a-z]+", Consumed::default())
        .to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    for (topic, value) in [("in-one", 1), ("in-two", 2)] {
        let input = driver.input_topic::<String, i64>(topic);
        input.pipe("k".to_owned(), value, 0)?;
    }
    let read = driver
        .output_topic::<String, i64>("out")
        .read_key_values()?;
    assert_eq!(read, [("k".to_owned(), 1), ("k".to_owned(), 2)]);
    let other = driver.input_topic::<String, i64>("begin-one");
    assert!(other.pipe("k".to_owned(), 3, 0).is_err());
    let builder = StreamsBuilder::new();
    builder
        .stream_pattern::<String, i64>("in-(", Consumed::default())
        .to("out");
    let error = builder.build().expect_err("it does not end").to_string();
    assert!(
        error.starts_with("`KSTREAM-SOURCE-0000000000`: `in-(` is no regular expression"),
        "{error}"
    );
    Ok(())
}

/// Records whose source does not say so have the time that the default extractor gives; those of repartition topics
/// have the times that the application has given them.
#[test]
fn sources_have_the_default_timestamp_extractor() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder.stream::<String, String>("usual").to("out");
    let own =
        Consumed::default().with_timestamp_extractor(TimestampExtractor::FailOnInvalidTimestamp);
    builder
        .stream_with::<String, String>(&["own"], own)
        .repartition()
        .to("out");
    let config = TestDriverConfig {
        default_timestamp_extractor: DefaultTimestampExtractor::WallclockTimestampExtractor,
        wall_clock_ms: 1000,
        ..TestDriverConfig::default()
    };
    let driver = TopologyTestDriver::with(&builder.build()?, config)?;
    for topic in ["usual", "own"] {
        let input = driver.input_topic::<String, String>(topic);
        input.pipe(topic.to_owned(), topic.to_owned(), 7)?;
    }
    let written = driver
        .output_topic::<String, String>("out")
        .read_records()?;
    let written = written.iter();
    let times: Vec<(&str, i64)> = written
        .map(|record| (record.value.as_str(), record.timestamp_ms))
        .collect();
    assert_eq!(times, [("usual", 1000), ("own", 7)]);
    Ok(())
}

/// Sends records of these times; what is written, and why the source fails, if it does.
fn times_of(
    extractor: TimestampExtractor<String, String>,
    timestamps_ms: &[i64],
) -> Result<(Vec<i64>, Option<String>), Error> {
    let builder = StreamsBuilder::new();
    let read = Consumed::default().with_timestamp_extractor(extractor);
    builder
        .stream_with::<String, String>(&["in"], read.named("read"))
        .to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    let mut times = timestamps_ms.iter();
    let failed = times.find_map(|time_ms| {
        let piped = input.pipe("key".to_owned(), "value".to_owned(), *time_ms);
        piped.err().map(|error| error.to_string())
    });
    let written = driver
        .output_topic::<String, String>("out")
        .read_records()?;
    Ok((written.iter().map(|one| one.timestamp_ms).collect(), failed))
}

/// Only `LogAndSkipOnInvalidTimestamp` and functions drop records.
#[test]
fn negative_timestamps_are_dropped_by_none_but_who_says_so() -> Result<(), Error> {
    let refused = |timestamp_ms, offset| {
        Some(format!(
            "a record has timestamp {timestamp_ms}, which is negative (node `read`, topic `in`, partition 0, offset \
             {offset}); choose another timestamp extractor, such as `LogAndSkipOnInvalidTimestamp`"
        ))
    };
    let extractor = || TimestampExtractor::FailOnInvalidTimestamp;
    assert_eq!(
        times_of(extractor(), &[7, -1, 9])?,
        (vec![7], refused(-1, 1))
    );
    let extractor = || TimestampExtractor::LogAndSkipOnInvalidTimestamp;
    assert_eq!(times_of(extractor(), &[-3, 7, -1, 9])?, (vec![7, 9], None));
    let extractor = || TimestampExtractor::UsePartitionTimeOnInvalidTimestamp;
    assert_eq!(times_of(extractor(), &[7, -1, 9])?, (vec![7, 7, 9], None));
    assert_eq!(times_of(extractor(), &[-2, 7])?, (vec![], refused(-2, 0)));
    let extractor = || TimestampExtractor::Custom(Arc::new(|one, _| one.timestamp_ms - 8));
    assert_eq!(times_of(extractor(), &[7, 9])?, (vec![1], None));
    Ok(())
}
