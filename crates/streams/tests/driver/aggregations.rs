//! Aggregations of streams, through the test driver: what their stores and changelogs have.

use riverrun_streams::dsl::{
    Grouped, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows,
};
use riverrun_streams::serde::{Window, Windowed};
use riverrun_streams::state::{KeyValueStore, SessionStore, WindowStore};
use riverrun_streams::test_driver::TopologyTestDriver;

type Error = Box<dyn std::error::Error>;

#[test]
fn words_are_counted() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let lines = driver.input_topic::<Option<String>, String>("lines");
    lines.pipe(None, "to be or not to be".to_owned(), 10)?;
    lines.pipe(None, "be".to_owned(), 5)?;
    let counts = driver
        .state_store::<KeyValueStore<String, i64>>("counts")
        .expect("the store");
    let all: Vec<(String, i64)> = counts.borrow().all()?.collect::<Result<_, _>>()?;
    let expected = [("be", 3), ("not", 1), ("or", 1), ("to", 2)];
    assert_eq!(all, expected.map(|(word, count)| (word.to_owned(), count)));
    assert_eq!(
        driver.produced_topic_names(),
        ["test-counts-changelog", "test-counts-repartition"].map(Into::into)
    );
    let changelog = driver.output_topic::<String, i64>("test-counts-changelog");
    let changes = changelog.read_records()?;
    let last = changes.last().expect("a change");
    assert_eq!(
        (last.key.as_str(), last.value, last.timestamp_ms),
        ("be", 3, 10)
    );
    Ok(())
}

#[test]
fn a_named_group_has_one_repartition_and_an_unnamed_one_has_one_each() -> Result<(), Error> {
    let check = |grouped: Grouped<i64, String>, expected: &[&str]| {
        let builder = StreamsBuilder::new();
        let group = builder
            .stream::<String, String>("in")
            .group_by_with(|_, value| value.len() as i64, grouped);
        group.count();
        group.reduce(|first, _| first.clone());
        let driver = TopologyTestDriver::new(&builder.build()?)?;
        let input = driver.input_topic::<String, String>("in");
        input.pipe("k".to_owned(), "abc".to_owned(), 0)?;
        let topics: Vec<String> = driver
            .produced_topic_names()
            .iter()
            .filter(|topic| topic.ends_with("-repartition"))
            .map(ToString::to_string)
            .collect();
        assert_eq!(topics, expected);
        Ok::<_, Error>(())
    };
    check(Grouped::named("g"), &["test-g-repartition"])?;
    check(
        Grouped::default(),
        &[
            "test-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
            "test-KSTREAM-REDUCE-STATE-STORE-0000000007-repartition",
        ],
    )
}

#[test]
fn a_window_takes_records_until_its_grace_is_over() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, i64>("in")
        .group_by_key()
        .windowed_by(TimeWindows::of_size_and_grace(100, 10))
        .reduce_with(|sum, value| sum + value, Materialized::named("sums"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    let key = || "k".to_owned();
    for (value, timestamp_ms) in [(1, 1000), (2, 1109), (4, 1001), (8, 1110), (16, 1002)] {
        input.pipe(key(), value, timestamp_ms)?;
    }
    let sums = driver
        .state_store::<WindowStore<String, i64>>("sums")
        .expect("the store");
    let at = |start| Windowed::new(key(), Window::of_time(start, start + 100));
    let all: Vec<_> = sums.borrow().all()?.collect::<Result<_, _>>()?;
    assert_eq!(all, [(at(1000), 5), (at(1100), 10)]);
    assert_eq!(driver.metrics().dropped_records, 1);
    Ok(())
}

#[test]
fn sliding_windows_begin_with_records() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .group_by_key()
        .windowed_by_sliding(SlidingWindows::of_time_difference_and_grace(50, 1000))
        .reduce_with(
            |before, value| format!("{before}{value}"),
            Materialized::named("texts"),
        );
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    for (value, timestamp_ms) in [("a", 1000), ("b", 1020), ("c", 1050)] {
        input.pipe("k".to_owned(), value.to_owned(), timestamp_ms)?;
    }
    let texts = driver
        .state_store::<WindowStore<String, String>>("texts")
        .expect("the store");
    let all: Vec<(i64, String)> = texts
        .borrow()
        .fetch(&"k".to_owned(), 0..=2000)?
        .collect::<Result<_, _>>()?;
    let expected = [
        (950, "a"),
        (970, "ab"),
        (1000, "abc"),
        (1001, "bc"),
        (1021, "c"),
    ];
    assert_eq!(all, expected.map(|(start, text)| (start, text.to_owned())));
    Ok(())
}

#[test]
fn a_record_connects_sessions() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, i64>("in")
        .group_by_key()
        .windowed_by_sessions(SessionWindows::of_inactivity_gap_and_grace(100, 1000))
        .count_with(Materialized::named("counts"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    for timestamp_ms in [1000, 1200, 1100, 1500] {
        input.pipe("k".to_owned(), 1, timestamp_ms)?;
    }
    let counts = driver
        .state_store::<SessionStore<String, i64>>("counts")
        .expect("the store");
    let all: Vec<_> = counts
        .borrow()
        .fetch(&"k".to_owned())?
        .collect::<Result<_, _>>()?;
    let session = |start, end| Windowed::new("k".to_owned(), Window::of_session(start, end));
    assert_eq!(all, [(session(1000, 1200), 3), (session(1500, 1500), 1)]);
    Ok(())
}
